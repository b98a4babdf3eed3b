"""C{msmq store check} and C{msmq store repair} on stores that are damaged."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from msmq.persistence.changes import AppendLog, Change, PutMessage, PutQueue, PutState
from tests.patience import DEADLINE
from tests.pipeline import stores
from tests.servers.postgresql import shared_server
from tests.servers.prepared import PROGRAMS, run

ORDERS = stores.ORDERS
BODY = b"rotten" * 100


def contents(count: int = 20) -> Sequence[Sequence[Change]]:
    """Create a queue with messages, one of them to be damaged, a log entry and a state value."""
    return [
        [PutQueue(ORDERS), PutState("stream", b"\1")],
        [PutMessage(ORDERS.identifier, number, b"%03d" % number * 100, 1.7e9) for number in range(count)],
        [PutMessage(ORDERS.identifier, 900, BODY, 1.7e9), AppendLog(ORDERS.identifier, 1, b"logged", 1.0)],
        [PutMessage(ORDERS.identifier, 901, b"last", 1.7e9)],
    ]


class StoreCheckTests(SynchronousTestCase):
    """The commands as users call them."""

    def setUp(self) -> None:
        self.data = Path(self.mktemp()).absolute()

    def call(self, *arguments: str) -> tuple[int, Any, str]:
        """Exit status, what it printed as JSON, and standard error."""
        command = [
            os.fspath(PROGRAMS / "msmq"),
            "store",
            *arguments,
            "--data",
            os.fspath(self.data),
            "--json",
        ]
        done = run(command, timeout=DEADLINE)
        return done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr

    def flip(self, directory: Path, content: bytes) -> Path:
        """Change a bit in the middle of this content in a file of a directory."""
        for path in sorted(directory.iterdir()):
            data = path.read_bytes() if path.is_file() else b""
            if (offset := data.find(content)) >= 0:
                with path.open("r+b") as file:
                    file.seek(offset + len(content) // 2)
                    file.write(bytes([data[offset + len(content) // 2] ^ 1]))
                return path
        self.fail("there is no such content")

    def assert_repaired(self, *where: str, problem: str) -> None:
        """A check finds one problem, a repair mends it, and the next check finds none."""
        status, found, said = self.call("check", *where)
        self.assertEqual((status, len(found["problems"])), (1, 1), (found, said))
        self.assertIn(problem, found["problems"][0])
        self.assertEqual(said.count("\n"), 1, said)
        status, found, said = self.call("repair", *where)
        self.assertEqual((status, found["left"]), (0, []), (found, said))
        self.assertIn(problem, found["repaired"][0])
        status, found, said = self.call("check", *where)
        self.assertEqual((status, found["problems"], said), (0, [], ""))

    def test_sqlite(self) -> None:
        """A packet with a changed bit is named with its table and LookupIdentifier, and quarantined."""
        stores.write_sqlite(self.data, *contents())
        self.assertEqual(self.call("check")[0], 0)
        self.flip(self.data, BODY)
        self.assert_repaired(problem="packet does not match: lookup id 0x0000000000000384")
        [kept] = (self.data / "msmq.sqlite.quarantine").glob("message-*")
        self.assertEqual(len(kept.read_bytes()), len(BODY))

    def test_log(self) -> None:
        """In a record log it is named with file and offset."""
        stores.write_log(self.data, *contents())
        self.assertEqual(self.call("check")[0], 0)
        self.flip(self.data / "msmq.log", BODY)
        self.assert_repaired(problem="msmq.log/segment-000001, offset ")
        [kept] = (self.data / "msmq.log" / "quarantine").iterdir()
        self.assertEqual(len(kept.read_bytes()), len(BODY))

    def test_postgresql(self) -> None:
        """In a database it is named with its table."""
        self.data.mkdir()
        server = shared_server()
        self.addCleanup(server.drop, "checked")
        url = stores.write_postgresql(server, "checked", *contents())
        self.assertEqual(self.call("check", "--store", url)[0], 0)
        with server.connect() as connection:
            connection.execute(
                b"UPDATE checked.message SET packet = set_byte(packet, 7, 1) WHERE length(packet) = 600"
            )
        self.assert_repaired("--store", url, problem="table message, queue 1: the checksum of the packet")

    def test_log_entry_in_postgresql(self) -> None:
        """A damaged log entry of a database is removed by a repair, and named as lost."""
        self.data.mkdir()
        server = shared_server()
        self.addCleanup(server.drop, "checked")
        url = stores.write_postgresql(server, "checked", *contents())
        with server.connect() as connection:
            connection.execute(b"UPDATE checked.log SET packet = set_byte(packet, 3, 1)")
        self.assert_repaired("--store", url, problem="table log, queue 1: the checksum does not match")

    def test_tables_that_cannot_be_verified(self) -> None:
        """A repair that cannot read a table ends with the reason, instead of trying it again and again."""
        self.data.mkdir()
        server = shared_server()
        self.addCleanup(server.drop, "checked")
        url = stores.write_postgresql(server, "checked", *contents())
        with server.connect() as connection:
            connection.execute(b"ALTER TABLE checked.log RENAME COLUMN packet TO content")
        status, _, said = self.call("repair", "--store", url)
        self.assertEqual((status, said.count("\n")), (1, 1), said)
        self.assertIn('column "packet" does not exist', said)

    def test_structure_of_a_file(self) -> None:
        """A file with a damaged page is built anew from what can be read; the damaged one stays."""
        stores.write_sqlite(self.data, *contents(300))
        path = self.data / "msmq.sqlite"
        with closing(sqlite3.connect(path)) as connection:
            select = "SELECT rootpage FROM sqlite_schema WHERE name = 'packet'"
            (root,) = connection.execute(select).fetchone()
        data = bytearray(path.read_bytes())
        start = (root - 1) * 4096
        leaf = int.from_bytes(data[start + 8 : start + 12], "big")
        data[(leaf - 1) * 4096 : leaf * 4096 - 2000] = b"\xa5" * 2096
        path.write_bytes(data)
        status, found, _ = self.call("check")
        self.assertEqual(status, 1)
        status, found, said = self.call("repair")
        self.assertEqual((status, found["left"]), (0, []), (found, said))
        with closing(sqlite3.connect(path)) as connection:
            (left,) = connection.execute("SELECT count(*) FROM message").fetchone()
            self.assertEqual(connection.execute("PRAGMA quick_check").fetchone(), ("ok",))
        self.assertGreater(left, 200)
        self.assertTrue(path.with_name("msmq.sqlite.damaged").exists())

    def test_value_and_queue(self) -> None:
        """A damaged value goes to quarantine; a queue whose definition can be read stays, and is named."""
        stores.write_sqlite(self.data, *contents())
        with closing(sqlite3.connect(self.data / "msmq.sqlite")) as connection:
            connection.execute("UPDATE state SET value = x'07'")
            connection.execute("UPDATE queue SET checksum = 1")
            connection.commit()
        status, found, said = self.call("repair")
        self.assertEqual((status, found["left"]), (0, []), said)
        text = "\n".join(found["losses"])
        self.assertIn("table state, row stream: removed; its bytes are in quarantine", text)
        self.assertIn(f"the properties of {ORDERS.path} may have changed", text)

    def test_count_of_damage(self) -> None:
        """Damage is counted as the check counts it, not again for what the repair says about it."""
        stores.write_sqlite(self.data, *contents())
        with closing(sqlite3.connect(self.data / "msmq.sqlite")) as connection:
            connection.execute("UPDATE state SET value = x'07'")
            connection.execute("UPDATE queue SET checksum = 1")
            connection.commit()
        found = self.call("check")[1]
        self.assertEqual(self.call("repair")[1]["repaired"], found["problems"])

    def assert_not_a_store(self, content: bytes) -> None:
        """Neither command takes a file for a store, and a repair changes nothing."""
        self.data.mkdir()
        (self.data / "notes").write_bytes(content)
        for verb in ("check", "repair"):
            status, found, said = self.call(verb, "--store", "sqlite:notes")
            self.assertEqual((status, found, said.count("\n")), (1, None, 1), said)
            self.assertIn(f"{self.data}/notes: ", said)
            self.assertIn("not a store", said)
            self.assertEqual([path.name for path in self.data.iterdir()], ["notes"])
            self.assertEqual((self.data / "notes").read_bytes(), content)

    def test_text(self) -> None:
        """A text file is not a store."""
        self.assert_not_a_store(b"remember the milk\n" * 1000)

    def test_empty_file(self) -> None:
        """An empty file is not a store."""
        self.assert_not_a_store(b"")

    def test_other_directory(self) -> None:
        """A directory without a record log is no log that has lost everything, and stays as it is."""
        (self.data / "notes").mkdir(parents=True)
        (self.data / "notes" / "monday").write_text("milk")
        for verb in ("check", "repair"):
            status, found, said = self.call(verb, "--store", "log:notes")
            self.assertEqual((status, found, said.count("\n")), (1, None, 1), said)
            self.assertIn(f"{self.data}/notes: is not a store", said)
        left = sorted(path.relative_to(self.data).as_posix() for path in self.data.rglob("*"))
        self.assertEqual(left, ["notes", "notes/monday"])

    def test_unreadable_tables(self) -> None:
        """A file of which no row can be read is not replaced by an empty store."""
        stores.write_sqlite(self.data, *contents())
        path = self.data / "msmq.sqlite"
        data = path.read_bytes()
        path.write_bytes(data[:100] + b"\xa5" * (len(data) - 100))
        before = {each.name: each.read_bytes() for each in self.data.iterdir() if each.is_file()}
        status, found, said = self.call("repair")
        self.assertEqual((status, found, said.count("\n")), (1, None, 1), said)
        self.assertIn("restore the store from a backup", said)
        after = {each.name: each.read_bytes() for each in self.data.iterdir() if each.is_file()}
        self.assertEqual(after, before)

    def test_unreadable_tables_and_log(self) -> None:
        """What a write-ahead log has is not deleted by a repair that fails."""
        stores.write_sqlite(self.data, *contents())
        path = self.data / "msmq.sqlite"
        data = path.read_bytes()
        path.write_bytes(data[:100] + b"\xa5" * (len(data) - 100))
        (self.data / "msmq.sqlite-wal").write_bytes(b"kept" * 2000)
        self.assertEqual(self.call("repair")[0], 1)
        self.assertIn(b"kept" * 2000, [each.read_bytes() for each in self.data.iterdir() if each.is_file()])

    def test_nothing_there(self) -> None:
        """One line says that there is no store."""
        self.data.mkdir()
        status, found, said = self.call("check")
        self.assertEqual((status, found), (1, None))
        self.assertIn(f"{self.data}: there is no store of the kinds sqlite and log; select one with", said)
