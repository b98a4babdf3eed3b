"""C{msmq store repair} of record logs that a start refuses."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from zlib import crc32

import attrs

from msmq.interfaces.storage import MessageNotStored, StorageError
from msmq.persistence.changes import AppendEvent, AppendLog, PutQueue, PutState
from msmq.storage.checking.log_check import check_log
from msmq.storage.checking.log_repair import rebuild_log
from msmq.storage.log.checkpoint_files import CheckpointWriter, find_checkpoints
from msmq.storage.log.core.checkpoint import chunk, tables
from msmq.storage.log.core.format import FIRST, GROUP_HEADER, GROUP_MAGIC
from msmq.storage.log.core.records import state_record
from msmq.storage.log.core.salvage import intact_tables, seed_of
from msmq.storage.log.core.scan import group_at
from msmq.storage.log.follower import Follower
from msmq.testing.contracts.store_contract import BILLS, ORDERS, packet_of, put, remove
from msmq.testing.contracts.store_express import SOURCE
from msmq.testing.contracts.store_moves import move
from tests.storage.log.model import Machine
from tests.storage.log.support import LogTestCase, running_log
from tests.storage.policies import NOW

COUNT = 60
CORRECTED = "one bit of the header was wrong, and is corrected"


def content(number: int) -> bytes:
    """The packet of a message."""
    return packet_of(SOURCE, number, bytes([number]) * 5000)


class RepairTests(LogTestCase):
    """Readable data stays, damaged data is quarantined and reported, and the server starts."""

    def setUp(self) -> None:
        super().setUp()
        self.log = self.home / "log"
        store = self.opened(PutQueue(ORDERS), PutQueue(BILLS), PutState("stream", b"\1"))
        for number in range(COUNT):
            self.commit(store, put(number, content(number)))
        self.commit(store, AppendLog(ORDERS.identifier, 7, b"logged", 1.0), AppendEvent(1.0, b"", "first"))
        self.commit(store, move(3, 4003))
        self.commit(store, remove(4, 5))
        running = running_log(store)
        self.paths = [segment.path for _, segment in sorted(running.engine.segments.used.items())]
        self.done(store.close())
        self.assertGreater(len(self.paths), 4)

    def refused_line(self) -> str:
        """The error of a start."""
        return str(self.refused(self.make_store().open(), StorageError))

    def repaired(self) -> list[str]:
        """The report of a repair; a check finds nothing afterwards, and a second repair has nothing to do."""
        self.assertRegex(self.refused_line(), "msmq store repair|--accept-loss")
        self.assertNotEqual(check_log(self.log, self.home / "mark").problems, [])
        said = rebuild_log(self.log, self.home / "mark", lambda: NOW)
        self.assertEqual(check_log(self.log, self.home / "mark").problems, [])
        for line in said:
            self.assertNotIn("\n", line)
        return said

    def found(self) -> dict[int, bytes]:
        """The messages of a start, in both queues; they are what was put, and the log goes on."""
        store = self.make_store()
        snapshot = self.done(store.open())
        self.assertEqual(snapshot.state["stream"], b"\1")
        found: dict[int, bytes] = {}
        for queue in (ORDERS, BILLS):
            ids = [entry[0] for entry in snapshot.messages.get(queue.identifier, ())]
            found.update(zip(ids, self.packets(store, queue.identifier, ids), strict=True))
        for lookup_id, packet in found.items():
            self.assertEqual(packet, content(3 if lookup_id == 4003 else lookup_id))
        self.events = [one.event for one in self.done(store.read_events(0, 10_000))]
        self.entries = self.done(store.read_log(ORDERS.identifier, 0, 10))
        for number in range(100):
            self.commit(store, put(9000, content(200)), PutState("more", b"%d" % number))
        self.commit(store, remove(9000))
        self.done(store.close())
        self.done(self.opened().close())
        return found

    def everything(self) -> set[int]:
        """The LookupIdentifiers of all messages."""
        return {number for number in range(COUNT) if number not in (3, 4, 5)} | {4003}

    def assert_lost(self, lost: Sequence[int]) -> None:
        """These messages are gone, each with its event; all others are there."""
        self.assertEqual(set(self.found()), self.everything() - set(lost))
        named = {event.reason[:28]: event for event in self.events if event.reason.startswith("lookup id")}
        self.assertEqual(set(named), {f"lookup id {number:#018x}" for number in lost})
        for number in lost:
            event = named[f"lookup id {number:#018x}"]
            packet = content(3 if number == 4003 else number)
            self.assertEqual(event.identity, packet[16:32] + packet[56:60])
            self.assertEqual(event.queue, BILLS.path if number == 4003 else ORDERS.path)

    def in_file(self, path: Path) -> list[int]:
        """The messages whose packets a segment has."""
        data = path.read_bytes()
        return [number for number in range(COUNT) if number not in (4, 5) and content(number) in data]

    def names(self, numbers: Sequence[int]) -> list[int]:
        return [4003 if number == 3 else number for number in numbers]

    def test_missing_segment(self) -> None:
        """Without a segment in the middle its messages are lost, and nothing else."""
        lost = self.in_file(self.paths[2])
        self.assertGreater(len(lost), 5)
        self.paths[2].unlink()
        self.assertIn("the segment of generation ", self.refused_line())
        said = self.repaired()
        self.assertEqual(sum("is missing" in line for line in said), len(lost))
        self.assert_lost(self.names(lost))

    def test_missing_last_segment(self) -> None:
        """Messages whose segment is newer than all that are left are lost, and named, as any others.

        A checkpoint names it that was written while the log changed to that segment.
        """
        [newest, *_] = find_checkpoints(self.log)
        follower = Follower(self.log)
        follower.follow()
        follower.close()
        header = newest.header
        assert header is not None
        writer = CheckpointWriter(newest.path, 0)
        writer.begin()
        writer.append(list(tables(follower.state)))
        writer.finish(header)
        writer.close()
        lost = self.in_file(self.paths[-1])
        self.assertGreater(len(lost), 2)
        self.paths[-1].unlink()
        self.repaired()
        self.assert_lost(self.names(lost))

    def test_truncated_segment(self) -> None:
        """Packets before the truncation of a segment stay."""
        path = self.paths[1]
        before = self.in_file(path)
        path.write_bytes(path.read_bytes()[:40_000])
        after = self.in_file(path)
        self.assertLess(len(after), len(before))
        said = self.repaired()
        self.assertTrue(any(f"{path}, offset 40000: the file has 40000 of 65536" in line for line in said))
        self.assert_lost(self.names([number for number in before if number not in after]))

    def test_damaged_group(self) -> None:
        """Groups behind a damaged one are taken; the report says what that may mean."""
        path = self.paths[-1]
        data = path.read_bytes()
        first = data.index(GROUP_MAGIC, FIRST)
        with path.open("r+b") as file:
            file.seek(first + 20)
            file.write(b"\xff\xff")
        self.assertIn("is damaged, and group", self.refused_line())
        said = self.repaired()
        lost = (
            r"before it group \d+ is damaged or missing; the messages that it stored are lost, and those that"
        )
        self.assertRegex("\n".join(said), lost)
        found = set(self.found())
        self.assertLess(len(self.everything() - found), 14)
        self.assertIn("repaired", [event.event for event in self.events])

    def test_header_of_a_segment(self) -> None:
        """A header with a wrong bit is corrected, and one that is gone written anew: nothing is lost."""
        for path, change in (
            (self.paths[1], lambda head: head[:50] + bytes([head[50] ^ 4]) + head[51:]),
            (self.paths[-1], lambda head: bytes(len(head))),
            (self.paths[2], lambda head: b"not a segment".ljust(len(head))),
        ):
            self.change(path, change)
            said = self.repaired()
            self.assertTrue(any(str(path) in line for line in said), said)
            self.assert_lost([])

    def change(self, path: Path, change: Callable[[bytes], bytes], offset: int = 0) -> None:
        with path.open("r+b") as file:
            file.seek(offset)
            head = file.read(512)
            file.seek(offset)
            file.write(change(head))

    def test_checkpoints(self) -> None:
        """Of two damaged checkpoints the intact tables of both are used; also with a damaged header."""
        names = [name for name in ("checkpoint-a", "checkpoint-b") if (self.log / name).exists()]
        self.assertEqual(len(names), 2)
        for name in names:
            self.change(self.log / name, lambda head: head[:70] + bytes([head[70] ^ 1]) + head[71:])
        said = self.repaired()
        self.assertEqual([line.partition(": ")[2] for line in said], [CORRECTED, CORRECTED])
        self.assert_lost([])
        self.assertTrue((self.log / "quarantine" / "checkpoint-a").exists())
        for name in ("checkpoint-a", "checkpoint-b"):
            if (self.log / name).exists():
                self.change(self.log / name, lambda head: bytes(10) + head[10:], FIRST)
        said = self.repaired()
        self.assertIn("offset 4096: rows of the checkpoint are damaged", said[0])

    def test_without_checkpoints(self) -> None:
        """Without any checkpoint the groups that are left are taken."""
        for name in ("checkpoint-a", "checkpoint-b"):
            (self.log / name).unlink()
        said = self.repaired()
        self.assertIn("no checkpoint can be read", said[0])
        self.assertLessEqual(set(self.names(self.in_any())), set(self.found()))

    def in_any(self) -> list[int]:
        return [number for path in self.paths for number in self.in_file(path)]

    def test_foreign_files(self) -> None:
        """A segment of another log and a copy of one of this log go to quarantine."""
        other = self.home.with_name(f"{self.home.name}-other")
        other.mkdir()
        self.done(self.opened(PutQueue(ORDERS), home=other).close())
        foreign, copy = self.log / "segment-000098", self.log / "segment-000099"
        foreign.write_bytes((other / "log" / "segment-000001").read_bytes())
        copy.write_bytes(self.paths[1].read_bytes()[:20_000])
        said = "\n".join(self.repaired())
        self.assertIn(f"{foreign}, offset 12: a segment of another store; put aside", said)
        self.assertIn(f"{copy}, offset 28: a copy of {self.paths[1]}; put aside", said)
        self.assert_lost([])
        kept = {path.name for path in (self.log / "quarantine").iterdir()}
        self.assertEqual(kept, {foreign.name, copy.name})

    def test_checkpoint_of_another_store(self) -> None:
        """The mark says which of two stores is meant, though the other one has the newer checkpoint."""
        other = self.home.with_name(f"{self.home.name}-other")
        other.mkdir()
        self.done(self.opened(PutQueue(ORDERS), home=other).close())
        [found, *_] = find_checkpoints(other / "log")
        header = found.header
        assert header is not None
        foreign = self.log / "checkpoint-b"
        foreign.write_bytes(found.path.read_bytes())
        self.change(foreign, lambda head: attrs.evolve(header, number=999).to_bytes() + head[100:])
        self.assertIn(
            f"{foreign}, offset 12: the checkpoint of another store; remove it", self.refused_line()
        )
        self.assertIn(f"{foreign}, offset 0: of another store; put aside", "\n".join(self.repaired()))
        self.assert_lost([])

    def test_segments_of_a_store_that_was_replaced(self) -> None:
        """Segments of the store used last do not make another store, which was put there, a foreign one."""
        other = self.home.with_name(f"{self.home.name}-other")
        other.mkdir()
        self.done(self.opened(PutQueue(ORDERS), put(1, b"restored"), home=other).close())
        for path in (other / "log").iterdir():
            (self.log / path.name).write_bytes(path.read_bytes())
        before = {path.name: path.read_bytes() for path in self.log.iterdir() if path.is_file()}
        error = self.assertRaises(StorageError, rebuild_log, self.log, self.home / "mark", lambda: NOW)
        self.assertIn("not the store that was used last", str(error))
        self.assertEqual(
            before, {path.name: path.read_bytes() for path in self.log.iterdir() if path.is_file()}
        )

    def test_older_copy(self) -> None:
        """A log whose end is missing goes on with what is left; its numbers go on behind the mark."""
        mark = self.home / "mark"
        text = mark.read_text()
        # The identifier of the store, which is random, may have the same digits.
        before, _, last = text.rpartition(" ")
        number = int(last.rstrip("}\n"))
        mark.write_text(f"{before} {number + 5}}}\n")
        [line] = self.repaired()
        self.assertIn(f"groups {number + 1} to {number + 5} are missing", line)
        self.assert_lost([])

    def test_other_version(self) -> None:
        """A segment of another version is refused by the repair too, and nothing is changed."""

        def newer(head: bytes) -> bytes:
            start = head[:8] + b"\3" + head[9:60]
            return start + crc32(start).to_bytes(4, "little") + head[64:]

        self.change(self.paths[1], newer)
        before = {path.name: path.read_bytes() for path in self.log.iterdir() if path.is_file()}
        error = self.assertRaises(StorageError, rebuild_log, self.log, self.home / "mark", lambda: NOW)
        self.assertIn(f"{self.paths[1]}, offset 8: written by a newer version of msmq", str(error))
        self.assertEqual(
            before, {path.name: path.read_bytes() for path in self.log.iterdir() if path.is_file()}
        )

    def test_another_store(self) -> None:
        """A log that is intact and not the one used last is not repaired."""
        mark = self.home / "mark"
        mark.write_text('{"store": "' + "0" * 32 + '", "sequence": 1}')
        error = self.assertRaises(StorageError, rebuild_log, self.log, mark, lambda: NOW)
        self.assertIn("not the store that was used last", str(error))

    def test_nothing_left(self) -> None:
        """A directory without a file of a log is refused with what to do."""
        for path in list(self.log.iterdir()):
            path.unlink()
        error = self.assertRaises(StorageError, rebuild_log, self.log, self.home / "none", lambda: NOW)
        self.assertIn("restore the store from a backup", str(error))

    def cut_off(self) -> None:
        """Have the process end while it writes another message, after the mark was written."""
        store = self.opened()
        self.settle_all(store)
        mark = (self.home / "mark").read_text()
        self.commit(store, put(5000, content(77)))
        home = self.copied(store)
        (home / "mark").write_text(mark)
        self.done(store.close())
        self.home, self.log = home, home / "log"
        self.paths = [self.log / path.name for path in self.paths]
        self.damage_packet(77)

    def test_repeated(self) -> None:
        """A write that was never confirmed, and was left out by a repair, is left out by the next one too."""
        self.cut_off()
        lost = self.in_file(self.paths[2])
        self.paths[2].unlink()
        self.repaired()
        rebuild_log(self.log, self.home / "mark", lambda: NOW)
        self.assert_lost(self.names(lost))

    def test_interrupted(self) -> None:
        """A repair that is killed before its end is done again, with the same result."""
        lost = self.in_file(self.paths[2])
        self.paths[2].unlink()
        (self.log / "checkpoint.new").write_bytes(b"half of one")
        self.change(self.paths[1], lambda head: bytes(len(head)))
        self.repaired()
        self.assert_lost(self.names(lost))

    def test_interrupted_exchange(self) -> None:
        """A repair that ends before its new checkpoint is there has not moved the damaged ones away."""
        for name in ("checkpoint-a", "checkpoint-b"):
            self.change(self.log / name, lambda head: head[:70] + bytes([head[70] ^ 1]) + head[71:])
        replace = os.replace

        def interrupted(source: Path, target: Path) -> None:
            if source.name == "checkpoint.new":
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            replace(source, target)

        self.patch(os, "replace", interrupted)
        error = self.assertRaises(StorageError, rebuild_log, self.log, self.home / "mark", lambda: NOW)
        self.assertIn("cannot repair: Input/output error", str(error))
        self.patch(os, "replace", replace)
        said = self.repaired()
        self.assertFalse([line for line in said if "lost" in line], said)
        self.assert_lost([])

    def test_damage_before_a_cut(self) -> None:
        """A bit of the last message before a write that was cut off costs that message, with an event."""
        store = self.opened()
        self.settle_all(store)
        mark = (self.home / "mark").read_text()
        self.commit(store, put(77, content(77)))
        self.commit(store, put(78, content(78)))
        home = self.copied(store)
        (home / "mark").write_text(mark)
        self.done(store.close())
        self.home, self.log = home, home / "log"
        self.damage_packet(77)
        [path] = [path for path in self.log.glob("segment-*") if content(78) in path.read_bytes()]
        data = path.read_bytes()
        begun = data.rindex(GROUP_MAGIC, 0, data.index(content(78))) + GROUP_HEADER
        path.write_bytes(data[:begun].ljust(len(data), b"\0"))
        [problem] = check_log(self.log, self.home / "mark").problems
        self.assertRegex(problem, "bytes are damaged: message 0x4d of queue ")
        [line] = rebuild_log(self.log, self.home / "mark", lambda: NOW)
        self.assertIn(f"lookup id {77:#018x}; ", line)
        self.assertEqual(set(self.found()), self.everything())
        self.assertEqual([one.event for one in self.events], ["first", "damaged", "repaired"])

    def interrupt(self, name: str) -> None:
        """Have a repair end before a new file of this name takes the name that it is to have."""
        replace = os.replace

        def interrupted(source: Path, target: Path) -> None:
            if Path(source).name == name:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            replace(source, target)

        self.patch(os, "replace", interrupted)
        error = self.assertRaises(StorageError, rebuild_log, self.log, self.home / "mark", lambda: NOW)
        self.assertIn("cannot repair: Input/output error", str(error))
        self.patch(os, "replace", replace)

    def damage_packet(self, number: int) -> None:
        """Change a bit of the packet of a message."""
        [path] = [path for path in self.log.glob("segment-*") if content(number) in path.read_bytes()]
        begin = path.read_bytes().index(content(number))
        self.change(path, lambda found: bytes([found[0] ^ 1]) + found[1:], begin + 100)

    def test_interrupted_for_damaged_packets(self) -> None:
        """A log with damaged packets alone starts after a repair that did not end, as it did before."""
        self.damage_packet(7)
        self.interrupt("checkpoint.new")
        store = self.make_store()
        snapshot = self.done(store.open())
        self.assertIn(7, [entry[0] for entry in snapshot.messages[ORDERS.identifier]])
        self.assertEqual(self.packets(store, ORDERS.identifier, [6, 8]), [content(6), content(8)])
        self.refused(store.read(ORDERS.identifier, [7]), MessageNotStored)
        self.settle_all(store)
        self.assertFalse((self.log / "checkpoint.new").exists())
        self.done(store.close())
        self.assertEqual(set(self.found()), self.everything() - {7})
        self.assertEqual([one.event for one in self.events], ["first", "damaged"])

    def test_interrupted_and_repeated(self) -> None:
        """The next repair reports each loss once, and still leaves out a write that was never confirmed."""
        self.cut_off()
        self.damage_packet(7)
        self.interrupt("checkpoint.new")
        rebuild_log(self.log, self.home / "mark", lambda: NOW)
        self.assert_lost([7])
        self.assertEqual(sum(one.event == "damaged" for one in self.events), 1)

    def test_interrupted_with_a_truncated_segment(self) -> None:
        """The file keeps its size until the end of a repair, so that a start refuses the log."""
        path = self.paths[2]
        path.write_bytes(path.read_bytes()[:40_000])
        line = self.refused_line()
        for name in ("segment.new", "checkpoint.new"):
            self.interrupt(name)
            self.assertEqual(self.refused_line(), line)
        self.repaired()

    def test_interrupted_with_an_older_copy(self) -> None:
        """The group of the repair, whose number is that after the mark, does not change what a start says."""
        mark = self.home / "mark"
        before, _, last = mark.read_text().rpartition(" ")
        number = int(last.rstrip("}\n"))
        mark.write_text(f"{before} {number + 5}}}\n")
        line = self.refused_line()
        self.assertIn("--accept-loss", line)
        for _ in range(2):
            self.interrupt("checkpoint.new")
            self.assertEqual(self.refused_line(), line)
        self.repaired()
        self.assert_lost([])

    def test_interrupted_with_a_damaged_mark(self) -> None:
        """The mark stays until the end of a repair, so that a start refuses the log."""
        mark = self.home / "mark"
        mark.write_text("damaged")
        line = self.refused_line()
        for name in ("segment.new", "checkpoint.new"):
            self.interrupt(name)
            self.assertEqual(self.refused_line(), line)
        self.repaired()
        self.assertFalse(mark.exists())
        self.assertEqual((self.log / "quarantine" / "mark").read_text(), "damaged")
        self.assert_lost([])


class SeedTests(LogTestCase):
    """The arithmetic of a repair."""

    def test_seed(self) -> None:
        """The seed of a segment follows from any of its groups."""
        machine = Machine()
        machine.confirm(machine.group(is_large=True))
        source = machine.segments[2].source()
        group = group_at(source.read, source.header, FIRST)
        assert group is not None
        self.assertEqual(seed_of(group.header, group.table), source.header.seed)

    def test_tables(self) -> None:
        """Tables behind a damaged one are found, wherever the damage is."""
        tables = [state_record(f"name {number}", b"value") for number in range(3)]
        chunks = [chunk(table) for table in tables]
        body = b"".join(chunks)
        begin, end = len(chunks[0]), len(chunks[0]) + len(chunks[1])
        for place in range(begin, end):
            damaged = body[:place] + bytes([body[place] ^ 0x10]) + body[place + 1 :]
            found = list(intact_tables(damaged))
            self.assertEqual(found, [(0, tables[0]), (begin, None), (end, tables[2])], place)
