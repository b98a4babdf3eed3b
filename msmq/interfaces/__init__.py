"""The zope interfaces behind which storage, the clock and what stands behind the sessions can be replaced."""

from msmq.interfaces.broker import IBroker
from msmq.interfaces.clock import IClock
from msmq.interfaces.directory import DirectoryError, IAddressBook, IDirectory, IWatchedDirectory
from msmq.interfaces.plugins import IStorageFactory
from msmq.interfaces.queue_manager import (
    Explanation,
    IQueueManager,
    IReservation,
    ITransaction,
    Place,
    ReceivedMessage,
)
from msmq.interfaces.routing import IRouter, NoRoute
from msmq.interfaces.session import IConnector, ISession, ISessions
from msmq.interfaces.storage import (
    IMessageStore,
    LogEntry,
    LogExtent,
    MessageNotStored,
    StorageError,
    StorageFull,
    StoredEvent,
    StoreNotOpen,
    UnknownQueue,
)

__all__ = [
    "DirectoryError",
    "Explanation",
    "IAddressBook",
    "IBroker",
    "IClock",
    "IConnector",
    "IDirectory",
    "IMessageStore",
    "IQueueManager",
    "IReservation",
    "IRouter",
    "ISession",
    "ISessions",
    "IStorageFactory",
    "ITransaction",
    "IWatchedDirectory",
    "LogEntry",
    "LogExtent",
    "MessageNotStored",
    "NoRoute",
    "Place",
    "ReceivedMessage",
    "StorageError",
    "StorageFull",
    "StoreNotOpen",
    "StoredEvent",
    "UnknownQueue",
]
