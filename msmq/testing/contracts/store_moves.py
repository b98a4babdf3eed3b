"""Contract of every L{IMessageStore}: moves, abort counts and searches."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from msmq.interfaces import IMessageStore, MessageNotStored, UnknownQueue
from msmq.persistence.changes import MoveMessage, PutAborts, PutQueue, RemoveQueue
from msmq.persistence.definition import QueueDefinition
from msmq.testing.contracts.store_contract import (
    ARRIVED,
    BILLS,
    HIGHEST,
    ORDERS,
    StoreContract,
    identity,
    packet_of,
    put,
    remove,
)

ALICE = UUID("11111111-2222-3333-4444-555555555555")
BOB = UUID("66666666-7777-8888-9999-aaaaaaaaaaaa")


def move(
    lookup_id: int,
    new_lookup_id: int,
    *,
    queue: QueueDefinition = ORDERS,
    target: QueueDefinition = BILLS,
    due: int | None = None,
    aborts: int = 0,
    moves: int = 0,
    is_express: bool = False,
) -> MoveMessage:
    """Create a change that moves a message to another queue."""
    return MoveMessage(
        queue.identifier, lookup_id, target.identifier, new_lookup_id, due, aborts, moves, is_express
    )


class MoveContract(StoreContract):
    """Moving messages, counting aborts, finding messages."""

    async def bills(self, store: IMessageStore, *lookup_ids: int) -> Sequence[bytes]:
        return await store.read(BILLS.identifier, lookup_ids)

    async def assert_no_bill(self, store: IMessageStore, lookup_id: int) -> None:
        await self.refused(store.read(BILLS.identifier, [lookup_id]), MessageNotStored)

    async def both_queues(self) -> IMessageStore:
        """A store with messages 1 and 2 in one queue and 9 in another."""
        return await self.opened(
            PutQueue(ORDERS), PutQueue(BILLS), put(1, b"one"), put(2, b"two"), put(9, b"nine", queue=BILLS)
        )

    async def test_message_moves(self) -> None:
        """A moved message is only in the target, under its new LookupIdentifier."""
        store = await self.both_queues()
        await store.commit([move(1, HIGHEST)])
        await self.assert_missing(store, 1)
        self.assertEqual(list(await self.bills(store, HIGHEST, 9)), [b"one", b"nine"])
        self.assertEqual(list(await self.packets(store, 2)), [b"two"])

    async def test_moved_message_after_a_restart(self) -> None:
        """It keeps its ArrivalTime; its expiry and counts are those of the move."""
        store = await self.opened(PutQueue(ORDERS), PutQueue(BILLS), put(1, b"one", due=5, aborts=1, moves=1))
        await store.commit([move(1, 7, due=None, aborts=2, moves=3)])
        snapshot = await self.snapshot(store)
        if store.durable:
            self.assertEqual(list(snapshot.messages[BILLS.identifier]), [(7, 3, ARRIVED, None, 2, 3)])
            self.assertEqual(list(snapshot.messages.get(ORDERS.identifier, ())), [])

    async def test_moving_nothing_is_done(self) -> None:
        """A missing message is not moved, and a message at the target of the move stays."""
        store = await self.both_queues()
        gone = QueueDefinition(identifier=UUID(int=0xEE), path="private$\\gone")
        await store.commit([move(5, 9), move(1, 9, queue=gone), move(2, 8)])
        self.assertEqual(list(await self.bills(store, 9, 8)), [b"nine", b"two"])

    async def test_moving_into_an_unknown_queue(self) -> None:
        """The whole batch fails if the target does not exist, or was removed earlier in the batch."""
        store = await self.opened(PutQueue(ORDERS), put(1, b"one"))
        error = await self.refused(store.commit([remove(1), move(1, 7)]), UnknownQueue)
        self.assertEqual(error.queue, BILLS.identifier)
        await store.commit([PutQueue(BILLS)])
        await self.refused(store.commit([RemoveQueue(BILLS.identifier), move(1, 7)]), UnknownQueue)
        self.assertEqual(list(await self.packets(store, 1)), [b"one"])
        await store.commit([move(1, 7)])
        self.assertEqual(list(await self.bills(store, 7)), [b"one"])

    async def test_moving_within_a_queue(self) -> None:
        """A message may get another position in its queue, or only other counts."""
        store = await self.both_queues()
        await store.commit([move(1, 3, target=ORDERS), move(2, 2, target=ORDERS, moves=4)])
        await self.assert_missing(store, 1)
        self.assertEqual(list(await self.packets(store, 3, 2)), [b"one", b"two"])
        snapshot = await self.snapshot(store)
        if store.durable:
            self.assertEqual(
                list(snapshot.messages[ORDERS.identifier]),
                [(2, 3, ARRIVED, None, 0, 4), (3, 3, ARRIVED, None, 0, 0)],
            )

    async def test_moving_onto_another(self) -> None:
        """A moved message replaces one at its new position."""
        store = await self.both_queues()
        await store.commit([move(1, 9)])
        self.assertEqual(list(await self.bills(store, 9)), [b"one"])
        await self.assert_missing(store, 1)

    async def test_moving_on(self) -> None:
        """A message that moves twice in one batch is only at its last position."""
        store = await self.both_queues()
        await store.commit([move(1, 5), move(5, 6, queue=BILLS, target=ORDERS), move(6, 7)])
        self.assertEqual(list(await self.bills(store, 7)), [b"one"])
        await self.assert_no_bill(store, 5)
        await self.assert_missing(store, 6)

    async def test_exchanging_positions(self) -> None:
        """Two messages exchange their positions by a third one."""
        store = await self.both_queues()
        await store.commit([move(1, 3, target=ORDERS), move(2, 1, target=ORDERS), move(3, 2, target=ORDERS)])
        self.assertEqual(list(await self.packets(store, 1, 2)), [b"two", b"one"])
        await self.assert_missing(store, 3)

    async def test_putting_and_moving(self) -> None:
        """A message can move in the batch in which it was put, and its first position is free again."""
        store = await self.both_queues()
        await store.commit(
            [put(3, b"three"), move(3, 3, moves=1), put(3, b"other"), move(2, 2), put(2, b"new")]
        )
        self.assertEqual(list(await self.bills(store, 3, 2)), [b"three", b"two"])
        self.assertEqual(list(await self.packets(store, 3, 2)), [b"other", b"new"])

    async def test_removing_and_moving(self) -> None:
        """A message removed before does not move; one removed afterwards is removed at its new position."""
        store = await self.both_queues()
        await store.commit([remove(1), move(1, 9), move(2, 4), remove(4, queue=BILLS)])
        self.assertEqual(list(await self.bills(store, 9)), [b"nine"])
        for lookup_id in (1, 2):
            await self.assert_missing(store, lookup_id)
        await self.assert_no_bill(store, 4)

    async def test_emptying_a_position_for_a_move(self) -> None:
        """A message can move to a position that was emptied, or filled, earlier in the batch."""
        store = await self.both_queues()
        await store.commit([remove(9, queue=BILLS), move(1, 9), put(8, b"eight", queue=BILLS), move(2, 8)])
        self.assertEqual(list(await self.bills(store, 9, 8)), [b"one", b"two"])

    async def test_moving_nothing_onto_what_was_aborted(self) -> None:
        """The move of a missing message does not affect the AbortCount of the message at its target."""
        store = await self.both_queues()
        await store.commit([PutAborts(BILLS.identifier, 9, 7), move(5, 9, aborts=2)])
        snapshot = await self.snapshot(store)
        if store.durable:
            self.assertEqual(list(snapshot.messages[BILLS.identifier]), [(9, 4, ARRIVED, None, 7, 0)])

    async def test_queue_that_is_removed_after_a_move(self) -> None:
        """A moved message is removed with its new queue, not with its old one."""
        store = await self.both_queues()
        await store.commit(
            [move(9, 9, queue=BILLS, target=ORDERS), move(1, 1), RemoveQueue(BILLS.identifier)]
        )
        self.assertEqual(list(await self.packets(store, 2, 9)), [b"two", b"nine"])
        await self.assert_missing(store, 1)
        await store.commit([PutQueue(BILLS)])
        await self.assert_no_bill(store, 1)

    async def test_many_move(self) -> None:
        """Two thousand messages move in one batch, each to its position."""
        store = await self.opened(PutQueue(ORDERS), PutQueue(BILLS))
        numbers = range(2000)
        await store.commit([put(number, b"%d" % number) for number in numbers])
        await store.commit([move(number, 5000 - number) for number in numbers])
        places = [5000 - number for number in numbers]
        self.assertEqual(list(await self.bills(store, *places)), [b"%d" % number for number in numbers])
        await self.assert_missing(store, 0)

    async def test_aborts_are_counted(self) -> None:
        """Only the AbortCount changes; for a missing message there is no effect."""
        store = await self.opened(PutQueue(ORDERS), put(1, b"one", due=5, moves=2), put(2, b"two", aborts=1))
        queue = ORDERS.identifier
        await store.commit(
            [PutAborts(queue, 1, 7), PutAborts(queue, 5, 1), PutAborts(BILLS.identifier, 1, 1)]
        )
        await store.commit([put(3), PutAborts(queue, 3, 1), PutAborts(queue, 3, 2), PutAborts(queue, 1, 8)])
        await store.commit([remove(2), PutAborts(queue, 2, 9)])
        self.assertEqual(list(await self.packets(store, 1)), [b"one"])
        await self.assert_missing(store, 2)
        snapshot = await self.snapshot(store)
        if store.durable:
            self.assertEqual(
                list(snapshot.messages[queue]), [(1, 3, ARRIVED, 5, 8, 2), (3, 6, ARRIVED, None, 2, 0)]
            )

    async def test_aborts_and_moves_in_one_batch(self) -> None:
        """The last count in a batch applies, of the move or of the abort."""
        store = await self.both_queues()
        await store.commit(
            [
                PutAborts(ORDERS.identifier, 1, 5),
                move(1, 1, aborts=6),
                move(2, 2, aborts=7),
                PutAborts(BILLS.identifier, 2, 8),
                PutAborts(ORDERS.identifier, 2, 9),
            ]
        )
        snapshot = await self.snapshot(store)
        if store.durable:
            self.assertEqual(
                list(snapshot.messages[BILLS.identifier])[:2],
                [(1, 3, ARRIVED, None, 6, 0), (2, 3, ARRIVED, None, 8, 0)],
            )

    async def test_message_is_found(self) -> None:
        """A message is found by its identity in every queue that holds a copy."""
        store = await self.opened(PutQueue(ORDERS), PutQueue(BILLS))
        await store.commit(
            [
                put(1, packet_of(ALICE, 5)),
                put(HIGHEST, packet_of(ALICE, 5, b"copy"), queue=BILLS),
                put(3, packet_of(ALICE, 6)),
                put(4, packet_of(BOB, 5)),
            ]
        )
        found = await store.find(identity(ALICE, 5))
        self.assertEqual(set(found), {(ORDERS.identifier, 1), (BILLS.identifier, HIGHEST)})
        self.assertEqual(len(found), 2)
        self.assertEqual(list(await store.find(identity(BOB, 5))), [(ORDERS.identifier, 4)])
        self.assertEqual(list(await store.find(identity(BOB, 6))), [])

    async def test_message_is_found_where_it_is_now(self) -> None:
        """A moved message is found at its new position; a replaced or removed one is not found."""
        store = await self.opened(PutQueue(ORDERS), PutQueue(BILLS))
        await store.commit([put(number, packet_of(ALICE, number)) for number in range(5)])
        commits = [
            store.commit([move(1, 7)]),
            store.commit([remove(2)]),
            store.commit([put(3, packet_of(BOB, 3))]),
            store.commit([RemoveQueue(BILLS.identifier)]),
        ]
        finding = [store.find(identity(ALICE, number)) for number in range(5)]
        for commit in commits:
            await commit
        found = [list(await asked) for asked in finding]
        self.assertEqual(found, [[(ORDERS.identifier, 0)], [], [], [], [(ORDERS.identifier, 4)]])

    async def test_data_without_a_message_is_not_found(self) -> None:
        """Data too short for a message has no identity, not even an empty one."""
        store = await self.opened(PutQueue(ORDERS), put(1), put(2, b""), put(3, bytes(59)))
        self.assertEqual(list(await store.find(b"")), [])
        self.assertEqual(list(await store.find(bytes(20))), [])
        await store.commit([put(4, bytes(60))])
        self.assertEqual(list(await store.find(bytes(20))), [(ORDERS.identifier, 4)])
