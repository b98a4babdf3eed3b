"""An application with a whole queue manager inside, which sends and receives with C{await}.

It needs no other process; other queue managers see an ordinary queue manager::

    python examples/embedding.py msmq-data 127.0.0.1
"""

from __future__ import annotations

import sys
from typing import Any

from twisted.internet.task import react

from msmq import Message, MQError, Overrides, QueueManagerService, Server, Status, load

QUEUE = r".\private$\orders"


async def work(manager: QueueManagerService, address: str) -> None:
    """Receive and process orders, the work of this application."""
    await manager.create_queue(QUEUE, label="Orders")

    # A path is a queue of our own; other queue managers have format names.
    [identifier] = await manager.send(QUEUE, [Message(body=b"two boxes", label="first")])
    print(f"sent {identifier}")
    await manager.send(
        rf"DIRECT=TCP:{address}\private$\orders",
        [Message(body=b"three boxes", priority=5), Message(body=b"a crate", priority=5)],
    )

    # Simple: a message is removed before it is answered.
    message = await manager.receive(QUEUE, timeout=5)
    print(f"received {bytes(message.body)!r}")

    # Safe: messages are locked until the work is done, and return to the queue if it fails.
    async with await manager.reserve(QUEUE, count=10, timeout=5) as reservation:
        for reserved in reservation.messages:
            print(f"working on {bytes(reserved.view.body)!r}")

    # Every refusal is an MQError that carries the status of the documents.
    try:
        await manager.receive(QUEUE, timeout=0)
    except MQError as error:
        if error.status is not Status.MQ_ERROR_IO_TIMEOUT:
            raise
        print("nothing left")


async def main(reactor: Any, data: str = "msmq-data", address: str = "127.0.0.1") -> None:
    """Start the server, work, stop the server."""
    server = Server(load(None, Overrides(name="SHOP", data=data, address=address)), reactor)
    server.startService()
    try:
        await server.started
        await work(server.manager, address)
    finally:
        await server.stopService()


if __name__ == "__main__":
    react(main, sys.argv[1:])
