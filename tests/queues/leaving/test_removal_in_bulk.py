"""Messages that leave unread, for a store that appends their events itself."""

from __future__ import annotations

from msmq.persistence.changes import (
    AppendEvent,
    Change,
    PutMessage,
    RemoveMessages,
    RemoveUnread,
)
from msmq.queues.leaving.copies import not_removed_in_bulk
from msmq.queues.leaving.departure_kinds import Departure
from msmq.structures.names.name_text import QueueSuffix
from msmq.structures.packet.message_class import MessageClass
from tests.builders import ALPHA, BETA
from tests.queues.builders import NOW, arriving
from tests.queues.leaving.copy_case import CopyCase, asking


class BulkTests(CopyCase):
    """Messages that leave unread, for a store that appends their events itself."""

    def setUp(self) -> None:
        super().setUp()
        self.alpha.put(
            self.queue,
            arriving(b"plain", recoverable=True),
            arriving(b"express"),
            asking(b"asks"),
            arriving(b"plain too", recoverable=True),
        )
        self.positions = sorted(self.queue.positions.values(), key=lambda each: each.lookup_id)
        numbers = {self.alpha.body(each): each.lookup_id for each in self.positions}
        self.numbers: dict[bytes, int] = numbers

    def tearDown(self) -> None:
        self.alpha.store.drain()

    def check(self, changes: list[Change], event: str, message_class: MessageClass, reason: str) -> None:
        """See that plain messages are removed in bulk, and the others one by one."""
        identifier = self.queue.definition.identifier
        plain = AppendEvent(
            NOW.wall, BETA.bytes_le + b"\1\0\0\0", event, reason, int(message_class), "private$\\orders"
        )
        [bulk] = [each for each in changes if isinstance(each, RemoveUnread)]
        plain_ones = (self.numbers[b"plain"], self.numbers[b"plain too"])
        self.assertEqual((bulk.queue, bulk.lookup_ids), (identifier, plain_ones))
        self.assertEqual(bulk.event, plain)
        events = [each for each in changes if isinstance(each, AppendEvent)]
        self.assertEqual({each.event for each in events}, {event})
        self.assertEqual(len(events), 2)
        removed = [each for each in changes if isinstance(each, RemoveMessages)]
        self.assertEqual(removed, [RemoveMessages(identifier, (self.numbers[b"asks"],))])

    def test_apart(self) -> None:
        """Express messages, and those whose sender is to be answered, do not go in bulk."""
        apart = not_removed_in_bulk(self.positions)
        self.assertEqual(
            {each.lookup_id for each in apart}, {self.numbers[b"express"], self.numbers[b"asks"]}
        )

    def test_departure(self) -> None:
        """A departure, purged for example, and only if its store takes that."""
        purged = MessageClass.NACK_Q_PURGED
        departure = Departure(self.queue, self.positions, purged, reason="by hand")
        model = self.alpha.model
        self.check(list(model.settle(departure, NOW, in_bulk=True).changes), "purged", purged, "by hand")
        one_by_one = model.settle(departure, NOW).changes
        self.assertEqual([type(each) for each in one_by_one].count(AppendEvent), 4)
        self.assertNotIn(RemoveUnread, map(type, one_by_one))

    def test_reported(self) -> None:
        """What is reported already has no further event, and leaves in any case."""
        departure = Departure(self.queue, self.positions, MessageClass.NACK_Q_PURGED, is_reported=True)
        for in_bulk in (True, False):
            [change] = self.alpha.model.settle(departure, NOW, in_bulk=in_bulk).changes
            assert isinstance(change, RemoveMessages)
            self.assertEqual(len(change.lookup_ids), 3)

    def test_all_alike(self) -> None:
        """Plain messages alone need one change."""
        plain = [each for each in self.positions if each.event_only]
        departure = Departure(self.queue, plain, MessageClass.NACK_Q_PURGED)
        changes = self.alpha.model.settle(departure, NOW, in_bulk=True).changes
        self.assertEqual([type(each) for each in changes], [RemoveUnread])
        departure = Departure(self.queue, plain[:1], MessageClass.NACK_Q_PURGED)
        [change] = self.alpha.model.settle(departure, NOW, in_bulk=True).changes
        assert isinstance(change, RemoveUnread)
        self.assertEqual((change.lookup_ids, change.event.time), ((plain[0].lookup_id,), NOW.wall))

    def test_deleted(self) -> None:
        """Messages of a deleted queue; the changes can be withdrawn, and be made again."""
        model = self.alpha.model
        deletion = model.delete_queue(self.queue)
        removal = model.delete_messages(list(deletion.positions), NOW, in_bulk=True)
        deleted = MessageClass.NACK_Q_DELETED
        self.check(list(removal.changes), "deleted", deleted, "")
        model.deletion_failed(removal)
        again = model.renew_deletion(removal, NOW, in_bulk=True)
        self.check(list(again.changes), "deleted", deleted, "")
        self.alpha.store.ask([each for each in again.changes if not isinstance(each, RemoveUnread)])
        self.alpha.perform(model.messages_deleted(again, NOW))
        self.alpha.store.ask(deletion.changes, lambda: model.deleted(deletion))
        self.assertEqual(model.message_count, 0)

    def test_dead_letters_are_withdrawn(self) -> None:
        """A dead letter of a deletion that is not stored is gone, and is made again with the deletion."""
        model = self.alpha.model
        queue = self.alpha.create("t", transactional=True)
        self.alpha.put(queue, asking(b"1", transactional=True, source=ALPHA))
        deletion = model.delete_queue(queue)
        removal = model.delete_messages(list(deletion.positions), NOW)
        deadxact = self.system(QueueSuffix.DEADXACT)
        self.assertEqual(deadxact.message_count, 1)
        model.deletion_failed(removal)
        self.assertEqual((deadxact.message_count, deadxact.is_stored), (0, False))
        again = model.renew_deletion(removal, NOW, in_bulk=False)
        self.assertEqual([type(each) for each in again.changes].count(PutMessage), 1)
        self.alpha.store.ask(again.changes)
        self.alpha.perform(model.messages_deleted(again, NOW))
        self.assertEqual(self.alpha.bodies(deadxact), [b"1"])
