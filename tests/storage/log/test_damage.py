"""A record log whose files were changed, taken away or exchanged."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from msmq.interfaces import StorageError
from msmq.interfaces.storage import DamagedMessageKept, MessageNotStored, StoreIncomplete
from msmq.persistence.changes import AppendEvent, AppendLog, PutQueue, PutState
from msmq.storage.log import LogMessageStore
from msmq.storage.log.failures import StoreDamaged, failure
from msmq.storage.log.system import LocalSystem
from msmq.testing.contracts.store_contract import BILLS, ORDERS, packet_of, put, remove
from msmq.testing.contracts.store_express import SOURCE
from msmq.testing.contracts.store_moves import move
from tests.storage.log.support import LogTestCase, running_log


class FailingSystem(LocalSystem):
    """A disk that writes nothing while C{is_failing}."""

    def __init__(self) -> None:
        self.is_failing = False

    def write(self, descriptor: int, buffers: Sequence[bytes], offset: int, flags: int = 0) -> int:
        if self.is_failing:
            raise OSError(errno.EIO, "Input/output error")
        return super().write(descriptor, buffers, offset, flags)


class BitRotTests(LogTestCase):
    """Packets that change on the disk."""

    def flip(self, content: bytes) -> tuple[Path, int]:
        """Change a bit in the middle of this content; gives the file and the offset of the content."""
        for path in sorted((self.home / "log").iterdir()):
            data = path.read_bytes() if path.is_file() else b""
            if (offset := data.find(content)) >= 0:
                with path.open("r+b") as file:
                    file.seek(offset + len(content) // 2)
                    file.write(bytes([data[offset + len(content) // 2] ^ 1]))
                return path, offset
        self.fail("there is no such content")

    def damaged(self, store: LogMessageStore) -> list[AppendEvent]:
        """The events that say so, once all that follows from a read is done."""
        self.settle_all(store)
        events = [stored.event for stored in self.done(store.read_events(0, 100))]
        return [event for event in events if event.event == "damaged"]

    def test_message(self) -> None:
        """A damaged message is never delivered: it is quarantined, and its neighbours are read."""
        packet = packet_of(SOURCE, 5, b"rotten" * 50)
        store = self.opened(PutQueue(ORDERS), put(1, b"one"), put(2, packet), put(3, b"three"))
        path, offset = self.flip(packet)
        error = self.refused(store.read(ORDERS.identifier, [1, 2, 3]), MessageNotStored)
        self.assertEqual(error.lookup_id, 2)
        [event] = self.damaged(store)
        self.assertEqual((event.queue, event.identity), (ORDERS.path, packet[16:32] + packet[56:60]))
        self.assertIn(
            f"lookup id 0x0000000000000002; {path}, offset {offset}: {len(packet)} bytes", event.reason
        )
        self.settle(store)
        [kept] = (self.home / "log" / "quarantine").iterdir()
        self.assertEqual(len(kept.read_bytes()), len(packet))
        self.assertEqual(self.packets(store, ORDERS.identifier, [1, 3]), [b"one", b"three"])
        self.assertEqual(store.counters.damaged, 1)
        self.done(store.close())
        store = self.make_store()
        snapshot = self.done(store.open())
        self.assertEqual([entry[0] for entry in snapshot.messages[ORDERS.identifier]], [1, 3])
        self.done(store.close())

    def test_message_on_a_disk_that_fails(self) -> None:
        """If its event cannot be written, the message stays, and has its event at the next read of it."""
        packet = packet_of(SOURCE, 5, b"rotten" * 50)
        system = FailingSystem()
        store = self.make_store(system=system)
        self.done(store.open())
        for change in (PutQueue(ORDERS), put(1, packet), put(2, b"two")):
            self.commit(store, change)
        self.flip(packet)
        system.is_failing = True
        for _ in range(3):
            self.refused(store.read(ORDERS.identifier, [1]), MessageNotStored)
            self.settle_all(store)
            self.refused(store.commit([PutState("after", b"")]), StorageError)
        system.is_failing = False
        self.assertEqual(self.damaged(store), [])
        self.refused(store.read(ORDERS.identifier, [1]), MessageNotStored)
        [event] = self.damaged(store)
        self.assertEqual(event.identity, packet[16:32] + packet[56:60])
        self.assertEqual((store.counters.damaged, len(self.flushLoggedErrors(OSError))), (1, 0))
        self.done(store.close())

    def test_message_that_cannot_be_kept(self) -> None:
        """If its bytes cannot be written to the quarantine, the message stays until they can."""
        packet = packet_of(SOURCE, 5, b"rotten" * 50)
        store = self.opened(PutQueue(ORDERS), put(1, packet))
        self.flip(packet)
        quarantine = self.home / "log" / "quarantine"
        quarantine.write_bytes(b"not a directory")
        for _ in range(2):
            error: MessageNotStored = self.refused(store.read(ORDERS.identifier, [1]), DamagedMessageKept)
            self.assertIn("message 0x0000000000000001 of queue ", str(error))
            self.assertEqual(self.damaged(store), [])
        quarantine.unlink()
        error = self.refused(store.read(ORDERS.identifier, [1]), MessageNotStored)
        self.assertNotIsInstance(error, DamagedMessageKept)
        [event] = self.damaged(store)
        self.assertEqual(event.identity, packet[16:32] + packet[56:60])
        [kept] = quarantine.iterdir()
        self.assertEqual(len(kept.read_bytes()), len(packet))
        self.assertEqual(store.counters.damaged, 1)
        self.done(store.close())

    def test_many(self) -> None:
        """What was removed is forgotten, and an entry that stays has one event."""
        store = self.opened(PutQueue(ORDERS), AppendLog(ORDERS.identifier, 1, b"logged" * 50, 1.0))
        self.flip(b"logged" * 50)
        quarantine = running_log(store).lookups._quarantine
        quarantine._remembered = 3
        for number in range(10):
            packet = b"message %d " % number * 20
            self.commit(store, put(number, packet))
            self.flip(packet)
            self.refused(store.read(ORDERS.identifier, [number]), MessageNotStored)
            self.assertEqual(self.done(store.read_log(ORDERS.identifier, 0, 1)), [])
            self.settle_all(store)
        self.assertLessEqual(len(quarantine._seen), 5)
        self.assertEqual(len(self.damaged(store)), 11)
        self.done(store.close())

    def test_message_that_was_moved(self) -> None:
        """The queue in which it is now is the one that is named, and purging never reads it."""
        packet = packet_of(SOURCE, 5, b"rotten" * 50)
        store = self.opened(PutQueue(ORDERS), PutQueue(BILLS), put(1, packet), move(1, 9))
        self.flip(packet)
        self.refused(store.read(BILLS.identifier, [9]), MessageNotStored)
        [event] = self.damaged(store)
        self.assertEqual(event.queue, BILLS.path)
        self.commit(store, put(2, packet))
        self.flip(packet)
        self.commit(store, remove(2))
        self.assertEqual(len(self.damaged(store)), 1)
        self.done(store.close())

    def test_log_entries_and_events(self) -> None:
        """A damaged entry is left out, with an event, and the others are read."""
        store = self.opened(PutQueue(ORDERS))
        for number in range(3):
            packet = b"%d" % number * 100
            self.commit(store, AppendLog(ORDERS.identifier, number, packet, 1.0))
            self.commit(store, AppendEvent(1.0, b"", "expired", f"reason {number}"))
        self.flip(b"1" * 100)
        self.flip(b"reason 1")
        entries = self.done(store.read_log(ORDERS.identifier, 0, 10))
        self.assertEqual([entry.lookup_id for entry in entries], [0, 2])
        events = [stored.event.reason for stored in self.done(store.read_events(0, 3))]
        self.assertEqual(events, ["reason 0", "reason 2"])
        said = [event.reason.partition(";")[0] for event in self.damaged(store)]
        self.assertEqual(said, ["entry 2 of the message log", "event 2"])
        self.done(store.close())

    def test_pages_of_damaged_entries(self) -> None:
        """A page of damaged entries alone is not taken for the end of a log."""
        store = self.opened(PutQueue(ORDERS))
        for number in range(4):
            self.commit(store, AppendLog(ORDERS.identifier, number, b"%d" % number * 100, 1.0))
            self.commit(store, AppendEvent(1.0, b"", "expired", f"reason {number}"))
        for number in (1, 2):
            self.flip(b"%d" % number * 100)
            self.flip(b"reason %d" % number)
        [entry] = self.done(store.read_log(ORDERS.identifier, 1, 1))
        self.assertEqual((entry.sequence, entry.lookup_id), (4, 3))
        [stored] = self.done(store.read_events(1, 1))
        self.assertEqual((stored.sequence, stored.event.reason), (4, "reason 3"))
        self.assertEqual(self.done(store.read_log(ORDERS.identifier, 4, 1)), [])
        self.assertEqual(len(self.damaged(store)), 4)
        self.done(store.close())

    def test_file_that_cannot_be_read_for_a_while(self) -> None:
        """A failure to open a file is reported, and takes no message with it."""
        store = self.opened(PutQueue(ORDERS), put(1, b"one"))
        self.done(store.close())
        store = self.opened()
        path = self.home / "log" / "segment-000001"
        path.rename(path.with_name("away"))
        error = self.refused(store.read(ORDERS.identifier, [1]), StorageError)
        self.assertEqual(str(error), f"{path}: cannot read: No such file or directory")
        path.with_name("away").rename(path)
        self.assertEqual(self.packets(store, ORDERS.identifier, [1]), [b"one"])
        self.assertEqual(store.counters.damaged, 0)
        self.done(store.close())

    def test_packet_that_was_to_be_copied(self) -> None:
        """A copy of a damaged packet is never made."""
        store = self.opened(PutQueue(ORDERS), put(0, b"rotten" * 50), put(1, b"sound" * 50))
        self.flip(b"rotten" * 50)
        for number in range(2, 600):
            self.commit(store, put(number, bytes(6000)))
            self.commit(store, remove(number))
        self.assertEqual(len(self.damaged(store)), 1)
        self.refused(store.read(ORDERS.identifier, [0]), MessageNotStored)
        self.assertEqual(self.packets(store, ORDERS.identifier, [1]), [b"sound" * 50])
        self.assertGreater(store.counters.copied, 0)
        self.done(store.close())

    def test_checkpoint(self) -> None:
        """A damaged checkpoint is passed over for the one before; two are refused."""
        store = self.opened(PutQueue(ORDERS))
        for number in range(800):
            self.commit(store, put(number % 5, b"%d" % number * 100))
        self.done(store.close())
        for name in ("checkpoint-a", "checkpoint-b"):
            home = self.home.with_name(f"{self.home.name}-{name}")
            shutil.copytree(self.home, home)
            with (home / "log" / name).open("r+b") as file:
                file.seek(4096 + 20)
                file.write(b"\xff")
            store = self.opened(home=home)
            expected = [b"%d" % number * 100 for number in range(795, 800)]
            self.assertEqual(self.packets(store, ORDERS.identifier, range(5)), expected)
            self.done(store.close())
        for name in ("checkpoint-a", "checkpoint-b"):
            with (self.home / "log" / name).open("r+b") as file:
                file.write(b"other")
        error = self.refused(self.make_store().open(), StoreDamaged)
        self.assertIn("checkpoint-", str(error))


class ExchangedTests(LogTestCase):
    """Files that are missing, cut, older, or of something else."""

    def filled(self) -> list[Path]:
        """A log of some segments that hold messages, closed; gives them in the order of their generations."""
        store = self.opened(PutQueue(ORDERS))
        for number in range(60):
            self.commit(store, put(number, bytes([number]) * 5000))
        running = running_log(store)
        paths = [segment.path for _, segment in sorted(running.engine.segments.used.items())]
        self.done(store.close())
        self.assertGreater(len(paths), 4)
        return paths

    def assert_refused(self, kind: type[StorageError], *said: str) -> None:
        """It does not open, says why, and changes nothing."""
        before = self.contents()
        error = self.refused(self.make_store().open(), kind)
        for text in said:
            self.assertIn(text, str(error))
        self.assertNotIn("\n", str(error))
        self.assertEqual(before, self.contents())

    def contents(self) -> dict[str, bytes]:
        """The bytes of the files, except the lock."""
        files = [path for path in (self.home / "log").iterdir() if path.is_file()]
        return {path.name: path.read_bytes() for path in files if path.name != "lock"}

    def test_missing_segment(self) -> None:
        """A segment that is missing is named by its generation, the first, one in the middle and the last."""
        paths = self.filled()
        for path in (paths[0], paths[2], paths[-1]):
            content = path.read_bytes()
            path.unlink()
            self.assert_refused(StoreIncomplete, "the segment of generation ", " is missing")
            path.write_bytes(content)
        self.done(self.opened().close())

    def test_cut_segment(self) -> None:
        """A segment that was cut is named with its size."""
        paths = self.filled()
        for path in (paths[1], paths[-1]):
            content = path.read_bytes()
            path.write_bytes(content[:10_000])
            self.assert_refused(StoreDamaged, str(path), "offset 10000: the file has 10000 of 65536 bytes")
            path.write_bytes(content)

    def test_segment_of_another_store(self) -> None:
        """A segment of another log is refused, and so is a copy of one of this log."""
        paths = self.filled()
        other = self.home.with_name(f"{self.home.name}-other")
        other.mkdir()
        self.done(self.opened(PutQueue(ORDERS), home=other).close())
        foreign = self.home / "log" / "segment-000099"
        foreign.write_bytes((other / "log" / "segment-000001").read_bytes())
        self.assert_refused(StorageError, f"{foreign}, offset 12: a segment of another store; remove it")
        foreign.write_bytes(paths[1].read_bytes())
        self.assert_refused(StorageError, "segment-000099", "a copy of", "remove the one")

    def test_other_version(self) -> None:
        """A segment of a newer version, or a file that is not one, is refused."""
        [path, *_] = self.filled()
        with path.open("r+b") as file:
            file.seek(8)
            file.write(b"\3")
        self.assert_refused(
            StorageError, f"{path}, offset 0: written by a newer version of msmq (log format 3"
        )
        path.write_bytes(b"something else entirely".ljust(65536))
        self.assert_refused(StorageError, f"{path}, offset 0: not a segment of an msmq log")

    def test_older_copy(self) -> None:
        """A copy from before the last stop is refused; C{--accept-loss} uses it, with an event."""
        store = self.opened(PutQueue(ORDERS), put(1, b"one"))
        self.done(store.close())
        older = self.home.with_name(f"{self.home.name}-older")
        shutil.copytree(self.home / "log", older)
        self.done(self.opened(put(2, b"two")).close())
        shutil.rmtree(self.home / "log")
        shutil.copytree(older, self.home / "log")
        self.assert_refused(
            StoreIncomplete,
            "it ends with generation 2, but had 3",
            "restore its segments, or",
            "--accept-loss",
        )
        store = self.make_store(accepts_loss=True)
        self.done(store.open())
        [event] = [stored.event for stored in self.done(store.read_events(0, 10))]
        self.assertEqual(event.event, "loss_accepted")
        self.assertIn("it ends with generation 2, but had 3", event.reason)
        self.assertEqual(self.packets(store, ORDERS.identifier, [1]), [b"one"])
        self.done(store.close())

    def test_emptied(self) -> None:
        """An empty directory is not taken for a new store where there was one."""
        self.filled()
        shutil.rmtree(self.home / "log")
        (self.home / "log").mkdir()
        self.assert_refused(StoreIncomplete, "the store that was used last is missing or empty")

    def test_without_checkpoints(self) -> None:
        """Segments without a checkpoint are not taken for a new store."""
        self.filled()
        for name in ("checkpoint-a", "checkpoint-b"):
            (self.home / "log" / name).unlink(missing_ok=True)
        self.assert_refused(StoreIncomplete, "checkpoint-a and checkpoint-b are missing")

    def test_second_server(self) -> None:
        """Two queue managers never write one log, and the first does not notice the attempt."""
        store = self.opened(PutQueue(ORDERS))
        error = self.refused(self.make_store().open(), StorageError)
        self.assertEqual(str(error), f"{self.home / 'log'} is in use by another queue manager; stop it first")
        self.commit(store, put(1))
        self.done(store.close())

    def test_a_file_system_without_locks(self) -> None:
        """It is named as such, and not taken for another server."""
        self.filled()

        def refuse(*_: object) -> None:
            raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

        self.patch(fcntl, "flock", refuse)
        error = self.refused(self.make_store().open(), StorageError)
        self.assertEqual(str(error), f"{self.home / 'log' / 'lock'}: cannot lock: No locks available")

    def test_access(self) -> None:
        """An error of the system is reported with the remedy."""
        for number, remedy in (
            (errno.EACCES, "Permission denied; give the server's user access"),
            (errno.EROFS, "Read-only file system; make its file system writable"),
            (errno.EIO, "Input/output error"),
        ):
            said = str(failure(Path("/data/msmq.log"), "open", OSError(number, "")))
            self.assertEqual(said, f"/data/msmq.log: cannot open: {remedy}")

    def test_directory_that_cannot_be_created(self) -> None:
        """It is named with the error of the system."""
        (self.home / "log").write_bytes(b"")
        error = self.refused(self.make_store().open(), StorageError)
        self.assertEqual(str(error), f"{self.home / 'log'}: cannot open: File exists")
