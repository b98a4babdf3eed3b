"""The programs of the examples, started as users start them."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import cast
from uuid import UUID

from twisted.internet.utils import getProcessOutputAndValue
from twisted.trial.unittest import SynchronousTestCase

from msmq.client import Client
from tests.builders import ALPHA, GAMMA, establish
from tests.integration.test_control_socket import CommandTestCase
from tests.patience import DEADLINE
from tests.project.example_files import EXAMPLES, example
from tests.servers.own_address import own_address
from tests.servers.prepared import PreparedProcess, prepared_python


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

    def test_asyncio(self) -> None:
        """A queue manager inside an asyncio application, whose tasks handle the messages."""
        path = str(EXAMPLES / "asyncio_shop" / "asyncio_shop.py")
        process = self.begin(path, "data", own_address(8), is_forked=False)
        output, _ = process.communicate(timeout=DEADLINE)
        self.assertEqual(output.splitlines(), [f"handled order {number}" for number in (1, 2, 3)])
        self.assertEqual(process.returncode, 0)

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
        """The output of a program that ends by itself."""
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
                "no other reader has access",
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
            servers.queue_manager("GATE", members["GATE"], {}, self.directory, enterprise=estate),
        ):
            connector = example("connector")
            queues = connector.create_queues(Client(self.directory / "GATE"), UUID(site))
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
            client = Client(self.directory / "ANNA")
            self.assertEqual(connector.carry(client, answers, self.directory / "answers", 3), 20)
        bodies = sorted(path.read_bytes() for path in (self.directory / "out").glob("*.body"))
        self.assertEqual(bodies, sorted([b"%d" % number for number in range(10)] * 2))
        self.assertEqual(len(list((self.directory / "out").glob("*.json"))), 20)

    def answer_to(self, client: UUID) -> bytes:
        """The answer of the queue manager to an EstablishConnection packet."""
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
