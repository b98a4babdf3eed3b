"""The public interface of the package: what an application imports, name by name.

A name that is added here is promised; a name that is removed breaks programs of users.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path
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
from tests.pipeline.stores import estate, write_log, write_sqlite
from tests.project.example_files import EXAMPLES, PROJECT

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
    "AsyncioClient",
    "AsyncioConsumer",
    "Client",
    "Consumer",
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


PUBLIC = {
    *("msmq", "msmq.client", "msmq.interfaces", "msmq.pipeline.spark", "msmq.testing"),
    *("msmq.testing.contracts", "msmq.testing.pytest_fixtures"),
}
"""The modules that compatibility.md promises."""

WITH_INTERNALS = {
    *("demo_crash.py", "demo_messages.py", "demo_pipeline.py", "demo_servers.py"),
    *("enterprise/three_sites.py", "estate.ipynb", "lost_messages.py"),
}
"""The demo and the estate of three sites test the project itself; two reports use the tables of its jobs."""


def python_of(file: Path) -> list[str]:
    """The Python of a program, of a notebook's cells, or of the listings of a page."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        return ["".join(each["source"]) for each in cells if each["cell_type"] == "code"]
    if file.suffix == ".md":
        return [textwrap.dedent(each) for each in re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)]
    return [text]


def imported_from(file: Path) -> set[str]:
    """The modules of this package that the Python in a file imports names from."""
    lines = "\n".join(python_of(file)).splitlines()
    found = (re.match(r"\s*(?:from|import) (msmq[\w.]*)", line) for line in lines)
    return {each[1] for each in found if each is not None}


class ShownImportTests(SynchronousTestCase):
    """What users copy from the documentation and the examples."""

    def internal_imports(self, files: Iterable[Path], directory: Path) -> dict[str, set[str]]:
        """The imports of internal modules in each file that has some."""
        found = {str(file.relative_to(directory)): imported_from(file) - PUBLIC for file in files}
        return {name: modules for name, modules in found.items() if modules}

    def test_pages(self) -> None:
        """Listings in the documentation import from the public modules only."""
        pages = [PROJECT / "README.md", *(PROJECT / "docs").rglob("*.md")]
        self.assertIn("msmq.client", imported_from(PROJECT / "docs" / "guide" / "client.md"))
        self.assertEqual(self.internal_imports(pages, PROJECT), {})

    def test_examples(self) -> None:
        """Examples do too, but for those that are listed."""
        programs = [*EXAMPLES.rglob("*.py"), *EXAMPLES.rglob("*.ipynb"), *EXAMPLES.rglob("*.md")]
        self.assertEqual(set(self.internal_imports(programs, EXAMPLES)), WITH_INTERNALS)

    def test_compatibility_page(self) -> None:
        """The page names each public module."""
        page = (PROJECT / "docs" / "compatibility.md").read_text(encoding="utf-8")
        self.assertEqual({name for name in PUBLIC if f"`{name}`" not in page}, set())


class CostTests(SynchronousTestCase):
    """Coming in costs no more than what is used."""

    def loaded_by(self, statement: str) -> set[str]:
        """The modules that a new interpreter has loaded after one statement."""
        program = f"import sys\n{statement}\nprint(*sys.modules)"
        return set(subprocess.check_output([sys.executable, "-c", program], text=True).split())

    def test_package_alone_loads_no_framework(self) -> None:
        """C{import msmq} loads neither Twisted nor the server."""
        loaded = self.loaded_by("import msmq")
        self.assertIn("msmq", loaded)
        mine = {name for name in loaded if name.startswith(("twisted", "msmq."))}
        self.assertEqual(mine, {"msmq.lazy_imports"})

    def test_names_choose_no_reactor(self) -> None:
        """A program that imports the names still chooses its reactor; only Server brings one, with Klein."""
        names = ", ".join(name for name in MSMQ if name != "Server")
        loaded = self.loaded_by(f"from msmq import {names}")
        self.assertIn("msmq.net.session", loaded)
        self.assertFalse("twisted.internet.reactor" in loaded)

    def test_reader_of_stores_loads_no_queue_model(self) -> None:
        """A Spark worker starts often: it loads interfaces of storage, but no decoder and no session."""
        loaded = self.loaded_by("import msmq.pipeline.reading.stores, msmq.pipeline.spark.source")
        self.assertIn("msmq.interfaces.storage", loaded)
        unused = ("msmq.control", "msmq.decoding.bodies", "msmq.membership", "msmq.session", "twisted.plugin")
        self.assertEqual({name for name in loaded if name.startswith(unused)}, set())

    def test_reader_of_a_store_loads_no_writer(self) -> None:
        """What a Spark worker opens loads the format of that kind of store, and nothing that writes one."""
        for kind, name, others in (
            ("log", "LogStoreReader", ("msmq.storage.sqlite", "sqlite3")),
            ("sqlite", "SqliteStoreReader", ("msmq.storage.log",)),
        ):
            data = Path(self.mktemp()).absolute()
            {"log": write_log, "sqlite": write_sqlite}[kind](data, estate())
            loaded = self.loaded_by(
                "from msmq.storage.readers import open_reader\n"
                f"assert type(open_reader({str(data)!r})).__name__ == {name!r}"
            )
            unused = (
                *("msmq.interfaces.plugins", "msmq.membership", "msmq.routing", "twisted.plugin", *others),
                *(f"msmq.storage.{kind}.{module}" for module in ("store", "factory", "writer", "scrubber")),
            )
            self.assertEqual({name for name in loaded if name.startswith(unused)}, set(), kind)

    def test_plugin_loads_no_server(self) -> None:
        """The file that every C{twistd} imports names the server and does not load it."""
        loaded = self.loaded_by("import twisted.plugins.msmq_plugin")
        self.assertEqual({name for name in loaded if name.split(".")[0] == "msmq"}, set())
