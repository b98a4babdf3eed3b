"""The store in memory keeps the contract."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase, TestCase
from zope.interface import implementer

from msmq.interfaces import IMessageStore, LogExtent
from msmq.persistence.changes import (
    AppendEvent,
    AppendLog,
    Change,
    PutMessages,
    PutQueue,
    RemoveUnread,
    TrimEvents,
    TrimLog,
)
from msmq.storage.memory import MemoryMessageStore
from msmq.testing.contracts.message_store import MessageStoreContract
from msmq.testing.contracts.store_contract import ORDERS, identity, packet_of, put, remove
from msmq.testing.contracts.store_history import StoreHistoryContract, TurnedReactor
from msmq.testing.contracts.store_moves import move


class MemoryMessageStoreTests(MessageStoreContract, TestCase):
    """The default store."""

    def setUp(self) -> None:
        self.store = MemoryMessageStore()

    def make_store(self) -> IMessageStore:
        return self.store

    def test_is_not_durable(self) -> None:
        """It does not claim to survive a restart, so recoverable messages are not entrusted to it."""
        self.assertFalse(MemoryMessageStore().durable)


@implementer(IMessageStore)
class PlainStore(MemoryMessageStore):
    """A store of an application, which knows the changes that every store has to take, and no others."""

    def commit(self, changes: Sequence[Change]) -> Deferred[None]:
        """See L{IMessageStore.commit}."""
        optional = [change for change in changes if isinstance(change, PutMessages | RemoveUnread)]
        assert not optional, f"this store does not provide IMessageRuns: {optional}"
        return super().commit(changes)


class PlainStoreTests(MessageStoreContract, TestCase):
    """What is optional for a store is optional in its contract."""

    def setUp(self) -> None:
        self.store = PlainStore(durable=True)

    def make_store(self) -> IMessageStore:
        return self.store


class PlainStoreHistoryTests(StoreHistoryContract, SynchronousTestCase):
    """The same over any history."""

    histories = 3

    def make_place(self) -> None:
        self.reactor = TurnedReactor()
        self.place = PlainStore(durable=True)

    def make_store(self) -> IMessageStore:
        return self.place


class DurableMemoryMessageStoreTests(MessageStoreContract, TestCase):
    """The same for tests of restarts, in which the object stands for the disk."""

    def setUp(self) -> None:
        self.store = MemoryMessageStore(durable=True)

    def make_store(self) -> IMessageStore:
        return self.store


class LargeMemoryMessageStoreTests(TestCase):
    """Look-ups that do not scan all messages."""

    async def test_log_that_loses_its_beginning(self) -> None:
        """After any trims, entries are found by their numbers, and their bytes are counted."""
        store = MemoryMessageStore()
        await store.open()
        await store.commit([PutQueue(ORDERS)])
        for number in range(1000):
            await store.commit(
                [
                    AppendLog(ORDERS.identifier, number, bytes(10), float(number)),
                    TrimLog(ORDERS.identifier, before=float(number - 70)),
                    AppendEvent(float(number), bytes([number % 3]) * 20, "tick"),
                    TrimEvents(71),
                ]
            )
            kept = range(max(1, number + 1 - 70), number + 2)
            extent = await store.log_extent(ORDERS.identifier)
            self.assertEqual(extent, LogExtent(kept[0], kept[-1], len(kept), 10 * len(kept), kept[0] - 1))
        found = await store.read_log(ORDERS.identifier, 990, 5)
        self.assertEqual([entry.sequence for entry in found], [991, 992, 993, 994, 995])
        found = await store.read_log(ORDERS.identifier, 5, 1)
        self.assertEqual([entry.sequence for entry in found], [930])
        events = await store.read_events(950, 3)
        self.assertEqual([entry.sequence for entry in events], [951, 952, 953])
        events = await store.read_events(950, 3, bytes([1]) * 20)
        self.assertEqual([entry.sequence for entry in events], [953, 956, 959])
        self.assertEqual(len(await store.read_events(0, 1000, bytes([1]) * 20)), 23)

    async def test_copies_of_one_message(self) -> None:
        """Each of several messages with one identity is found until it is removed, moved or replaced."""
        store = MemoryMessageStore()
        await store.open()
        await store.commit([PutQueue(ORDERS)])
        one, other = packet_of(UUID(int=1), 1), packet_of(UUID(int=1), 2)
        await store.commit([put(number, one) for number in range(4)])
        await store.commit([remove(1), move(2, 12, target=ORDERS), put(3, other)])
        for message_id, expected in ((1, [0, 12]), (2, [3]), (3, [])):
            found = await store.find(identity(UUID(int=1), message_id))
            self.assertEqual(sorted(lookup_id for _, lookup_id in found), expected)
