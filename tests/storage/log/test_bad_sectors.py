"""A record log on a disk that cannot read some of its sectors."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path

from msmq.interfaces.storage import MessageNotStored
from msmq.persistence.changes import PutQueue
from msmq.storage.checking.log_check import check_log
from msmq.storage.checking.log_repair import rebuild_log
from msmq.storage.log.checkpoint_files import NAMES
from msmq.storage.log.core.format import FIRST, GROUP_HEADER, GROUP_MAGIC
from msmq.storage.log.core.records import MESSAGE_ROW, OFFSET_MASK
from msmq.storage.log.failures import StoreDamaged
from msmq.storage.readers import open_reader
from msmq.storage.readers.shape import MESSAGE_PLACE, PacketDamage, RowDamaged
from msmq.testing.contracts.store_contract import ORDERS, put
from tests.storage.log.support import LogTestCase, running_log
from tests.storage.policies import NOW

SECTOR = 512
COUNT = 60


def content(number: int) -> bytes:
    """The packet of a message."""
    return b"message %d " % number * 500


class BadSectorTests(LogTestCase):
    """What the disk refuses to read is damaged, and nothing else is."""

    def setUp(self) -> None:
        super().setUp()
        self.log = self.home / "log"
        self.bad: dict[Path, set[int]] = {}
        pread, pwritev = os.pread, os.pwritev

        def sectors(descriptor: int, size: int, offset: int) -> tuple[set[int], set[int]]:
            """The bad sectors of a file, and the sectors of a range of it."""
            path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
            return self.bad.get(path, set()), set(range(offset // SECTOR, -(-(offset + size) // SECTOR)))

        def read(descriptor: int, size: int, offset: int) -> bytes:
            bad, wanted = sectors(descriptor, size, offset)
            if bad & wanted:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return pread(descriptor, size, offset)

        def write(descriptor: int, buffers: Sequence[bytes], offset: int, flags: int = 0) -> int:
            """A disk replaces a sector that is written."""
            bad, written = sectors(descriptor, sum(map(len, buffers)), offset)
            bad -= written
            return pwritev(descriptor, buffers, offset, flags)

        self.patch(os, "pread", read)
        self.patch(os, "pwritev", write)

    def spoil(self, path: Path, offset: int) -> None:
        """Have the disk fail to read the sector at an offset."""
        self.bad.setdefault(path, set()).add(offset // SECTOR)

    def place(self, packet: bytes) -> tuple[Path, int]:
        """The file and the offset of a packet."""
        for path in sorted(self.log.glob("segment-*")):
            if (offset := path.read_bytes().find(packet)) >= 0:
                return path, offset
        self.fail("there is no such packet")

    def filled(self) -> list[Path]:
        """A closed log with both checkpoints, whose segments are in the order of their generations."""
        store = self.opened(PutQueue(ORDERS))
        for _ in range(4):
            for number in range(COUNT):
                self.commit(store, put(number, content(number)))
            self.settle_all(store)
        running = running_log(store)
        used = running.engine.segments.used
        paths = [used[generation].path for generation in sorted(used)]
        self.done(store.close())
        self.assertTrue(all((self.log / name).exists() for name in NAMES))
        return paths

    def assert_found(self, *lost: int) -> None:
        """A start finds all messages but these."""
        store = self.make_store()
        snapshot = self.done(store.open())
        ids = [entry[0] for entry in snapshot.messages[ORDERS.identifier]]
        self.assertEqual(ids, [number for number in range(COUNT) if number not in lost])
        self.assertEqual(self.packets(store, ORDERS.identifier, ids), [content(number) for number in ids])
        self.done(store.close())

    def test_checkpoint(self) -> None:
        """A checkpoint that cannot be read is passed over for the other one; two are refused."""
        self.filled()
        for name in NAMES:
            for offset in (0, FIRST + 2 * SECTOR):
                self.bad = {}
                self.spoil(self.log / name, offset)
                [problem] = check_log(self.log, self.home / "mark").problems
                self.assertIn(f"{self.log / name}, offset 0: the disk cannot read it", problem)
                self.assert_found()
        for name in NAMES:
            self.spoil(self.log / name, FIRST + 2 * SECTOR)
        error = self.refused(self.make_store().open(), StoreDamaged)
        self.assertRegex(str(error), "checkpoint-., offset 0: the disk cannot read it .*msmq store repair")
        rebuild_log(self.log, self.home / "mark", lambda: NOW)
        self.assertEqual(check_log(self.log, self.home / "mark").problems, [])

    def test_header_of_a_segment(self) -> None:
        """One that is needed is refused with the file, and a repair writes it anew."""
        path = self.filled()[0]
        self.spoil(path, 0)
        error = self.refused(self.make_store().open(), StoreDamaged)
        self.assertIn(f"{path}, offset 0: the disk cannot read it (Input/output error); run msmq", str(error))
        [line] = rebuild_log(self.log, self.home / "mark", lambda: NOW)
        self.assertIn("is written anew", line)
        self.assert_found()

    def test_group(self) -> None:
        """A group that is needed is refused with file and offset; a repair takes all groups around it."""
        path = self.filled()[-1]
        offset = path.read_bytes().index(GROUP_MAGIC, FIRST + SECTOR)
        self.spoil(path, offset)
        error = self.refused(self.make_store().open(), StoreDamaged)
        self.assertIn(f"{path}, offset ", str(error))
        self.assertIn("the disk cannot read it (Input/output error); run msmq store repair", str(error))
        said = rebuild_log(self.log, self.home / "mark", lambda: NOW)
        self.assertEqual(check_log(self.log, self.home / "mark").problems, [])
        store = self.make_store()
        snapshot = self.done(store.open())
        # Earlier messages of the same numbers take the place of those of that group.
        self.assertEqual(len(snapshot.messages[ORDERS.identifier]), COUNT)
        self.assertFalse([line for line in said if "lookup id" in line], said)
        self.done(store.close())

    def test_packet(self) -> None:
        """A message on a bad sector is quarantined, by a read and by a repair, and readers name it."""
        self.filled()
        path, offset = self.place(content(7))
        self.spoil(path, offset + 1000)
        reader = open_reader(str(self.log))
        self.addCleanup(reader.close)
        error = self.assertRaises(
            RowDamaged,
            reader.messages,
            ORDERS.identifier,
            0,
            COUNT,
            since=None,
            until=None,
            bodies=True,
        )
        self.assertEqual(error.number, 7)
        found = reader.places("messages", ORDERS.identifier, 7, 8)
        [(_, location, size, checksum, *_)] = MESSAGE_PLACE.iter_unpack(found)
        self.assertRaises(PacketDamage, reader.packets, [(location, size, checksum)], True)
        self.assertIn(f"{path}, offset {offset}: ", str(error))
        [problem] = check_log(self.log, self.home / "mark").problems
        self.assertIn("bytes are damaged (Input/output error): message 0x7 of queue 1", problem)
        [line] = rebuild_log(self.log, self.home / "mark", lambda: NOW)
        self.assertIn(f"lookup id {7:#018x}; {path}, offset {offset}: ", line)
        kept = (self.log / "quarantine").glob(f"{path.name}-{offset}-*")
        self.assertEqual([one.read_bytes()[:900] for one in kept], [content(7)[:900]])
        self.assert_found(7)

    def test_bytes_in_quarantine(self) -> None:
        """A server keeps what can be read of a message on a bad sector."""
        self.filled()
        store = self.opened()
        running = running_log(store)
        location, *_ = MESSAGE_ROW.unpack(running.engine.state.queues[ORDERS.identifier].messages[7])
        path, offset = running.engine.segments.used[location >> 32].path, location & OFFSET_MASK
        self.spoil(path, offset + 4096)
        self.refused(store.read(ORDERS.identifier, [7]), MessageNotStored)
        self.settle_all(store)
        self.done(store.close())
        [kept] = (self.log / "quarantine").glob(f"{path.name}-{offset}-*")
        found = kept.read_bytes()
        self.assertEqual(len(found), len(content(7)))
        bad = (offset + 4096) // 4096 * 4096 - offset
        self.assertEqual(found[:bad], content(7)[:bad])
        self.assertEqual(found[bad + 4096 :], content(7)[bad + 4096 :])
        self.assert_found(7)

    def test_scrubber(self) -> None:
        """Recovery data on bad sectors is written elsewhere, or again, before a start needs it."""
        store = self.opened(PutQueue(ORDERS))
        for number in range(COUNT):
            self.commit(store, put(number, content(number)))
        self.settle_all(store)
        running = running_log(store)
        header = running.engine.segments.used[1].path
        group = running.engine.active.path
        # The first sector of a group has the beginning of its packet.
        [lost] = [n for n in range(COUNT) if self.place(content(n)) == (group, FIRST + GROUP_HEADER)]
        for damaged, offset in ((header, 0), (group, FIRST), (None, FIRST), (None, 0)):
            # Without a file, the newest checkpoint of this moment.
            path = damaged or running._checkpointing._last_path
            self.bad = {}
            before = store.counters.damaged
            self.spoil(path, offset)
            self.scrub(store)
            self.settle_all(store)
            self.assertGreater(store.counters.damaged, before, (path, offset))
        self.bad = {}
        self.done(store.close())
        self.assert_found(lost)
