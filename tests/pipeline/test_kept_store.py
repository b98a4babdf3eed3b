"""A stream keeps its reader of a record log from batch to batch, and still notices another store."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from msmq.interfaces.storage import StorageError
from msmq.persistence.changes import PutQueue, PutState, TrimLog
from msmq.pipeline.reading.errors import DataLost, ReadingError
from msmq.pipeline.reading.options import read_options
from msmq.pipeline.reading.progress import LogProgress
from tests.builders import ALPHA, BETA
from tests.pipeline.stores import ARRIVED, ORDERS, log, packet, spoil_log, write_log, write_sqlite

OWNER = PutState("queue_manager", ALPHA.bytes)


def bytes_read() -> int:
    """What this process has read from files so far."""
    [line] = [line for line in Path("/proc/self/io").read_text().splitlines() if line.startswith("rchar:")]
    return int(line.split()[1])


class KeptStoreTests(SynchronousTestCase):
    """Offsets of a stream whose store changes between its batches."""

    def setUp(self) -> None:
        self.data = Path(self.mktemp()).absolute() / "data"
        write_log(self.data, [OWNER, PutQueue(ORDERS), *map(log, range(1, 6))])
        self.progress = self.begin()
        self.offset = self.progress.latest(self.progress.initial(), None)
        self.assertEqual(self.offset["next"], 6)

    def begin(self) -> LogProgress:
        return LogProgress(read_options({"path": str(self.data), "startingOffsets": "earliest"}), "queue")

    def go_on(self, end: int = 11) -> None:
        """Write more messages, and read them."""
        write_log(self.data, list(map(log, range(6, end))))
        self.offset = self.progress.latest(self.offset, None)
        self.assertEqual(self.offset["next"], end)

    def test_index_is_read_once(self) -> None:
        """A batch reads what was written since the one before it, and not the index of the whole log."""
        write_log(self.data, list(map(log, range(6, 20_001))))
        self.progress.close()
        before = bytes_read()
        self.offset = self.progress.latest(self.offset, None)
        whole = bytes_read() - before
        write_log(self.data, [log(20_001)])
        before = bytes_read()
        later = self.progress.latest(self.offset, None)
        [part] = self.progress.slices(self.offset, later)
        self.assertEqual(self.progress.state(later).unread, 0)
        batch = bytes_read() - before
        self.assertEqual([span.begin for span in part.spans], [20_001])
        self.assertLess(batch * 20, whole)

    def test_as_one_that_was_just_opened(self) -> None:
        """Whatever its server writes, trims and reuses, the reader answers as a new one."""
        numbers = iter(range(6, 100_000))
        trim = TrimLog(ORDERS.identifier, keep_bytes=1)
        for count in (1, 0, 3, 9_000, 0, 1, 9_000, 2):
            for changes in ([log(next(numbers)) for _ in range(count)], [trim] if count > 3 else []):
                with self.subTest(count=count, is_trimmed=bool(changes)):
                    write_log(self.data, changes)
                    fresh = self.begin()
                    self.assertEqual(self.progress.state(self.offset), fresh.state(self.offset))
                    self.assertEqual(self.progress.end(), fresh.end())
                    later = self.progress.latest(self.offset, None)
                    self.assertEqual(later, fresh.latest(self.offset, None))
                    fresh.close()
                    self.offset = later

    def test_older_copy(self) -> None:
        """An older copy of the store is noticed at the next batch, in a new directory or in the old files."""
        for restore in (self.replace, self.overwrite, self.overwrite_and_leave):
            # Of 9,000 some are in segments that the copy does not have.
            for end in (11, 9_000):
                with self.subTest(way=restore.__name__, end=end):
                    self.setUp()
                    copy = Path(self.mktemp())
                    shutil.copytree(self.data, copy)
                    self.go_on(end)
                    restore(copy)
                    expected = f"was read up to offset {end}, and now ends before 6"
                    kind: type[Exception] = DataLost
                    if restore == self.overwrite_and_leave and end == 9_000:
                        # No server starts on it, since groups follow that the copy does not lead to.
                        expected, kind = "group 2 is damaged, and group .* store repair", StorageError
                    with self.assertRaisesRegex(kind, expected):
                        self.progress.latest(self.offset, None)

    def test_older_copy_that_has_grown(self) -> None:
        """An older copy is noticed also after its server has used the same numbers again."""
        copy = Path(self.mktemp())
        shutil.copytree(self.data, copy)
        self.go_on()
        self.replace(copy)
        write_log(self.data, [log(number) for number in range(100, 110)])
        expected = (
            "was read up to offset 1[13], and its entry 10 is another one now, or none: it was restored"
        )
        for question in (
            lambda: self.progress.latest(self.offset, 3),
            lambda: self.begin().has_unread(self.offset, 1),
            lambda: self.begin().slices(self.offset, {**self.offset, "next": 13}),
        ):
            with self.assertRaisesRegex(DataLost, expected):
                question()
        options = {"path": str(self.data), "startingOffsets": "earliest", "failOnDataLoss": "false"}
        careless = LogProgress(read_options(options), "queue")
        later = careless.latest(self.offset, None)
        [part] = careless.slices(self.offset, later)
        self.assertEqual([(1, 16)], [(span.begin, span.end) for span in part.spans])
        self.assertEqual(later, careless.latest(later, None))

    def test_marked_entry_that_is_trimmed(self) -> None:
        """It is gone, and not another one; nor does a checkpoint of before need a mark."""
        self.go_on()
        write_log(self.data, [*map(log, range(11, 14)), TrimLog(ORDERS.identifier, ARRIVED + 11.5, None)])
        self.assertEqual(self.progress.latest(self.offset, None)["next"], 14)
        del self.offset["mark"]
        self.assertEqual(self.progress.latest(self.offset, None)["next"], 14)

    def test_damaged_entries(self) -> None:
        """One with a wrong bit does not stop the offsets of a stream, whether it is marked or comes next."""
        self.go_on()
        spoil_log(self.data, packet(10))
        write_log(self.data, [log(11), log(12)])
        self.progress.close()
        before, self.offset = self.offset, self.progress.latest(self.offset, None)
        self.assertEqual(self.offset["next"], 13)
        spoil_log(self.data, packet(11))
        state = self.begin().state(before)
        self.assertEqual((state.unread, state.oldest), (2, ARRIVED + 12))
        [part] = self.begin().slices(before, self.offset)
        self.assertEqual([(11, 13)], [(span.begin, span.end) for span in part.spans])

    def replace(self, copy: Path) -> None:
        shutil.rmtree(self.data)
        shutil.copytree(copy, self.data)

    def overwrite(self, copy: Path) -> None:
        """Copy the files over those that are there, and remove the others."""
        kept = {file.relative_to(copy) for file in copy.rglob("*")}
        self.overwrite_and_leave(copy)
        for file in self.data.rglob("*"):
            if file.relative_to(self.data) not in kept:
                file.unlink()

    def overwrite_and_leave(self, copy: Path) -> None:
        for file in copy.rglob("*"):
            if file.is_file():
                (self.data / file.relative_to(copy)).write_bytes(file.read_bytes())

    def test_other_stores(self) -> None:
        """Another store at the location is read, refused or missed as by a new reader."""
        self.go_on()
        shutil.rmtree(self.data)
        write_log(self.data, [PutState("queue_manager", BETA.bytes), PutQueue(ORDERS), log(1)])
        self.assert_refused(ReadingError, "the checkpoint is of the queue manager")
        shutil.rmtree(self.data)
        self.assert_refused(StorageError, "there is no such store")
        write_sqlite(self.data, [OWNER, PutQueue(ORDERS), *map(log, range(1, 13))])
        self.assertEqual(self.progress.latest(self.offset, None)["next"], 13)
        shutil.rmtree(self.data)
        write_sqlite(self.data, [PutState("queue_manager", BETA.bytes), PutQueue(ORDERS), log(1)])
        self.assert_refused(ReadingError, "the checkpoint is of the queue manager")

    def assert_refused(self, kind: type[Exception], text: str) -> None:
        calls: tuple[Callable[[], Any], ...] = (
            lambda: self.progress.latest(self.offset, None),
            lambda: self.progress.slices(self.offset, {**self.offset, "next": 12}),
        )
        for call in calls:
            with self.assertRaisesRegex(kind, text):
                call()

    def test_pickled(self) -> None:
        """What Spark sends to another process opens a reader of its own there."""
        other = pickle.loads(pickle.dumps(self.progress))
        self.go_on()
        self.assertEqual(other.latest(self.offset, None), self.offset)
