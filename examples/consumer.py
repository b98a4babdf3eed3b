"""A consumer that waits for messages while it runs, and stops between two messages.

It is a Twisted service, so it belongs to an application like any other::

    python examples/consumer.py msmq-data 127.0.0.1
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater, react

from msmq import (
    Delivery,
    Message,
    MQError,
    OpenQueue,
    Overrides,
    QueueManagerService,
    ReceivedMessage,
    Server,
    load,
)

ORDERS = r".\private$\orders"


class Consumer(Service):
    """Service that passes every message of a queue to a coroutine function, one after the other.

    A message is removed once it was processed; if that raises, it returns to its position and the consumer
        has failed, which is the result of C{done}.

    @ivar done: fires when it has stopped.
    """

    def __init__(
        self, manager: QueueManagerService, path: str, handle: Callable[[ReceivedMessage], Awaitable[None]]
    ) -> None:
        self._manager = manager
        self._path = path
        self._handle = handle
        self._queue: OpenQueue | None = None
        self.done: Deferred[None] = Deferred()

    def startService(self) -> None:
        """Start waiting for messages."""
        Service.startService(self)
        self._queue = self._manager.open_queue(self._path)
        self.done = Deferred.fromCoroutine(self._consume(self._queue))

    def stopService(self) -> Deferred[None]:
        """Stop waiting; fires when the current message has been processed."""
        Service.stopService(self)
        if self._queue is not None:
            # A read that waits at a queue ends with this error when the queue is closed.
            self._queue.close()
        return self.done

    async def _consume(self, queue: OpenQueue) -> None:
        while self.running:
            try:
                reservation = await queue.reserve()
            except MQError:
                if not self.running:
                    return
                raise
            async with reservation:
                for message in reservation.messages:
                    await self._handle(message)


async def work(reactor: Any, manager: QueueManagerService) -> None:
    """Start a consumer, send messages to its queue, and stop it while it processes one."""
    begun: list[str] = []

    async def handle(message: ReceivedMessage) -> None:
        label = message.view.label
        begun.append(label)
        print(f"begins with {label}")
        await deferLater(reactor, 0.1)
        print(f"is done with {label}")

    consumer = Consumer(manager, ORDERS, handle)
    consumer.startService()
    orders = [Message(label=label, delivery=Delivery.RECOVERABLE) for label in ("boxes", "crates", "nails")]
    await manager.send(ORDERS, orders)
    while len(begun) < 2:
        await deferLater(reactor, 0.01)
    await consumer.stopService()
    print(f"{manager.inspection.queue(ORDERS).messages} left")


async def main(reactor: Any, data: str = "msmq-data", address: str = "127.0.0.1") -> None:
    """Start the server, work, stop the server."""
    server = Server(load(None, Overrides(name="SHOP", data=data, address=address)), reactor)
    server.startService()
    try:
        await server.started
        await server.manager.create_queue(ORDERS)
        await work(reactor, server.manager)
    finally:
        await server.stopService()


if __name__ == "__main__":
    react(main, sys.argv[1:])
