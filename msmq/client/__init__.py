"""The client for applications: sends and receives through a running queue manager, by its control API.

Three faces of one client: L{Client} blocks, the methods of L{AsyncioClient} are awaited in asyncio, and those
of L{DeferredClient} return Deferreds.
The names are imported lazily.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msmq.lazy_imports import lazy_attributes

if TYPE_CHECKING:
    from msmq.client.asyncio_client import AsyncioBatch, AsyncioClient, AsyncioConsumer
    from msmq.client.awaited_batch import AwaitedBatch
    from msmq.client.blocking import Client
    from msmq.client.consumer import Consumer, ReceivedBatch
    from msmq.client.deferred_client import DeferredBatch, DeferredClient, DeferredConsumer
    from msmq.client.outgoing import MessageProperties, MessageToSend, message_to
    from msmq.client.tracing import MessageTracing, TracedMessage
    from msmq.control.client.streams import Delivered

__all__ = [
    "AsyncioBatch",
    "AsyncioClient",
    "AsyncioConsumer",
    "AwaitedBatch",
    "Client",
    "Consumer",
    "DeferredBatch",
    "DeferredClient",
    "DeferredConsumer",
    "Delivered",
    "MessageProperties",
    "MessageToSend",
    "MessageTracing",
    "ReceivedBatch",
    "TracedMessage",
    "message_to",
]

_MODULES: Final = {
    "msmq.client.awaited_batch": ("AwaitedBatch",),
    "msmq.client.asyncio_client": ("AsyncioBatch", "AsyncioClient", "AsyncioConsumer"),
    "msmq.client.blocking": ("Client",),
    "msmq.client.consumer": ("Consumer", "ReceivedBatch"),
    "msmq.client.deferred_client": ("DeferredBatch", "DeferredClient", "DeferredConsumer"),
    "msmq.client.outgoing": ("MessageProperties", "MessageToSend", "message_to"),
    "msmq.client.tracing": ("MessageTracing", "TracedMessage"),
    "msmq.control.client.streams": ("Delivered",),
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_attributes(__name__, _MODULES)
