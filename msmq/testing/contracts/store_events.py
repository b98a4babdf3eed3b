"""Contract of every L{IMessageStore}: the event log."""

from __future__ import annotations

from uuid import UUID

from msmq.interfaces import IMessageStore, UnknownQueue
from msmq.persistence.changes import AppendEvent, PutQueue, TrimEvents
from msmq.testing.contracts.store_contract import BILLS, ORDERS, StoreContract, identity, put, remove

OURS = identity(UUID("11111111-2222-3333-4444-555555555555"), 7)
THEIRS = identity(UUID("11111111-2222-3333-4444-555555555555"), 8)


def event(number: int, owner: bytes = OURS) -> AppendEvent:
    """Create a change that appends an entry to the event log."""
    return AppendEvent(float(number), owner, f"event {number}")


class EventContract(StoreContract):
    """Appending to the event log, and trimming it."""

    async def times(self, store: IMessageStore, after: int = 0) -> list[float]:
        """The times of the stored events."""
        return [found.event.time for found in await store.read_events(after, 100_000)]

    async def test_events_are_read(self) -> None:
        """Events are read unchanged, the oldest first, under increasing numbers."""
        events = [
            AppendEvent(
                1_700_000_000.5,
                OURS,
                "refused",
                "the quota is used up",
                0x8003,
                "private$\\Ämter \N{SNOWMAN}",
            ),
            AppendEvent(1_600_000_000.0, b"", "started"),
            AppendEvent(0.0, THEIRS, "expired", "half of a \ud83d and \0", 0xFFFF, "DIRECT=OS:\udfff\\q"),
        ]
        store = await self.opened()
        await store.commit(events[:2])
        await store.commit(events[2:])
        found = await store.read_events(0, 10)
        self.assertEqual([entry.event for entry in found], events)
        first, second, third = (entry.sequence for entry in found)
        self.assertTrue(0 < first < second < third)

    async def test_events_are_read_piece_by_piece(self) -> None:
        """A reader that asks for the entries after its last one reads each once."""
        store = await self.opened()
        await store.commit([event(number) for number in range(25)])
        read: list[float] = []
        after = 0
        while found := await store.read_events(after, 10):
            self.assertLessEqual(len(found), 10)
            read += [entry.event.time for entry in found]
            after = found[-1].sequence
        self.assertEqual(read, [float(number) for number in range(25)])

    async def test_events_of_one_message(self) -> None:
        """Events are found by their message, or as those without one."""
        store = await self.opened()
        owners = [OURS, THEIRS, OURS, b"", OURS]
        await store.commit([event(number, owner) for number, owner in enumerate(owners)])
        for owner, expected in ((OURS, [0.0, 2.0, 4.0]), (THEIRS, [1.0]), (b"", [3.0]), (bytes(20), [])):
            found = await store.read_events(0, 10, owner)
            self.assertEqual([entry.event.time for entry in found], expected)
        first, *_ = await store.read_events(0, 10, OURS)
        second, *_ = await store.read_events(first.sequence, 1, OURS)
        self.assertEqual(second.event.time, 2.0)

    async def test_events_are_trimmed(self) -> None:
        """The oldest events are removed until the limit is reached."""
        store = await self.opened()
        await store.commit([event(number) for number in range(10)])
        for keep, left in ((20, 10), (10, 10), (7, 7), (8, 7), (1, 1), (0, 0)):
            await store.commit([TrimEvents(keep)])
            self.assertEqual(await self.times(store), [float(number) for number in range(10 - left, 10)])
        self.assertEqual(list(await store.read_events(0, 10, OURS)), [])
        await store.commit([event(10)])
        self.assertEqual(await self.times(store), [10.0])

    async def test_event_changes_are_done_in_order(self) -> None:
        """Events appended after a trim in one batch stay."""
        store = await self.opened()
        await store.commit([event(1), event(2), TrimEvents(1), event(3), event(4), TrimEvents(3), event(5)])
        self.assertEqual(await self.times(store), [2.0, 3.0, 4.0, 5.0])

    async def test_many_events_are_trimmed(self) -> None:
        """Ten thousand events are trimmed at once."""
        store = await self.opened()
        await store.commit([event(number) for number in range(10_000)])
        await store.commit([TrimEvents(3), event(10_000)])
        self.assertEqual(await self.times(store), [9997.0, 9998.0, 9999.0, 10_000.0])

    async def test_event_of_a_batch_that_failed(self) -> None:
        """An event of a failed batch is not stored."""
        store = await self.opened(PutQueue(ORDERS), put(1, b"one"))
        await self.refused(store.commit([event(1), remove(1), put(2, queue=BILLS)]), UnknownQueue)
        self.assertEqual(await self.times(store), [])
        await store.commit([event(2), remove(1)])
        self.assertEqual(await self.times(store), [2.0])
        await self.assert_missing(store, 1)

    async def test_events_after_a_restart(self) -> None:
        """A durable store has its events after a restart, and never reuses a number."""
        store = await self.opened(event(1), event(2), event(3))
        if not store.durable:
            return
        given: list[int] = []
        for number in range(4, 8):
            await store.commit([TrimEvents(1)])
            store, _ = await self.reopened(store)
            self.assertEqual(await self.times(store), [float(number - 1)])
            await store.commit([event(number)])
            given += [entry.sequence for entry in await store.read_events(0, 10)][-1:]
        self.assertEqual(given, sorted(set(given)))
        await store.commit([TrimEvents(0)])
        store, _ = await self.reopened(store)
        await store.commit([event(8)])
        [last] = await store.read_events(0, 10)
        self.assertGreater(last.sequence, given[-1])
