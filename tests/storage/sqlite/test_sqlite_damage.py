"""A file of SQLite whose bytes change on the disk, or that is not the one last used."""

from __future__ import annotations

import gzip
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

from twisted.internet.defer import Deferred
from twisted.logger import ILogObserver, LogEvent, formatEvent, globalLogPublisher
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from msmq.interfaces.storage import DamagedMessageKept, MessageNotStored, StorageError, StoreIncomplete
from msmq.persistence.changes import AppendEvent, AppendLog, Change, PutAborts, PutQueue, PutState
from msmq.persistence.snapshot import Snapshot
from msmq.storage.checking.sqlite_repair import rebuild
from msmq.storage.scrub_policy import SCRUBBING
from msmq.storage.sqlite import SqliteMessageStore
from msmq.storage.sqlite.database import FileDatabase
from msmq.testing.contracts.store_contract import BILLS, ORDERS, packet_of, put, remove
from msmq.testing.contracts.store_express import SOURCE
from msmq.testing.contracts.store_history import TurnedReactor
from msmq.testing.contracts.store_moves import move
from tests.storage.policies import policy_of

Result = TypeVar("Result")
Found = TypeVar("Found", bound=StorageError)

VERSION_ONE = Path(__file__).resolve().parent.parent / "version-1.sqlite.gz"


class _DamageTestCase(SynchronousTestCase):
    """Tests with a file, whose Deferreds fire when a test turns their reactor."""

    def setUp(self) -> None:
        home = Path(self.mktemp()).absolute()
        home.mkdir()
        self.path = home / "msmq.sqlite"
        self.reactor = TurnedReactor()

    def make_store(self, *, accepts_loss: bool = False) -> SqliteMessageStore:
        policy = policy_of(self.path, accepts_loss=accepts_loss)
        return SqliteMessageStore(self.path, policy, reactor=self.reactor)

    def done(self, asked: Deferred[Result]) -> Result:
        outcome = self.reactor.outcome(asked)
        assert not isinstance(outcome, Failure), outcome
        return outcome

    def refused(self, asked: Deferred[Any], kind: type[Found]) -> Found:
        outcome = self.reactor.outcome(asked)
        assert isinstance(outcome, Failure), outcome
        error = outcome.value
        assert isinstance(error, kind), outcome
        return error

    def opened(self, *changes: Change) -> SqliteMessageStore:
        store = self.make_store()
        self.snapshot: Snapshot = self.done(store.open())
        self.addCleanup(lambda: self.reactor.outcome(store.close()))
        for change in changes:
            self.done(store.commit([change]))
        return store

    def filled(self, *changes: Change) -> None:
        """A closed file."""
        self.done(self.opened(*changes).close())

    def sql(self, *statements: str) -> None:
        """Change the file behind the store's back."""
        with closing(sqlite3.connect(self.path, isolation_level=None)) as connection:
            for statement in statements:
                connection.execute(statement)

    def flip(self, content: bytes) -> None:
        """Change a bit in the middle of this content on the disk."""
        data = self.path.read_bytes()
        offset = data.index(content) + len(content) // 2
        with self.path.open("r+b") as file:
            file.seek(offset)
            file.write(bytes([data[offset] ^ 4]))

    def damaged(self, store: SqliteMessageStore) -> list[AppendEvent]:
        """The events of damage, once what follows from a read is done."""
        self.done(store.commit([PutState("after", b"")]))
        events = [stored.event for stored in self.done(store.read_events(0, 100))]
        return [event for event in events if event.event == "damaged"]


class RottenRowTests(_DamageTestCase):
    """Bits that change in packets and rows."""

    def test_event_that_is_not_written(self) -> None:
        """If its event cannot be written, a damaged packet stays, and has the event at its next read."""
        packet = packet_of(SOURCE, 5, b"rotten" * 50)
        self.filled(PutQueue(ORDERS), put(1, packet))
        self.flip(packet)
        store = self.opened()
        self.sql("CREATE TRIGGER refuse BEFORE INSERT ON event BEGIN SELECT RAISE(ABORT, 'refused'); END")
        for _ in range(3):
            self.refused(store.read(ORDERS.identifier, [1]), MessageNotStored)
            self.assertEqual(self.damaged(store), [])
        self.sql("DROP TRIGGER refuse")
        self.refused(store.read(ORDERS.identifier, [1]), MessageNotStored)
        [event] = self.damaged(store)
        self.assertEqual((event.queue, event.identity), (ORDERS.path, packet[16:32] + packet[56:60]))

    def test_packet(self) -> None:
        """A packet with a changed bit is never delivered: it is quarantined, and its neighbours are read."""
        packet = packet_of(SOURCE, 5, b"rotten" * 50)
        self.filled(PutQueue(ORDERS), put(1, b"one"), put(2, packet), put(3, b"three"))
        self.flip(packet)
        store = self.opened()
        error = self.refused(store.read(ORDERS.identifier, [1, 2, 3]), MessageNotStored)
        self.assertEqual(error.lookup_id, 2)
        [event] = self.damaged(store)
        self.assertEqual((event.queue, event.identity), (ORDERS.path, packet[16:32] + packet[56:60]))
        self.assertEqual(
            event.reason,
            f"lookup id 0x0000000000000002; {self.path}, table message, queue 1:"
            " the checksum of the packet does not match",
        )
        [kept] = self.path.with_name("msmq.sqlite.quarantine").iterdir()
        self.assertEqual((kept.name, len(kept.read_bytes())), ("message-1-2", len(packet)))
        self.assertEqual(self.done(store.read(ORDERS.identifier, [1, 3])), [b"one", b"three"])
        self.assertEqual(store.damaged(), 1)
        self.done(store.close())
        self.opened()
        self.assertEqual([entry[0] for entry in self.snapshot.messages[ORDERS.identifier]], [1, 3])

    def test_pages_of_damaged_entries(self) -> None:
        """A page of damaged entries alone is not taken for the end of a log."""
        self.filled(
            PutQueue(ORDERS),
            *(AppendLog(ORDERS.identifier, number, b"%d" % number * 100, 1.0) for number in range(4)),
            *(AppendEvent(1.0, b"", "expired", f"reason {number}") for number in range(4)),
        )
        for number in (1, 2):
            self.flip(b"%d" % number * 100)
            self.flip(b"reason %d" % number)
        store = self.opened()
        [entry] = self.done(store.read_log(ORDERS.identifier, 1, 1))
        self.assertEqual((entry.sequence, entry.lookup_id), (4, 3))
        [stored] = self.done(store.read_events(1, 1))
        self.assertEqual((stored.sequence, stored.event.reason), (4, "reason 3"))
        self.assertEqual(self.done(store.read_log(ORDERS.identifier, 4, 1)), [])
        self.assertEqual(len(self.damaged(store)), 4)

    def test_quarantine_that_cannot_be_written(self) -> None:
        """What is left of a damaged packet is not deleted before it is in quarantine."""
        packet = packet_of(SOURCE, 5, b"rotten" * 50)
        self.filled(PutQueue(ORDERS), put(1, packet), AppendLog(ORDERS.identifier, 1, b"logged" * 20, 1.0))
        self.flip(packet)
        self.flip(b"logged" * 20)
        quarantine = self.path.with_name("msmq.sqlite.quarantine")
        quarantine.touch()
        store = self.opened()
        for _ in range(2):
            error: MessageNotStored = self.refused(store.read(ORDERS.identifier, [1]), DamagedMessageKept)
            self.assertEqual((error.queue, error.lookup_id), (ORDERS.identifier, 1))
            self.assertEqual(self.done(store.read_log(ORDERS.identifier, 0, 10)), [])
            self.assertEqual(self.damaged(store), [])
        quarantine.unlink()
        for _ in range(2):
            error = self.refused(store.read(ORDERS.identifier, [1]), MessageNotStored)
            self.assertNotIsInstance(error, DamagedMessageKept)
            self.assertEqual(self.done(store.read_log(ORDERS.identifier, 0, 10)), [])
            self.assertEqual(len(self.damaged(store)), 2)
        self.assertEqual(
            {path.name: len(path.read_bytes()) for path in quarantine.iterdir()},
            {"message-1-1": len(packet), "log_entry-1-1": 120},
        )
        self.done(store.close())
        self.opened()
        self.assertEqual(list(self.snapshot.messages[ORDERS.identifier]), [])

    def test_quarantine_of_an_earlier_queue(self) -> None:
        """A damaged entry is reported once, and what an earlier queue of its number has left stays."""
        quarantine = self.path.with_name("msmq.sqlite.quarantine")
        quarantine.mkdir()
        (quarantine / "log_entry-1-1").write_bytes(b"of another queue")
        self.filled(PutQueue(ORDERS), AppendLog(ORDERS.identifier, 1, b"logged" * 20, 1.0))
        self.flip(b"logged" * 20)
        store = self.opened()
        lines: list[str] = []

        @implementer(ILogObserver)
        def note(event: LogEvent) -> None:
            lines.extend(formatEvent(event).splitlines())

        globalLogPublisher.addObserver(note)
        self.addCleanup(globalLogPublisher.removeObserver, note)
        for _ in range(3):
            self.assertEqual(self.done(store.read_log(ORDERS.identifier, 0, 10)), [])
        self.assertEqual(len([line for line in lines if "table log" in line]), 1, lines)
        found = {path.name: len(path.read_bytes()) for path in quarantine.iterdir()}
        self.assertEqual(found, {"log_entry-1-1": 16, "log_entry-1-1-2": 120})

    def test_purging_reads_nothing(self) -> None:
        """A damaged message is removed like any other."""
        packet = packet_of(SOURCE, 5, b"rotten" * 50)
        self.filled(PutQueue(ORDERS), put(1, packet))
        self.flip(packet)
        store = self.opened(remove(1))
        self.assertEqual(self.damaged(store), [])

    def test_definition(self) -> None:
        """A wrong bit in the definition of a trigger is refused at the start, and repaired without a loss.

        With such a trigger messages could be stored, and none removed.
        """
        self.filled(PutQueue(ORDERS), put(1, b"one"))
        mark = self.path.with_name("msmq.sqlite-mark")
        whole, marked = self.path.read_bytes(), mark.read_bytes()
        at = whole.index(b"OLD.packet")
        for bit in range(8):
            mark.write_bytes(marked)
            self.path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :])
            error = self.refused(self.make_store().open(), StorageError)
            self.assertIn("message_re", str(error))
            rebuild(self.path, mark)
            store = self.opened(put(2, b"two"), remove(1))
            self.assertEqual(self.done(store.read(ORDERS.identifier, [2])), [b"two"])
            self.done(store.close())

    def test_row(self) -> None:
        """A message whose row has changed is quarantined at the start, whichever value it is."""
        for assignment in (
            "arrived = arrived + 1",
            "due = 7",
            "aborts = aborts + 1",
            "moves = moves + 2",
            "size = size + 4096",
            "lookup_id = lookup_id + 1024",
            "queue = queue + 8",
        ):
            self.path = self.path.with_name(f"{assignment[:4]}.sqlite")
            self.filled(PutQueue(ORDERS), put(1, b"one"), put(2, b"two"))
            self.sql(f"UPDATE message SET {assignment} WHERE lookup_id = 2 - 9223372036854775807 - 1")
            store = self.opened()
            index = self.snapshot.messages[ORDERS.identifier]
            self.assertEqual([entry[0] for entry in index], [1], assignment)
            self.assertEqual(len(self.damaged(store)), 1, assignment)
            self.done(store.close())

    def test_checksum_follows_the_row(self) -> None:
        """Moves and counts of aborts change the checksum with the row, and do not hide damage before them."""
        self.filled(
            PutQueue(ORDERS),
            PutQueue(BILLS),
            put(1, b"one"),
            put(2, b"two"),
            PutAborts(ORDERS.identifier, 1, 3),
            move(1, 9),
        )
        store = self.opened()
        self.assertEqual(self.done(store.read(BILLS.identifier, [9])), [b"one"])
        self.sql("UPDATE message SET size = size + 1 WHERE queue = 1")
        self.done(store.commit([move(2, 10)]))
        self.refused(store.read(BILLS.identifier, [10]), MessageNotStored)

    def test_log_entries_and_events(self) -> None:
        """A damaged entry is left out, with an event, and the others are read."""
        self.filled(
            PutQueue(ORDERS),
            *(AppendLog(ORDERS.identifier, number, b"%d" % number * 100, 1.0) for number in range(3)),
            *(AppendEvent(1.0, b"", "expired", f"reason {number}") for number in range(3)),
        )
        self.flip(b"1" * 100)
        self.flip(b"reason 1")
        store = self.opened()
        entries = self.done(store.read_log(ORDERS.identifier, 0, 10))
        self.assertEqual([entry.lookup_id for entry in entries], [0, 2])
        reasons = [stored.event.reason for stored in self.done(store.read_events(0, 3))]
        self.assertEqual(reasons, ["reason 0", "reason 2"])
        said = [event.reason.partition(";")[0] for event in self.damaged(store)]
        self.assertEqual(said, ["entry 2 of the message log", "event 2"])

    def test_queues_and_values(self) -> None:
        """Queues and values of the queue manager are few and needed at once: damage is refused."""
        for statement, row in (
            (
                "UPDATE queue SET definition = CAST(replace(definition, 'private', 'privats') AS BLOB)",
                "queue",
            ),
            ("UPDATE state SET value = x'00'", "state"),
            ("INSERT INTO removed_queue VALUES (1)", "removed_queue"),
        ):
            self.path = self.path.with_name(f"{row}.sqlite")
            self.filled(PutQueue(ORDERS), PutState("stream", b"\1"))
            self.sql(statement)
            said = str(self.refused(self.make_store().open(), StorageError))
            self.assertIn(f"{self.path}: table {row}, row ", said)
            self.assertIn("run msmq store repair", said)

    def test_packets_that_cannot_be_reached(self) -> None:
        """Messages are removed although the tree of their packets is damaged."""
        self.filled(PutQueue(ORDERS), *(put(number, b"%03d" % number * 500) for number in range(200)))
        with closing(sqlite3.connect(self.path)) as connection:
            (root,) = connection.execute(
                "SELECT rootpage FROM sqlite_schema WHERE name = 'packet'"
            ).fetchone()
        store = self.opened()
        with self.path.open("r+b") as file:
            file.seek((root - 1) * 4096)
            file.write(bytes(100))
        for number in range(0, 200, 40):
            self.done(store.commit([remove(*range(number, number + 40))]))
        self.done(store.close())
        with closing(sqlite3.connect(self.path)) as connection:
            self.assertEqual(connection.execute("SELECT count(*) FROM message").fetchone(), (0,))

    def test_scrubber(self) -> None:
        """Everything is verified in the background, and damage is found before it is needed."""
        packet = packet_of(SOURCE, 5, b"rotten" * 50)
        express = put(7, b"fast", is_express=True)
        self.filled(PutQueue(ORDERS), *(put(number, packet_of(SOURCE, number)) for number in range(20, 30)))
        self.filled(put(2, packet), AppendLog(ORDERS.identifier, 1, b"logged" * 20, 1.0))
        self.flip(packet)
        self.flip(b"logged" * 20)
        store = self.opened(express)
        while not store.scrubs():
            if self.reactor.getDelayedCalls():
                self.reactor.advance(SCRUBBING.pause)
            else:
                self.reactor.turn()
        said = [event.reason.partition(";")[0] for event in self.damaged(store)]
        self.assertEqual(said, ["lookup id 0x0000000000000002", "entry 1 of the message log"])
        self.assertEqual(store.damaged(), 2)
        self.assertGreater(store.verified_bytes(), 10 * len(packet_of(SOURCE, 1)))

    def test_rows_without_checksums(self) -> None:
        """A file of before gets its checksums step by step, and a start in the middle goes on."""
        self.path.write_bytes(gzip.decompress(VERSION_ONE.read_bytes()))
        for steps in (2, 4, 100):
            database = FileDatabase(self.path, policy_of(self.path))
            for _ in range(steps):
                database.cleanup()
            database.close()
        with closing(sqlite3.connect(self.path)) as connection:
            for table in ("message", "queue", "state"):
                found = connection.execute(f"SELECT count(*) FROM {table} WHERE checksum IS NULL").fetchone()
                self.assertEqual(found, (0,), table)
            self.assertEqual(connection.execute("SELECT is_checked FROM generation").fetchone(), (1,))
        self.opened()
        self.assertEqual(sum(map(len, self.snapshot.messages.values())), 7)


class LostStoreTests(_DamageTestCase):
    """A store that is not the one last used."""

    def killed_copy(self) -> dict[str, bytes]:
        """A copy of the files as a kill at this moment would leave them."""
        return {
            path.name: path.read_bytes()
            for path in self.path.parent.iterdir()
            if path.is_file() and not path.name.endswith((".lock", "-shm", ".reserve"))
        }

    def restore(self, files: dict[str, bytes]) -> None:
        for path in self.path.parent.iterdir():
            if path.is_file():
                path.unlink()
        for name, content in files.items():
            (self.path.parent / name).write_bytes(content)

    def refusal(self) -> str:
        return str(self.refused(self.make_store().open(), StoreIncomplete))

    def test_log_that_was_deleted(self) -> None:
        """Without its write-ahead log a killed store is refused, and --accept-loss opens what is left."""
        self.filled(PutQueue(ORDERS))
        store = self.opened(*(put(number, bytes(1000)) for number in range(30)))
        files = self.killed_copy()
        self.done(store.close())
        self.restore(files)
        self.done(self.opened().close())
        self.assertEqual(len(self.snapshot.messages[ORDERS.identifier]), 30)
        del files["msmq.sqlite-wal"]
        self.restore(files)
        said = self.refusal()
        self.assertIn("an older copy, or incomplete: it ends with generation 3, but had 4; restore", said)
        self.assertIn(f"{self.path}-wal, or start with --accept-loss", said)
        store = self.make_store(accepts_loss=True)
        self.done(store.open())
        [event] = [stored.event for stored in self.done(store.read_events(0, 10))]
        self.assertEqual(event.event, "loss_accepted")
        self.assertIn("it ends with generation 3, but had 4", event.reason)
        self.done(store.close())
        self.opened()

    def test_log_that_was_deleted_after_a_checkpoint(self) -> None:
        """The first transaction after a checkpoint is confirmed only when the mark knows of it."""
        database = FileDatabase(self.path, policy_of(self.path))
        self.addCleanup(database.close)
        database.write([[PutQueue(ORDERS)]])
        database.write([[put(number, bytes(100_000)) for number in range(50)]])
        database.checkpoint()
        database.write([[put(77, b"after")]])
        files = {name: (self.path.parent / name).read_bytes() for name in ("msmq.sqlite", "msmq.sqlite-mark")}
        database.close()
        self.restore(files)
        self.assertIn("but had", self.refusal())

    def test_older_copy(self) -> None:
        """A copy from before the last stop is refused."""
        self.filled(PutQueue(ORDERS), put(1, b"one"))
        older = self.path.read_bytes()
        self.filled(put(2, b"two"))
        self.path.write_bytes(older)
        self.assertIn("an older copy", self.refusal())

    def test_emptied(self) -> None:
        """Neither a missing file nor an empty one is taken for a new store."""
        self.filled(PutQueue(ORDERS))
        for suffix in ("", "-wal", "-shm"):
            self.path.with_name(f"msmq.sqlite{suffix}").unlink(missing_ok=True)
        said = self.refusal()
        self.assertEqual(
            said,
            f"{self.path}: the store that was used last is missing or empty; restore it, or start with"
            " --accept-loss to begin with an empty one",
        )
        self.path.touch()
        self.assertEqual(self.refusal(), said)

    def test_other_store(self) -> None:
        """The store of another queue manager is refused."""
        self.filled(PutQueue(ORDERS))
        other = self.path.with_name("other")
        shutil.move(self.path, other)
        self.path.with_name("msmq.sqlite-mark").unlink()
        self.filled(PutQueue(BILLS))
        shutil.move(other, self.path)
        self.assertIn("not the store that was used last", self.refusal())

    def test_damage_in_the_middle_of_the_log(self) -> None:
        """A changed bit in the log before confirmed transactions is not taken for its end."""
        store = self.opened(PutQueue(ORDERS))
        for number in range(5):
            self.done(store.commit([put(number, b"%d" % number * 1000)]))
        files = self.killed_copy()
        self.done(store.close())
        sound = files["msmq.sqlite-wal"]
        frames = (len(sound) - 32) // (4096 + 24)
        for frame in range(frames):
            for offset in (2, 6, 9, 18, 1000):
                position = 32 + frame * (4096 + 24) + offset
                rotten = bytearray(sound)
                rotten[position] ^= 16
                self.restore({**files, "msmq.sqlite-wal": bytes(rotten)})
                store = self.make_store()
                outcome = self.reactor.outcome(store.open())
                self.reactor.outcome(store.close())
                if isinstance(outcome, Failure):
                    self.assertIn("restore", outcome.getErrorMessage())
                    continue
                kept = [entry[0] for entry in outcome.messages.get(ORDERS.identifier, ())]
                # Damage of the last transaction alone looks like a power cut in the middle of it.
                self.assertIn(kept, ([0, 1, 2, 3], [0, 1, 2, 3, 4]), (frame, offset))
