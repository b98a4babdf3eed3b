"""Zope interfaces of the replaceable parts: storage, clock, directory, sessions, routing, security.

Each name is imported when it is first used: a reader of stores (a Spark worker, say) imports storage alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msmq.lazy_imports import lazy_attributes

if TYPE_CHECKING:
    from msmq.interfaces.bridge_mapping import IInwardMapping, IOutwardMapping
    from msmq.interfaces.bridge_messages import (
        AmqpMessage,
        AmqpProperties,
        MappingError,
        MessageForQueue,
        QueuedMessage,
    )
    from msmq.interfaces.broker import HookResult, IBroker, IRefusingBroker
    from msmq.interfaces.clock import IClock
    from msmq.interfaces.decoding import Body, BodyNotDecoded, DecodedBody, IBodyDecoder, Limits
    from msmq.interfaces.directory import (
        DirectoryCondition,
        DirectoryError,
        DirectoryOperationResult,
        IAddressBook,
        IConditionalDirectory,
        IControlBook,
        IDirectory,
        IObservedDirectory,
        IServedDirectory,
        IWatchedDirectory,
    )
    from msmq.interfaces.manager.access_administration import IAccessAdministration
    from msmq.interfaces.manager.access_summaries import AccessList, AccessVerdict, CertificateSummary
    from msmq.interfaces.manager.open_queues import IOpenQueue, IQueueCursor, IReservation, ITransaction
    from msmq.interfaces.manager.queue_manager import IAdministration, IInspection, IMessaging, IQueueManager
    from msmq.interfaces.manager.queue_properties import QueueProperties
    from msmq.interfaces.manager.received_messages import (
        ExplainedRoute,
        Explanation,
        MessageLocation,
        ReceivedMessage,
    )
    from msmq.interfaces.manager.summaries import (
        ManagerStatus,
        MessageFlow,
        OutgoingQueueSummary,
        PublicQueueSummary,
        QueueSummary,
        SessionSummary,
        TransactionDetails,
        TransactionSummary,
    )
    from msmq.interfaces.plugins import (
        DirectoryContext,
        IAccessControlFactory,
        IArgumentProbe,
        IDirectoryFactory,
        IIdentitySource,
        IProbedDirectory,
        IRouterFactory,
        ISessionPolicyFactory,
        IStorageFactory,
        IStorageProbe,
        ServerContext,
    )
    from msmq.interfaces.routing import IRouter, NoRoute
    from msmq.interfaces.security.access import Account, AccountUnknown, IAccessControl, IAccounts, Ruling
    from msmq.interfaces.security.gate import IGate
    from msmq.interfaces.server_program import IServerProgram
    from msmq.interfaces.session import IConnector, ISession
    from msmq.interfaces.session_policy import ISessionPolicy, MessageRefusal, SessionPeer
    from msmq.interfaces.sessions import ISessions
    from msmq.interfaces.storage import (
        DamagedMessageKept,
        IMessageRuns,
        IMessageStore,
        IStoreFiles,
        IStoreVerification,
        LogEntry,
        LogExtent,
        MessageNotStored,
        StorageError,
        StorageFull,
        StoredEvent,
        StoreNotOpen,
        UnknownQueue,
    )
    from msmq.membership.attributes import DirectoryObject
    from msmq.membership.entry import DirectoryEntry
    from msmq.membership.objects import (
        EnterpriseObject,
        QueueManagerObject,
        QueueObject,
        RoutingLinkObject,
        SiteObject,
        UserObject,
    )
    from msmq.membership.queries import AttributeFilter, FilterOperator, SortOrder
    from msmq.membership.requests import Attributes
    from msmq.moment import Moment
    from msmq.persistence.changes import (
        AppendEvent,
        AppendLog,
        Change,
        LoggedPacket,
        MoveMessage,
        PutAborts,
        PutMessage,
        PutMessages,
        PutQueue,
        PutState,
        RemoveMessages,
        RemoveQueue,
        RemoveState,
        RemoveUnread,
        RestoreLog,
        RestoreNumbers,
        TrimEvents,
        TrimLog,
    )
    from msmq.persistence.definition import QueueDefinition, QueuePrivacy, QueueType
    from msmq.persistence.snapshot import Snapshot, StoredMessage
    from msmq.queues.machine_quota import QuotaKind
    from msmq.routing.route import Route, RouteHop
    from msmq.routing.topology import QueueManager, RoutingLink, Site, Topology
    from msmq.session.effects import ConnectionProgress
    from msmq.structures.names.format_name import DistributionListFormatName, FormatName
    from msmq.windows.access_check import AccessDecision, Token
    from msmq.windows.access_masks import ObjectKind
    from msmq.windows.security_descriptor import SecurityDescriptor

__all__ = [
    "AccessDecision",
    "AccessList",
    "AccessVerdict",
    "Account",
    "AccountUnknown",
    "AmqpMessage",
    "AmqpProperties",
    "AppendEvent",
    "AppendLog",
    "AttributeFilter",
    "Attributes",
    "Body",
    "BodyNotDecoded",
    "CertificateSummary",
    "Change",
    "ConnectionProgress",
    "DamagedMessageKept",
    "DecodedBody",
    "DirectoryCondition",
    "DirectoryContext",
    "DirectoryEntry",
    "DirectoryError",
    "DirectoryObject",
    "DirectoryOperationResult",
    "DistributionListFormatName",
    "EnterpriseObject",
    "ExplainedRoute",
    "Explanation",
    "FilterOperator",
    "FormatName",
    "HookResult",
    "IAccessAdministration",
    "IAccessControl",
    "IAccessControlFactory",
    "IAccounts",
    "IAddressBook",
    "IAdministration",
    "IArgumentProbe",
    "IBodyDecoder",
    "IBroker",
    "IClock",
    "IConditionalDirectory",
    "IConnector",
    "IControlBook",
    "IDirectory",
    "IDirectoryFactory",
    "IGate",
    "IIdentitySource",
    "IInspection",
    "IInwardMapping",
    "IMessageRuns",
    "IMessageStore",
    "IMessaging",
    "IObservedDirectory",
    "IOpenQueue",
    "IOutwardMapping",
    "IProbedDirectory",
    "IQueueCursor",
    "IQueueManager",
    "IRefusingBroker",
    "IReservation",
    "IRouter",
    "IRouterFactory",
    "IServedDirectory",
    "IServerProgram",
    "ISession",
    "ISessionPolicy",
    "ISessionPolicyFactory",
    "ISessions",
    "IStorageFactory",
    "IStorageProbe",
    "IStoreFiles",
    "IStoreVerification",
    "ITransaction",
    "IWatchedDirectory",
    "Limits",
    "LogEntry",
    "LogExtent",
    "LoggedPacket",
    "ManagerStatus",
    "MappingError",
    "MessageFlow",
    "MessageForQueue",
    "MessageLocation",
    "MessageNotStored",
    "MessageRefusal",
    "Moment",
    "MoveMessage",
    "NoRoute",
    "ObjectKind",
    "OutgoingQueueSummary",
    "PublicQueueSummary",
    "PutAborts",
    "PutMessage",
    "PutMessages",
    "PutQueue",
    "PutState",
    "QueueDefinition",
    "QueueManager",
    "QueueManagerObject",
    "QueueObject",
    "QueuePrivacy",
    "QueueProperties",
    "QueueSummary",
    "QueueType",
    "QueuedMessage",
    "QuotaKind",
    "ReceivedMessage",
    "RemoveMessages",
    "RemoveQueue",
    "RemoveState",
    "RemoveUnread",
    "RestoreLog",
    "RestoreNumbers",
    "Route",
    "RouteHop",
    "RoutingLink",
    "RoutingLinkObject",
    "Ruling",
    "SecurityDescriptor",
    "ServerContext",
    "SessionPeer",
    "SessionSummary",
    "Site",
    "SiteObject",
    "Snapshot",
    "SortOrder",
    "StorageError",
    "StorageFull",
    "StoreNotOpen",
    "StoredEvent",
    "StoredMessage",
    "Token",
    "Topology",
    "TransactionDetails",
    "TransactionSummary",
    "TrimEvents",
    "TrimLog",
    "UnknownQueue",
    "UserObject",
]

_MODULES: Final = {
    "msmq.interfaces.bridge_mapping": ("IInwardMapping", "IOutwardMapping"),
    "msmq.interfaces.bridge_messages": (
        "AmqpMessage",
        "AmqpProperties",
        "MappingError",
        "MessageForQueue",
        "QueuedMessage",
    ),
    "msmq.interfaces.broker": ("HookResult", "IBroker", "IRefusingBroker"),
    "msmq.interfaces.clock": ("IClock",),
    "msmq.interfaces.decoding": ("Body", "BodyNotDecoded", "DecodedBody", "IBodyDecoder", "Limits"),
    "msmq.interfaces.directory": (
        "DirectoryCondition",
        "DirectoryError",
        "DirectoryOperationResult",
        "IAddressBook",
        "IConditionalDirectory",
        "IControlBook",
        "IDirectory",
        "IObservedDirectory",
        "IServedDirectory",
        "IWatchedDirectory",
    ),
    "msmq.interfaces.manager.access_administration": ("IAccessAdministration",),
    "msmq.interfaces.manager.access_summaries": ("AccessList", "AccessVerdict", "CertificateSummary"),
    "msmq.interfaces.manager.open_queues": ("IOpenQueue", "IQueueCursor", "IReservation", "ITransaction"),
    "msmq.interfaces.manager.queue_manager": (
        "IAdministration",
        "IInspection",
        "IMessaging",
        "IQueueManager",
    ),
    "msmq.interfaces.manager.queue_properties": ("QueueProperties",),
    "msmq.interfaces.manager.received_messages": (
        "ExplainedRoute",
        "Explanation",
        "MessageLocation",
        "ReceivedMessage",
    ),
    "msmq.interfaces.manager.summaries": (
        "ManagerStatus",
        "MessageFlow",
        "OutgoingQueueSummary",
        "PublicQueueSummary",
        "QueueSummary",
        "SessionSummary",
        "TransactionDetails",
        "TransactionSummary",
    ),
    "msmq.interfaces.plugins": (
        "DirectoryContext",
        "IAccessControlFactory",
        "IArgumentProbe",
        "IDirectoryFactory",
        "IIdentitySource",
        "IProbedDirectory",
        "IRouterFactory",
        "ISessionPolicyFactory",
        "IStorageFactory",
        "IStorageProbe",
        "ServerContext",
    ),
    "msmq.interfaces.routing": ("IRouter", "NoRoute"),
    "msmq.interfaces.security.access": ("Account", "AccountUnknown", "IAccessControl", "IAccounts", "Ruling"),
    "msmq.interfaces.security.gate": ("IGate",),
    "msmq.interfaces.server_program": ("IServerProgram",),
    "msmq.interfaces.session": ("IConnector", "ISession"),
    "msmq.interfaces.session_policy": ("ISessionPolicy", "MessageRefusal", "SessionPeer"),
    "msmq.interfaces.sessions": ("ISessions",),
    "msmq.interfaces.storage": (
        "DamagedMessageKept",
        "IMessageRuns",
        "IMessageStore",
        "IStoreFiles",
        "IStoreVerification",
        "LogEntry",
        "LogExtent",
        "MessageNotStored",
        "StorageError",
        "StorageFull",
        "StoredEvent",
        "StoreNotOpen",
        "UnknownQueue",
    ),
    "msmq.membership.attributes": ("DirectoryObject",),
    "msmq.membership.entry": ("DirectoryEntry",),
    "msmq.membership.objects": (
        "EnterpriseObject",
        "QueueManagerObject",
        "QueueObject",
        "RoutingLinkObject",
        "SiteObject",
        "UserObject",
    ),
    "msmq.membership.queries": ("AttributeFilter", "FilterOperator", "SortOrder"),
    "msmq.membership.requests": ("Attributes",),
    "msmq.moment": ("Moment",),
    "msmq.persistence.changes": (
        "AppendEvent",
        "AppendLog",
        "Change",
        "LoggedPacket",
        "MoveMessage",
        "PutAborts",
        "PutMessage",
        "PutMessages",
        "PutQueue",
        "PutState",
        "RemoveMessages",
        "RemoveQueue",
        "RemoveState",
        "RemoveUnread",
        "RestoreLog",
        "RestoreNumbers",
        "TrimEvents",
        "TrimLog",
    ),
    "msmq.persistence.definition": ("QueueDefinition", "QueuePrivacy", "QueueType"),
    "msmq.persistence.snapshot": ("Snapshot", "StoredMessage"),
    "msmq.queues.machine_quota": ("QuotaKind",),
    "msmq.routing.route": ("Route", "RouteHop"),
    "msmq.routing.topology": ("QueueManager", "RoutingLink", "Site", "Topology"),
    "msmq.session.effects": ("ConnectionProgress",),
    "msmq.structures.names.format_name": ("DistributionListFormatName", "FormatName"),
    "msmq.windows.access_check": ("AccessDecision", "Token"),
    "msmq.windows.access_masks": ("ObjectKind",),
    "msmq.windows.security_descriptor": ("SecurityDescriptor",),
}


def _complete(value: object) -> None:
    """Let C{help} show the members of an interface."""
    if type(value).__name__ == "InterfaceClass":
        from msmq.interfaces.help_text import add_members

        add_members(value)


if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_attributes(__name__, _MODULES, _complete)
