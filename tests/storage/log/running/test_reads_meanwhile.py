"""Reads of packets that are stored elsewhere before the thread for packets comes to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from twisted.internet.defer import Deferred

from msmq.interfaces.storage import MessageNotStored, StoreNotOpen
from msmq.persistence.changes import AppendEvent, AppendLog, Change, PutQueue
from msmq.storage.log import LogMessageStore
from msmq.testing.contracts.store_contract import ORDERS, put, remove
from tests.storage.log.running.held_workers import (
    PACKETS,
    SEARCHES,
    UPKEEP,
    WRITER,
    HeldWorker,
    HoldingSystem,
)
from tests.storage.log.support import SEGMENT, LogTestCase, running_log
from tests.storage.readers.reader_contract import spoil_file

Found = TypeVar("Found")


class ReadMeanwhileTests(LogTestCase):
    """A slow read of a packet whose message is stored again, while another write is in progress."""

    seconds = 0.0

    def clock(self) -> float:
        """The disk is slow: each group is written by the writer's thread."""
        self.seconds += 1.0
        return self.seconds

    def use_segments_again(self, store: LogMessageStore) -> None:
        """Go through segments until the first one is used again, and filled."""
        segments = running_log(store).engine.segments
        path = segments.used[1].path
        for number in range(1000, 1200):
            self.commit(store, put(number, bytes([number % 256]) * (SEGMENT // 2)), remove(number - 1))
            self.settle(store)
            while self.reactor.has_calls:
                self.reactor.turn()
            if any(one.path == path for generation, one in segments.used.items() if generation > 1):
                return
        self.fail("the first segment is not used again")

    def test_message(self) -> None:
        """The read waits for that write: the message is neither damaged nor removed."""
        system, store, asked = self.asked()
        writer = system.workers[WRITER]
        writer.hold()
        written = store.commit([put(1, b"third")])
        while not running_log(store).engine.is_busy:
            self.reactor.turn()
        self.release(system.workers[PACKETS])
        writer.release()
        self.done(written)
        self.assertEqual(self.done(asked), [b"third"])
        self.assertEqual(store.damaged(), 0)
        self.assertEqual(self.packets(store, ORDERS.identifier, [1]), [b"third"])
        self.done(store.close())

    def test_damaged_packet_that_is_replaced(self) -> None:
        """A message that is stored anew before its damaged packet is taken away stays."""
        system = HoldingSystem()
        store = self.make_store(system=system)
        self.done(store.open())
        self.commit(store, PutQueue(ORDERS))
        self.commit(store, put(1, b"to be damaged"))
        [path] = [one for one in self.home.glob("log/segment-*") if b"to be damaged" in one.read_bytes()]
        spoil_file(path, b"to be damaged")
        writer = system.workers[WRITER]
        writer.hold()
        written = [store.commit([put(2)])]
        running = running_log(store)
        while not running.engine.is_busy:
            self.reactor.turn()
        # It waits behind the group that is being written, and the read finds the damaged packet.
        written.append(store.commit([put(1, b"anew")]))
        asked: Deferred[Sequence[bytes]] = Deferred()
        running.lookups.read(ORDERS.identifier, [1], asked)
        self.refused(asked, MessageNotStored)
        writer.release()
        for each in written:
            self.done(each)
        self.assertEqual(self.packets(store, ORDERS.identifier, [1, 2]), [b"anew", b"packet"])
        self.done(store.close())

    def test_event_of_a_damaged_message(self) -> None:
        """It precedes what the readers of the message do, such as to remove what the store has lost."""
        system = HoldingSystem()
        store = self.make_store(system=system)
        self.done(store.open())
        self.commit(store, PutQueue(ORDERS))
        self.commit(store, put(1, b"to be damaged"))
        [path] = [one for one in self.home.glob("log/segment-*") if b"to be damaged" in one.read_bytes()]
        spoil_file(path, b"to be damaged")
        self.settle_all(store)
        upkeep = system.workers[UPKEEP]
        upkeep.hold()
        removed = store.read(ORDERS.identifier, [1]).addErrback(lambda _: store.commit([remove(1)]))
        other = store.read(ORDERS.identifier, [1])
        self.release(system.workers[PACKETS])
        while not running_log(store).engine.is_idle:
            self.reactor.turn()
        upkeep.release()
        self.done(removed)
        self.refused(other, MessageNotStored)
        self.settle_all(store)
        self.assertEqual([one.event.event for one in self.done(store.read_events(0, 10))], ["damaged"])
        self.assertEqual(store.damaged(), 1)
        self.done(store.close())

    def test_entry_behind_a_damaged_page(self) -> None:
        """An entry that is being written when all entries of a page are found damaged is intact."""
        store, read, written = self.written_meanwhile(
            lambda packet: AppendLog(ORDERS.identifier, 1, packet, 1.0),
            lambda store: store.read_log(ORDERS.identifier, 0, 1),
        )
        [entry] = self.done(read)
        self.assertEqual(entry.packet, b"later")
        self.assert_one_damaged(store, written)

    def test_event_behind_a_damaged_page(self) -> None:
        """So is an event."""
        store, read, written = self.written_meanwhile(
            lambda packet: AppendEvent(1.0, b"", "expired", packet.decode()),
            lambda store: store.read_events(0, 1),
        )
        [event] = self.done(read)
        self.assertEqual(event.event.reason, "later")
        self.assert_one_damaged(store, written)

    def written_meanwhile(
        self, change: Callable[[bytes], Change], ask: Callable[[LogMessageStore], Deferred[Found]]
    ) -> tuple[LogMessageStore, Deferred[Found], Deferred[None]]:
        """A read of what is damaged, which ended while a second one was being written."""
        system = HoldingSystem()
        store = self.make_store(system=system)
        self.done(store.open())
        self.commit(store, PutQueue(ORDERS))
        self.commit(store, change(b"to be damaged"))
        [path] = [one for one in self.home.glob("log/segment-*") if b"to be damaged" in one.read_bytes()]
        spoil_file(path, b"to be damaged")
        searches, writer = system.workers[SEARCHES], system.workers[WRITER]
        searches.hold()
        read = ask(store)
        writer.hold()
        written = store.commit([change(b"later")])
        while not running_log(store).engine.is_busy:
            self.reactor.turn()
        self.release(searches)
        writer.release()
        return store, read, written

    def assert_one_damaged(self, store: LogMessageStore, written: Deferred[None]) -> None:
        """Only what was damaged is counted as such."""
        self.done(written)
        self.settle_all(store)
        self.assertEqual(store.damaged(), 1)
        self.done(store.close())

    def test_store_that_is_closed(self) -> None:
        """A read that would have to be repeated in a store that is being closed is refused, not forgotten."""
        system, store, asked = self.asked()
        closed = store.close()
        while self.reactor.getDelayedCalls():
            self.reactor.turn()
        system.workers[PACKETS].release()
        self.refused(asked, StoreNotOpen)
        self.done(closed)

    def asked(self) -> tuple[HoldingSystem, LogMessageStore, Deferred[Sequence[bytes]]]:
        """A store that was asked for a message whose packet is stored elsewhere meanwhile."""
        system = HoldingSystem()
        store = self.make_store(system=system)
        self.done(store.open())
        self.commit(store, PutQueue(ORDERS))
        self.commit(store, put(1, b"first"))
        system.workers[PACKETS].hold()
        asked = store.read(ORDERS.identifier, [1])
        self.commit(store, put(2, bytes(SEGMENT - 8000)))
        self.commit(store, put(1, bytes(9000)), remove(2))
        self.use_segments_again(store)
        return system, store, asked

    def release(self, worker: HeldWorker) -> None:
        """Have a thread do what was asked of it, and what is asked because of that."""
        worker.release()
        for _ in range(2):
            done: list[object] = []
            worker.do(lambda: None, done.append)
            while not done:
                self.reactor.turn()
