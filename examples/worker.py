"""A worker that receives each message in a transaction, and returns it to the queue when it fails.

A message that fails too often is moved to a subqueue, so that it does not block the messages after it::

    python examples/worker.py msmq-data 127.0.0.1
"""

from __future__ import annotations

import sys
from typing import Any

from twisted.internet.task import react

from msmq import (
    Message,
    MQError,
    OpenQueue,
    Overrides,
    QueueAccessType,
    QueueManagerService,
    Server,
    Status,
    load,
)

PAYMENTS = r".\private$\payments"
RECEIPTS = r".\private$\receipts"
POISON = PAYMENTS + ";poison"
ATTEMPTS = 3


def book(payment: bytes) -> bytes:
    """Process one payment; raises if its body is not a number."""
    return b"booked %d" % int(payment)


async def pay(manager: QueueManagerService, payments: OpenQueue) -> None:
    """Process one payment: it is received and its receipt is sent, or neither."""
    async with manager.begin() as transaction:
        message = await payments.receive(timeout=0, transaction=transaction)
        receipt = Message(body=book(bytes(message.view.body)), transactional=True)
        await manager.send(RECEIPTS, [receipt], transaction=transaction)


async def work(manager: QueueManagerService) -> None:
    """Process all payments in the queue."""
    poison = manager.open_queue(POISON, QueueAccessType.MOVE)
    async with manager.open_queue(PAYMENTS) as payments, poison:
        while True:
            try:
                first = await payments.peek(timeout=0)
            except MQError as error:
                if error.status is Status.MQ_ERROR_IO_TIMEOUT:
                    return
                raise
            # AbortCount outlives this program, as the message does.
            if first.aborts >= ATTEMPTS:
                await payments.move(first.lookup_id, poison)
                print(f"put {bytes(first.view.body)!r} aside")
                continue
            try:
                await pay(manager, payments)
            except ValueError:
                print(f"gave {bytes(first.view.body)!r} back")


async def show(manager: QueueManagerService, queue: str) -> None:
    """Print the messages in a queue."""
    found = await manager.reserve(queue, count=100, timeout=0, peek=True)
    print(f"{queue}: {[bytes(message.view.body).decode() for message in found.messages]}")


async def main(reactor: Any, data: str = "msmq-data", address: str = "127.0.0.1") -> None:
    """Start the server, send three payments, work, stop the server."""
    server = Server(load(None, Overrides(name="BANK", data=data, address=address)), reactor)
    server.startService()
    try:
        await server.started
        manager = server.manager
        for queue in (PAYMENTS, RECEIPTS):
            await manager.create_queue(queue, transactional=True)
        # A transactional message that is sent outside a transaction gets one of its own.
        await manager.send(
            PAYMENTS, [Message(body=body, transactional=True) for body in (b"100", b"a hundred", b"200")]
        )
        await work(manager)
        await show(manager, RECEIPTS)
        await show(manager, POISON)
    finally:
        await server.stopService()


if __name__ == "__main__":
    react(main, sys.argv[1:])
