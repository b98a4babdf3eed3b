"""A record log that is read during the run of its server."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from threading import current_thread, main_thread
from typing import Any
from uuid import UUID

import attrs

from msmq.interfaces.storage import StorageError
from msmq.persistence.changes import (
    AppendLog,
    PutMessage,
    PutQueue,
    PutState,
    RemoveMessages,
    RemoveState,
)
from msmq.pipeline.reading.row_selection import RowSelection
from msmq.pipeline.reading.slices import RowSpan
from msmq.pipeline.reading.stores import message_pages
from msmq.pipeline.stored_packets import StoredPacket
from msmq.storage.checking.log_check import check_log, check_packets
from msmq.storage.checking.report import StoreReport
from msmq.storage.log import LogMessageStore
from msmq.storage.log.checkpoint_files import CheckpointWriter
from msmq.storage.log.core.checkpoint import BODY
from msmq.storage.log.follower import Follower
from msmq.storage.readers import StoreReader, open_reader
from msmq.storage.readers.shape import LARGE, MESSAGE_PLACE, MomentGone
from msmq.testing.contracts.store_contract import BILLS, ORDERS, put, remove
from tests.builders import user_packet
from tests.storage.log.support import SEGMENT, LogTestCase, running_log
from tests.storage.readers.reader_contract import ANY, EVERYTHING, ReaderContract, spoil_file


class LogTests(ReaderContract, LogTestCase):
    """The record log."""

    def reader_of(self, *changes: Any) -> StoreReader:
        self.home = Path(tempfile.mkdtemp(dir=self.home)).absolute()
        writer = self.opened()
        self.commit(writer, *changes)
        # With nothing behind it the last group would count as a write that was cut off.
        self.commit(writer, PutState("end", b""))
        self.commit(writer, RemoveState("end"))
        store = open_reader(str(self.home / "log"))
        self.addCleanup(store.close)
        self.assertEqual(store.event_bounds()[0], 1)
        self.done(writer.close())
        return store

    def spoil(self, content: bytes) -> None:
        [path] = [one for one in (self.home / "log").glob("segment-*") if content in one.read_bytes()]
        spoil_file(path, content)

    def test_live_log(self) -> None:
        """A reader follows a server that goes through its segments, and sees each commit that is done."""
        writer = self.opened(PutQueue(ORDERS), PutMessage(ORDERS.identifier, 0, b"old", 1.0))
        store = open_reader(str(self.home / "log"))
        self.addCleanup(store.close)
        for number in range(1, 400):
            packet = b"%d" % number * 300
            self.commit(writer, PutMessage(ORDERS.identifier, number, packet, 1.0))
            if number > 2:
                self.commit(writer, RemoveMessages(ORDERS.identifier, (number - 2,)))
            if number % 40 == 3:
                page = store.messages(ORDERS.identifier, *EVERYTHING, **ANY, bodies=True)
                self.assertEqual([row[0] for row in page.rows], [0, number - 1, number])
                self.assertEqual([page.rows[0][-1], page.rows[-1][-1]], [b"old", packet])
        self.assertGreater(writer.counters.reclaimed, 0)
        self.done(writer.close())

    def test_held(self) -> None:
        """A held reader shows one moment, until the server has reused what that moment had."""
        writer = self.opened(PutQueue(ORDERS), PutMessage(ORDERS.identifier, 1, b"m", 1.0))
        store = open_reader(str(self.home / "log"))
        self.addCleanup(store.close)
        store.hold()
        self.commit(
            writer, PutMessage(ORDERS.identifier, 2, b"n", 1.0), RemoveMessages(ORDERS.identifier, (1,))
        )
        page = store.messages(ORDERS.identifier, *EVERYTHING, **ANY, bodies=True)
        self.assertEqual([row[-1] for row in page.rows], [b"m"])
        number = 2
        with self.assertRaises(MomentGone):
            while number < 2000:
                number += 1
                self.commit(writer, PutMessage(ORDERS.identifier, number, b"x" * 900, 1.0))
                self.commit(writer, RemoveMessages(ORDERS.identifier, (number - 1,)))
                if number % 100 == 0:
                    store.messages(ORDERS.identifier, *EVERYTHING, **ANY, bodies=True)
        page = store.messages(ORDERS.identifier, *EVERYTHING, **ANY, bodies=True)
        self.assertEqual([row[0] for row in page.rows], [number])
        self.done(writer.close())

    def test_held_behind_damage(self) -> None:
        """What cannot be read, with more after it, is not taken for the end: a backup would lack the rest."""
        writer = self.opened(PutQueue(ORDERS), PutState("name", b"a value of the state"))
        for number in range(3):
            self.commit(writer, put(number))
        store = open_reader(str(self.home / "log"))
        self.addCleanup(store.close)
        store.hold()
        store.close()
        self.spoil(b"a value of the state")
        with self.assertRaises(StorageError) as refused:
            store.hold()
        self.assertIn("is damaged, and group", str(refused.exception))
        self.assertIn("run msmq store repair", str(refused.exception))

    def test_held_while_a_server_writes(self) -> None:
        """What the server has written since the reader has read the end is no damage."""
        writer = self.opened(PutQueue(ORDERS))
        store = Follower(self.home / "log")
        self.addCleanup(store.close)
        for number in range(200):
            store.follow()
            self.commit(writer, put(number))
            self.commit(writer, remove(number))
            store.check_end()

    def reuse(self, writer: LogMessageStore, label: str) -> None:
        """Have the server fill the second segment with other messages of the same size."""
        segments = running_log(writer).engine.segments
        path, filling = segments.used[2].path, 0
        for number in range(2, 2000):
            packet = user_packet(bytes(LARGE), label=label, message_id=number)
            self.commit(writer, PutMessage(ORDERS.identifier, number, packet, 1.0))
            self.commit(writer, RemoveMessages(ORDERS.identifier, (number - 1,)))
            self.settle(writer)
            while self.reactor.has_calls:
                self.reactor.turn()
            filling += any(one.path == path for key, one in segments.used.items() if key > 2)
            if filling > 1:
                return
        self.fail("the second segment is not used again")

    def test_heads_that_were_reused(self) -> None:
        """Without bodies, too, no message has the properties of another that took its space meanwhile."""
        for by_place in (False, True):
            with self.subTest(by_place=by_place):
                self.setUp()
                first = user_packet(bytes(LARGE), label="first", message_id=1)
                # The next one is the first in its segment, as others will be there later.
                before = PutMessage(ORDERS.identifier, 0, bytes(SEGMENT - LARGE), 1.0)
                writer = self.opened(PutQueue(ORDERS), before, PutMessage(ORDERS.identifier, 1, first, 1.0))
                self.commit(writer, RemoveMessages(ORDERS.identifier, (0,)))
                store = open_reader(str(self.home / "log"))
                store.hold()
                found = store.places("messages", ORDERS.identifier, *EVERYTHING)
                [(_, *place, _, _, _)] = MESSAGE_PLACE.iter_unpack(found)
                places = [(place[0], place[1], place[2])]
                [packet] = store.packets(places, False)
                self.assertEqual(packet[:1000], first[:1000])
                self.reuse(writer, "other")
                with self.assertRaises(MomentGone):
                    if by_place:
                        store.packets(places, False)
                    else:
                        store.messages(ORDERS.identifier, *EVERYTHING, **ANY, bodies=False)
                store.close()
                self.done(writer.close())

    def spans(self, store: StoreReader) -> dict[str, RowSpan]:
        """Everything in the queue and its log, with places."""
        found = {}
        for kind in ("log", "messages"):
            places = store.places(kind, ORDERS.identifier, *EVERYTHING)
            found[kind] = RowSpan(ORDERS.identifier, "orders", *EVERYTHING, places=places)
        return found

    def read(self, store: StoreReader, kind: str, span: RowSpan, **wanted: Any) -> list[StoredPacket]:
        selection = RowSelection((), **wanted)
        return [row for page in message_pages(store, kind, span, selection) for row in page]

    def test_places(self) -> None:
        """Packets are read by their places as by their numbers: small, large, without bodies, and by time."""
        sizes = (0, 10, 300, LARGE + 10, 5, 100_000, 7)
        packets = [user_packet(b"x" * size, label=f"of {size}", message_id=size) for size in sizes]
        changes: list[Any] = []
        for number, packet in enumerate(packets):
            changes.append(
                PutMessage(ORDERS.identifier, number, packet, 1.0 + number, 7, 2, 3, event_only=True)
            )
            changes.append(AppendLog(ORDERS.identifier, number, packet, 1.0 + number))
        store = self.reader_of(PutQueue(ORDERS), *changes)
        for kind, span in self.spans(store).items():
            plain = attrs.evolve(span, places=b"")
            for wanted in ({}, {"bodies": False}, {"since": 2.5, "until": 5.5}, {"since": 99.0}):
                found = self.read(store, kind, span, **wanted)
                self.assertEqual(self.read(store, kind, plain, **wanted), found)
            self.assertEqual(7, len(self.read(store, kind, span)))

    def test_places_that_were_reused(self) -> None:
        """What the server has moved since is read by its number, and what has come since is not read."""
        writer = self.opened(PutQueue(ORDERS), PutMessage(ORDERS.identifier, 1, b"stays", 1.0))
        self.commit(writer, PutMessage(ORDERS.identifier, 2, b"goes", 1.0))
        store = open_reader(str(self.home / "log"))
        self.addCleanup(store.close)
        span = self.spans(store)["messages"]
        number, found = 2, [b"stays", b"goes"]
        while found == [b"stays", b"goes"] and number < 3000:
            number += 1
            self.commit(writer, PutMessage(ORDERS.identifier, number, b"x" * 900, 1.0))
            self.commit(writer, RemoveMessages(ORDERS.identifier, (number - 1,)))
            if number % 50 == 0:
                found = [row.packet for row in self.read(store, "messages", span)]
        self.assertEqual([b"stays"], found)
        self.done(writer.close())

    def test_segment_that_is_deleted_meanwhile(self) -> None:
        """A file that the server deletes after the directory was listed is not needed."""
        store = self.reader_of(PutQueue(ORDERS), AppendLog(ORDERS.identifier, 1, b"a packet", 1.0))
        span = self.spans(store)["log"]
        (self.home / "log" / "segment-000099").symlink_to("deleted")
        for some in (span, attrs.evolve(span, places=b"")):
            again = open_reader(str(self.home / "log"))
            self.addCleanup(again.close)
            self.assertEqual([row.packet for row in self.read(again, "log", some)], [b"a packet"])

    def test_a_damaged_place(self) -> None:
        """The error names file and offset."""
        store = self.reader_of(PutQueue(ORDERS), AppendLog(ORDERS.identifier, 1, b"a packet to spoil", 1.0))
        span = self.spans(store)["log"]
        self.spoil(b"a packet to spoil")
        error = self.assertRaises(StorageError, self.read, store, "log", span)
        self.assertIn("17 bytes are damaged; run msmq store check", str(error))

    def test_damage_that_is_skipped(self) -> None:
        """A read by places goes on by numbers: all other rows are read, each once."""
        packets = [b"packet %d" % number for number in range(1, 9)]
        changes = [AppendLog(ORDERS.identifier, n, each, 1.0) for n, each in enumerate(packets, 1)]
        store = self.reader_of(PutQueue(ORDERS), *changes)
        span = self.spans(store)["log"]
        for number in (3, 4, 8):
            self.spoil(b"packet %d" % number)
        for some in (span, attrs.evolve(span, places=b"")):
            pages = message_pages(store, "log", some, RowSelection(()), skips_damage=True)
            self.assertEqual([1, 2, 5, 6, 7], [row.offset for page in pages for row in page])

    def test_both_stores(self) -> None:
        """A data directory with both stores is not guessed at."""
        self.done(self.opened().close())
        (self.home / "log").rename(self.home / "msmq.log")
        self.assertEqual(open_reader(str(self.home)).queues(), [])
        (self.home / "msmq.sqlite").write_bytes(b"")
        self.assertRaises(StorageError, open_reader, str(self.home))


class LiveCheckTests(LogTestCase):
    """The packets of a log are verified while its server uses it."""

    def test_busy_server(self) -> None:
        """What the server removes before it is verified, and whose segment it reuses, is not damaged."""
        writer = self.opened(PutQueue(ORDERS))
        last = 100

        def pass_through(count: int) -> None:
            """Have so many messages come, and leave when a hundred later ones have come."""
            nonlocal last
            for number in range(last + 1, last + 1 + count):
                self.commit(writer, PutMessage(ORDERS.identifier, number, b"%d" % number * 1000, 1.0))
                self.commit(writer, RemoveMessages(ORDERS.identifier, (number - 100,)))
            last += count
            self.settle_all(writer)

        pass_through(100)
        report = StoreReport("log")
        for _ in check_packets(self.home / "log", report, step_bytes=1):
            pass_through(100)
        self.assertGreaterEqual(last, 300)
        self.assertGreater(writer.counters.reclaimed, 6)
        self.assertEqual(report.problems, [])
        self.done(writer.close())

    def test_missing_segment(self) -> None:
        """A segment that is missing under a running server is named, and not taken for a busy server."""
        writer = self.opened(PutQueue(ORDERS))
        for number in range(1, 40):
            self.commit(writer, PutMessage(ORDERS.identifier, number, b"%d" % number * 2500, 1.0))
        (self.home / "log" / "segment-000002").unlink()
        [problem] = check_log(self.home / "log", self.home / "mark").problems
        self.assertEqual(problem, f"{self.home / 'log'}: the segment of generation 2 is missing")
        self.done(writer.close())

    def test_missing_end(self) -> None:
        """So is one from which the groups after the checkpoint would be read."""
        writer = self.opened(PutQueue(ORDERS))
        path = running_log(writer).engine.active.path
        path.rename(path.with_name("away"))
        [problem] = check_log(self.home / "log", self.home / "mark").problems
        self.assertEqual(problem, f"{self.home / 'log'}: a segment is missing")
        path.with_name("away").rename(path)
        self.done(writer.close())

    def test_damage_of_a_busy_log(self) -> None:
        """Damage that was found is reported, also if the server is faster than the rest of the check."""
        other = attrs.evolve(BILLS, identifier=UUID(int=9), path="private$\\other", number=9)
        writer = self.opened(*map(PutQueue, (ORDERS, BILLS, other)))
        self.commit(writer, put(1, b"rotten" * 5000), put(1, bytes(10_001), queue=BILLS))
        self.commit(writer, put(0, bytes(SEGMENT // 2), queue=other))
        # In a segment without other messages that stay.
        last = 1000
        self.commit(writer, put(last, queue=other), remove(0, queue=other))
        [path] = [one for one in (self.home / "log").glob("segment-*") if b"rotten" in one.read_bytes()]
        spoil_file(path, b"rotten" * 5000)
        pread = os.pread

        def read(descriptor: int, size: int, offset: int) -> bytes:
            """When the check reads the message of one queue, what it has to read next is reused."""
            nonlocal last
            found = pread(descriptor, size, offset)
            if size == 10_001 and current_thread() is main_thread():
                self.commit(writer, remove(last, queue=other))
                for number in range(240):
                    self.commit(
                        writer, put(number, bytes(5000), queue=other), remove((number - 1) % 240, queue=other)
                    )
                    if number % 12 == 0:
                        self.settle_all(writer)
                last += 1
                self.commit(writer, put(last, queue=other))
            return found

        self.patch(os, "pread", read)
        damage, busy = check_log(self.home / "log", self.home / "mark").problems
        self.assertIn("30000 bytes are damaged: message 0x1 of queue 1", damage)
        self.assertIn("cannot be verified: the server is faster than the check", busy)
        self.done(writer.close())

    def test_header_that_is_damaged_meanwhile(self) -> None:
        """A segment whose header is damaged during the check is reported as missing, with its messages."""
        writer = self.opened(PutQueue(ORDERS))
        self.commit(writer, put(1, b"rotten" * 5000))
        for number in range(2, 20):
            self.commit(writer, put(number, bytes(20_000)))
            self.settle_all(writer)
        self.assertGreater(writer.counters.checkpoints, 1)
        [path] = [one for one in (self.home / "log").glob("segment-*") if b"rotten" in one.read_bytes()]
        spoil_file(path, b"rotten" * 5000)
        pread, is_spoiled = os.pread, False

        def read(descriptor: int, size: int, offset: int) -> bytes:
            """When the check has read the message, the log goes on in another segment."""
            nonlocal is_spoiled
            found = pread(descriptor, size, offset)
            if size == 30_000 and not is_spoiled and current_thread() is main_thread():
                is_spoiled = True
                spoil_file(path, b"MSMQLOG\n")
                for number in range(20, 24):
                    self.commit(writer, put(number, bytes(30_001)))
            return found

        self.patch(os, "pread", read)
        [problem] = check_log(self.home / "log", self.home / "mark").problems
        self.assertRegex(problem, r": the segment of generation \d+ is missing$")
        self.done(writer.close())

    def test_checkpoint_that_is_overwritten(self) -> None:
        """A checkpoint over which the server writes another one during the check is not damaged."""
        self.done(self.opened(PutQueue(ORDERS)).close())
        path = self.home / "log" / "checkpoint-b"
        pread = os.pread

        def read(descriptor: int, size: int, offset: int) -> bytes:
            if offset == BODY and os.readlink(f"/proc/self/fd/{descriptor}") == str(path):
                writer = CheckpointWriter(path, 0)
                writer.begin()
                writer.append([b"another one"])
                writer.close()
            return pread(descriptor, size, offset)

        self.patch(os, "pread", read)
        self.assertEqual(check_log(self.home / "log", self.home / "mark").problems, [])

    def test_damage_of_a_live_log(self) -> None:
        """A packet that is damaged is named, and all others are verified."""
        writer = self.opened(PutQueue(ORDERS))
        for number in range(1, 4):
            self.commit(writer, PutMessage(ORDERS.identifier, number, b"packet %d" % number, 1.0))
        [path] = [one for one in (self.home / "log").glob("segment-*") if b"packet 2" in one.read_bytes()]
        spoil_file(path, b"packet 2")
        report = StoreReport("log")
        for _ in check_packets(self.home / "log", report):
            pass
        [problem] = report.problems
        self.assertRegex(problem, r"segment-\d+, offset \d+: 8 bytes are damaged: message 0x2 of queue 1$")
        self.assertEqual(report.rows, 3)
        self.done(writer.close())
