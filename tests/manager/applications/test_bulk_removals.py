"""Purged and deleted messages of which nothing but an event is wanted: no packet is read for them."""

from __future__ import annotations

from zope.interface import implementer

from msmq.interfaces.storage import IMessageRuns
from msmq.persistence.changes import RemoveUnread
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.status import Status
from tests.manager.support import ASK_ALL, FaultyStore, ManagerTestCase


@implementer(IMessageRuns)
class BulkStore(FaultyStore):
    """A disk that takes changes of many messages."""


class BulkRemovalTests(ManagerTestCase):
    """Packets are in the store alone, so that each that is needed has to be read."""

    limits = {"packet_memory": 0}  # noqa: RUF012

    def make_store(self) -> FaultyStore:
        return BulkStore()

    def reported(self) -> list[tuple[str, bytes, int]]:
        """The events: kind, identity, class."""
        return [(event.event, event.identity, event.message_class) for event in self.events()]

    def test_purged(self) -> None:
        """Each message has the event that it has otherwise, and no packet is read."""
        sent = self.put(self.orders, b"1", b"2", b"3")
        self.store.reads = 0
        self.assertEqual(self.run_to_end(self.service.purge_queue(self.orders)), 3)
        self.assertEqual(self.store.reads, 0)
        self.assertEqual(
            self.reported(), [("purged", each.to_bytes(), MessageClass.NACK_Q_PURGED) for each in sent]
        )
        self.assertEqual(self.count(self.orders), 0)
        self.restart()
        self.assertEqual(self.seen(self.orders), [])

    def test_acknowledgements(self) -> None:
        """A sender that asked for it gets an acknowledgement; the others of its batch need no packet."""
        self.put(self.orders, b"plain")
        self.put(self.orders, b"wanted", acknowledge=ASK_ALL)
        self.put(self.orders, b"plain too")
        self.answers()
        self.store.reads = 0
        self.run_to_end(self.service.purge_queue(self.orders))
        self.assertEqual(self.store.reads, 1)
        self.assertEqual([name for name, _ in self.answers()], [MessageClass.NACK_Q_PURGED])
        self.assertEqual(len(self.reported()), 3)

    def test_transactional(self) -> None:
        """The sender of a transactional message learns of its end, so its packet is read."""
        self.put(self.payments, b"1")
        self.store.reads = 0
        self.run_to_end(self.service.purge_queue(self.payments))
        self.assertEqual(self.store.reads, 1)
        self.assertEqual(len(self.reported()), 1)

    def test_deleted(self) -> None:
        """The same for the messages of a deleted queue."""
        sent = self.put(self.orders, b"1", b"2")
        self.store.reads = 0
        self.run_to_end(self.service.delete_queue(self.orders))
        self.assertEqual(self.store.reads, 0)
        self.assertEqual(
            self.reported(), [("deleted", each.to_bytes(), MessageClass.NACK_Q_DELETED) for each in sent]
        )

    def test_failure(self) -> None:
        """If the store cannot remove them, they return to their positions, without an event."""
        self.put(self.orders, b"1", b"2")
        self.store.fail_commit(1, of=RemoveUnread)
        self.refused(self.service.purge_queue(self.orders), Status.MQ_ERROR_MESSAGE_STORAGE_FAILED)
        self.store.recover()
        self.assertEqual(self.seen(self.orders), [b"1", b"2"])
        self.assertEqual(self.reported(), [])


class EventLimitTests(ManagerTestCase):
    """An event log with a limit."""

    limits = {"packet_memory": 0, "events": 10}  # noqa: RUF012

    def make_store(self) -> FaultyStore:
        return BulkStore()

    def test_limit(self) -> None:
        """Events of many removals count against the limit of the event log like any others."""
        for _ in range(3):
            self.put(self.orders, *([b"x"] * 500))
        purging = self.deferred(self.service.purge_queue(self.orders))
        self.clock.advance(0)
        self.clock.advance(0)
        self.clock.advance(0)
        self.assertEqual(self.successResultOf(purging), 1500)
        self.assertLess(len(self.events()), 1010)
