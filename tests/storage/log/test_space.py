"""Files of a log after messages are removed."""

from __future__ import annotations

import os
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from msmq.persistence.changes import PutQueue, TrimLog
from msmq.storage.log.checkpoint_files import CheckpointWriter
from msmq.storage.log.core.checkpoint import CheckpointHeader
from msmq.storage.log.core.format import SegmentHeader
from msmq.storage.log.core.scan import Position
from msmq.storage.log.core.segments import Segment, Segments
from tests.storage.log.support import QUEUE, LogTestCase

SIZE = 65536


class DeletedFilesTests(LogTestCase):
    """Segments whose content is not needed."""

    def test_read_before(self) -> None:
        """A deleted segment releases its space, though it was read before by any thread of the store."""
        store = self.opened(PutQueue(QUEUE))
        for number in range(1, 1000, 10):
            self.append_log(store, number, 10, 4096)
        for after in range(0, 1000, 100):
            self.assertEqual(len(self.done(store.read_log(QUEUE.identifier, after, 100))), 100)
        segments = set(self.home.glob("log/segment-*"))
        self.commit(store, TrimLog(QUEUE.identifier, keep_bytes=0))
        # They are free when a later checkpoint does not need them.
        for number in range(1001, 10_000, 10):
            self.append_log(store, number, 10, 4096)
            self.commit(store, TrimLog(QUEUE.identifier, keep_bytes=0))
            if len(segments - set(self.home.glob("log/segment-*"))) > 20:
                break
        else:
            self.fail("no segments were deleted")
        self.let_be_quiet(store)
        opened = [os.path.realpath(path) for path in Path("/proc/self/fd").iterdir()]
        self.assertEqual([path for path in opened if str(self.home) in path and "(deleted)" in path], [])
        self.done(store.close())


class KeptFilesTests(SynchronousTestCase):
    """Files are kept for what comes next, but not many more than that needs."""

    def test_empty_segments(self) -> None:
        """When half of a hundred segments are empty, an eighth of those in use stays as free files."""
        segments = Segments(SIZE, horizon=1000)
        for generation in range(1, 101):
            header = SegmentHeader(bytes(16), generation, SIZE, bytes(16))
            segments.used[generation] = Segment(Path(f"{generation}"), header, rows=int(generation > 50))
        deleted = segments.reclaim(active=1000)
        self.assertEqual(len(segments.used), 50)
        self.assertEqual(len(segments.free) + len(deleted), 50)
        self.assertLessEqual(len(segments.free), 16)
        self.assertGreaterEqual(len(segments.free), 3)

    def test_smaller_checkpoint(self) -> None:
        """A checkpoint of half the size releases what it reserved before."""
        path = Path(self.mktemp())
        sizes = []
        for size in (400_000, 200_000, 200_000):
            writer = CheckpointWriter(path, SIZE // 2)
            writer.begin()
            writer.append([bytes(size)])
            writer.finish(CheckpointHeader(bytes(16), 1, Position(), 1, 0, 0, 0, 0))
            writer.close()
            sizes.append(path.stat().st_size)
        self.assertLess(sizes[1], 0.6 * sizes[0])
        self.assertEqual(sizes[2], sizes[1])
