"""Files of a record log: reused segments, checkpoints, compaction, torn writes."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import attrs
from twisted.trial.unittest import SkipTest

from msmq.persistence.changes import (
    AppendEvent,
    AppendLog,
    PutQueue,
    PutState,
    RemoveMessages,
    RemoveQueue,
    TrimEvents,
    TrimLog,
)
from msmq.storage.log import LogMessageStore
from msmq.storage.log.compaction import Live, live_packets
from msmq.storage.log.core.format import BLOCK, GROUP_MAGIC
from msmq.storage.log.files import (
    DSYNC,
    begin_segment,
    find_segments,
    make_segment,
    slot_number,
    write_synced,
)
from msmq.testing.contracts.store_contract import BILLS, ORDERS, put, remove
from tests import disk
from tests.storage.crash_model import STEP, Model, batch
from tests.storage.log.support import SEGMENT, LogTestCase, is_checkpointing, running_log


class ManySegmentsTests(LogTestCase):
    """A log that goes through many segments holds what a model holds, whenever it is opened again."""

    def test_long_history(self) -> None:
        """Segments are emptied and used again, checkpoints written, and nothing is lost or comes back."""
        model = Model()
        store = self.opened()
        copied = 0
        for step in range(1, 401):
            self.commit(store, *batch(step, takes_runs=True))
            model.perform(batch(step, takes_runs=True))
            if step % 50 == 0:
                # First what a kill would leave, then what a stop does.
                self.assert_copy_holds(store, model)
                counters = store.counters
                copied += counters.copied
                self.assertGreater(counters.checkpoints, 0)
                self.assertGreater(counters.reclaimed, 0)
                self.done(store.close())
                store = self.make_store()
                self.assert_holds(store, self.done(store.open()), model)
        self.done(store.close())
        self.assertGreater(copied, 0)
        # Three hundred messages of 8 KiB and ten logs of 100 KB are live, and hundreds of segments went by.
        self.assertLess(len(list((self.home / "log").glob("segment-*"))), 400)

    def assert_copy_holds(self, store: LogMessageStore, model: Model) -> None:
        copy = self.copied(store)
        store = self.make_store(copy)
        snapshot = self.done(store.open())
        self.assertEqual(snapshot.state[STEP], model.state[STEP])
        self.assert_holds(store, snapshot, model)
        self.done(store.close())


class ReuseTests(LogTestCase):
    """A log through which messages pass, and in which none stays."""

    def test_no_new_files(self) -> None:
        """Once it has as many files as it needs it makes none, so that each byte is written once."""
        store = self.opened(PutQueue(ORDERS))
        numbers: list[int] = []
        for number in range(60):
            self.commit(store, put(number, bytes(SEGMENT // 2)))
            self.commit(store, remove(number))
            # Checkpoints and files are made by a thread, which has the time that it needs.
            self.settle(store)
            while self.reactor.has_calls:
                self.reactor.turn()
            numbers.append(max(slot_number(one.path) for one in find_segments(self.home / "log")))
        self.assertGreater(store.counters.segments, 50)
        self.assertGreater(store.counters.checkpoints, 10)
        self.assertEqual(numbers[-1], numbers[19])
        self.done(store.close())

    def test_only_what_has_changed(self) -> None:
        """The system writes little more to the disk than the log writes to a new segment."""
        counters = Path("/proc/self/io")
        if not counters.exists():
            raise SkipTest("this system does not count what a process writes")

        def written() -> int:
            lines = counters.read_text(encoding="ascii").splitlines()
            return int(next(line for line in lines if line.startswith("write_bytes")).split()[1])

        size, groups = 129 * BLOCK, 60
        path = make_segment(disk.directory(self), 1, 5 * 1024 * 1024)
        descriptor = os.open(path, os.O_RDWR)
        self.addCleanup(os.close, descriptor)
        before = written()
        for number in range(groups):
            write_synced(descriptor, [bytes(size)], 4096 + number * size)
        if written() == before:
            raise SkipTest("the files of the checkout are in memory")
        self.assertLess(written() - before, 1.1 * size * groups)


class TornTests(LogTestCase):
    """The last write, cut off at any byte, over what the segment held before.

    @ivar kept: the messages that were there before it.
    @ivar last: what a value held before it, which each last batch sets.
    @ivar number: of the message of the last batch.
    """

    kept: set[int]
    last: bytes | None = None
    number = 1_000_000

    def contents(self, directory: Path) -> dict[str, bytes]:
        """Every file of a log that is complete, by its name."""
        found = {}
        for path in sorted((directory / "log").iterdir()):
            # Others are being made, and get their name, or are removed, meanwhile.
            if "." not in path.name:
                with contextlib.suppress(FileNotFoundError):
                    found[path.name] = path.read_bytes()
        return found

    def last_write(self, store: LogMessageStore) -> tuple[Path, str, int, bytes, bytes]:
        """Commit one more batch, behind which the log has written nothing of its own yet.

        @return: a copy of the log, the segment, the position of the group in it, and both contents there.
        """
        while True:
            before = self.contents(self.home)
            self.number += 1
            text = b"%d" % self.number
            self.commit(store, put(self.number, b"last of all " * 20), PutState("last", text))
            after = self.contents(self.home)
            copy = self.copied(store)
            changed = [name for name in before if after.get(name) != before[name]]
            if self.contents(copy) == after and after.keys() == before.keys() and len(changed) == 1:
                break
            # The log copied messages, or wrote a checkpoint, meanwhile: another batch is the last one then.
            shutil.rmtree(copy)
            self.kept.add(self.number)
            self.last = text
        [name] = changed
        old, new = before[name], after[name]
        first = next(at for at in range(len(new)) if new[at] != old[at]) // BLOCK * BLOCK
        last = next(at for at in reversed(range(len(new))) if new[at] != old[at])
        end = -(-(last + 1) // BLOCK) * BLOCK
        return copy, name, first, old[first:end], new[first:end]

    def assert_torn(self, copy: Path, name: str, start: int, content: bytes, is_whole: bool) -> None:
        """A start over this content finds all of the last batch or nothing of it, and everything before."""
        with (copy / "log" / name).open("r+b") as file:
            file.seek(start)
            file.write(content)
        store = self.make_store(copy)
        snapshot = self.done(store.open())
        kept = {entry[0] for entry in snapshot.messages[ORDERS.identifier]}
        self.assertEqual(snapshot.state.get("last"), b"%d" % self.number if is_whole else self.last)
        self.assertEqual(kept, self.kept | {self.number} if is_whole else self.kept)
        self.done(store.close())

    def parts(self, old: bytes, new: bytes) -> Iterator[bytes]:
        """Every prefix of the write, then every choice of its blocks."""
        for length in range(0, len(new)):
            yield new[:length] + old[length:]
        count = len(new) // BLOCK
        for chosen in range(1 << count):
            yield b"".join(
                (new if chosen >> block & 1 else old)[block * BLOCK : (block + 1) * BLOCK]
                for block in range(count)
            )

    def try_all(self, store: LogMessageStore, stride: int) -> None:
        whole, name, start, old, new = self.last_write(store)
        parts = list(self.parts(old, new))
        for part in [*parts[::stride], *parts[-4:]]:
            # A start may write a group of its own, which the next one must not find.
            copy = whole.with_name("torn")
            shutil.copytree(whole, copy)
            # Padding is not verified, and need not be.
            is_whole = part.rstrip(b"\0") == new.rstrip(b"\0")
            is_whole = is_whole or part[: len(new.rstrip(b"\0"))] == new.rstrip(b"\0")
            self.assert_torn(copy, name, start, part, is_whole)
            shutil.rmtree(copy)
        self.done(store.close())

    def test_new_segment(self) -> None:
        """Cut off in a new segment."""
        self.kept = {1, 2}
        self.try_all(self.opened(PutQueue(ORDERS), put(1, b"one"), put(2, b"two")), stride=23)

    def test_recycled_segment(self) -> None:
        """The same in a segment with groups of an earlier use, none of which is found."""
        store = self.opened(PutQueue(ORDERS))
        number = 0
        while True:
            number += 1
            self.commit(store, put(number, bytes([number % 256]) * 200))
            if number > 10:
                self.commit(store, remove(number - 10))
            if store.counters.reclaimed and self.is_in_recycled(store):
                # A checkpoint that is under way would have the last batch, too.
                if not is_checkpointing(store):
                    break
        self.kept = set(range(max(1, number - 9), number + 1))
        self.try_all(store, stride=31)

    def is_in_recycled(self, store: LogMessageStore) -> bool:
        """Whether old groups are behind the position that is written to."""
        running = running_log(store)
        engine = running.engine
        content = engine.active.path.read_bytes()
        offset = engine.position.offset
        return offset > 8 * BLOCK and content.count(GROUP_MAGIC, offset) > 10


class SpaceTests(LogTestCase):
    """One old message does not keep its segment, and what is gone gives its space back."""

    seconds = 0.0

    def clock(self) -> float:
        """The disk is slow: each group is the worker's, and compaction has the time that it takes."""
        self.seconds += 1.0
        return self.seconds

    def files(self) -> int:
        """Bytes of the segments."""
        return sum(path.stat().st_size for path in (self.home / "log").glob("segment-*"))

    def test_old_messages(self) -> None:
        """One old message in each of a hundred segments: they are copied, and the segments used again."""
        store = self.opened(PutQueue(ORDERS))
        old: list[int] = []
        for number in range(0, 1000, 10):
            batch = [put(number + more, bytes(6000)) for more in range(10)]
            self.commit(store, *batch)
            self.commit(store, remove(*range(number + 1, number + 10)))
            old.append(number)
        for number in range(2000):
            self.commit(store, PutState("turn", b"%d" % number))
        live = len(old) * 6000
        self.assertLess(self.files(), 3 * live + 16 * SEGMENT)
        counters = store.counters
        self.assertGreater(counters.copied, 50)
        # A segment is copied when a quarter of it or less is live; how often a message is depends on threads.
        self.assertLess(4 * counters.copied_bytes, (counters.reclaimed + 1) * SEGMENT)
        self.assertEqual(self.packets(store, ORDERS.identifier, old), [bytes(6000)] * len(old))
        self.done(store.close())
        again = self.make_store()
        snapshot = self.done(again.open())
        self.assertEqual([entry[0] for entry in snapshot.messages[ORDERS.identifier]], old)
        self.assertEqual(self.packets(again, ORDERS.identifier, old), [bytes(6000)] * len(old))
        self.done(again.close())

    def test_nothing_else_is_written(self) -> None:
        """The copies go on while nothing else is written, until the log has the size that it may have."""
        store = self.opened(PutQueue(ORDERS))
        old = range(0, 1500, 10)
        for number in old:
            self.commit(store, *(put(number + more, bytes(6000)) for more in range(10)))
        self.commit(store, remove(*(number for number in range(1500) if number % 10)))
        before = -1
        while store.counters.copied + store.counters.reclaimed > before:
            before = store.counters.copied + store.counters.reclaimed
            for _ in range(3):
                self.settle_all(store)
        self.assertLessEqual(self.files(), 2 * len(old) * 6000 + 16 * SEGMENT)
        self.assertEqual(self.packets(store, ORDERS.identifier, old), [bytes(6000)] * len(old))
        self.done(store.close())

    def test_everything_that_can_be_removed(self) -> None:
        """Messages, a queue with its log, entries, events, and express messages give their space back."""
        store = self.opened(PutQueue(ORDERS), PutQueue(BILLS))
        for number in range(60):
            self.commit(
                store,
                put(number, bytes(5000)),
                put(number, bytes(5000), queue=BILLS),
                put(number + 100, bytes(5000), is_express=True),
                AppendLog(ORDERS.identifier, number, bytes([number]) * 5000, 1.0),
                AppendLog(BILLS.identifier, number, bytes([number]) * 5000, 1.0),
                AppendEvent(1.0, b"", "x" * 1000),
            )
        self.assertGreater(self.files(), 1_200_000)
        self.commit(
            store,
            RemoveMessages(ORDERS.identifier, tuple(range(60))),
            RemoveMessages(ORDERS.identifier, tuple(range(100, 160)), is_express=True),
            TrimLog(ORDERS.identifier, keep_bytes=5000),
            RemoveQueue(BILLS.identifier),
            TrimEvents(2),
        )
        for number in range(2000):
            self.commit(store, PutState("turn", b"%d" % number))
        self.assertLess(self.files(), 14 * SEGMENT)
        [entry] = self.done(store.read_log(ORDERS.identifier, 0, 10))
        self.assertEqual(entry.packet, bytes([59]) * 5000)
        self.assertEqual(len(self.done(store.read_events(0, 10))), 2)
        self.done(store.close())

    def test_start_reads_what_came_after_the_checkpoint(self) -> None:
        """The replay of a start is bounded, for a log of any length."""
        store = self.opened(PutQueue(ORDERS))
        for number in range(3000):
            self.commit(store, put(number % 7, bytes(500)))
        running = running_log(store)
        end = running.engine.position
        self.done(store.close())
        store = self.opened()
        last = running_log(store)._checkpointing._last
        self.assertLessEqual(end.generation - last.position.generation, 4)
        self.assertGreater(end.generation, 20)
        self.done(store.close())


class ChangeOfSegmentTests(LogTestCase):
    """A kill between the beginning of a segment and its first use."""

    def test_segment_that_was_begun(self) -> None:
        """The segment is left unused, and no other one gets its generation."""
        store = self.opened(PutQueue(ORDERS), put(1, b"one"))
        self.done(store.close())
        for _ in range(3):
            found = find_segments(self.home / "log")
            [used] = [one.header for one in found if one.header is not None and one.header.generation == 1]
            unused = next(one for one in found if one.header is None)
            last = max(one.header.generation for one in found if one.header is not None)
            begin_segment(unused.path, attrs.evolve(used, generation=last + 1, nonce=bytes(16)), DSYNC)
            store = self.opened(*(put(number, bytes(3000)) for number in range(2, 40)))
            self.done(store.close())
        store = self.make_store()
        snapshot = self.done(store.open())
        self.assertEqual([entry[0] for entry in snapshot.messages[ORDERS.identifier]], list(range(1, 40)))
        self.done(store.close())


class ClockTests(LogTestCase):
    """A machine whose clock is set back."""

    def test_clock_that_is_set_back(self) -> None:
        """The log is not ordered by time: entries and events stay in the order of their batches."""
        store = self.opened(PutQueue(ORDERS))
        for number, now in enumerate((3e9, 2e9, 1e9, 2e9)):
            self.commit(
                store,
                put(number, b"%d" % number),
                AppendLog(ORDERS.identifier, number, b"%d" % number, now),
                AppendEvent(now, b"", "expired"),
            )
        for again in range(2):
            if again:
                self.done(store.close())
                store = self.opened()
            entries = self.done(store.read_log(ORDERS.identifier, 0, 10))
            self.assertEqual([entry.arrived for entry in entries], [3e9, 2e9, 1e9, 2e9])
            events = self.done(store.read_events(0, 10))
            self.assertEqual([stored.event.time for stored in events], [3e9, 2e9, 1e9, 2e9])
        # The oldest entry by position is not old by its time, so nothing before it goes.
        self.commit(store, TrimLog(ORDERS.identifier, 2.5e9))
        self.assertEqual(len(self.done(store.read_log(ORDERS.identifier, 0, 10))), 4)
        self.done(store.close())


class CompactionTests(LogTestCase):
    """Queues that are removed while a pass over the index goes on."""

    def test_queue_that_is_removed_meanwhile(self) -> None:
        """None of its packets is read any more: their segments may be used again before the pass ends."""
        store = self.opened(PutQueue(ORDERS), *(put(number, bytes(100)) for number in range(3)))
        self.commit(store, AppendLog(ORDERS.identifier, 1, b"logged", 1.0))
        running = running_log(store)
        rows = live_packets(running.engine.state, None)
        self.assertIsInstance(next(rows), Live)
        self.commit(store, RemoveQueue(ORDERS.identifier))
        self.assertEqual(list(rows), [])
        self.done(store.close())
