"""A queue manager inside an asyncio application: orders arrive in a queue, and asyncio tasks handle them.

Run it, and stop it with Ctrl-C::

    python examples/asyncio_shop/asyncio_shop.py msmq-data 127.0.0.2

Twisted runs on asyncio's event loop, so both kinds of coroutines share one thread.
An awaitable of msmq is awaited through L{in_asyncio}; everything else is plain asyncio.
"""

from __future__ import annotations

import asyncio
import sys

from twisted.internet import asyncioreactor
from twisted.internet.defer import Deferred

from msmq import Message, Overrides, in_asyncio, load
from msmq.interfaces import IQueueManager

QUEUE = r".\private$\orders"
COUNT = 3


async def take_orders(manager: IQueueManager) -> None:
    """Receive orders; a message is removed only after it has been handled."""
    for _ in range(COUNT):
        reservation = await in_asyncio(manager.reserve(QUEUE))
        try:
            for message in reservation.messages:
                await handle(bytes(message.view.body))
            await in_asyncio(reservation.confirm())
        finally:
            # Without effect once they are confirmed; a message that was not handled is available again.
            reservation.release()


async def handle(order: bytes) -> None:
    """Stand for any asyncio library: a database, an HTTP client."""
    await asyncio.sleep(0)
    print(f"handled {order.decode()}", flush=True)


async def main(data: str, address: str) -> None:
    """Start the queue manager, and let one task send what another receives."""
    # Importing Server chooses a reactor, so it comes after the installation in run().
    from msmq import Server

    server = Server(load(None, Overrides(name="SHOP", data=data, address=address)))
    server.startService()
    try:
        await in_asyncio(server.started)
        manager: IQueueManager = server.manager
        await in_asyncio(manager.create_queue(QUEUE))
        taking = asyncio.create_task(take_orders(manager))
        orders = [Message(body=b"order %d" % number) for number in range(1, COUNT + 1)]
        await in_asyncio(manager.send(QUEUE, orders))
        await taking
    finally:
        await in_asyncio(server.stopService())


def run(data: str = "msmq-data", address: str = "127.0.0.1") -> None:
    """Run the application on one event loop."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    asyncioreactor.install(loop)
    # So does importing this.
    from twisted.internet.task import react

    react(lambda _: Deferred.fromFuture(asyncio.ensure_future(main(data, address), loop=loop)))


if __name__ == "__main__":
    run(*sys.argv[1:])
