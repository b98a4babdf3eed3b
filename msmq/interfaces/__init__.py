"""The zope interfaces behind which storage, the clock and what stands behind the sessions can be replaced."""

from msmq.interfaces.broker import IBroker
from msmq.interfaces.clock import IClock
from msmq.interfaces.directory import DirectoryError, IDirectory
from msmq.interfaces.plugins import IStorageFactory
from msmq.interfaces.queue_manager import IQueueManager, IReservation, ReceivedMessage
from msmq.interfaces.session import IConnector, ISession, ISessions
from msmq.interfaces.storage import (
    IMessageStore,
    MessageNotStored,
    StorageError,
    StoreNotOpen,
    UnknownQueue,
)

__all__ = [
    "DirectoryError",
    "IBroker",
    "IClock",
    "IConnector",
    "IDirectory",
    "IMessageStore",
    "IQueueManager",
    "IReservation",
    "ISession",
    "ISessions",
    "IStorageFactory",
    "MessageNotStored",
    "ReceivedMessage",
    "StorageError",
    "StoreNotOpen",
    "UnknownQueue",
]
