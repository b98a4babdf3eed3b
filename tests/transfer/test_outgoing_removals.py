"""Messages that leave an outgoing queue by themselves, among others that stay."""

from __future__ import annotations

import weakref

from twisted.trial.unittest import SynchronousTestCase

from msmq.settings import SessionSettings
from msmq.structures.packet.message_class import MessageClass
from tests.transfer.support import JP, START, Position, Sender, final_ack, place_in

REFUSED = MessageClass.NACK_NOT_TRANSACTIONAL_Q
MANY = 200
STAY = (1, 101, MANY)
"""The numbers of the messages that stay."""
STATES = ("waiting", "restored", "flying", "to be sent again")


def many(state: str) -> Sender:
    """A sender with many messages in one of the states of an outgoing message."""
    sender = Sender(settings=SessionSettings(unacknowledged_messages=MANY))
    sender.put(MANY)
    if state == "restored":
        return sender.restart()
    if state != "waiting":
        sender.send(MANY)
    if state == "to be sent again":
        sender.stream.disconnected()
    return sender


def leaving(sender: Sender) -> list[Position]:
    return [each for each in sender.queue if place_in(each.stored)[1] not in STAY]


class RemovalTests(SynchronousTestCase):
    """Most of many messages expire, in each of their states, at once or one after the other."""

    def test_the_others_are_sent(self) -> None:
        """In their order, across the gaps, and their acknowledgement removes them."""
        for state in STATES:
            for portion in (1, MANY):
                sender = many(state)
                gone = leaving(sender)
                for start in range(0, len(gone), portion):
                    sender.expire(*gone[start : start + portion])
                if state == "restored":
                    # What they follow is known when they are sent again.
                    sender.send(MANY)
                sender.advance(30)
                with self.subTest(state=state, portion=portion):
                    self.assertEqual(sender.sent(MANY), [(1, 0), (101, 1), (MANY, 101)])
                    self.assertEqual(len(sender.order_ack(MANY)), 3)
                    self.assertTrue(sender.stream.is_empty)

    def test_they_take_no_memory(self) -> None:
        """Few of them are kept for the sake of the order of the others."""
        for state in STATES:
            sender = many(state)
            gone = leaving(sender)
            known = [weakref.ref(each) for each in gone]
            while gone:
                sender.expire(gone.pop())
            left = sum(each() is not None for each in known)
            self.assertLess(left, 80, state)

    def test_settled_ones_take_no_memory(self) -> None:
        """Nor do those whose FinalAcks came first."""
        for state in ("flying", "to be sent again"):
            sender = many(state)
            gone = leaving(sender)
            known = [weakref.ref(each) for each in gone]
            while gone:
                self.assertIsNotNone(sender.streams.final_acknowledged(final_ack(gone[-1], REFUSED)))
                sender.remove([gone.pop()])
            left = sum(each() is not None for each in known)
            self.assertLess(left, 80, state)


class StillStoredTests(SynchronousTestCase):
    """Messages of an earlier process that leave unsent hold the next sequence until the store has none."""

    def verify_held(self, sender: Sender, old: Position, new: Position) -> None:
        self.assertFalse(sender.stream.is_empty)
        self.assertEqual(list(sender.transmit(new).held), [new])
        sender.remove([old])
        self.assertEqual(sender.sent(), [(1, 0)])

    def test_expired_ones(self) -> None:
        """They were never sent."""
        sender = Sender()
        (position,) = sender.put()
        sender.stream.left([position])
        self.assertFalse(sender.stream.is_empty)
        sender.remove([position])
        self.assertTrue(sender.stream.is_empty)

    def test_settled_ones(self) -> None:
        """Their FinalAcks came before they were read."""
        sender = Sender()
        sender.put(user_flags=JP)
        sender.send()
        sender = sender.restart()
        (old,) = sender.queue
        (new,) = sender.put()
        sender.streams.final_acknowledged(final_ack(old, MessageClass.ACK_RECEIVE))
        self.assertEqual(len(sender.transmit(old).outcome.settled), 1)
        self.verify_held(sender, old, new)

    def test_acknowledged_ones(self) -> None:
        """An OrderAck that covers them came before they were read."""
        sender = Sender()
        sender.put(2)
        sender.send()
        sender = sender.restart()
        _, old = sender.queue
        (new,) = sender.put()
        sender.send(1)
        self.assertEqual(len(sender.order_ack(2, START.unix_seconds << 32 | 1)), 1)
        self.assertEqual(list(sender.transmit(old).outcome.delivered), [old])
        self.verify_held(sender, old, new)
