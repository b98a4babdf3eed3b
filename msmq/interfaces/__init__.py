"""The zope interfaces behind which storage, the clock and what stands behind the sessions can be replaced."""

from msmq.interfaces.broker import IBroker
from msmq.interfaces.clock import IClock
from msmq.interfaces.decoding import Body, BodyNotDecoded, DecodedBody, IBodyDecoder
from msmq.interfaces.directory import (
    DirectoryCondition,
    DirectoryError,
    IAddressBook,
    IConditionalDirectory,
    IControlBook,
    IDirectory,
    IObservedDirectory,
    IServedDirectory,
    IWatchedDirectory,
)
from msmq.interfaces.plugins import IStorageFactory, IStorageProbe
from msmq.interfaces.queue_manager import (
    Explanation,
    IQueueManager,
    IReservation,
    ITransaction,
    MessageLocation,
    ReceivedMessage,
)
from msmq.interfaces.routing import IRouter, NoRoute
from msmq.interfaces.session import IConnector, ISession
from msmq.interfaces.sessions import ISessions
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
from msmq.persistence.changes import (
    AppendEvent,
    AppendLog,
    Change,
    MoveMessage,
    PutAborts,
    PutMessage,
    PutQueue,
    PutState,
    RemoveMessages,
    RemoveQueue,
    RemoveState,
    TrimEvents,
    TrimLog,
)
from msmq.persistence.definition import QueueDefinition
from msmq.persistence.snapshot import Snapshot, StoredMessage

__all__ = [
    "AppendEvent",
    "AppendLog",
    "Body",
    "BodyNotDecoded",
    "Change",
    "DecodedBody",
    "DirectoryCondition",
    "DirectoryError",
    "Explanation",
    "IAddressBook",
    "IBodyDecoder",
    "IBroker",
    "IClock",
    "IConditionalDirectory",
    "IConnector",
    "IControlBook",
    "IDirectory",
    "IMessageStore",
    "IObservedDirectory",
    "IQueueManager",
    "IReservation",
    "IRouter",
    "IServedDirectory",
    "ISession",
    "ISessions",
    "IStorageFactory",
    "IStorageProbe",
    "ITransaction",
    "IWatchedDirectory",
    "LogEntry",
    "LogExtent",
    "MessageLocation",
    "MessageNotStored",
    "MoveMessage",
    "NoRoute",
    "PutAborts",
    "PutMessage",
    "PutQueue",
    "PutState",
    "QueueDefinition",
    "ReceivedMessage",
    "RemoveMessages",
    "RemoveQueue",
    "RemoveState",
    "Snapshot",
    "StorageError",
    "StorageFull",
    "StoreNotOpen",
    "StoredEvent",
    "StoredMessage",
    "TrimEvents",
    "TrimLog",
    "UnknownQueue",
]
