"""The public interface of the package: what an application imports, name by name.

A name that is added here is promised; a name that is removed breaks programs of users.
"""

from __future__ import annotations

import ast
import inspect
import sys
from types import ModuleType

from twisted.trial.unittest import SynchronousTestCase

import msmq
import msmq.client
import msmq.interfaces
import msmq.pipeline.spark
import msmq.storage.log
import msmq.storage.sqlite
import msmq.testing
import msmq.testing.contracts

MSMQ = [
    "Acknowledge",
    "AuthenticationLevel",
    "Body",
    "BodyDecoders",
    "Broker",
    "CloseReason",
    "Configuration",
    "ConfigurationError",
    "ConnectedPeer",
    "Delivery",
    "DescriptorShares",
    "DiallingSessionFactory",
    "DirectoryServerProtocol",
    "FoundDirectoryServers",
    "IBodyDecoder",
    "IBroker",
    "IClock",
    "IMessageStore",
    "IQueueManager",
    "ISession",
    "ITransaction",
    "LocalProtocolError",
    "MQError",
    "Message",
    "MessageClass",
    "MessageIdentifier",
    "MessageSeekAction",
    "MsmqError",
    "NextHopAddress",
    "NotDelivered",
    "OpenQueue",
    "Outcome",
    "OutgoingMessage",
    "OutgoingPacket",
    "Overrides",
    "PacketKind",
    "PrivacyLevel",
    "QueueAccessType",
    "QueueManagerService",
    "QueueShareMode",
    "ReceivedMessage",
    "RemoteProtocolError",
    "Sender",
    "Server",
    "ServerPingProtocol",
    "SessionFactory",
    "SessionHooks",
    "SessionProtocol",
    "SessionSettings",
    "Status",
    "StreamFramer",
    "UserMessageView",
    "__version__",
    "accept",
    "build_packet",
    "classify",
    "connect",
    "find_directory_servers",
    "in_asyncio",
    "keep_timers_steady",
    "later",
    "load",
    "measure_user_message",
    "reject",
]

INTERFACES = [
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


CLIENT = [
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

TESTING = [
    "BlockingDouble",
    "BlockingProxy",
    "Conditions",
    "DoubleEvent",
    "DoubleScript",
    "Fault",
    "FaultAction",
    "FaultInjectingDouble",
    "ManagerOptions",
    "ManualClock",
    "MemoryAccessControl",
    "MemoryCiphers",
    "MemoryDirectory",
    "MemoryEstate",
    "MemoryHost",
    "MemoryMessageStore",
    "MemoryQueueManager",
    "MessageKind",
    "Network",
    "PeerAnswer",
    "PeerRule",
    "ReactorThread",
    "RecordingProxy",
    "RelayFactory",
    "RelayedPacket",
    "ScriptError",
    "message_packet",
    "message_view",
    "parse_script",
    "read_script",
    "start_service",
]

SPARK = ["SparkUnavailable", "StreamMetrics", "make_session", "read_archive", "register"]

CONTRACTS = [
    "AccessControlContract",
    "CertificateStoreContract",
    "CiphersContract",
    "DirectoryContract",
    "MessageStoreContract",
    "RouterContract",
    "SigningContract",
    "StoreHistoryContract",
    "WritableDirectoryContract",
]


LAZY = [
    *(msmq, msmq.client, msmq.interfaces, msmq.testing, msmq.testing.contracts),
    *(msmq.pipeline.spark, msmq.storage.log, msmq.storage.sqlite),
]
"""The packages whose names are imported when they are first used."""

PROVIDED = [
    *("IAccessControl", "IAccounts", "IBodyDecoder", "IBroker", "IGate", "IMessageStore", "IRefusingBroker"),
    *("IAddressBook", "IConditionalDirectory", "IControlBook", "IDirectory", "IObservedDirectory"),
    *("IInwardMapping", "IOutwardMapping", "IRouter", "IServedDirectory", "ISessionPolicy"),
    *("IAccessControlFactory", "IDirectoryFactory", "IRouterFactory", "ISessionPolicyFactory"),
    *("IArgumentProbe", "IIdentitySource", "IProbedDirectory", "IStorageFactory", "IStorageProbe"),
]
"""The interfaces that an application or a plugin provides."""

VALUES = ["QueueDefinition", "RestoreLog", "Topology", "AttributeFilter"]
"""Values that a provider takes apart, or makes."""


def mentioned_types(name: str) -> set[str]:
    """The names of this package in the annotations of a class of C{msmq.interfaces}, without private ones."""
    home = sys.modules[getattr(msmq.interfaces, name).__module__]
    tree = ast.parse(inspect.getsource(home))
    ours = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("msmq."):
            ours |= {each.asname or each.name for each in node.names}
    [found] = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name]
    annotations: list[ast.expr | None] = []
    for each in found.body:
        if isinstance(each, ast.AnnAssign):
            annotations.append(each.annotation)
        elif isinstance(each, ast.FunctionDef) and not each.decorator_list and each.name[0] != "_":
            annotations += [each.returns, *(argument.annotation for argument in each.args.args)]
    private = {each for each in ours if each[0] == "_"}
    words = (word for each in annotations if each is not None for word in ast.walk(each))
    return {word.id for word in words if isinstance(word, ast.Name) and word.id in ours - private}


class PublicNamesTests(SynchronousTestCase):
    """Each door opens onto exactly its names."""

    def check(self, module: ModuleType, names: list[str]) -> None:
        """Fail unless the module promises exactly these names, and has them."""
        self.assertEqual(sorted(module.__all__), sorted(names))
        self.assertEqual([name for name in names if getattr(module, name, None) is None], [])

    def test_front_door(self) -> None:
        """The public names for an application or a custom broker."""
        self.check(msmq, MSMQ)

    def test_interfaces(self) -> None:
        """The interfaces of replaceable parts, their values, and the errors that implementations raise."""
        self.check(msmq.interfaces, INTERFACES)

    def test_client(self) -> None:
        """What an application needs to use a running queue manager."""
        self.check(msmq.client, CLIENT)

    def test_testing(self) -> None:
        """The doubles for tests, and the contract tests of what can be replaced."""
        self.check(msmq.testing, TESTING)
        self.check(msmq.testing.contracts, CONTRACTS)

    def test_spark(self) -> None:
        """What a job of a user's own in Spark needs besides C{format("msmq")}; importable without pyspark."""
        self.assertEqual(sorted(msmq.pipeline.spark.__all__), sorted(SPARK))
        for name in set(SPARK) - {"StreamMetrics"}:
            self.assertIsNotNone(getattr(msmq.pipeline.spark, name))

    def test_types_of_signatures(self) -> None:
        """What a provider has to name in its signatures can be imported from a door."""
        public = {*MSMQ, *INTERFACES, *TESTING}
        for name in (*PROVIDED, *VALUES):
            with self.subTest(name=name):
                self.assertEqual(mentioned_types(name) - public, set())

    def test_unknown_name(self) -> None:
        """A name that is not there is an ordinary error that says so."""
        for module in LAZY:
            error = self.assertRaises(AttributeError, getattr, module, "Massage")
            self.assertIn("has no attribute Massage", str(error))

    def test_similar_name(self) -> None:
        """The error of a misspelled name has what Python needs to suggest the right one."""
        error = self.assertRaises(AttributeError, getattr, msmq, "Sarver")
        self.assertEqual((error.name, error.obj), ("Sarver", msmq))

    def test_lists_of_a_package_agree(self) -> None:
        """Type checkers find each name where it is imported from, and C{from ... import *} finds them all."""
        for module in LAZY:
            [checked] = [
                node
                for node in ast.parse(inspect.getsource(module)).body
                if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
            ]
            imports = [node for node in checked.body if isinstance(node, ast.ImportFrom)]
            seen = {(node.module, each.name) for node in imports for each in node.names}
            loaded = {(home, name) for home, names in module._MODULES.items() for name in names}
            with self.subTest(module=module.__name__):
                self.assertEqual(seen, loaded)
                self.assertEqual(sorted(module.__all__), sorted(name for _, name in seen))
                self.assertEqual(set(module.__all__) - set(dir(module)), set())
