"""Contract of every L{IMessageStore}: restored entries of another store keep their numbers."""

from __future__ import annotations

from msmq.interfaces import UnknownQueue
from msmq.interfaces.storage import LogEntry, LogExtent
from msmq.persistence.changes import (
    AppendEvent,
    AppendLog,
    LoggedPacket,
    PutQueue,
    RestoreLog,
    RestoreNumbers,
    TrimLog,
)
from msmq.testing.contracts.store_contract import BILLS, HIGHEST, ORDERS, StoreContract


class RestoreContract(StoreContract):
    """Changes that a migration writes."""

    async def test_restored_log(self) -> None:
        """Restored entries keep their numbers, and later entries have larger ones."""
        store = await self.opened(PutQueue(ORDERS), PutQueue(BILLS))
        entries = (LoggedPacket(7, HIGHEST, b"seven", 1.5), LoggedPacket(9, 1, b"nine", 2.5))
        await store.commit(
            [
                RestoreLog(ORDERS.identifier, 5, entries),
                RestoreLog(BILLS.identifier, 1, (LoggedPacket(8, 2, b"eight", 3.5),)),
                RestoreLog(ORDERS.identifier, 5, (LoggedPacket(11, 3, b"eleven", 4.5),)),
            ]
        )
        await store.commit([AppendLog(BILLS.identifier, 4, b"next", 5.5)])
        self.assertEqual(
            list(await store.read_log(ORDERS.identifier, 0, 9)),
            [
                LogEntry(7, HIGHEST, 1.5, b"seven"),
                LogEntry(9, 1, 2.5, b"nine"),
                LogEntry(11, 3, 4.5, b"eleven"),
            ],
        )
        [eighth, appended] = await store.read_log(BILLS.identifier, 0, 9)
        self.assertEqual(eighth, LogEntry(8, 2, 3.5, b"eight"))
        self.assertGreater(appended.sequence, 11)
        self.assertEqual(await store.log_extent(ORDERS.identifier), LogExtent(7, 11, 3, 15, 4))

    async def test_restored_log_is_trimmed(self) -> None:
        """A restored log is trimmed like any other."""
        store = await self.opened(PutQueue(ORDERS))
        entries = tuple(LoggedPacket(number, number, b"entry", float(number)) for number in (3, 5, 8))
        await store.commit([RestoreLog(ORDERS.identifier, 3, entries)])
        await store.commit([TrimLog(ORDERS.identifier, before=6.0)])
        self.assertEqual(await store.log_extent(ORDERS.identifier), LogExtent(8, 8, 1, 5, 5))

    async def test_restored_log_needs_a_queue(self) -> None:
        """Entries for an unknown queue are refused."""
        store = await self.opened(PutQueue(ORDERS))
        await self.refused(store.commit([RestoreLog(BILLS.identifier, 1)]), UnknownQueue)

    async def test_restored_numbers(self) -> None:
        """Numbers that were assigned in the other store are never assigned again, after a restart either."""
        store = await self.opened(PutQueue(ORDERS))
        await store.commit([RestoreNumbers(40, 70)])
        if store.durable:
            store, _ = await self.reopened(store)
        await store.commit([AppendLog(ORDERS.identifier, 1, b"m", 1.0), AppendEvent(1.0, b"", "e")])
        [entry] = await store.read_log(ORDERS.identifier, 0, 9)
        [event] = await store.read_events(0, 9)
        self.assertEqual((entry.sequence, event.sequence), (41, 71))
