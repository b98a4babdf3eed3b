"""Contract of every L{IMessageStore}: express messages, which need not survive the process."""

from __future__ import annotations

from uuid import UUID

from msmq.interfaces import MessageNotStored, UnknownQueue
from msmq.persistence.changes import AppendEvent, Change, MoveMessage, PutAborts, PutQueue, RemoveQueue
from msmq.testing.contracts.store_contract import (
    BILLS,
    HIGHEST,
    ORDERS,
    StoreContract,
    identity,
    packet_of,
    put,
    remove,
)

SOURCE = UUID("11111111-2222-3333-4444-555555555555")


class ExpressContract(StoreContract):
    """Express messages are stored until the next start."""

    async def test_express_message_is_read(self) -> None:
        """Express messages are read together with others, in the requested order."""
        store = await self.opened(PutQueue(ORDERS), put(1, b"one"), put(3, b"three"))
        await store.commit([put(2, b"two", is_express=True), put(HIGHEST, b"last", is_express=True)])
        self.assertEqual(
            list(await self.packets(store, HIGHEST, 3, 2, 1)), [b"last", b"three", b"two", b"one"]
        )

    async def test_express_message_is_gone_after_a_restart(self) -> None:
        """After a restart they are not stored any more, and all others are."""
        store = await self.opened(PutQueue(ORDERS), put(1, b"one"), put(2, is_express=True))
        await store.commit([put(3, b"three"), put(4, is_express=True)])
        again, snapshot = await self.reopened(store)
        if store.durable:
            self.assertEqual([entry[0] for entry in snapshot.messages[ORDERS.identifier]], [1, 3])
            self.assertEqual(list(await self.packets(again, 1, 3)), [b"one", b"three"])
            await again.commit([put(2, b"new", is_express=True)])
            self.assertEqual(list(await self.packets(again, 2)), [b"new"])
            await self.assert_missing(again, 4)

    async def test_express_message_is_removed(self) -> None:
        """It is removed as an express message, and removing a missing one has no effect."""
        store = await self.opened(PutQueue(ORDERS))
        await store.commit([put(1, b"one", is_express=True), put(2, is_express=True), put(3, b"three")])
        await store.commit([remove(2, 3, 77, is_express=True), remove(1)])
        self.assertEqual(list(await self.packets(store, 1, 3)), [b"one", b"three"])
        await self.assert_missing(store, 2)

    async def test_express_message_is_replaced(self) -> None:
        """An express message that is put twice is stored once."""
        store = await self.opened(PutQueue(ORDERS))
        for packet in (b"one", b"other"):
            await store.commit([put(1, packet, is_express=True)])
        self.assertEqual(list(await self.packets(store, 1)), [b"other"])
        await store.commit([remove(1, is_express=True)])
        await self.assert_missing(store, 1)

    async def test_express_message_moves(self) -> None:
        """It moves, stays express, and has its aborts counted."""
        store = await self.opened(PutQueue(ORDERS), PutQueue(BILLS))
        await store.commit([put(1, b"one", is_express=True), put(2, b"two", is_express=True)])
        await store.commit(
            [
                MoveMessage(ORDERS.identifier, 1, BILLS.identifier, 5, moves=1, is_express=True),
                MoveMessage(ORDERS.identifier, 2, BILLS.identifier, 6),
                PutAborts(ORDERS.identifier, 2, 1, is_express=True),
                PutAborts(ORDERS.identifier, 2, 1),
            ]
        )
        self.assertEqual(list(await store.read(BILLS.identifier, [5])), [b"one"])
        self.assertEqual(list(await self.packets(store, 2)), [b"two"])
        await self.assert_missing(store, 1)
        again, snapshot = await self.reopened(store)
        if store.durable:
            self.assertEqual(sum(len(kept) for kept in snapshot.messages.values()), 0)
            await self.refused(again.read(BILLS.identifier, [5]), MessageNotStored)

    async def test_express_message_is_found(self) -> None:
        """It is found by its identity as any other."""
        store = await self.opened(PutQueue(ORDERS), put(1, packet_of(SOURCE, 5), is_express=True))
        self.assertEqual(list(await store.find(identity(SOURCE, 5))), [(ORDERS.identifier, 1)])

    async def test_express_messages_go_with_their_queue(self) -> None:
        """Removing a queue removes them; a new queue of the same identifier is empty."""
        store = await self.opened(PutQueue(ORDERS), put(1, packet_of(SOURCE, 5), is_express=True))
        await store.commit([put(2, is_express=True), RemoveQueue(ORDERS.identifier)])
        self.assertEqual(list(await store.find(identity(SOURCE, 5))), [])
        await store.commit([PutQueue(ORDERS)])
        for lookup_id in (1, 2):
            await self.assert_missing(store, lookup_id)

    async def test_batch_with_express_messages_is_all_or_nothing(self) -> None:
        """A failed batch of both kinds stores neither."""
        store = await self.opened(PutQueue(ORDERS), put(1, b"one", is_express=True))
        batch: list[Change] = [
            put(2),
            put(3, is_express=True),
            remove(1, is_express=True),
            AppendEvent(1.0, b"", "removed"),
            put(4, queue=BILLS, is_express=True),
        ]
        error = await self.refused(store.commit(batch), UnknownQueue)
        self.assertEqual(error.queue, BILLS.identifier)
        self.assertEqual(list(await self.packets(store, 1)), [b"one"])
        for lookup_id in (2, 3):
            await self.assert_missing(store, lookup_id)
        self.assertEqual(list(await store.read_events(0, 10)), [])

    async def test_many_express_messages(self) -> None:
        """Five thousand are stored while other commits are pending, and removed again."""
        store = await self.opened(PutQueue(ORDERS))
        numbers = range(5000)
        commits = [
            store.commit([put(number, b"%d" % number, is_express=number % 3 > 0) for number in some])
            for some in (numbers[:2000], numbers[2000:2001], numbers[2001:])
        ]
        for commit in commits:
            await commit
        self.assertEqual(list(await self.packets(store, *numbers)), [b"%d" % number for number in numbers])
        await store.commit([remove(*numbers, is_express=True)])
        await self.assert_missing(store, 1)
        self.assertEqual(list(await self.packets(store, 0, 4998)), [b"0", b"4998"])
