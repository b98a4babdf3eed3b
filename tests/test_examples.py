"""Every program of C{examples/}, run as its readers run it or driven over an in-memory network.

The demo has a module of its own.
"""

from __future__ import annotations

import importlib
import io
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any, cast
from uuid import UUID

from twisted.internet.protocol import ServerFactory
from twisted.internet.utils import getProcessOutputAndValue
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
from tests.builders import ALPHA, BETA, GAMMA, establish
from tests.contracts.message_store import ORDERS, MessageStoreContract, put
from tests.integration.test_control_socket import CommandTestCase
from tests.nodes.support import Node, NodesTestCase
from tests.patience import DEADLINE
from tests.servers.prepared import PreparedProcess, prepared_python

PROJECT = Path(__file__).resolve().parent.parent
EXAMPLES = PROJECT / "examples"

EXERCISED = {
    *("demo.py", "demo_crash.py", "demo_messages.py", "demo_servers.py", "demo_witness.py"),
    *("custom_broker.py", "recorder.py", "policy.py", "embedding.py", "plain_client.py", "msmq.toml"),
    *("demo_pipeline.py", "demo_meddler.py", "lost_messages.py", "orders_in_spark.py"),
    *("worker.py", "browse.py", "consumer.py", "history.py", "bodies.py", "connector.py"),
    *("journal_store/journal_store.py", "journal_store/twisted/plugins/journal_store_plugin.py"),
    *("journal_store/pyproject.toml", "enterprise/enterprise.toml", "enterprise/three_sites.py"),
}
TO_THERE = r"DIRECT=TCP:127.0.0.3\private$\echo"
ANSWERS = parse_format_name(r"DIRECT=TCP:127.0.0.2\private$\answers")


def own_address(number: int) -> str:
    """An address of loopback on which no other run of the tests listens at the same time.

    @param number: 1 to 254, another one for each server of a test.
    """
    run = os.getpid()
    return f"127.{64 + run // 254 % 64}.{run % 254 + 1}.{number}"


def example(name: str, directory: Path = EXAMPLES) -> Any:
    """The module of an example, which finds its neighbours as it does when it is run."""
    if str(directory) not in sys.path:
        sys.path.append(str(directory))
    return importlib.import_module(name)


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
        """What the example printed."""
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


class ProgramTests(SynchronousTestCase):
    """Examples that are programs with a queue manager inside.

    Most are forked with their imports done; the embedding and the policy are started as their readers do it.
    """

    def setUp(self) -> None:
        # A path of trial's own may be longer than a unix socket's may be.
        self.directory = Path(tempfile.mkdtemp(prefix="msmq-test-"))
        self.addCleanup(shutil.rmtree, self.directory)

    def begin(self, *arguments: str, is_forked: bool = True) -> subprocess.Popen[str]:
        process = (PreparedProcess if is_forked else subprocess.Popen)(
            [str(prepared_python()) if is_forked else sys.executable, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self.directory,
        )
        self.addCleanup(self.end, process)
        return process

    def end(self, process: subprocess.Popen[str]) -> None:
        process.terminate()
        process.communicate(timeout=DEADLINE)

    def test_embedding(self) -> None:
        """A queue manager inside an application sends, receives, and stops."""
        process = self.begin(str(EXAMPLES / "embedding.py"), "data", own_address(7), is_forked=False)
        output, _ = process.communicate(timeout=DEADLINE)
        first, *rest = output.splitlines()
        self.assertRegex(first, r"^sent \{[0-9A-F-]{36}\}\\[0-9]+$")
        self.assertEqual(
            rest,
            [
                "received b'three boxes'",
                "working on b'a crate'",
                "working on b'two boxes'",
                "nothing left",
            ],
        )
        self.assertEqual(process.returncode, 0)

    def output(self, program: str, number: int) -> list[str]:
        """What a program prints that ends by itself."""
        process = self.begin(str(EXAMPLES / program), "data", own_address(number))
        output, _ = process.communicate(timeout=DEADLINE)
        self.assertEqual(process.returncode, 0, output)
        return output.splitlines()

    def test_worker(self) -> None:
        """A worker returns what it cannot process, and puts it aside in the end."""
        self.assertEqual(
            self.output("worker.py", 8),
            [
                *["gave b'a hundred' back"] * 3,
                "put b'a hundred' aside",
                r".\private$\receipts: ['booked 100', 'booked 200']",
                r".\private$\payments;poison: ['a hundred']",
            ],
        )

    def test_browse(self) -> None:
        """A cursor goes over all messages in their order, and takes out some of them."""
        rest = ["priority 7: a telegram", "priority 3: a card", "priority 0: a paper"]
        self.assertEqual(
            self.output("browse.py", 8),
            [
                *rest[:2],
                *("priority 3: bill of May", "priority 3: bill of June"),
                rest[2],
                "alone with the letters",
                *("took bill of May", "took bill of June"),
                "a card comes before a paper",
                *rest,
            ],
        )

    def test_consumer(self) -> None:
        """A consumer is done with what it has begun when it stops, and leaves the rest."""
        self.assertEqual(
            self.output("consumer.py", 8),
            [
                *("begins with boxes", "is done with boxes"),
                *("begins with crates", "is done with crates"),
                "1 left",
            ],
        )

    def test_history(self) -> None:
        """A removed message is in a journal, among the dead letters, or in a log, and can be sent again."""
        self.assertEqual(
            self.output("history.py", 8),
            [
                "journal: ['boxes', 'crates']",
                r"expired in private$\orders: kept as a dead letter",
                r"is available in .\system$;deadletter",
                "received flowers",
                "0 dead letters",
                "sent 4 again: ['boxes', 'crates', 'flowers', 'flowers']",
            ],
        )

    def test_enterprise(self) -> None:
        """Six real servers in three sites hand messages on, and around a gate that is killed."""
        estate = (EXAMPLES / "enterprise" / "enterprise.toml").read_text(encoding="utf-8")
        moved = re.sub(r"127\.0\.8\.(\d+)", lambda found: own_address(20 + int(found[1])), estate)
        (self.directory / "enterprise.toml").write_text(moved, encoding="utf-8")
        process = self.begin(str(EXAMPLES / "enterprise" / "three_sites.py"), "enterprise.toml")
        output, _ = process.communicate(timeout=DEADLINE)
        self.assertEqual(process.returncode, 0, output)
        lines = output.splitlines()
        self.assertIn("100 messages arrived at LUCA over 3 gates, in the order of sending.", lines)
        self.assertIn("100 messages arrived at LUCA over 2 gates, in the order of sending.", lines)
        self.assertIn("ANNA has 200 messages in its journal, all delivered.", lines)

    def test_connector(self) -> None:
        """Messages for a foreign site are in files, each once, and acknowledged as received."""
        self.patch(sys, "executable", str(prepared_python()))
        servers = example("demo_servers")
        records = importlib.import_module("msmq.control.protocol.records")
        site, foreign = "5d0f6c1e-5a1b-4c4e-9d3b-0e6f000000f0", "5d0f6c1e-5a1b-4c4e-9d3b-0e6f000000f1"
        members = {"ANNA": own_address(90), "GATE": own_address(91)}
        estate = self.directory / "foreign.toml"
        estate.write_text(f"""
enterprise = {{ id = "5d0f6c1e-5a1b-4c4e-9d3b-0e6f00000001" }}
site = [
  {{ name = "Berlin", id = "5d0f6c1e-5a1b-4c4e-9d3b-0e6f00000010" }},
  {{ name = "Mainframes", id = "{site}", foreign = true }},
]
link = [{{ sites = ["Berlin", "Mainframes"], cost = 1, gates = ["GATE"] }}]
[[queue_manager]]
name = "HOST"
id = "{foreign}"
sites = ["Mainframes"]
[[queue_manager]]
name = "ANNA"
id = "{UUID(int=0xA1)}"
address = "{members["ANNA"]}"
sites = ["Berlin"]
[[queue_manager]]
name = "GATE"
id = "{UUID(int=0xA2)}"
address = "{members["GATE"]}"
sites = ["Berlin", "Mainframes"]
routing_server = true
""")
        with (
            servers.queue_manager("ANNA", members["ANNA"], {}, self.directory, enterprise=estate) as anna,
            servers.queue_manager("GATE", members["GATE"], {}, self.directory, enterprise=estate) as gate,
        ):
            connector = example("connector")
            queues = connector.create_queues(gate.client, UUID(site))
            admin = anna.client.create_queue(r".\private$\answers", {})["format_name"]
            for transactional in (False, True):
                record = {
                    "destination": f"PRIVATE={foreign}\\00000007",
                    "delivery": "recoverable",
                    "transactional": transactional,
                    "acknowledge": ["receive"],
                    "admin_queue": admin,
                }
                list(anna.client.send(records.StreamRecord(record, b"%d" % number) for number in range(10)))
            process = self.begin(
                str(EXAMPLES / "connector.py"), str(self.directory / "GATE"), site, "out", "4"
            )
            output, _ = process.communicate(timeout=DEADLINE)
            self.assertEqual(output.splitlines(), [f"{queue}: 10 messages" for queue in queues])
            answers = r".\private$\answers"
            (self.directory / "answers").mkdir()
            self.assertEqual(connector.carry(anna.client, answers, self.directory / "answers", 3), 20)
        bodies = sorted(path.read_bytes() for path in (self.directory / "out").glob("*.body"))
        self.assertEqual(bodies, sorted([b"%d" % number for number in range(10)] * 2))
        self.assertEqual(len(list((self.directory / "out").glob("*.json"))), 20)

    def answer_to(self, client: UUID) -> bytes:
        """What the queue manager answers to an introduction."""
        with socket.create_connection((own_address(6), 1801), timeout=DEADLINE) as peer:
            peer.sendall(establish(client))
            answer = b""
            while len(answer) < 572:
                answer += peer.recv(572) or self.fail("the connection was closed")
            return answer

    def test_policy(self) -> None:
        """The whole queue manager runs with the policy, and refuses an unknown peer in the handshake."""
        address = own_address(6)
        process = self.begin(str(EXAMPLES / "policy.py"), "data", address, str(ALPHA), is_forked=False)
        assert process.stdout is not None
        self.assertEqual(process.stdout.readline(), f"listens on TCP {address}:1801, UDP {address}:3527\n")
        connection_status = 18
        self.assertEqual(self.answer_to(ALPHA)[connection_status] & 0x10, 0)
        self.assertEqual(self.answer_to(GAMMA)[connection_status] & 0x10, 0x10)

    def test_brokers_as_programs(self) -> None:
        """The broker and the recorder say where they listen, and accept sessions there."""
        for name, *arguments in (("custom_broker.py",), ("recorder.py", "recordings")):
            endpoint = f"tcp:1801:interface={own_address(6)}"
            process = self.begin(str(EXAMPLES / name), endpoint, *arguments)
            assert process.stdout is not None
            self.assertIn(endpoint, process.stdout.readline())
            self.assertEqual(len(self.answer_to(ALPHA)), 572)
            self.end(process)


class PlainClientTests(CommandTestCase):
    """C{plain_client.py} needs no package but Python's own."""

    async def test_runs_without_the_package(self) -> None:
        """An interpreter that does not even look for packages runs it."""
        arguments = ["-I", "-S", str(EXAMPLES / "plain_client.py"), str(self.socket)]
        output, errors, status = cast(
            tuple[bytes, bytes, int],
            await getProcessOutputAndValue(sys.executable, arguments, env={"PATH": os.environ["PATH"]}),
        )
        self.assertEqual((status, errors), (0, b""))
        lines = output.decode().splitlines()
        self.assertEqual(lines[0], "ALPHA is running")
        self.assertTrue(lines[1].startswith("sent {"))
        self.assertEqual(lines[2:], ["received greeting of priority 7: b'by hand'", "MQ_ERROR_IO_TIMEOUT"])


JOURNAL = EXAMPLES / "journal_store"


class JournalStoreTests(MessageStoreContract, TestCase):
    """C{journal_store}: a store of a plugin keeps the contract of every store."""

    def setUp(self) -> None:
        self.path = Path(self.mktemp())

    def make_store(self) -> IMessageStore:
        store: IMessageStore = example("journal_store", JOURNAL).JournalMessageStore(self.path)
        return store

    async def test_keeps_what_was_committed(self) -> None:
        """What was committed is there when the file is opened again."""
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
