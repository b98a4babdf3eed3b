"""Sends to another queue manager without one of its own, and prints when each message is delivered.

The queue manager at ADDRESS needs the private queues C{orders} and, transactional, C{payments}::

    python examples/direct_sender.py ADDRESS

With more addresses each of these queue managers gets an order too.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from twisted.internet.defer import ensureDeferred, gatherResults
from twisted.internet.task import react

from msmq import Delivery, Message, NotDelivered, Sender, connect


async def send_to_each(addresses: Iterable[str]) -> None:
    """Send one message to each queue manager."""
    async with Sender() as sender:
        for address in addresses:
            await sender.send(f"DIRECT=TCP:{address}\\private$\\orders", Message(body=b"a parcel"))
            print(f"an order went to {address}")


async def main(reactor: Any, address: str, *others: str) -> None:
    """Send one message, ten at the same time, two in order, and one to each other address."""
    async with connect(address) as peer:
        identifier = await peer.send("orders", Message(body=b"two boxes", delivery=Delivery.RECOVERABLE))
        print(f"{identifier} is stored there")

        orders = [Message(body=b"a crate", delivery=Delivery.RECOVERABLE) for _ in range(10)]
        await gatherResults([ensureDeferred(peer.send("orders", order)) for order in orders])
        print("so are ten more")

        try:
            for payment in (b"10", b"20"):
                await peer.send("payments", Message(body=payment, transactional=True, time_to_reach_queue=60))
            print("both payments are there, in order")
        except NotDelivered as lost:
            print(lost)
    await send_to_each(others)


if __name__ == "__main__":
    react(main, sys.argv[1:])
