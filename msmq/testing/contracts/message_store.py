"""Contract of every L{IMessageStore}."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import attrs
from twisted.internet.defer import CancelledError, Deferred
from zope.interface.verify import verifyObject

from msmq.interfaces import IMessageStore, MessageNotStored, StorageError, StoreNotOpen, UnknownQueue
from msmq.persistence.changes import (
    Change,
    PutMessages,
    PutQueue,
    PutState,
    RemoveMessages,
    RemoveQueue,
    RemoveState,
)
from msmq.persistence.definition import QueueDefinition, QueueType
from msmq.testing.contracts.store_contract import (
    ARRIVED,
    BILLS,
    HIGHEST,
    ORDERS,
    REMOTE,
    accepted_changes,
    put,
)
from msmq.testing.contracts.store_events import EventContract
from msmq.testing.contracts.store_express import ExpressContract
from msmq.testing.contracts.store_logs import LogContract
from msmq.testing.contracts.store_moves import MoveContract
from msmq.testing.contracts.store_restores import RestoreContract

__all__ = ["BILLS", "HIGHEST", "ORDERS", "REMOTE", "MessageStoreContract", "put"]


class MessageStoreContract(MoveContract, ExpressContract, LogContract, EventContract, RestoreContract):
    """Mixin for a C{TestCase} that creates the store under test."""

    def test_provides_the_interface(self) -> None:
        """A store has every method, and provides the interface."""
        store = self.make_store()
        verifyObject(IMessageStore, store)
        self.assertIsInstance(store.name, str)
        self.assertIsInstance(store.durable, bool)

    async def test_new_store_is_empty(self) -> None:
        """An unused store holds no queues, no messages and no state."""
        snapshot = await self.make_store().open()
        self.assertEqual((list(snapshot.queues), dict(snapshot.state)), ([], {}))
        self.assertEqual(sum(len(messages) for messages in snapshot.messages.values()), 0)

    async def test_packets_are_read_unchanged(self) -> None:
        """Packets are read unchanged, in the requested order."""
        packets = [bytes(range(256)), b"", b"\0" * 100_000]
        store = await self.opened(PutQueue(ORDERS))
        await store.commit([put(number, packet) for number, packet in enumerate(packets)])
        self.assertEqual(list(await self.packets(store, 2, 0, 1)), [packets[2], packets[0], packets[1]])

    async def test_messages_in_one_change(self) -> None:
        """Consecutive messages in one change are stored like single ones, and replace existing ones."""
        store = await self.opened(PutQueue(ORDERS), put(8, b"before"), put(20, b"later"))
        for run in (
            PutMessages(ORDERS.identifier, 3, [b"3", b"", b"5"], 1.5),
            PutMessages(ORDERS.identifier, 7, [b"7", b"8" * 1000], 2.5, 1000),
        ):
            await store.commit(accepted_changes(store, [run]))
        self.assertEqual(list(await self.packets(store, 3, 4, 5)), [b"3", b"", b"5"])
        self.assertEqual(list(await self.packets(store, 8, 7, 20)), [b"8" * 1000, b"7", b"later"])
        if store.durable:
            kept = (await self.snapshot(store)).messages[ORDERS.identifier]
            self.assertEqual(
                [(each[0], each[1], each[2], *each[3:]) for each in kept][:5],
                [
                    (3, 1, 1.5, None, 0, 0),
                    (4, 0, 1.5, None, 0, 0),
                    (5, 1, 1.5, None, 0, 0),
                    (7, 1, 2.5, 1000, 0, 0),
                    (8, 1000, 2.5, 1000, 0, 0),
                ],
            )

    async def test_messages_in_one_change_need_their_queue(self) -> None:
        """All of them are refused if a single one would be, with the whole batch."""
        store = await self.opened(PutQueue(ORDERS))
        run = PutMessages(BILLS.identifier, 1, [b"1", b"2"], 1.0)
        await self.refused(store.commit(accepted_changes(store, [put(9, b"9"), run])), UnknownQueue)
        await self.assert_missing(store, 9)

    async def test_lookup_ids_of_64_bits(self) -> None:
        """All 64 bits of a LookupIdentifier are stored."""
        store = await self.opened(PutQueue(ORDERS), put(HIGHEST, b"last"), put(1, b"first"))
        self.assertEqual(list(await self.packets(store, HIGHEST, 1)), [b"last", b"first"])

    async def test_reading_no_message(self) -> None:
        """A read of no messages returns none."""
        store = await self.opened(PutQueue(ORDERS))
        self.assertEqual(list(await self.packets(store)), [])

    async def test_queues_keep_apart(self) -> None:
        """Messages of two queues may have the same LookupIdentifier."""
        store = await self.opened(
            PutQueue(ORDERS), PutQueue(BILLS), put(7, b"order"), put(7, b"bill", queue=BILLS)
        )
        self.assertEqual(list(await self.packets(store, 7)), [b"order"])
        self.assertEqual(list(await store.read(BILLS.identifier, [7])), [b"bill"])

    async def test_missing_message_is_named(self) -> None:
        """Reading a missing message fails, and the error names it."""
        store = await self.opened(PutQueue(ORDERS), put(1))
        error = await self.refused(store.read(ORDERS.identifier, [1, 2]), MessageNotStored)
        self.assertEqual((error.queue, error.lookup_id), (ORDERS.identifier, 2))

    async def test_message_of_unknown_queue_is_missing(self) -> None:
        """Reading from a missing queue fails in the same way."""
        await self.assert_missing(await self.opened(), 1)

    async def test_removed_message_is_missing(self) -> None:
        """A removed message cannot be read; other messages can."""
        store = await self.opened(PutQueue(ORDERS), put(1, b"one"), put(2), put(3, b"three"))
        await store.commit([RemoveMessages(ORDERS.identifier, (2,))])
        await self.assert_missing(store, 2)
        self.assertEqual(list(await self.packets(store, 1, 3)), [b"one", b"three"])

    async def test_removing_nothing_is_done(self) -> None:
        """Removing a missing message has no effect."""
        store = await self.opened(PutQueue(ORDERS), put(1, b"one"))
        await store.commit(
            [
                RemoveMessages(ORDERS.identifier, (2, 3)),
                RemoveMessages(BILLS.identifier, (1,)),
                RemoveQueue(BILLS.identifier),
                RemoveMessages(ORDERS.identifier, ()),
            ]
        )
        self.assertEqual(list(await self.packets(store, 1)), [b"one"])

    async def test_message_is_replaced(self) -> None:
        """A message that is put twice is stored once, with its second value."""
        store = await self.opened(PutQueue(ORDERS), put(1, b"one"), put(1, b"other"))
        self.assertEqual(list(await self.packets(store, 1)), [b"other"])

    async def test_removing_a_queue_removes_its_messages(self) -> None:
        """Removing a queue removes its messages; a new queue of the same identifier is empty."""
        store = await self.opened(PutQueue(ORDERS), put(1), RemoveQueue(ORDERS.identifier))
        await self.assert_missing(store, 1)
        await store.commit([PutQueue(ORDERS)])
        await self.assert_missing(store, 1)

    async def test_replacing_a_definition_keeps_the_messages(self) -> None:
        """Changing the properties of a queue keeps its messages."""
        changed = QueueDefinition(
            identifier=ORDERS.identifier, path="private$\\orders", number=16, label="new"
        )
        store = await self.opened(PutQueue(ORDERS), put(1, b"one"), PutQueue(changed))
        self.assertEqual(list(await self.packets(store, 1)), [b"one"])

    async def test_batch_is_all_or_nothing(self) -> None:
        """If one change of a batch fails, none is made, and the store stays usable."""
        store = await self.opened(PutQueue(ORDERS), put(1, b"one"))
        batch: list[Change] = [put(2), RemoveMessages(ORDERS.identifier, (1,)), put(3, queue=BILLS), put(4)]
        error = await self.refused(store.commit(batch), UnknownQueue)
        self.assertEqual(error.queue, BILLS.identifier)
        self.assertEqual(list(await self.packets(store, 1)), [b"one"])
        await self.assert_missing(store, 2)
        await self.assert_missing(store, 4)
        await store.commit([put(2, b"two")])
        self.assertEqual(list(await self.packets(store, 2)), [b"two"])

    async def test_changes_are_done_in_order(self) -> None:
        """A later change of a batch sees the earlier ones."""
        store = await self.opened()
        await store.commit(
            [
                PutQueue(ORDERS),
                put(1),
                RemoveMessages(ORDERS.identifier, (1,)),
                put(2),
                RemoveQueue(ORDERS.identifier),
                PutQueue(ORDERS),
                put(3, b"three"),
            ]
        )
        self.assertEqual(list(await self.packets(store, 3)), [b"three"])
        await self.assert_missing(store, 1)
        await self.assert_missing(store, 2)

    async def test_message_of_a_removed_queue_is_refused(self) -> None:
        """A batch cannot put a message in a queue that it removed."""
        store = await self.opened(PutQueue(ORDERS))
        await self.refused(store.commit([RemoveQueue(ORDERS.identifier), put(1)]), UnknownQueue)
        await store.commit([put(2, b"two")])
        self.assertEqual(list(await self.packets(store, 2)), [b"two"])

    async def test_empty_batch(self) -> None:
        """An empty batch succeeds."""
        store = await self.opened()
        await store.commit([])
        await store.commit([PutQueue(ORDERS)])

    async def test_concurrent_batches(self) -> None:
        """Concurrent batches are committed in order, and a later read sees them."""
        store = await self.opened(PutQueue(ORDERS))
        commits = [store.commit([put(1, b"%d" % number), put(2 + number)]) for number in range(50)]
        reading = store.read(ORDERS.identifier, [1, 51])
        for commit in commits:
            await commit
        self.assertEqual(list(await reading), [b"49", b"packet"])

    async def test_cancelled_requests(self) -> None:
        """A caller that stops waiting for a commit or a read does not affect other requests."""
        store = await self.opened(PutQueue(ORDERS), put(1))
        cancelled: list[Deferred[Any]] = [
            store.commit([put(2)]).addErrback(lambda failure: failure.trap(CancelledError) and None),
            store.read(ORDERS.identifier, [1]).addErrback(
                lambda failure: failure.trap(CancelledError) and ()
            ),
        ]
        after = store.commit([put(3)])
        reading = store.read(ORDERS.identifier, [1, 3])
        for request in cancelled:
            request.cancel()
        await after
        self.assertEqual(list(await reading), [b"packet", b"packet"])
        await store.commit([put(4)])
        self.assertEqual(list(await self.packets(store, 4)), [b"packet"])

    async def test_big_batch(self) -> None:
        """Ten thousand messages are put by one batch, and removed by one."""
        store = await self.opened(PutQueue(ORDERS))
        numbers = range(10_000)
        await store.commit([put(number, b"%d" % number) for number in numbers])
        self.assertEqual(list(await self.packets(store, *numbers)), [b"%d" % number for number in numbers])
        await store.commit([RemoveMessages(ORDERS.identifier, tuple(numbers))])
        await self.assert_missing(store, 0)
        await self.assert_missing(store, 9_999)

    async def test_largest_packet(self) -> None:
        """A packet of 4 MiB, the maximum, is read unchanged."""
        packet = bytes(range(256)) * (0x00400000 // 256)
        store = await self.opened(PutQueue(ORDERS), put(1, packet))
        self.assertEqual((await self.packets(store, 1))[0], packet)

    async def test_closed_store_refuses(self) -> None:
        """Before it is opened and after it is closed, a store refuses requests."""
        store = self.make_store()
        await self.refused(store.commit([PutQueue(ORDERS)]), StoreNotOpen)
        await store.open()
        await store.close()
        await self.refused(store.commit([PutQueue(ORDERS)]), StoreNotOpen)
        for asked in (
            store.read(ORDERS.identifier, []),
            store.find(bytes(20)),
            store.read_log(ORDERS.identifier, 0, 1),
            store.log_extent(ORDERS.identifier),
            store.read_events(0, 1),
        ):
            await self.refused(asked, StoreNotOpen)

    async def test_closing_twice(self) -> None:
        """Closing a closed store does nothing."""
        store = await self.opened()
        await store.close()
        await store.close()

    async def test_opening_twice_is_refused(self) -> None:
        """An open store cannot be opened again."""
        store = await self.opened()
        await self.refused(store.open(), StorageError)

    async def test_closing_finishes_pending_batches(self) -> None:
        """Batches submitted before the store is closed are committed."""
        store = await self.opened(PutQueue(ORDERS))
        commits = [store.commit([put(number)]) for number in range(20)]
        closing = store.close()
        for commit in commits:
            await commit
        await closing

    async def test_what_is_there_after_a_restart(self) -> None:
        """After a restart a durable store returns exactly the stored data."""
        store = await self.opened(
            PutQueue(BILLS), PutQueue(ORDERS), PutQueue(REMOTE), PutState("sequential_id", b"\1\0\xff")
        )
        await store.commit([put(HIGHEST, b"12345"), put(2, b""), put(1, b"1", queue=REMOTE), put(5)])
        await store.commit([RemoveMessages(ORDERS.identifier, (5,)), PutState("other", b"")])
        again, snapshot = await self.reopened(store)
        if not store.durable:
            self.assertEqual((list(snapshot.queues), dict(snapshot.state)), ([], {}))
            return
        self.assertEqual(list(snapshot.queues), [BILLS, ORDERS, REMOTE])
        self.assertEqual(
            list(snapshot.messages[ORDERS.identifier]),
            [(2, 0, ARRIVED, None, 0, 0), (HIGHEST, 5, ARRIVED, None, 0, 0)],
        )
        self.assertEqual(len(snapshot.messages[REMOTE.identifier]), 1)
        self.assertEqual(len(snapshot.messages.get(BILLS.identifier, ())), 0)
        self.assertEqual(dict(snapshot.state), {"sequential_id": b"\1\0\xff", "other": b""})
        self.assertEqual(list(await self.packets(again, HIGHEST, 2)), [b"12345", b""])

    async def test_what_is_gone_after_a_restart(self) -> None:
        """A removed queue and its messages are not there after a restart."""
        store = await self.opened(PutQueue(ORDERS), put(1), RemoveQueue(ORDERS.identifier))
        again, snapshot = await self.reopened(store)
        self.assertEqual(list(snapshot.queues), [])
        self.assertEqual(sum(len(messages) for messages in snapshot.messages.values()), 0)
        await self.assert_missing(again, 1)

    async def test_replaced_values_after_a_restart(self) -> None:
        """After a restart a queue or state value that was put twice has its second value."""
        changed = QueueDefinition(identifier=ORDERS.identifier, path="private$\\orders", number=16, quota=5)
        store = await self.opened(
            PutQueue(ORDERS), PutState("n", b"1"), PutQueue(changed), PutState("n", b"2")
        )
        _, snapshot = await self.reopened(store)
        if store.durable:
            self.assertEqual((list(snapshot.queues), dict(snapshot.state)), ([changed], {"n": b"2"}))

    async def test_all_that_is_known_of_a_message_after_a_restart(self) -> None:
        """After a restart a message has its expiry, AbortCount and MoveCount."""
        store = await self.opened(
            PutQueue(ORDERS),
            put(1, due=1_800_000_000, aborts=3, moves=70_000),
            put(2, due=1, aborts=1, moves=1),
            put(2, due=None),
            put(3, due=0x1FFFFFFFF),
        )
        snapshot = await self.snapshot(store)
        if store.durable:
            self.assertEqual(
                list(snapshot.messages[ORDERS.identifier]),
                [
                    (1, 6, ARRIVED, 1_800_000_000, 3, 70_000),
                    (2, 6, ARRIVED, None, 0, 0),
                    (3, 6, ARRIVED, 0x1FFFFFFFF, 0, 0),
                ],
            )

    async def test_every_kind_of_queue_after_a_restart(self) -> None:
        """After a restart journals, subqueues and system queues are the same, in creation order."""
        journal = QueueDefinition(
            identifier=UUID(int=1),
            path="private$\\orders;journal",
            type=QueueType.SYSTEM,
            quota=7,
            parent=ORDERS.identifier,
        )
        subqueue = QueueDefinition(
            identifier=UUID(int=2),
            path="private$\\orders;poison",
            transactional=True,
            parent=ORDERS.identifier,
        )
        dead = QueueDefinition(
            identifier=UUID(int=3), path="system$;deadxact", type=QueueType.SYSTEM, transactional=True
        )
        logged = QueueDefinition(
            identifier=UUID(int=4), path="private$\\l", log=True, log_age=86_400, log_size=0
        )
        definitions = [dead, ORDERS, subqueue, journal, logged]
        store = await self.opened(*map(PutQueue, definitions), put(1, queue=journal), put(1, queue=subqueue))
        snapshot = await self.snapshot(store)
        if store.durable:
            self.assertEqual(list(snapshot.queues), definitions)
            self.assertEqual(
                {queue for queue, kept in snapshot.messages.items() if kept},
                {journal.identifier, subqueue.identifier},
            )

    async def test_order_of_queues(self) -> None:
        """A queue that is put again keeps its position; one that was removed before is last."""
        first, second, third = (QueueDefinition(UUID(int=n), path=f"private$\\q{n}") for n in (9, 2, 5))
        changed = attrs.evolve(first, quota=7)
        store = await self.opened(*map(PutQueue, (first, second, third)), PutQueue(changed))
        await store.commit([RemoveQueue(second.identifier), PutQueue(second)])
        snapshot = await self.snapshot(store)
        if store.durable:
            self.assertEqual(list(snapshot.queues), [changed, third, second])

    async def test_state_is_removed(self) -> None:
        """A removed value is not stored any more; removing a missing one has no effect."""
        store = await self.opened(
            PutState("a", b"1"), PutState("b", b"2"), PutState("c", b"3"), RemoveState("a")
        )
        await store.commit([RemoveState("none"), RemoveState("b"), PutState("b", b"4"), RemoveState("c")])
        snapshot = await self.snapshot(store)
        if store.durable:
            self.assertEqual(dict(snapshot.state), {"b": b"4"})
