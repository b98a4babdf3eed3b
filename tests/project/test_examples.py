"""Every program of C{examples/}, run as its readers run it or driven over an in-memory network.

The demo has a module of its own.
"""

from __future__ import annotations

import ast
import io
import sys
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

from twisted.internet.protocol import ServerFactory
from twisted.trial.unittest import SynchronousTestCase, TestCase

import twisted.plugins
from msmq.decoding.captures import decode
from msmq.interfaces import IMessageStore
from msmq.persistence.changes import PutQueue
from msmq.queues.arriving.message import Delivery
from msmq.service.configuration import check
from msmq.storage.factory import make_store
from msmq.storage.memory import MemoryMessageStore
from msmq.structures.names.format_name import parse_format_name
from msmq.testing.contracts.message_store import ORDERS, MessageStoreContract, put
from tests.builders import ALPHA, BETA, GAMMA
from tests.nodes.support import Node, NodesTestCase
from tests.project.example_files import EXAMPLES, example

EXERCISED = {
    *("demo.py", "demo_crash.py", "demo_messages.py", "demo_servers.py", "demo_witness.py"),
    *("custom_broker.py", "recorder.py", "policy.py", "embedding.py", "plain_client.py", "msmq.toml"),
    *("demo_pipeline.py", "demo_edited_records.py", "demo_meddler.py", "lost_messages.py"),
    "orders_in_spark.py",
    *(
        "worker.py",
        "browse.py",
        "consumer.py",
        "shop_client.py",
        "traced_client.py",
        "direct_sender.py",
        "history.py",
        "bodies.py",
        "connector.py",
    ),
    *("journal_store/journal_store.py", "journal_store/twisted/plugins/journal_store_plugin.py"),
    *("known_peers/known_peers.py", "known_peers/twisted/plugins/known_peers_plugin.py"),
    *("opening_hours/opening_hours.py", "opening_hours/twisted/plugins/opening_hours_plugin.py"),
    *("opening_hours/pyproject.toml", "asyncio_shop/asyncio_shop.py"),
    *("static_routes/static_routes.py", "static_routes/twisted/plugins/static_routes_plugin.py"),
    *("static_routes/pyproject.toml",),
    *("known_peers/pyproject.toml", "inventory_directory/pyproject.toml"),
    "inventory_directory/inventory_directory.py",
    "inventory_directory/twisted/plugins/inventory_directory_plugin.py",
    *("orders_broker/orders_broker.py", "orders_broker/orders_service.py", "orders_broker/pyproject.toml"),
    *("orders_broker/twisted/plugins/orders_broker_plugin.py",),
    *("recording_proxy/recording_proxy.py",),
    *("unreliable_receiver/unreliable_receiver.py", "unreliable_receiver/faults.toml"),
    *("maintenance_ping/maintenance_ping.py", "web_shop/web_shop.py"),
    *("leaving_msmq/leaving_msmq.py", "leaving_msmq/endpoints.py", "leaving_msmq/machines.py"),
    "directory_search/directory_search.py",
    *("rabbitmq_bridge/answering_worker.py", "rabbitmq_bridge/alpha.toml"),
    "rabbitmq_bridge/order_mapping.py",
    *("tested_shop/shop.py", "tested_shop/conftest.py", "tested_shop/test_shop.py"),
    *("journal_store/pyproject.toml", "enterprise/enterprise.toml", "enterprise/three_sites.py"),
}
DOORS = (
    "msmq",
    "msmq.interfaces",
    "msmq.client",
    "msmq.testing",
    "msmq.testing.contracts",
    "msmq.testing.pytest_fixtures",
)
"""What is promised to programs of users (docs/compatibility.md)."""

LOOK_INSIDE = {
    *("demo_crash.py", "demo_messages.py", "demo_meddler.py", "demo_servers.py", "demo_witness.py"),
    *("demo_pipeline.py", "lost_messages.py", "orders_in_spark.py", "enterprise/three_sites.py"),
}
"""The demonstrations of the project: they kill and watch its servers, and read their stores."""

LONGEST = 150
"""Lines of a module."""

TO_THERE = r"DIRECT=TCP:127.0.0.3\private$\echo"
ANSWERS = parse_format_name(r"DIRECT=TCP:127.0.0.2\private$\answers")


class InventoryTests(SynchronousTestCase):
    """No example is left out."""

    def test_every_example_is_exercised(self) -> None:
        """A new example is added here."""
        found = {
            str(path.relative_to(EXAMPLES))
            for pattern in ("*.py", "*.toml")
            for path in EXAMPLES.rglob(pattern)
            if not any(part in ("build", "dist") or part.endswith(".egg-info") for part in path.parts)
        }
        self.assertEqual(found, EXERCISED)

    def test_examples_use_the_doors(self) -> None:
        """An example imports what is promised, apart from those that look inside on purpose."""
        inside = {
            str(path.relative_to(EXAMPLES))
            for path in EXAMPLES.rglob("*.py")
            if "build" not in path.parts
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.ImportFrom)
            and str(node.module).split(".")[0] == "msmq"
            and str(node.module) not in DOORS
        }
        self.assertEqual(inside - LOOK_INSIDE, set())

    def test_length(self) -> None:
        """An example of how to use the framework is read in one go: at most 150 lines to a module."""
        lengths = {
            str(path.relative_to(EXAMPLES)): len(path.read_text(encoding="utf-8").splitlines())
            for path in EXAMPLES.rglob("*.py")
            if "build" not in path.parts
        }
        long = {name for name, length in lengths.items() if length > LONGEST}
        self.assertEqual(long - LOOK_INSIDE - {"demo.py"}, set())

    def test_configuration_has_no_mistakes(self) -> None:
        """The configuration can be used as it stands."""
        self.assertEqual(check(EXAMPLES / "msmq.toml"), [])


class OneNodeTestCase(NodesTestCase):
    """A queue manager on 127.0.0.2, and an example that listens on 127.0.0.3."""

    def setUp(self) -> None:
        super().setUp()
        self.beta.deaf()
        self.output = io.StringIO()
        self.patch(sys, "stdout", self.output)

    def listen(self, factory: ServerFactory) -> None:
        """Have the example accept the sessions."""
        self.network.host("127.0.0.3").server_endpoint(1801).listen(factory)

    @property
    def lines(self) -> list[str]:
        """The output lines of the example."""
        return self.output.getvalue().splitlines()

    def waiting(self) -> int:
        """The messages of ALPHA that are not acknowledged."""
        return sum(queue.messages for queue in self.alpha.service.inspection.outgoing())


class CustomBrokerTests(OneNodeTestCase):
    """C{custom_broker.py}."""

    def setUp(self) -> None:
        super().setUp()
        broker = example("custom_broker")
        self.listen(broker.EchoFactory(GAMMA, reactor=self.clock.reactor, clock=self.clock))

    def test_prints_and_answers(self) -> None:
        """A message is printed, and its answer says which message it answers."""
        answers = self.queue(self.alpha, "answers")
        self.send(self.alpha, TO_THERE, b"hello", label="greeting", response_queue=ANSWERS)
        self.clock.advance(1)
        [answer] = self.take(self.alpha, answers)
        self.assertEqual((bytes(answer.body), answer.label), (b"heard: hello", "greeting"))
        self.assertEqual(answer.correlation_id[:16], ALPHA.bytes_le)
        self.assertEqual(self.lines, [f"127.0.0.2: session with {ALPHA}", "127.0.0.2: 'greeting', 5 bytes"])

    def test_answers_more_than_a_window(self) -> None:
        """Answers wait for the window, and none is lost or changes its position."""
        answers = self.queue(self.alpha, "answers")
        bodies = [b"%d" % number for number in range(300)]
        self.send(self.alpha, TO_THERE, *bodies, response_queue=ANSWERS)
        self.clock.advance(30)
        self.assertEqual(self.bodies(self.alpha, answers), [b"heard: " + body for body in bodies])
        self.assertEqual(self.waiting(), 0)

    def test_no_answer_without_a_response_queue(self) -> None:
        """A message without a response queue is only printed."""
        self.send(self.alpha, TO_THERE, b"hello")
        self.clock.advance(30)
        self.assertIn("127.0.0.2: '', 5 bytes", self.lines)
        self.assertEqual(self.waiting(), 0)

    def test_reports_what_is_lost(self) -> None:
        """When the connection breaks, it says so."""
        self.send(self.alpha, TO_THERE, b"hello")
        self.clock.advance(1)
        self.network.cut("127.0.0.2", "127.0.0.3")
        self.clock.advance(1)
        self.assertIn("127.0.0.2: closed, connection lost, 0 answers lost", self.lines)


class DurableNodeTestCase(OneNodeTestCase):
    """The same with a queue manager that takes recoverable messages."""

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        return super().node(name, identifier, store=MemoryMessageStore(durable=True), **kwargs)


class RecoverableBrokerTests(DurableNodeTestCase):
    """C{custom_broker.py} and messages that have to be acknowledged as stored."""

    def test_says_that_it_is_done(self) -> None:
        """Recoverable messages are acknowledged, so that their sender may forget them."""
        broker = example("custom_broker")
        self.listen(broker.EchoFactory(GAMMA, reactor=self.clock.reactor, clock=self.clock))
        self.send(self.alpha, TO_THERE, b"one", b"two", delivery=Delivery.RECOVERABLE)
        self.clock.advance(30)
        self.assertEqual(self.waiting(), 0)


class RecorderTests(DurableNodeTestCase):
    """C{recorder.py}."""

    def setUp(self) -> None:
        super().setUp()
        self.directory = Path(self.mktemp())
        factory = example("recorder").RecordingFactory(
            GAMMA, self.directory, reactor=self.clock.reactor, clock=self.clock
        )
        self.listen(factory)

    def packets(self, name: str) -> list[dict[str, Any]]:
        return list(decode((self.directory / name).read_bytes()))

    def test_records_a_session(self) -> None:
        """The file holds everything from the handshake on, and C{msmq decode} reads it."""
        self.send(self.alpha, TO_THERE, b"express")
        self.send(self.alpha, TO_THERE, b"recoverable", delivery=Delivery.RECOVERABLE)
        self.clock.advance(30)
        self.assertEqual(self.waiting(), 0)
        self.network.cut("127.0.0.2", "127.0.0.3")
        self.clock.advance(1)
        packets = self.packets("127.0.0.2-1.msmq")
        self.assertEqual(
            [packet["packet"] for packet in packets],
            ["EstablishConnection", "ConnectionParameters", "UserMessage", "UserMessage"],
        )
        bodies = [packet["MessagePropertiesHeader"]["MessageBody"] for packet in packets[2:]]
        self.assertEqual(bodies, ["express", "recoverable"])

    def test_files_are_never_written_over(self) -> None:
        """The next session of the same peer has a file of its own."""
        for _ in range(2):
            self.send(self.alpha, TO_THERE, b"express")
            self.clock.advance(30)
            self.network.cut("127.0.0.2", "127.0.0.3")
            self.clock.advance(1)
        self.assertEqual(len(self.packets("127.0.0.2-2.msmq")), 3)


class PolicyTests(NodesTestCase):
    """C{policy.py}: the sessions of a whole queue manager."""

    def setUp(self) -> None:
        super().setUp()
        self.patch(sys, "stdout", io.StringIO())
        policy = example("policy")
        self.policy = policy.Policy(frozenset({ALPHA}), "drop table")
        self.beta.factory.protocol = partial(policy.GuardedSession, policy=self.policy)
        self.path = self.queue(self.beta)

    def to_beta(self, *bodies: bytes, **kwargs: Any) -> None:
        self.send(self.alpha, r"DIRECT=TCP:127.0.0.3\private$\orders", *bodies, **kwargs)
        self.clock.advance(1)

    def test_lets_in_whom_it_knows(self) -> None:
        """A known queue manager notices nothing of the policy."""
        self.to_beta(b"one", b"two")
        self.assertEqual(self.bodies(self.beta, self.path), [b"one", b"two"])

    def test_refuses_unknown_peers(self) -> None:
        """An unknown peer is refused in the handshake, and keeps its messages."""
        self.policy.known = frozenset({BETA})
        self.to_beta(b"one")
        self.assertEqual(self.bodies(self.beta, self.path), [])
        [queue] = self.alpha.service.inspection.outgoing()
        self.assertEqual((queue.messages, queue.history[-1].status.document_name), (1, "ConnectionRefused"))

    def test_excludes_senders_of_forbidden_messages(self) -> None:
        """Such a message reaches no queue, and its sender does not come in again."""
        self.to_beta(b"one", label="drop table")
        self.clock.advance(60)
        self.assertEqual(self.bodies(self.beta, self.path), [])
        self.assertEqual(self.beta.service.inspection.status().sessions, 0)
        self.assertEqual(self.policy.shut_out, {ALPHA})
        [queue] = self.alpha.service.inspection.outgoing()
        self.assertEqual((queue.messages, queue.history[-1].status.document_name), (1, "ConnectionRefused"))


JOURNAL = EXAMPLES / "journal_store"


class JournalStoreTests(MessageStoreContract, TestCase):
    """C{journal_store}: a store of a plugin keeps the contract of every store."""

    def setUp(self) -> None:
        self.path = Path(self.mktemp())

    def make_store(self) -> IMessageStore:
        store: IMessageStore = example("journal_store", JOURNAL).JournalMessageStore(self.path)
        return store

    async def test_keeps_what_was_committed(self) -> None:
        """Committed changes are there when the file is opened again."""
        store = await self.opened(PutQueue(ORDERS), put(1, b"kept"))
        _, snapshot = await self.reopened(store)
        self.assertEqual([row[0] for row in snapshot.messages[ORDERS.identifier]], [1])

    async def test_cuts_off_what_was_torn(self) -> None:
        """An entry that was being written when the machine stopped is as if it had never been begun."""
        store = await self.opened(PutQueue(ORDERS), put(1))
        whole = self.path.read_bytes()
        await store.commit([put(2)])
        entry = self.path.read_bytes()[len(whole) :]
        await store.close()
        for torn in (entry[:5], entry[:-1], entry[:-1] + b"?"):
            self.path.write_bytes(whole + torn)
            again = self.make_store()
            snapshot = await again.open()
            self.assertEqual(len(snapshot.messages[ORDERS.identifier]), 1)
            await again.commit([put(3)])
            await again.close()
            again, snapshot = await self.reopened(again)
            self.assertEqual(len(snapshot.messages[ORDERS.identifier]), 2)
            await again.close()


class JournalPluginTests(NodesTestCase):
    """C{journal_store} in a queue manager."""

    def setUp(self) -> None:
        example("journal_store", JOURNAL)
        directory = JOURNAL / "twisted" / "plugins"
        self.patch(twisted.plugins, "__path__", [*twisted.plugins.__path__, str(directory)])
        # Twisted leaves a cache beside the plugins that it finds.
        self.addCleanup((directory / "dropin.cache").unlink, missing_ok=True)
        self.data = Path(self.mktemp())
        self.data.mkdir()
        super().setUp()

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        return super().node(name, identifier, store=make_store(f"journal:{name}", self.data), **kwargs)

    def test_recoverable_messages_outlive_the_queue_managers(self) -> None:
        """Found by its name, it makes a queue manager take, and keep, recoverable messages."""
        path = self.queue(self.beta)
        to = r"DIRECT=TCP:127.0.0.3\private$\orders"
        self.send(self.alpha, to, b"kept", delivery=Delivery.RECOVERABLE)
        self.clock.advance(30)
        self.assertEqual(self.alpha.service.inspection.outgoing()[0].messages, 0)
        self.network.crash("127.0.0.3")
        again = self.node("BETA", BETA)
        again.start()
        self.assertEqual(again.service.inspection.status().storage, "journal")
        self.assertEqual(self.bodies(again, path), [b"kept"])
