"""Any bit of a SQLite file, or of its log, changes: nothing that is altered is ever delivered."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from msmq.interfaces.storage import MessageNotStored, StorageError
from msmq.persistence.changes import AppendLog, Change, PutQueue, PutState
from msmq.storage.sqlite import SqliteMessageStore
from msmq.testing.contracts.store_contract import BILLS, ORDERS, put, remove
from msmq.testing.contracts.store_history import TurnedReactor
from tests.faults import IS_THOROUGH, tell
from tests.storage.policies import policy_of

FLIPS = 10_000 if IS_THOROUGH else 25
SEED = 20261122


class FlippedFileTests(SynchronousTestCase):
    """Every message is intact, or quarantined, or the store refuses to work on a damaged file."""

    def setUp(self) -> None:
        self.home = Path(self.mktemp()).absolute()
        self.home.mkdir()
        self.reactor = TurnedReactor()
        self.chance = random.Random(SEED)
        self.packets_of = {
            (queue, number): self.chance.randbytes(self.chance.choice((0, 10, 300, 3000, 9000)))
            for queue in (ORDERS, BILLS)
            for number in range(1, 25)
        }
        store = self.made(self.home)
        self.outcome(store.open())
        self.outcome(store.commit([PutQueue(ORDERS), PutQueue(BILLS)]))
        for (queue, number), packet in self.packets_of.items():
            changes: list[Change] = [
                put(number, packet, queue=queue),
                AppendLog(queue.identifier, number, packet, 1.0),
                PutState("last", b"%d" % number),
            ]
            self.outcome(store.commit(changes))
            if number == 12:
                self.outcome(store.close())
                self.outcome(store.open())
        # What a kill leaves at this moment: a part of it is in the log alone.
        self.names = ("msmq.sqlite", "msmq.sqlite-wal", "msmq.sqlite-mark")
        self.killed = {name: (self.home / name).read_bytes() for name in self.names}
        self.outcome(store.close())
        self.closed = {name: (self.home / name).read_bytes() for name in ("msmq.sqlite", "msmq.sqlite-mark")}

    def made(self, home: Path) -> SqliteMessageStore:
        path = home / "msmq.sqlite"
        return SqliteMessageStore(path, policy_of(path), reactor=self.reactor)

    def outcome(self, asked: Deferred[Any]) -> Any:
        return self.reactor.outcome(asked)

    def flip_any(self, home: Path) -> str:
        """Change a bit of the file or of its log; gives where."""
        files = [home / name for name in ("msmq.sqlite", "msmq.sqlite-wal") if (home / name).exists()]
        path = self.chance.choice([file for file in files if file.stat().st_size])
        offset = self.chance.randrange(path.stat().st_size)
        with path.open("r+b") as file:
            file.seek(offset)
            [byte] = file.read(1)
            file.seek(offset)
            file.write(bytes([byte ^ 1 << self.chance.randrange(8)]))
        return f"{path.name}, offset {offset}"

    def check(self, store: SqliteMessageStore, where: str) -> tuple[int, int]:
        """Every packet is as it was put; gives how many are quarantined, and how many cannot be read."""
        gone = refused = 0
        for (queue, number), packet in self.packets_of.items():
            found = self.outcome(store.read(queue.identifier, [number]))
            if not isinstance(found, Failure):
                self.assertEqual(list(found), [packet], where)
            elif isinstance(found.value, MessageNotStored):
                gone += 1
            else:
                self.assertIsInstance(found.value, StorageError, where)
                refused += 1
        for queue in (ORDERS, BILLS):
            entries = self.outcome(store.read_log(queue.identifier, 0, 1000))
            if isinstance(entries, Failure):
                refused += 1
                continue
            for entry in entries:
                self.assertEqual(entry.packet, self.packets_of[queue, entry.lookup_id], where)
        return gone, refused

    def goes_on(self, store: SqliteMessageStore, where: str) -> bool:
        """The queues take, deliver and lose messages; not if the store says that the file is damaged."""
        for queue in (ORDERS, BILLS):
            changes = ([put(2000, b"new", queue=queue)], [remove(*range(1, 2001), queue=queue)])
            for batch in changes:
                done = self.outcome(store.commit(batch))
                if isinstance(done, Failure):
                    self.assertIn("damaged", done.getErrorMessage(), where)
                    return False
        return True

    def test_flips(self) -> None:
        """While it is open, after a kill, and while it is closed."""
        outcomes = {"refused": 0, "quarantined": 0, "intact": 0}
        home = self.home.with_name(f"{self.home.name}-flipped")
        for number in range(FLIPS):
            kind = ("open", "killed", "closed")[number % 3]
            home.mkdir()
            for name, content in (self.closed if kind == "closed" else self.killed).items():
                (home / name).write_bytes(content)
            store = self.made(home)
            gone = refused = 0
            if kind == "open":
                self.assertNotIsInstance(self.outcome(store.open()), Failure)
                self.outcome(store.commit([PutState("turn", b"1")]))
                where = f"{number}, {kind}: {self.flip_any(home)}"
                gone, refused = self.check(store, where)
                self.outcome(store.close())
            else:
                where = f"{number}, {kind}: {self.flip_any(home)}"
            snapshot = self.outcome(store.open())
            if isinstance(snapshot, Failure):
                self.assertIsInstance(snapshot.value, StorageError, where)
                self.assertNotIn("\n", str(snapshot.value))
                refused += 1
            else:
                kept = {
                    queue: {entry[0] for entry in snapshot.messages.get(queue.identifier, ())}
                    for queue in (ORDERS, BILLS)
                }
                lost = sum(place not in kept[queue] for queue, place in self.packets_of)
                found, more = self.check(store, where)
                gone, refused = max(gone, found), refused + more
                events = self.outcome(store.read_events(0, 1000))
                said = [one for one in events if one.event.event == "damaged"]
                # A changed bit in the last transaction before a kill looks like a power cut in it.
                is_last = kind == "killed" and snapshot.state["last"] == b"23"
                if lost and not is_last:
                    self.assertTrue(said, where)
                refused += not self.goes_on(store, where)
            self.outcome(store.close())
            outcomes["refused" if refused else "quarantined" if gone else "intact"] += 1
            shutil.rmtree(home)
        tell(f"a file of SQLite: {FLIPS} flipped bits: {outcomes}")
        self.assertGreater(min(outcomes.values()), 0, outcomes)
