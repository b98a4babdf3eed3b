"""Locked messages that leave without being received: acknowledged, rejected, lost, or removed with copies."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msmq.queues.effects import Effect
from msmq.queues.leaving.acknowledged import ACKNOWLEDGED, lock_acknowledged
from msmq.queues.leaving.departure_kinds import Departure
from msmq.queues.position import PositionState
from msmq.queues.queue import MessagePosition
from msmq.structures.packet.message_class import MessageClass
from tests.queues.builders import arriving
from tests.queues.leaving.test_moves import MoveCase


class LockTests(MoveCase):
    """L{lock_acknowledged}: messages that their destination has acknowledged."""

    def setUp(self) -> None:
        super().setUp()
        self.alpha.put(self.queue, b"1", b"2")

    def test_available(self) -> None:
        """An available message is locked, so that no reader gets it."""
        position = self.first()
        self.assertTrue(lock_acknowledged(position))
        self.assertEqual((position.state, position.owner), (PositionState.LOCKED_READER, ACKNOWLEDGED))
        self.assertEqual(self.alpha.bodies(self.queue), [b"2"])

    def test_held_by_a_session(self) -> None:
        """A message that a session holds, purged or not, changes hands."""
        held = self.alpha.receive(self.queue, 2)
        held[1].state = PositionState.PURGE_PENDING
        for position in held:
            self.assertTrue(lock_acknowledged(position))
            self.assertEqual((position.state, position.owner), (PositionState.LOCKED_READER, ACKNOWLEDGED))

    def test_removed_already(self) -> None:
        """A message that is being removed, or whose queue is deleted, is left alone."""
        first, second = self.queue.peek(2)
        self.alpha.store.is_slow = True
        held = self.alpha.receive(self.queue)
        self.alpha.confirm(held)
        self.assertFalse(lock_acknowledged(first))
        self.assertEqual((first.state, first.owner == ACKNOWLEDGED), (PositionState.REMOVING, False))
        self.alpha.delete(self.queue)
        self.assertFalse(lock_acknowledged(second))
        self.assertIsNone(second.owner)


class LeaveTests(MoveCase):
    """L{msmq.queues.leaving.departures.Departures}."""

    def setUp(self) -> None:
        super().setUp()
        self.other = self.alpha.create("other")
        self.gone = self.alpha.create("gone")

    def departures(
        self, call: Callable[[Sequence[MessagePosition]], Sequence[Effect]]
    ) -> list[tuple[list[bytes], MessageClass, str]]:
        """What leaves of messages in different states: available, held, purged, confirmed, deleted."""
        self.alpha.put(self.queue, b"held", b"purged", b"confirmed", b"available")
        self.alpha.put(self.other, b"other")
        self.alpha.put(self.gone, b"gone")
        positions = [*self.queue.peek(9), *self.other.peek(9), *self.gone.peek(9)]
        self.alpha.receive(self.queue, 3)
        self.alpha.receive(self.other)
        positions[1].state = PositionState.PURGE_PENDING
        self.alpha.store.is_slow = True
        self.alpha.confirm([positions[2]])
        self.alpha.receive(self.gone)
        self.alpha.delete(self.gone)
        found = []
        for effect in call(positions):
            assert isinstance(effect, Departure)
            self.assertEqual({each.state for each in effect.positions}, {PositionState.LEAVING})
            self.assertEqual({each.queue for each in effect.positions}, {effect.queue})
            bodies = [self.alpha.body(each) for each in effect.positions]
            found.append((bodies, effect.message_class, effect.reason))
            self.alpha.perform([effect])
        self.alpha.store.is_slow = False
        return found

    def test_rejected(self) -> None:
        """What its reader holds is rejected, queue by queue; what was purged meanwhile leaves as purged."""
        rejected, purged = MessageClass.NACK_RECEIVE_REJECTED, MessageClass.NACK_Q_PURGED
        self.assertEqual(
            self.departures(self.alpha.model.reject),
            [([b"held"], rejected, ""), ([b"other"], rejected, ""), ([b"purged"], purged, "")],
        )
        self.assertEqual(self.alpha.bodies(self.queue), [b"available"])

    def test_rejected_for_a_reason(self) -> None:
        """The class and the reason of a rejection are those that its reader gives."""
        why = MessageClass.NACK_COULD_NOT_ENCRYPT
        found = self.departures(lambda positions: self.alpha.model.reject(positions, why, "no key"))
        self.assertEqual(found[0], ([b"held"], why, "no key"))
        self.assertEqual(found[-1], ([b"purged"], MessageClass.NACK_Q_PURGED, ""))

    def test_lost(self) -> None:
        """What the store has lost leaves, held by a reader or not, but for what is being removed already."""
        rejected = MessageClass.NACK_RECEIVE_REJECTED
        why = "the store no longer has it"
        found = self.departures(self.alpha.model.lost)
        self.assertEqual(found, [([b"held", b"available"], rejected, why), ([b"other"], rejected, why)])
        self.assertEqual(self.alpha.bodies(self.queue), [])

    def test_lost_and_gone(self) -> None:
        """A message that has left its queue is not lost."""
        self.alpha.put(self.queue, b"1")
        held = self.alpha.receive(self.queue)
        self.alpha.confirm(held)
        self.assertEqual(self.alpha.model.lost(held), [])

    def test_disposed(self) -> None:
        """A message is out of its queue and of the deadlines; its copies are there for readers."""
        self.alpha.put(self.queue, arriving(b"1", time_to_be_received=60))
        [position] = self.alpha.receive(self.queue)
        copying = self.alpha.model.copying
        copy = copying.dead_letter(position.view, 0, position, []) if position.view is not None else None
        assert copy is not None
        waits = self.alpha.read(self.deadletter, wait=True)
        self.alpha.perform(self.alpha.model.disposed(position, [copy], self.alpha.now))
        self.assertEqual(self.queue.positions, {})
        self.assertIsNone(self.alpha.model.deadline(self.alpha.now))
        self.assertEqual(self.alpha.reads[waits], [copy])
