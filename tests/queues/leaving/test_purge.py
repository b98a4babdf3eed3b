"""Queues that are purged, or get other properties."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from msmq.persistence.changes import AppendEvent, PutQueue, RemoveMessages
from msmq.persistence.definition import QueuePrivacy
from msmq.queues.effects import Effect
from msmq.queues.leaving.departure_kinds import Departure
from msmq.queues.position import PositionState
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.status import MQError, Status
from tests.queues.builders import (
    NOW,
    admit,
    arriving,
    bodies,
    completions,
    create,
    leave,
    model,
    peek,
    put,
    receive,
)


class PurgeTests(SynchronousTestCase):
    """[MS-MQDMPR] 3.1.7.1.7."""

    def setUp(self) -> None:
        self.model = model()
        self.queue = create(self.model)

    def purge(self) -> list[bytes]:
        """Purge the queue, store and all; answers what left."""
        through = self.model.last_sequential
        names: list[bytes] = []
        while (departure := self.model.purge(self.queue, through, 2)) is not None:
            self.assertEqual(departure.message_class, MessageClass.NACK_Q_PURGED)
            names += bodies(departure.positions)
            leave(self.model, departure)
        return names

    def left(self, effects: list[Effect]) -> list[bytes]:
        """The messages removed by a purge."""
        departures = [effect for effect in effects if isinstance(effect, Departure)]
        self.assertEqual({each.message_class for each in departures} - {MessageClass.NACK_Q_PURGED}, set())
        return [name for each in departures for name in bodies(each.positions)]

    def test_what_is_available_leaves(self) -> None:
        """In order, each with its reason; nothing is left of it.

        MQDMPR-3.1.7.1.7-01.
        """
        put(self.model, self.queue, b"1", arriving(b"7", priority=7), b"2", b"3")
        self.assertEqual(self.purge(), [b"7", b"1", b"2", b"3"])
        self.assertEqual((self.queue.message_count, self.model.storage.used), (0, 0))
        self.assertEqual(self.purge(), [])

    def test_it_leaves_the_store(self) -> None:
        """Recoverable messages are removed from the store first."""
        put(self.model, self.queue, arriving(b"r", recoverable=True), b"e")
        departure = self.model.purge(self.queue, self.model.last_sequential, 9)
        assert departure is not None
        [recoverable, _] = departure.positions
        removal = RemoveMessages(self.queue.definition.identifier, (recoverable.lookup_id,))
        settlement = self.model.settle(departure, NOW)
        self.assertEqual(
            [each for each in settlement.changes if not isinstance(each, AppendEvent)], [removal]
        )

    def test_a_message_that_is_confirmed(self) -> None:
        """One that a reader has is counted still, and is received when the reader confirms it.

        MQDMPR-3.1.1.11-04, MQDMPR-3.1.7.1.7-02.
        """
        put(self.model, self.queue, b"held", b"free")
        held = receive(self.model, self.queue)
        self.assertEqual(self.purge(), [b"free"])
        self.assertEqual((held[0].state, self.queue.message_count), (PositionState.PURGE_PENDING, 1))
        removal = self.model.remove(held)
        self.assertEqual((list(removal.positions), removal.departures), (held, ()))
        self.model.removed(removal, NOW)
        self.assertEqual((self.queue.message_count, self.model.storage.used), (0, 0))

    def test_a_confirmation_that_is_not_stored(self) -> None:
        """When the store fails, the confirmed message of a purged queue is not available again: it was not
        received, so it leaves as purged.
        """
        put(self.model, self.queue, arriving(b"held", recoverable=True))
        held = receive(self.model, self.queue)
        self.purge()
        effects = self.model.restored(self.model.remove(held), NOW)
        self.assertEqual((self.left(effects), peek(self.model, self.queue)), ([b"held"], []))

    def test_a_confirmed_message_is_out_of_the_store(self) -> None:
        """The store removes what a reader confirms before the confirmation is returned, purged meanwhile or
        not.
        """
        put(self.model, self.queue, arriving(b"r", recoverable=True), b"e")
        held = receive(self.model, self.queue, count=2)
        self.purge()
        removal = self.model.remove(held)
        gone = RemoveMessages(self.queue.definition.identifier, (held[0].lookup_id,))
        self.assertEqual(list(removal.changes), [gone])

    def test_a_message_that_is_given_back(self) -> None:
        """It leaves as well, and waiting readers do not get it."""
        put(self.model, self.queue, b"held")
        held = receive(self.model, self.queue)
        self.purge()
        self.model.receive(self.queue, tag="waits", now=NOW)
        effects = self.model.release(held, NOW)
        self.assertEqual((self.left(effects), completions(effects)), ([b"held"], []))
        self.assertEqual(self.model.release(held, NOW), [])

    def test_a_message_that_is_being_stored(self) -> None:
        """A message whose arrival is not stored yet is not purged."""
        admission = admit(self.model, self.queue, b"coming")
        self.purge()
        self.model.commit(admission, NOW)
        self.assertEqual(peek(self.model, self.queue), [b"coming"])

    def test_later_messages_stay(self) -> None:
        """A purge has an end, however fast messages come in meanwhile, the most urgent ones included."""
        put(self.model, self.queue, b"1", b"2", b"3")
        through = self.model.last_sequential
        first = self.model.purge(self.queue, through, 2)
        assert first is not None
        put(self.model, self.queue, arriving(b"new", priority=7), b"newer")
        held = receive(self.model, self.queue)
        second = self.model.purge(self.queue, through, 9)
        assert second is not None
        self.assertEqual(bodies(second.positions), [b"3"])
        self.assertIsNone(self.model.purge(self.queue, through, 9))
        self.assertEqual(bodies(held), [b"new"])
        self.model.release(held, NOW)
        self.assertEqual(peek(self.model, self.queue), [b"new", b"newer"])

    def test_a_purge_that_is_not_stored(self) -> None:
        """The messages are back at their positions, for waiting readers too."""
        put(self.model, self.queue, b"1", b"2")
        departure = self.model.purge(self.queue, self.model.last_sequential, 9)
        assert departure is not None
        self.assertEqual(peek(self.model, self.queue), [])
        put(self.model, self.queue, b"3")
        self.assertEqual(self.model.cancel_departure(departure, NOW), [])
        self.assertEqual(peek(self.model, self.queue), [b"1", b"2", b"3"])


class AlterationTests(SynchronousTestCase):
    """Properties that change."""

    def test_properties_change_when_they_are_stored(self) -> None:
        """Before that everyone sees the old ones; the queue stays itself."""
        alpha = model()
        queue = create(alpha)
        before = queue.definition
        alteration = alpha.alter_queue(queue, NOW.later(9), label="new", quota=7, privacy=QueuePrivacy.BODY)
        self.assertIs(queue.definition, before)
        self.assertEqual(list(alteration.changes), [PutQueue(alteration.definition)])
        alpha.altered(alteration)
        after = queue.definition
        self.assertEqual((after.label, after.quota, after.privacy), ("new", 7, QueuePrivacy.BODY))
        self.assertEqual((after.identifier, after.number), (before.identifier, before.number))
        self.assertEqual((before.created, after.created), (NOW.unix_seconds, NOW.unix_seconds))
        self.assertEqual(after.modified, NOW.later(9).unix_seconds)
        self.assertEqual(queue.quota_bytes, 7168)

    def test_refused(self) -> None:
        """A value outside its range, or a queue that is gone."""
        alpha = model()
        queue = create(alpha)
        for properties, status in (
            ({"label": "x" * 125}, Status.MQ_ERROR_LABEL_TOO_LONG),
            ({"quota": -1}, Status.MQ_ERROR_ILLEGAL_PROPERTY_VALUE),
        ):
            with self.assertRaises(MQError) as caught:
                alpha.alter_queue(queue, NOW, **properties)
            self.assertEqual(caught.exception.status, status)
        alpha.delete_queue(queue)
        with self.assertRaises(MQError) as caught:
            alpha.alter_queue(queue, NOW, label="late")
        self.assertEqual(caught.exception.status, Status.MQ_ERROR_QUEUE_NOT_FOUND)
