"""The zope interfaces behind which storage and the clock, among others, can be replaced."""

from msmq.interfaces.clock import IClock
from msmq.interfaces.plugins import IStorageFactory
from msmq.interfaces.storage import (
    IMessageStore,
    MessageNotStored,
    StorageError,
    StoreNotOpen,
    UnknownQueue,
)

__all__ = [
    "IClock",
    "IMessageStore",
    "IStorageFactory",
    "MessageNotStored",
    "StorageError",
    "StoreNotOpen",
    "UnknownQueue",
]
