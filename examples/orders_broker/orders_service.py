"""The broker as a service: for C{twistd orders}, and in an application on asyncio's reactor::

python orders_service.py orders-data 127.0.0.2
"""

from __future__ import annotations

import sys
from typing import Any

from orders_broker import Orders
from twisted.application.service import IService
from twisted.internet import asyncioreactor
from twisted.internet.defer import Deferred
from twisted.internet.task import react
from twisted.python import usage


class Options(usage.Options):
    """The options of C{twistd orders}."""

    optParameters = [  # noqa: RUF012
        ["store", "s", "orders-data", "Data directory."],
        ["address", "a", "127.0.0.1", "IP address at which it listens."],
    ]


def makeService(options: Options) -> IService:
    """The service that C{twistd orders} runs."""
    return Orders(store=options["store"], address=options["address"])


async def main(reactor: Any, store: str = "orders-data", address: str = "127.0.0.1") -> None:
    """Book orders until the process is stopped."""
    broker = Orders(store=store, address=address)
    broker.startService()
    try:
        await broker.started
        print(f"listens on {', '.join(broker.addresses)}", flush=True)
        await Deferred()
    finally:
        await broker.stopService()


if __name__ == "__main__":
    asyncioreactor.install()
    react(main, sys.argv[1:])
