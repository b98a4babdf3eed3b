"""The scrubber of a record log, and random damage to live and closed logs."""

from __future__ import annotations

import errno
import os
import random
import shutil
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

import attrs
from twisted.python.failure import Failure

from msmq.interfaces.storage import MessageNotStored, StorageError
from msmq.persistence.changes import AppendEvent, AppendLog, PutQueue, PutState
from msmq.persistence.snapshot import Snapshot
from msmq.storage.checking.log_repair import rebuild_log
from msmq.storage.log import LogMessageStore
from msmq.storage.log.checkpoint_files import find_checkpoints
from msmq.storage.log.core.checkpoint import BODY
from msmq.storage.log.core.format import GROUP_HEADER, GROUP_MAGIC
from msmq.storage.log.system import LocalSystem
from msmq.storage.scrub_policy import SCRUBBING, ScrubPolicy
from msmq.testing.contracts.store_contract import BILLS, ORDERS, put, remove
from tests.faults import IS_THOROUGH, tell
from tests.storage.log.running.held_workers import UPKEEP, HoldingSystem
from tests.storage.log.support import SEGMENT, LogTestCase, is_checkpointing, running_log
from tests.storage.policies import NOW

FLIPS = 10_000 if IS_THOROUGH else 30
SEED = 20261122


def flip(path: Path, offset: int, bit: int = 0) -> None:
    """Change one bit of a file."""
    with path.open("r+b") as file:
        file.seek(offset)
        [byte] = file.read(1)
        file.seek(offset)
        file.write(bytes([byte ^ 1 << bit]))


class NoCheckpoints(LocalSystem):
    """A disk that takes nothing of a checkpoint but its header while C{is_failing}."""

    is_failing = False

    def write(self, descriptor: int, buffers: Sequence[bytes], offset: int, flags: int = 0) -> int:
        """See L{LogSystem.write}."""
        if (
            self.is_failing
            and offset >= BODY
            and "/checkpoint-" in os.readlink(f"/proc/self/fd/{descriptor}")
        ):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return super().write(descriptor, buffers, offset, flags)


class ScrubberTests(LogTestCase):
    """Damage is found and mended before anything needs what is damaged."""

    def place(self, content: bytes) -> tuple[Path, int]:
        for path in sorted((self.home / "log").glob("segment-*")):
            if (offset := path.read_bytes().find(content)) >= 0:
                return path, offset
        self.fail("there is no such content")

    def damaged(self, store: LogMessageStore) -> list[AppendEvent]:
        self.settle_all(store)
        return [one.event for one in self.done(store.read_events(0, 100)) if one.event.event == "damaged"]

    def test_packets(self) -> None:
        """A damaged message is quarantined though nothing reads it; a pass verifies each packet once."""
        store = self.opened(
            PutQueue(ORDERS),
            put(1, b"rotten" * 50),
            put(2, b"sound"),
            AppendLog(ORDERS.identifier, 3, b"logged", 1.0),
            AppendEvent(1.0, b"", "expired"),
        )
        path, offset = self.place(b"rotten" * 50)
        flip(path, offset + 7)
        self.scrub(store)
        [event] = self.damaged(store)
        self.assertIn(f"lookup id 0x0000000000000001; {path}, offset {offset}: 300 bytes", event.reason)
        self.assertEqual(event.queue, ORDERS.path)
        self.refused(store.read(ORDERS.identifier, [1]), MessageNotStored)
        self.assertEqual(self.packets(store, ORDERS.identifier, [2]), [b"sound"])
        self.assertEqual((store.counters.damaged, store.counters.scrubbed), (1, 4))
        self.scrub(store)
        self.assertEqual((store.counters.damaged, store.counters.scrubbed), (1, 8))
        self.done(store.close())
        self.assertEqual(self.reactor.getDelayedCalls(), [])

    def test_what_a_start_needs(self) -> None:
        """A damaged group, header of a segment or checkpoint of an open log does not stop the next start."""
        for name, place, offset in (
            ("group", GROUP_MAGIC, GROUP_HEADER + 30),
            ("header", b"MSMQLOG\n", 20),
            ("checkpoint", None, 4096 + 9),
        ):
            shutil.rmtree(self.home)
            self.home.mkdir()
            store = self.opened(PutQueue(ORDERS), put(1, b"one"), put(2, b"two"))
            if place is None:
                path = self.home / "log" / "checkpoint-a"
            else:
                path, start = self.place(place)
                offset += start
            flip(path, offset)
            self.scrub(store)
            [event] = self.damaged(store)
            self.assertTrue(event.reason.startswith(f"{path}, offset "), event.reason)
            self.assertIn(name, event.reason)
            # Two checkpoints are written while the log goes on.
            for number in range(3, 20):
                self.commit(store, put(number, b"more"))
                self.settle(store)
            self.done(store.close())
            store = self.make_store()
            snapshot = self.done(store.open())
            found = [entry[0] for entry in snapshot.messages[ORDERS.identifier]]
            self.assertEqual(found, list(range(1, 20)))
            self.scrub(store)
            self.assertEqual(store.counters.damaged, 0)
            self.done(store.close())

    def test_damage_after_the_beginning_of_a_checkpoint(self) -> None:
        """A checkpoint that began before a group does not replace it, also if the log is closed then."""
        system = HoldingSystem()
        store = self.make_store(system=system)
        self.done(store.open())
        self.commit(store, *(PutQueue(attrs.evolve(ORDERS, identifier=UUID(int=n))) for n in range(40)))
        # Nearly as much as a checkpoint is due for; then the thread for it is held.
        while store.counters.bytes < 2 * SEGMENT - 8192:
            self.commit(store, PutState("value", bytes(4096)))
        self.settle_all(store)
        upkeep, running = system.workers[UPKEEP], running_log(store)
        upkeep.hold()
        while not is_checkpointing(store):
            self.commit(store, PutState("value", b""))
        position = running.engine.position
        for number in range(3):
            self.commit(store, PutState("later", b"%d" % number))
        flip(running.engine.active.path, position.offset + GROUP_HEADER + 3)
        self.reactor.advance(SCRUBBING.delay)
        self.assertTrue(is_checkpointing(store))
        upkeep.release()
        self.done(store.close())
        store = self.make_store()
        self.assertEqual(self.done(store.open()).state["later"], b"2")
        self.done(store.close())

    def test_kill_after_damage_of_a_checkpoint(self) -> None:
        """Until there is another one, a start has the older checkpoint: the damaged one is overwritten."""
        system = NoCheckpoints()
        store = self.make_store(system=system)
        self.done(store.open())
        self.commit(store, PutQueue(ORDERS), put(1, b"one"))
        flip(self.home / "log" / "checkpoint-a", 4096 + 9)
        system.is_failing = True
        for number in (2, 3):
            self.scrub(store)
            self.commit(store, put(number, b"more"))
            self.settle_all(store)
        self.assertEqual((store.counters.checkpoints, len(self.damaged(store))), (0, 1))
        killed = self.make_store(self.copied(store))
        snapshot = self.done(killed.open())
        self.assertEqual([entry[0] for entry in snapshot.messages[ORDERS.identifier]], [1, 2, 3])
        self.done(killed.close())
        system.is_failing = False
        while store.counters.checkpoints < 2:
            self.commit(store, PutState("value", b""))
            self.settle_all(store)
        self.assertEqual([one.problem for one in find_checkpoints(self.home / "log")], [None, None])
        self.done(store.close())

    def test_kill_after_damage_of_the_only_checkpoint(self) -> None:
        """Without another one, as after a repair, the damaged one stays, so that its rows can be used."""
        self.done(self.opened(PutQueue(ORDERS), put(1, b"one")).close())
        (self.home / "log" / "checkpoint-b").unlink()
        system = NoCheckpoints()
        store = self.make_store(system=system)
        self.done(store.open())
        self.settle_all(store)
        flip(self.home / "log" / "checkpoint-a", 4096 + 9)
        system.is_failing = True
        self.scrub(store)
        self.commit(store, put(2, b"more"))
        self.settle_all(store)
        home = self.copied(store)
        self.done(store.close())
        said = rebuild_log(home / "log", home / "mark", lambda: NOW)
        self.assertEqual([line for line in said if "no checkpoint can be read" in line], [])

    def test_rate(self) -> None:
        """A step reads what is allowed for its time, or one larger packet, after which it waits longer."""
        policy = ScrubPolicy(1000, interval=0.5, delay=1.0, pause=10.0)
        self.assertEqual(policy.step_bytes, 500)
        self.assertEqual((policy.wait(100), policy.wait(4000)), (0.5, 4.0))


class FlippedTests(LogTestCase):
    """Any bit of any file changes: every message is intact, or quarantined, or the log is refused."""

    def setUp(self) -> None:
        super().setUp()
        self.chance = random.Random(SEED)
        self.packets_of = {
            (queue, number): self.chance.randbytes(self.chance.choice((0, 10, 300, 3000)))
            for queue in (ORDERS, BILLS)
            for number in range(1, 25)
        }
        store = self.opened(PutQueue(ORDERS), PutQueue(BILLS))
        for number in range(60):
            self.commit(store, put(1000, bytes(6000)), PutState("turn", b"%d" % number))
            self.commit(store, remove(1000))
        for (queue, number), packet in self.packets_of.items():
            self.commit(
                store,
                put(number, packet, queue=queue),
                AppendLog(queue.identifier, number, packet, 1.0),
                PutState("last", b"%d" % number),
            )
        self.assertGreater(store.counters.checkpoints, 1)
        self.done(store.close())

    def flip_any(self, home: Path) -> str:
        """Change a bit of a file; gives where."""
        files = [path for path in sorted((home / "log").iterdir()) if path.is_file() and path.stat().st_size]
        path = self.chance.choice(files)
        content = path.read_bytes().rstrip(b"\0")
        offset = self.chance.randrange(max(1, len(content)))
        flip(path, offset, self.chance.randrange(8))
        return f"{path.name}, offset {offset}"

    def check(self, store: LogMessageStore, where: str) -> int:
        """Every message is as it was put, or is not delivered; gives how many are not."""
        gone = 0
        for (queue, number), packet in self.packets_of.items():
            found = self.reactor.outcome(store.read(queue.identifier, [number]))
            if isinstance(found, Failure):
                self.assertIsInstance(found.value, MessageNotStored, where)
                gone += 1
            else:
                self.assertEqual(list(found), [packet], where)
        for queue in (ORDERS, BILLS):
            for entry in self.done(store.read_log(queue.identifier, 0, 1000)):
                self.assertEqual(entry.packet, self.packets_of[queue, entry.lookup_id], where)
        return gone

    def check_goes_on(self, store: LogMessageStore, where: str) -> None:
        """The queues take, deliver and lose messages."""
        for queue in (ORDERS, BILLS):
            self.commit(store, put(2000, b"new", queue=queue))
            self.assertEqual(self.packets(store, queue.identifier, [2000]), [b"new"], where)
            self.commit(store, remove(*range(1, 2001), queue=queue))

    def opened_again(self, home: Path, where: str) -> tuple[LogMessageStore, Snapshot] | None:
        """The log, unless it is refused, in one line."""
        store = self.make_store(home)
        snapshot = self.reactor.outcome(store.open())
        if not isinstance(snapshot, Failure):
            return store, snapshot
        self.assertIsInstance(snapshot.value, StorageError, where)
        self.assertNotIn("\n", str(snapshot.value))
        return None

    def check_repair(self, home: Path, where: str) -> None:
        """A repair leaves a log on which a server starts; what is not there has been reported."""
        said = rebuild_log(home / "log", home / "mark", lambda: NOW)
        self.assertNotEqual(said, [], where)
        again = self.opened_again(home, where)
        assert again is not None, where
        store, _ = again
        lost = self.check(store, where)
        # One bit is in one group, or in the packets of one message and one entry of a log.
        self.assertLessEqual(lost, 1, where)
        events = [one.event.event for one in self.done(store.read_events(0, 1000))]
        self.assertIn("repaired", events, where)
        self.check_goes_on(store, where)
        self.done(store.close())

    def test_flips(self) -> None:
        """While it is open, with and without the scrubber, and while it is closed."""
        outcomes = {"refused": 0, "quarantined": 0, "intact": 0}
        home = self.home.with_name(f"{self.home.name}-flipped")
        for number in range(FLIPS):
            shutil.copytree(self.home, home)
            kind = ("scrubbed", "read", "closed")[number % 3]
            store = self.opened(home=home)
            if kind == "closed":
                self.done(store.close())
            where = f"{number}, {kind}: {self.flip_any(home)}"
            gone = 0
            if kind != "closed":
                if kind == "scrubbed":
                    self.scrub(store)
                gone = self.check(store, where)
                self.commit(store, PutState("on", b""))
                self.assertEqual(gone > 0, self.has_event(store), where)
                self.done(store.close())
            again = self.opened_again(home, where)
            if again is None:
                self.assertNotEqual(kind, "scrubbed", where)
                self.check_repair(home, where)
                outcomes["refused"] += 1
            else:
                store, snapshot = again
                self.assertEqual(snapshot.state["last"], b"24", where)
                gone = max(gone, self.check(store, where))
                self.check_goes_on(store, where)
                self.done(store.close())
                outcomes["quarantined" if gone else "intact"] += 1
            shutil.rmtree(home)
        tell(f"the record log: {FLIPS} flipped bits: {outcomes}")
        self.assertGreater(min(outcomes.values()), 0, outcomes)

    def has_event(self, store: LogMessageStore) -> bool:
        """Whether an event names a message that was quarantined."""
        events = [one.event for one in self.done(store.read_events(0, 1000))]
        return any(one.event == "damaged" and one.reason.startswith("lookup id") for one in events)
