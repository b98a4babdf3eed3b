"""The client for applications: sends and receives through a running queue manager, by its control API.

Three faces of one client: L{Client} blocks, the methods of L{AsyncioClient} are awaited in asyncio, and those
of L{DeferredClient} return Deferreds.
The names are imported lazily.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from msmq.client.asyncio_client import AsyncioClient, AsyncioConsumer
    from msmq.client.blocking import Client
    from msmq.client.consumer import Consumer, ReceivedBatch
    from msmq.client.deferred_client import DeferredClient, DeferredConsumer
    from msmq.client.outgoing import MessageProperties, MessageToSend, message_to
    from msmq.control.client.streams import Delivered

_HOMES = {
    "AsyncioClient": "msmq.client.asyncio_client",
    "AsyncioConsumer": "msmq.client.asyncio_client",
    "Client": "msmq.client.blocking",
    "Consumer": "msmq.client.consumer",
    "DeferredClient": "msmq.client.deferred_client",
    "DeferredConsumer": "msmq.client.deferred_client",
    "Delivered": "msmq.control.client.streams",
    "MessageProperties": "msmq.client.outgoing",
    "MessageToSend": "msmq.client.outgoing",
    "ReceivedBatch": "msmq.client.consumer",
    "message_to": "msmq.client.outgoing",
}

__all__ = [
    "AsyncioClient",
    "AsyncioConsumer",
    "Client",
    "Consumer",
    "DeferredClient",
    "DeferredConsumer",
    "Delivered",
    "MessageProperties",
    "MessageToSend",
    "ReceivedBatch",
    "message_to",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
