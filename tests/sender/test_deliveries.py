"""Results of messages, from what a sender commits to its store."""

from __future__ import annotations

from typing import cast
from uuid import UUID

from twisted.internet.defer import CancelledError, Deferred
from twisted.trial.unittest import SynchronousTestCase

from msmq.interfaces.storage import IMessageRuns, IMessageStore
from msmq.persistence.changes import (
    AppendEvent,
    Change,
    MoveMessage,
    PutMessage,
    PutQueue,
    RemoveMessages,
    RemoveQueue,
)
from msmq.persistence.definition import QueueDefinition, QueueType
from msmq.sender import deliveries
from msmq.sender.deliveries import Deliveries, NotDelivered
from msmq.sender.watched_store import WatchedStore
from msmq.storage.identity import identity_of
from msmq.storage.memory import MemoryMessageStore
from msmq.structures.identifiers import MessageIdentifier
from msmq.testing import message_packet

ALPHA = UUID(int=0xA)
OUTGOING, AWAITING = UUID(int=1), UUID(int=2)


def identifier(number: int) -> MessageIdentifier:
    return MessageIdentifier(ALPHA, number)


def packet(number: int) -> bytes:
    return message_packet(b"body", source=ALPHA, message_id=number)


class DeliveriesTests(SynchronousTestCase):
    """A sender with the messages 1 and 2 in its outgoing queue."""

    def setUp(self) -> None:
        self.deliveries = Deliveries()
        self.store = WatchedStore(cast(IMessageStore, MemoryMessageStore(durable=True)), self.deliveries)
        self.successResultOf(self.store.open())
        queues = [
            PutQueue(
                QueueDefinition(queue, f"DIRECT=OS:BETA\\private$\\{queue.int}", type=QueueType.OUTGOING)
            )
            for queue in (OUTGOING, AWAITING)
        ]
        self.commit(*queues, *(PutMessage(OUTGOING, number, packet(number), 5.0) for number in (1, 2)))
        self.first, self.second = self.deliveries.expect(identifier(1)), self.deliveries.expect(identifier(2))

    def commit(self, *changes: Change) -> None:
        self.successResultOf(self.store.commit(changes))

    def event(self, number: int, event: str) -> AppendEvent:
        return AppendEvent(6.0, identity_of(packet(number)), event, "too late", 0x8002, "q")

    def refusal(self, result: Deferred[None]) -> NotDelivered:
        found = self.failureResultOf(result, NotDelivered).value
        assert isinstance(found, NotDelivered)
        return found

    def test_removed(self) -> None:
        """A message that leaves its outgoing queue without an event is delivered; the other one waits."""
        self.commit(RemoveMessages(OUTGOING, (1,)))
        self.successResultOf(self.first)
        self.assertNoResult(self.second)
        self.assertEqual(len(self.deliveries), 1)

    def test_moved(self) -> None:
        """A transactional message that waits for its FinalAck is delivered; its later end is no result."""
        self.commit(MoveMessage(OUTGOING, 1, AWAITING, 1))
        self.successResultOf(self.first)
        self.commit(RemoveMessages(AWAITING, (1,)))

    def test_expired(self) -> None:
        """A message that is removed with an event is not delivered; the error has the event's words."""
        self.commit(self.event(1, "expired"), RemoveMessages(OUTGOING, (1, 2)))
        found = self.refusal(self.first)
        self.assertEqual(
            (found.identifier, found.event, found.reason), (identifier(1), "expired", "too late")
        )
        self.assertIn(f"{identifier(1)} is not delivered: expired (too late)", str(found))
        self.successResultOf(self.second)

    def test_express(self) -> None:
        """An express message is in no store; it is delivered when it is written, or its event fails it."""
        self.deliveries.delivered(identity_of(packet(1)))
        self.successResultOf(self.first)
        self.commit(self.event(2, "expired"))
        self.assertEqual(self.refusal(self.second).event, "expired")

    def test_queue_removed(self) -> None:
        """Messages that leave with their queue are not delivered."""
        self.commit(RemoveQueue(OUTGOING))
        self.assertEqual(self.refusal(self.first).event, "queue removed")
        self.assertEqual(self.refusal(self.second).event, "queue removed")

    def test_failed_commit(self) -> None:
        """A commit that fails decides nothing."""
        self.failureResultOf(
            self.store.commit([RemoveMessages(OUTGOING, (1,)), PutMessage(UUID(int=9), 1, packet(3), 5.0)])
        )
        self.assertNoResult(self.first)

    def test_result_before_the_identifier(self) -> None:
        """A result that comes while its message is being sent is kept; later ones of others are not."""
        with self.deliveries.sending():
            self.deliveries.delivered(identity_of(packet(3)))
            self.successResultOf(self.deliveries.expect(identifier(3)))
            self.deliveries.delivered(identity_of(packet(4)))
        with self.deliveries.sending():
            self.assertNoResult(self.deliveries.expect(identifier(4)))

    def test_results_that_nothing_waits_for(self) -> None:
        """While messages are always being sent, the results of those that timed out take bounded memory."""
        self.patch(deliveries, "MOST_OUTSTANDING", 3)
        with self.deliveries.sending():
            for number in range(10, 20):
                self.deliveries.delivered(identity_of(packet(number)))
            self.assertNoResult(self.deliveries.expect(identifier(16)))
            for number in (17, 18, 19):
                self.successResultOf(self.deliveries.expect(identifier(number)))

    def test_cancelled(self) -> None:
        """A result that is no longer awaited is forgotten."""
        self.first.cancel()
        self.failureResultOf(self.first, CancelledError)
        self.assertEqual(len(self.deliveries), 1)
        self.commit(RemoveMessages(OUTGOING, (1,)))

    def test_closed(self) -> None:
        """When the sender closes, everything pending fails, and so does what was just being sent."""
        with self.deliveries.sending():
            self.deliveries.close()
            late = self.deliveries.expect(identifier(3))
        for result in (self.first, self.second, late):
            self.assertEqual(self.refusal(result).event, "sender closed")

    def test_no_runs(self) -> None:
        """The store takes no runs, whose changes do not name each message; all else is the store's own."""
        self.assertFalse(IMessageRuns.providedBy(self.store))
        self.assertTrue(self.store.durable)
        self.assertEqual(self.store.name, "memory")
