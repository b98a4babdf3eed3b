"""Contract of every L{IMessageStore}: message logs."""

from __future__ import annotations

from msmq.interfaces import IMessageStore, UnknownQueue
from msmq.interfaces.storage import LogEntry, LogExtent
from msmq.persistence.changes import AppendLog, Change, PutQueue, RemoveQueue, TrimLog
from msmq.persistence.definition import QueueDefinition
from msmq.testing.contracts.store_contract import BILLS, HIGHEST, ORDERS, StoreContract, put, remove

MEBIBYTE = 1024 * 1024


def log(
    lookup_id: int, packet: bytes = b"packet", arrived: float = 1.0, *, queue: QueueDefinition = ORDERS
) -> AppendLog:
    """Create a change that appends a message to the message log of a queue."""
    return AppendLog(queue.identifier, lookup_id, packet, arrived)


def trim(
    before: float | None = None, keep_bytes: int | None = None, *, queue: QueueDefinition = ORDERS
) -> TrimLog:
    """Create a change that trims the message log of a queue."""
    return TrimLog(queue.identifier, before, keep_bytes)


class LogContract(StoreContract):
    """Appending to the message log of a queue, and trimming it."""

    async def logged(self, store: IMessageStore, queue: QueueDefinition = ORDERS) -> list[bytes]:
        """The packets in a log."""
        return [entry.packet for entry in await store.read_log(queue.identifier, 0, 10_000)]

    async def assert_extent(self, store: IMessageStore, queue: QueueDefinition = ORDERS) -> LogExtent:
        """Assert that the extent agrees with the entries."""
        extent = await store.log_extent(queue.identifier)
        entries = await store.read_log(queue.identifier, 0, 10_000)
        expected = LogExtent(trimmed=extent.trimmed)
        if entries:
            size = sum(len(entry.packet) for entry in entries)
            first, last = entries[0].sequence, entries[-1].sequence
            expected = LogExtent(first, last, len(entries), size, extent.trimmed)
            self.assertLess(extent.trimmed, first)
        self.assertEqual(extent, expected)
        return extent

    async def test_log_is_read(self) -> None:
        """Entries are read unchanged, the oldest first, under increasing numbers."""
        store = await self.opened(PutQueue(ORDERS))
        await store.commit([log(HIGHEST, b"one", 5.5), log(2, b"", 4.0)])
        await store.commit([log(2, bytes(range(256)), 6.0)])
        entries = await store.read_log(ORDERS.identifier, 0, 10)
        first, second, third = (entry.sequence for entry in entries)
        self.assertTrue(0 < first < second < third)
        self.assertEqual(
            list(entries),
            [
                LogEntry(first, HIGHEST, 5.5, b"one"),
                LogEntry(second, 2, 4.0, b""),
                LogEntry(third, 2, 6.0, bytes(range(256))),
            ],
        )
        self.assertEqual(await self.assert_extent(store), LogExtent(first, third, 3, 259))

    async def test_log_is_read_piece_by_piece(self) -> None:
        """A reader that asks for the entries after its last one reads each entry once."""
        store = await self.opened(PutQueue(ORDERS), PutQueue(BILLS))
        for number in range(25):
            await store.commit([log(number, b"%d" % number), log(number, b"x", queue=BILLS)])
        read: list[LogEntry] = []
        while entries := await store.read_log(ORDERS.identifier, read[-1].sequence if read else 0, 10):
            self.assertLessEqual(len(entries), 10)
            read += entries
        self.assertEqual([entry.packet for entry in read], [b"%d" % number for number in range(25)])

    async def test_log_of_large_packets(self) -> None:
        """A read returns at least one entry, of any size, and repeated reads return all."""
        store = await self.opened(PutQueue(ORDERS))
        for number in range(4):
            await store.commit([log(number, bytes([number]) * (4 * MEBIBYTE))])
        read: list[int] = []
        after = 0
        while entries := await store.read_log(ORDERS.identifier, after, 100):
            read += [entry.packet[0] for entry in entries]
            after = entries[-1].sequence
        self.assertEqual(read, [0, 1, 2, 3])

    async def test_log_outlives_its_messages(self) -> None:
        """An entry stays when its message is removed, and the message stays removed."""
        store = await self.opened(PutQueue(ORDERS))
        await store.commit([put(1, b"one"), log(1, b"one")])
        await store.commit([remove(1)])
        await self.assert_missing(store, 1)
        self.assertEqual(await self.logged(store), [b"one"])

    async def test_logs_keep_apart(self) -> None:
        """Each queue has its own log; the numbers increase over all logs."""
        store = await self.opened(PutQueue(ORDERS), PutQueue(BILLS))
        await store.commit([log(1, b"a"), log(1, b"b", queue=BILLS)])
        await store.commit([log(2, b"c", queue=BILLS), log(2, b"d")])
        self.assertEqual(await self.logged(store), [b"a", b"d"])
        self.assertEqual(await self.logged(store, BILLS), [b"b", b"c"])
        numbers = {
            entry.packet: entry.sequence
            for queue in (ORDERS, BILLS)
            for entry in await store.read_log(queue.identifier, 0, 10)
        }
        self.assertEqual(sorted(numbers, key=lambda packet: numbers[packet]), [b"a", b"b", b"c", b"d"])
        await self.assert_extent(store)
        await self.assert_extent(store, BILLS)

    async def test_log_of_an_unknown_queue(self) -> None:
        """Appending for a queue that is not stored has no effect, and its log is empty."""
        store = await self.opened(PutQueue(ORDERS))
        batch: list[Change] = [log(1), put(1), log(1, queue=BILLS)]
        self.assertEqual((await self.refused(store.commit(batch), UnknownQueue)).queue, BILLS.identifier)
        self.assertEqual(await self.logged(store), [])
        self.assertEqual(await self.logged(store, BILLS), [])
        self.assertEqual(await store.log_extent(BILLS.identifier), LogExtent())
        await store.commit([trim(5.0, 0), trim(5.0, 0, queue=BILLS)])

    async def test_log_is_trimmed_by_age(self) -> None:
        """Entries that arrived earlier are removed; entries that arrived then or later stay."""
        store = await self.opened(PutQueue(ORDERS), PutQueue(BILLS))
        await store.commit([log(number, b"%d" % number, float(number)) for number in range(6)])
        await store.commit([log(1, b"bill", 0.0, queue=BILLS), trim(3.0)])
        self.assertEqual(await self.logged(store), [b"3", b"4", b"5"])
        self.assertEqual(await self.logged(store, BILLS), [b"bill"])
        await self.assert_extent(store)
        await store.commit([trim(2.0), trim()])
        self.assertEqual(await self.logged(store), [b"3", b"4", b"5"])
        await store.commit([trim(1e12)])
        self.assertEqual(await self.logged(store), [])

    async def test_trimmed_numbers(self) -> None:
        """The extent names the newest entry of the queue that was trimmed, also when none is left; entries of
        other queues do not count.
        """
        store = await self.opened(PutQueue(ORDERS), PutQueue(BILLS))
        await store.commit([log(number, b"%d" % number, float(number)) for number in range(4)])
        await store.commit([log(1, b"bill", 0.0, queue=BILLS)])
        numbers = [entry.sequence for entry in await store.read_log(ORDERS.identifier, 0, 10)]
        self.assertEqual((await self.assert_extent(store)).trimmed, 0)
        await store.commit([trim(1.0)])
        self.assertEqual((await self.assert_extent(store)).trimmed, numbers[0])
        await store.commit([trim(1e12)])
        self.assertEqual(await self.assert_extent(store), LogExtent(trimmed=numbers[-1]))
        self.assertEqual((await self.assert_extent(store, BILLS)).trimmed, 0)
        await store.commit([log(9, b"new", 9.0)])
        self.assertEqual((await self.assert_extent(store)).trimmed, numbers[-1])
        again, _ = await self.reopened(store)
        if store.durable:
            self.assertEqual((await self.assert_extent(again)).trimmed, numbers[-1])

    async def test_log_is_trimmed_by_size(self) -> None:
        """The minimum number of the oldest entries is removed."""
        store = await self.opened(PutQueue(ORDERS))
        await store.commit([log(number, bytes([number]) * 100) for number in range(10)])
        for keep, left in ((1000, 10), (999, 9), (550, 5), (500, 5), (499, 4), (99, 0)):
            await store.commit([trim(keep_bytes=keep)])
            self.assertEqual([packet[0] for packet in await self.logged(store)], list(range(10 - left, 10)))
            await self.assert_extent(store)
        await store.commit([log(10, b"ten"), trim(keep_bytes=3)])
        self.assertEqual(await self.logged(store), [b"ten"])
        await store.commit([trim(keep_bytes=0)])
        self.assertEqual(await self.logged(store), [])

    async def test_log_is_trimmed_by_both(self) -> None:
        """Entries are trimmed by age first; the rest counts towards the size."""
        store = await self.opened(PutQueue(ORDERS))
        await store.commit([log(number, b"12345", float(number)) for number in range(10)])
        await store.commit([trim(4.0, 20)])
        entries = await store.read_log(ORDERS.identifier, 0, 100)
        self.assertEqual([entry.arrived for entry in entries], [6.0, 7.0, 8.0, 9.0])
        await store.commit([trim(8.0, 20)])
        entries = await store.read_log(ORDERS.identifier, 0, 100)
        self.assertEqual([entry.arrived for entry in entries], [8.0, 9.0])

    async def test_clock_that_was_set_back(self) -> None:
        """Only the oldest entries are removed: entries after one that is young enough stay, whatever their
        time.
        """
        store = await self.opened(PutQueue(ORDERS))
        times = (1.0, 2.0, 9.0, 1.0, 10.0)
        await store.commit([log(number, b"%d" % number, time) for number, time in enumerate(times)])
        await store.commit([trim(5.0)])
        self.assertEqual(await self.logged(store), [b"2", b"3", b"4"])

    async def test_log_changes_are_done_in_order(self) -> None:
        """Entries appended after a trim in one batch stay; earlier ones may be removed."""
        store = await self.opened(PutQueue(ORDERS))
        await store.commit(
            [
                log(1, b"one"),
                trim(keep_bytes=0),
                log(2, b"two"),
                log(3, b"three"),
                trim(keep_bytes=5),
                log(4, b"4"),
            ]
        )
        self.assertEqual(await self.logged(store), [b"three", b"4"])
        await self.assert_extent(store)

    async def test_trimming_a_long_log(self) -> None:
        """Ten thousand entries are trimmed at once, to any length."""
        store = await self.opened(PutQueue(ORDERS))
        await store.commit([log(number, b"%08d" % number, float(number)) for number in range(10_000)])
        await store.commit([trim(keep_bytes=8 * 2500)])
        self.assertEqual(await self.logged(store), [b"%08d" % number for number in range(7500, 10_000)])
        await store.commit([trim(9990.0)])
        self.assertEqual(len(await self.logged(store)), 10)
        await store.commit([log(1, b"new"), trim(keep_bytes=3)])
        self.assertEqual(await self.logged(store), [b"new"])
        await self.assert_extent(store)

    async def test_log_goes_with_its_queue(self) -> None:
        """Removing a queue removes its log; a new queue of the same identifier has none."""
        store = await self.opened(PutQueue(ORDERS), log(1), RemoveQueue(ORDERS.identifier))
        self.assertEqual(await self.logged(store), [])
        self.assertEqual(await store.log_extent(ORDERS.identifier), LogExtent())
        await store.commit([PutQueue(ORDERS), log(1), RemoveQueue(ORDERS.identifier), PutQueue(ORDERS)])
        self.assertEqual(await self.logged(store), [])
        await store.commit([log(2, b"two")])
        self.assertEqual(await self.logged(store), [b"two"])
        await self.assert_extent(store)

    async def test_log_after_a_restart(self) -> None:
        """A durable store has its trimmed logs after a restart."""
        store = await self.opened(PutQueue(ORDERS), *(log(number, b"%d" % number) for number in range(5)))
        await store.commit([trim(keep_bytes=3)])
        extent = await self.assert_extent(store)
        again, _ = await self.reopened(store)
        if store.durable:
            self.assertEqual(await self.logged(again), [b"2", b"3", b"4"])
            self.assertEqual(await self.assert_extent(again), extent)

    async def test_numbers_are_never_given_twice(self) -> None:
        """A new entry has a new number, after any trims, removals and restarts."""
        store = await self.opened(PutQueue(ORDERS), PutQueue(BILLS))
        if not store.durable:
            return
        given: list[int] = []
        for step in range(6):
            await store.commit([log(1), log(1, queue=BILLS)])
            numbers = [(await store.log_extent(queue.identifier)).last for queue in (ORDERS, BILLS)]
            self.assertGreater(min(numbers), max(given, default=0))
            given += numbers
            changes: tuple[list[Change], ...] = (
                [trim(keep_bytes=0), trim(keep_bytes=0, queue=BILLS)],
                [RemoveQueue(ORDERS.identifier), PutQueue(ORDERS), trim(9.0, queue=BILLS)],
                [],
            )
            await store.commit(changes[step % 3])
            store, _ = await self.reopened(store)
