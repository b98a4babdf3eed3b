"""Journals, dead letters, events and message logs: the records of messages that have left their queues.

::

    python examples/history.py msmq-data 127.0.0.1
"""

from __future__ import annotations

import sys
from typing import Any

from twisted.internet.task import deferLater, react

from msmq import Delivery, Message, MessageIdentifier, Overrides, QueueManagerService, Server, load

ORDERS = r".\private$\orders"
AUDIT = r".\private$\audit"


def order(label: str, **properties: Any) -> Message:
    """Create a recoverable message."""
    return Message(label=label, delivery=Delivery.RECOVERABLE, **properties)


async def labels(manager: QueueManagerService, queue: str) -> list[str]:
    """The labels of the messages in a queue."""
    found = await manager.reserve(queue, count=100, timeout=0, peek=True)
    return [message.view.label for message in found.messages]


async def keep_what_was_received(manager: QueueManagerService) -> None:
    """Read a journal: it has a copy of every message that was received from its queue."""
    await manager.create_queue(ORDERS, journal=True, log=True)
    await manager.send(ORDERS, [order("boxes"), order("crates")])
    for _ in range(2):
        await manager.receive(ORDERS, timeout=0)
    print(f"journal: {await labels(manager, ORDERS + ';journal')}")


async def bury(reactor: Any, manager: QueueManagerService) -> MessageIdentifier:
    """Let a message expire: it becomes a dead letter, since its sender requested one."""
    [identifier] = await manager.send(ORDERS, [order("flowers", time_to_be_received=2, dead_letter=True)])
    await deferLater(reactor, 2.1)
    explanation = await manager.inspection.explain(identifier)
    for event in explanation.events:
        print(f"{event.event} in {event.queue}: {event.reason}")
    for place in explanation.places:
        print(f"is {place.state} in {place.queue}")
    return identifier


async def send_again(manager: QueueManagerService, identifier: MessageIdentifier) -> None:
    """Send a dead letter again, under a new identifier; this removes it from the dead-letter queue."""
    await manager.requeue(identifier)
    print(f"received {(await manager.receive(ORDERS, timeout=0)).label}")
    print(f"{len(await manager.inspection.dead_letters())} dead letters")


async def replay(manager: QueueManagerService) -> None:
    """Replay a message log: it has every message that arrived, whatever happened to it later."""
    await manager.create_queue(AUDIT)
    extent = await manager.inspection.log_extent(ORDERS)
    count = await manager.replay(ORDERS, AUDIT, first=extent.first, last=extent.last)
    print(f"sent {count} again: {await labels(manager, AUDIT)}")


async def main(reactor: Any, data: str = "msmq-data", address: str = "127.0.0.1") -> None:
    """Start the server, work, stop the server."""
    server = Server(load(None, Overrides(name="SHOP", data=data, address=address)), reactor)
    server.startService()
    try:
        await server.started
        manager = server.manager
        await keep_what_was_received(manager)
        await send_again(manager, await bury(reactor, manager))
        await replay(manager)
    finally:
        await server.stopService()


if __name__ == "__main__":
    react(main, sys.argv[1:])
