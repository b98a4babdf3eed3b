"""Browses a queue with a cursor, receives the messages that it searches for, and leaves the others there.

::

    python examples/browse.py msmq-data 127.0.0.1
"""

from __future__ import annotations

import sys
from typing import Any

from twisted.internet.task import react

from msmq import (
    Delivery,
    Message,
    MessageSeekAction,
    MQError,
    OpenQueue,
    Overrides,
    QueueAccessType,
    QueueManagerService,
    QueueShareMode,
    Server,
    Status,
    load,
)

MAIL = r".\private$\mail"


async def look(manager: QueueManagerService) -> None:
    """Print the messages; peeking does not lock them."""
    async with manager.open_queue(MAIL, QueueAccessType.PEEK) as queue, queue.cursor() as cursor:
        async for message in cursor:
            print(f"priority {message.view.priority}: {message.view.label}")


async def take_bills(queue: OpenQueue) -> None:
    """Receive the bills, at any position in the queue."""
    async with queue.cursor() as cursor:
        async for message in cursor:
            if message.view.label.startswith("bill"):
                bill = await cursor.receive()
                print(f"took {bill.view.label}")


async def work(manager: QueueManagerService) -> None:
    """Browse the queue, receive some messages, and read single messages by their identifiers."""
    await look(manager)

    # No other handle can receive or peek while this is open.
    async with manager.open_queue(MAIL, share_mode=QueueShareMode.DENY_RECEIVE) as queue:
        try:
            await look(manager)
        except MQError as error:
            if error.status is not Status.MQ_ERROR_SHARING_VIOLATION:
                raise
            print("no other reader has access")
        await take_bills(queue)

        # A message can be read again by its lookup identifier, until it is received.
        last = await queue.read(action=MessageSeekAction.LAST, peek=True)
        before = await queue.read(last.lookup_id, MessageSeekAction.PREVIOUS, peek=True)
        print(f"{before.view.label} comes before {last.view.label}")

    await look(manager)


async def main(reactor: Any, data: str = "msmq-data", address: str = "127.0.0.1") -> None:
    """Start the server, send some messages, work, stop the server."""
    server = Server(load(None, Overrides(name="POST", data=data, address=address)), reactor)
    server.startService()
    try:
        await server.started
        manager = server.manager
        await manager.create_queue(MAIL)
        messages = [("a card", 3), ("bill of May", 3), ("a telegram", 7), ("bill of June", 3), ("a paper", 0)]
        await manager.send(
            MAIL,
            [
                Message(label=label, priority=priority, delivery=Delivery.RECOVERABLE)
                for label, priority in messages
            ],
        )
        await work(manager)
    finally:
        await server.stopService()


if __name__ == "__main__":
    react(main, sys.argv[1:])
