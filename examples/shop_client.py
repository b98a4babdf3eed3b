"""An application that sends orders through a running queue manager, and handles them.

Its argument is the data directory of the queue manager, or where its control API is::

    python examples/shop_client.py msmq-data
"""

from __future__ import annotations

import asyncio
import sys

from msmq.client import AsyncioClient, Client, message_to

ORDERS = r".\private$\shop-orders"
PAYMENTS = r".\private$\shop-payments"


def order(server: str) -> None:
    """Send an order, and two payments or none."""
    client = Client(server)
    client.create_queue(ORDERS)
    client.create_queue(PAYMENTS, transactional=True)
    client.send(ORDERS, "two boxes", label="order 7", priority=5)
    client.send_all([message_to(PAYMENTS, "10"), message_to(PAYMENTS, "20")], transaction=True)


def handle(server: str) -> None:
    """Handle orders until none arrives within a second."""
    client = Client(server)
    for found in client.search(ORDERS, where="priority > `4`"):
        print("urgent:", found["label"])
    with client.consume(ORDERS, timeout=1) as orders:
        for batch in orders:
            with batch:
                for message in batch:
                    print(message.label, "is", message.text)


async def collect(server: str) -> None:
    """Receive both payments in a transaction, under asyncio."""
    async with AsyncioClient(server) as client:
        async with client.consume(PAYMENTS, count=2, transactional=True) as payments:
            async with await payments.next_batch() as batch:
                print("paid:", sum(int(message.text) for message in batch))


if __name__ == "__main__":
    order(sys.argv[1])
    handle(sys.argv[1])
    asyncio.run(collect(sys.argv[1]))
