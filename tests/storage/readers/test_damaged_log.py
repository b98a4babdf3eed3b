"""A record log that an external reader cannot read whole."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from msmq.interfaces.storage import StorageError
from msmq.persistence.changes import PutQueue, PutState
from msmq.pipeline.reading.kept_store import KeptStore
from msmq.storage.checking.log_check import check_log
from msmq.storage.checking.log_repair import rebuild_log
from msmq.storage.log import LogMessageStore
from msmq.storage.log.follower import SEARCHED
from msmq.storage.readers import StoreReader, open_reader
from msmq.storage.readers.shape import MomentGone
from msmq.testing.contracts.store_contract import ORDERS, put, remove
from tests.storage.log.support import LogTestCase
from tests.storage.readers.reader_contract import ANY, EVERYTHING, spoil_file

DAMAGED = b"a value of the state"


class DamagedLogTests(LogTestCase):
    """What is read of a damaged log is refused, and never taken for the whole log."""

    def reader(self) -> StoreReader:
        reader = open_reader(str(self.home / "log"))
        self.addCleanup(reader.close)
        return reader

    def segment_with(self, content: bytes) -> Path:
        [path] = [one for one in (self.home / "log").glob("segment-*") if content in one.read_bytes()]
        return path

    def spoil(self) -> Path:
        """Damage the group with the state."""
        path = self.segment_with(DAMAGED)
        spoil_file(path, DAMAGED)
        return path

    def damaged(self) -> Path:
        """The segment with a damaged group before that of the only message of a store."""
        writer = self.opened(PutQueue(ORDERS), PutState("name", DAMAGED))
        self.commit(writer, put(1))
        self.done(writer.close())
        return self.spoil()

    def fill(self, *, closes: bool = True) -> LogMessageStore:
        """A log whose first and last messages are in segments before and after a checkpoint."""
        self.home = Path(tempfile.mkdtemp(dir=self.home)).absolute()
        writer = self.opened(PutQueue(ORDERS), put(1, b"first"))
        self.append_to(writer, 2)
        self.assertGreater(writer.counters.checkpoints, 1)
        self.commit(writer, put(100, b"last"))
        self.commit(writer, put(101))
        if closes:
            self.done(writer.close())
        return writer

    def append_to(self, writer: LogMessageStore, first: int) -> None:
        for number in range(first, first + 25):
            self.commit(writer, put(number, bytes(20_000)))
            self.settle_all(writer)

    def ids(self, reader: StoreReader) -> list[int]:
        return [row[0] for row in reader.messages(ORDERS.identifier, *EVERYTHING, **ANY, bodies=True).rows]

    def problem(self, ask: Callable[[], object]) -> str:
        """The error of a read."""
        with self.assertRaises(StorageError) as refused:
            ask()
        return str(refused.exception)

    def test_group_in_the_middle(self) -> None:
        """No question is answered from the groups before a damaged one."""
        path = self.damaged()
        asked: list[Callable[[StoreReader], object]] = [
            lambda store: store.identifier(),
            lambda store: store.queues(),
            lambda store: store.values(),
            lambda store: store.log_end(),
            lambda store: store.event_bounds(),
            self.ids,
        ]
        for ask in asked:
            reader = self.reader()
            line = self.problem(partial(ask, reader))
            self.assertRegex(line, rf"^{path}, offset \d+: group 2 is damaged, and group 3 is behind it in ")
            self.assertIn("; run msmq store repair, or ", line)

    def test_damage_after_a_read(self) -> None:
        """A reader that is kept reports it too, and reads what a repair has left."""
        writer = self.opened(PutQueue(ORDERS))
        self.commit(writer, put(1))
        reader = self.reader()
        self.assertEqual(self.ids(reader), [1])
        self.commit(writer, PutState("name", DAMAGED))
        self.commit(writer, put(2))
        path = self.spoil()
        self.assertIn(f"{path}, offset ", self.problem(partial(self.ids, reader)))
        self.done(writer.close())
        self.assertIn(f"{path}, offset ", self.problem(partial(self.ids, reader)))
        rebuild_log(self.home / "log", self.home / "mark", lambda: 1.0)
        self.assertEqual(self.ids(reader), [1, 2])

    def test_damage_that_was_not_replayed_yet(self) -> None:
        """The groups before it, which are read first, are not taken for the whole log by the next call."""
        writer = self.opened(PutQueue(ORDERS))
        reader = self.reader()
        self.assertEqual(self.ids(reader), [])
        self.commit(writer, put(1))
        self.commit(writer, PutState("name", DAMAGED))
        self.commit(writer, put(2))
        path = self.spoil()
        self.assertEqual(self.ids(reader), [1])
        self.assertIn(f"{path}, offset ", self.problem(partial(self.ids, reader)))
        self.done(writer.close())

    def test_large_damaged_group(self) -> None:
        """A group that is larger than what is searched is noticed before anything else is written."""
        self.segment_bytes = 16 * 1024 * 1024
        writer = self.opened(PutQueue(ORDERS))
        reader = self.reader()
        self.assertEqual(self.ids(reader), [])
        self.commit(writer, put(1))
        self.assertEqual(self.ids(reader), [1])
        self.commit(writer, PutState("name", DAMAGED + bytes(5 * SEARCHED)))
        self.commit(writer, put(2))
        path = self.spoil()
        self.assertIn(f"{path}, offset ", self.problem(partial(self.ids, reader)))
        self.done(writer.close())

    def test_repair_between_two_reads(self) -> None:
        """A reader that is kept while a store is repaired goes on with what is there then."""
        writer = self.opened(PutQueue(ORDERS))
        self.commit(writer, put(1))
        self.commit(writer, put(2))
        kept = KeptStore(str(self.home / "log"))
        self.addCleanup(kept.close)
        with kept.opened() as reader:
            self.assertEqual(self.ids(reader), [1, 2])
        self.done(writer.close())
        rebuild_log(self.home / "log", self.home / "mark", lambda: 1.0)
        with kept.opened() as reader:
            self.assertEqual(self.ids(reader), [1, 2])
        writer = self.opened(put(3), put(4))
        with kept.opened() as reader:
            self.assertEqual(self.ids(reader), [1, 2, 3, 4])
        self.done(writer.close())

    def test_repair_of_a_missing_segment(self) -> None:
        """A segment is not reported as missing whose loss a repair has settled since the last read."""
        self.fill()
        reader = self.reader()
        self.assertEqual(len(reader.queues()), 1)
        self.segment_with(b"first").unlink()
        rebuild_log(self.home / "log", self.home / "mark", lambda: 1.0)
        left = self.ids(reader)
        self.assertNotIn(1, left)
        self.assertEqual(left[-2:], [100, 101])

    def test_held_reader_of_a_damaged_log(self) -> None:
        """A held reader whose segment is missing ends the hold, though the log is damaged after it too."""
        writer = self.fill(closes=False)
        reader = self.reader()
        reader.hold()
        self.commit(writer, PutState("name", DAMAGED))
        self.commit(writer, put(102))
        self.done(writer.close())
        self.spoil()
        self.segment_with(b"first").unlink()
        self.problem(partial(self.ids, reader))
        rebuild_log(self.home / "log", self.home / "mark", lambda: 1.0)
        self.assertEqual(self.ids(reader)[-3:], [100, 101, 102])

    def test_damage_before_the_checkpoint(self) -> None:
        """A damaged group that no start reads any more keeps no reader from the messages."""
        writer = self.opened(PutQueue(ORDERS), PutState("name", DAMAGED))
        self.commit(writer, put(1))
        for number in range(2, 60):
            self.commit(writer, put(number, bytes(5000)), put(number + 1000))
            self.commit(writer, remove(number))
            self.settle_all(writer)
        self.assertGreater(writer.counters.checkpoints, 1)
        self.spoil()
        self.assertEqual(self.ids(self.reader()), [1, *range(1002, 1060)])
        self.done(writer.close())

    def test_checkpoint_after_the_damage(self) -> None:
        """A reader that is kept goes on once a running server no longer needs the damaged group."""
        writer = self.opened(PutQueue(ORDERS))
        self.commit(writer, put(1))
        reader = self.reader()
        self.assertEqual(self.ids(reader), [1])
        self.commit(writer, PutState("name", DAMAGED))
        self.commit(writer, put(2))
        path = self.spoil()
        self.assertIn(f"{path}, offset ", self.problem(partial(self.ids, reader)))
        before = writer.counters.checkpoints
        self.append_to(writer, 3)
        self.assertGreater(writer.counters.checkpoints, before)
        self.assertEqual(self.ids(reader), list(range(1, 28)))
        self.done(writer.close())

    def test_truncated_segment(self) -> None:
        """The groups that are left in a truncated file are not the whole log."""
        writer = self.opened(PutQueue(ORDERS))
        self.commit(writer, put(1))
        self.commit(writer, put(2, b"last"))
        self.done(writer.close())
        path = self.segment_with(b"last")
        data = path.read_bytes()
        size = data.index(b"last") // 512 * 512
        path.write_bytes(data[:size])
        problem = self.problem(partial(self.ids, self.reader()))
        self.assertIn(f"{path}, offset {size}: the file has {size} of {len(data)} bytes; run ", problem)

    def test_header_of_a_segment(self) -> None:
        """A damaged header is named, and not taken for a server that is faster than the reader."""
        for content in (b"first", b"last"):
            with self.subTest(content=content):
                self.fill()
                path = self.segment_with(content)
                spoil_file(path, b"MSMQLOG\n")
                problem = self.problem(partial(self.ids, self.reader()))
                self.assertEqual(
                    problem,
                    f"{path}, offset 0: not a segment of an msmq log; run msmq store repair, or restore the"
                    " store from a backup",
                )

    def test_missing_segment(self) -> None:
        """So is a segment that is missing, for a backup too."""
        for content in (b"first", b"last"):
            with self.subTest(content=content):
                self.fill()
                reader = self.reader()
                self.segment_with(content).unlink()
                self.assertIn("the segment of generation ", self.problem(partial(self.ids, reader)))
                reader = self.reader()
                with self.assertRaises(StorageError) as refused:
                    reader.hold()
                    self.ids(reader)
                self.assertIn("is missing (there are segment-0", str(refused.exception))
                self.assertNotIsInstance(refused.exception, MomentGone)

    def test_older_segments(self) -> None:
        """The checkpoint of one moment with the segments of an earlier one is refused, as a start does."""
        writer = self.fill(closes=False)
        older = self.copied(writer)
        self.append_to(writer, 30)
        self.let_be_quiet(writer)
        self.done(writer.close())
        for path in (older / "log").glob("segment-*"):
            shutil.copy(path, self.home / "log")
        problem = self.problem(partial(self.ids, self.reader()))
        self.assertRegex(problem, "is missing")

    def test_checked_log(self) -> None:
        """A check of a log that is in use finds it, and verifies the messages before it, as one at rest."""
        writer = self.opened(PutQueue(ORDERS))
        self.commit(writer, put(1))
        self.commit(writer, PutState("name", DAMAGED))
        self.commit(writer, put(2))
        path = self.spoil()
        self.check_is_partial(f"{path}, offset ")
        self.done(writer.close())
        self.check_is_partial(f"a server does not start: {path}, offset ")

    def check_is_partial(self, start: str) -> None:
        report = check_log(self.home / "log", self.home / "mark")
        [problem] = report.problems
        self.assertTrue(problem.startswith(start), problem)
        self.assertIn("group 3 is damaged, and group 4 is behind it", problem)
        self.assertEqual(report.rows, 1)

    def test_rest_of_a_segment(self) -> None:
        """A reader that follows a log does not search the rest of its segment at each call."""
        self.segment_bytes = 16 * 1024 * 1024
        writer = self.opened(PutQueue(ORDERS))
        reader = self.reader()
        self.assertEqual(self.ids(reader), [])
        for number in range(1, 5):
            self.commit(writer, put(number))
            self.settle_all(writer)
            before = _bytes_read()
            self.assertEqual(len(self.ids(reader)), number)
            for _ in range(100):
                reader.queues()
            self.assertLess(_bytes_read() - before, 2 * SEARCHED)
        self.done(writer.close())


def _bytes_read() -> int:
    """Bytes that this process has read."""
    return int(Path("/proc/self/io").read_text().split()[1])
