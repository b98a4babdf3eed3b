"""How much one call synchronises in new segments and checkpoints: groups written then wait for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from twisted.trial.unittest import SynchronousTestCase

from msmq.storage.log.checkpoint_files import CheckpointWriter, find_checkpoints
from msmq.storage.log.core import records
from msmq.storage.log.core.checkpoint import CheckpointHeader, tables
from msmq.storage.log.core.format import FIRST
from msmq.storage.log.core.scan import Position
from msmq.storage.log.core.state import State
from msmq.storage.log.files import SYNCED, make_segment
from msmq.storage.log.system import LocalSystem
from tests import disk

MIB = 1 << 20


class ObservedSystem(LocalSystem):
    """The system, with the most bytes that one call had to bring to the disk.

    @ivar most: in bytes.
    @ivar written: bytes altogether.
    """

    def __init__(self) -> None:
        self.most = self.written = 0
        self._pending: Counter[int] = Counter()

    def write(self, descriptor: int, buffers: Sequence[bytes], offset: int, flags: int = 0) -> int:
        """A synchronous write brings what is pending to the disk too."""
        done = super().write(descriptor, buffers, offset, flags)
        self.written += done
        self._pending[descriptor] += done
        if flags:
            self._synced(descriptor)
        return done

    def sync_content(self, descriptor: int) -> None:
        """All that is pending."""
        super().sync_content(descriptor)
        self._synced(descriptor)

    def sync_file(self, descriptor: int) -> None:
        """All that is pending."""
        super().sync_file(descriptor)
        self._synced(descriptor)

    def close(self, descriptor: int) -> None:
        """Its number may be another file's."""
        super().close(descriptor)
        assert not self._pending.pop(descriptor, 0)

    def _synced(self, descriptor: int) -> None:
        self.most = max(self.most, self._pending.pop(descriptor, 0))


class SyncedPiecesTests(SynchronousTestCase):
    """A disk that takes 500 MB/s needs 30 ms for a segment of 16 MiB; a group of one message then needed as
    long instead of a fraction of a millisecond.
    """

    def setUp(self) -> None:
        """A directory and a system."""
        self.home = disk.directory(self)
        self.system = ObservedSystem()

    def test_new_segment(self) -> None:
        """It is filled with zeros in pieces of 256 KiB, each of which is synchronised."""
        path = make_segment(self.home, 1, 5 * MIB + 4096, self.system)
        self.assertEqual(path.read_bytes(), bytes(5 * MIB + 4096))
        self.assertEqual(self.system.written, 5 * MIB + 4096)
        self.assertLessEqual(self.system.most, SYNCED)

    def test_checkpoint(self) -> None:
        """So is the body of a checkpoint, however many tables are appended at once."""
        state = State(next_queue=1, last_entry=0, last_event=0)
        state.values.update({f"{number}": bytes(60_000) for number in range(80)})
        writer = CheckpointWriter(self.home / "checkpoint-a", 0, self.system)
        writer.begin()
        writer.append(list(tables(state)))
        writer.append([records.state_record("last", b"")])
        writer.finish(CheckpointHeader(bytes(16), 1, Position(1, FIRST, 0, 0), 1, 0, 0, 0, 0))
        writer.close()
        self.assertGreater(self.system.written, 4 * MIB)
        self.assertLess(self.system.most, 2 * SYNCED)
        [found] = find_checkpoints(self.home, system=self.system)
        assert found.state is not None
        self.assertEqual(found.state.values, {**state.values, "last": b""})
