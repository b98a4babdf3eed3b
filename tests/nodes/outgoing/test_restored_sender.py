"""A sender of transactional messages whose store is restored from a backup."""

from __future__ import annotations

import copy
import re
from typing import Any
from uuid import UUID

from msmq.queues.arriving.message import Message
from msmq.structures.identifiers import TxSequenceID
from tests.builders import ALPHA
from tests.manager.support import FaultyStore
from tests.nodes.outgoing.senders import TO_GAMMA, SenderTestCase
from tests.nodes.outgoing.test_redirects import TO_BETA, MovingTestCase
from tests.nodes.scripted import final_ack, order_ack
from tests.nodes.support import ADDRESSES, Node


class RestoredSenderTests(MovingTestCase):
    """ALPHA sends to BETA; its backup has two messages that BETA gets only afterwards."""

    def setUp(self) -> None:
        super().setUp()
        self.pay(b"1")
        self.partition()
        self.pay(b"2", b"3")
        self.stop(self.alpha)
        self.backup = copy.deepcopy(self.stores["ALPHA"])
        self.heal()
        self.alpha = self.begin("ALPHA", self.alpha.model.identifier)
        self.clock.advance(60)
        self.assertEqual(self.arrived(), [b"1", b"2", b"3"])

    def partition(self) -> None:
        link = ADDRESSES["ALPHA"], ADDRESSES["BETA"]
        self.network.partition(*link)
        self.network.cut(*link)

    def heal(self) -> None:
        self.network.heal(ADDRESSES["ALPHA"], ADDRESSES["BETA"])

    def restore(self) -> None:
        self.stop(self.alpha)
        self.stores["ALPHA"] = copy.deepcopy(self.backup)
        self.alpha = self.begin("ALPHA", self.alpha.model.identifier)

    def waiting(self) -> int:
        messages: int = self.alpha.service.inspection.outgoing_queue(TO_BETA).messages
        return messages

    def reports(self) -> list[str]:
        """The reasons of the events about it."""
        stored = self.successResultOf(self.alpha.store.read_events(0, 1000))
        return [each.event.reason for each in stored if each.event.event == "sequence_passed"]

    def test_nothing_was_sent_since(self) -> None:
        """BETA acknowledges the two again, and later messages arrive."""
        self.restore()
        self.pay(b"4")
        self.assertEqual((self.arrived(), self.waiting(), self.reports()), ([b"4"], 0, []))

    def remove(self, reason: str, *, copies: bool = False) -> int:
        """What a report asks for; gives the number of removed messages."""
        [found] = re.findall(r"transaction\.sequence_id ([0-9]+)", reason)
        sequence = int(found)
        service = self.alpha.service
        self.successResultOf(service.pause_outgoing(TO_BETA))
        for session in service.inspection.sessions():
            service.close_session(session.identifier)
        self.clock.advance(60)
        self.send(self.alpha, TO_BETA, b"urgent", priority=7)
        page = self.run_to_end(service.inspection.browse(TO_BETA))
        identifier = TxSequenceID.from_value(sequence)
        found = [each.lookup_id for each in page.messages if each.view.tx_sequence_id == identifier]
        if copies:
            self.run_to_end(service.message_administration.copy(TO_BETA, found, TO_BETA))
        removed = self.run_to_end(service.message_administration.remove(TO_BETA, found))
        self.successResultOf(service.resume_outgoing(TO_BETA))
        return len(removed)

    def test_a_later_sequence(self) -> None:
        """BETA refuses the two permanently: that is reported once, and later messages arrive once they are
        removed. No other message of the queue is.
        """
        self.pay(b"4")
        self.assertEqual(self.arrived(), [b"4"])
        self.restore()
        self.pay(b"5")
        self.clock.advance(3000)
        self.assertEqual((self.arrived(), self.waiting()), ([], 3))
        [reason] = self.reports()
        self.assertIn(f"the receiver of {TO_BETA} has messages that were sent after the 2 that are", reason)
        self.assertEqual(self.remove(reason), 2)
        self.clock.advance(60)
        self.assertEqual((self.arrived(), self.waiting(), len(self.reports())), ([b"5"], 0, 1))

    def test_two_earlier_sequences(self) -> None:
        """The second is reported when the first has been removed."""
        self.partition()
        self.pay(b"4")
        self.restart_alpha()
        self.pay(b"5")
        self.stop(self.alpha)
        self.backup = copy.deepcopy(self.stores["ALPHA"])
        self.heal()
        self.alpha = self.begin("ALPHA", ALPHA)
        self.clock.advance(60)
        self.pay(b"6")
        self.assertEqual(self.arrived(), [b"4", b"5", b"6"])
        self.restore()
        for count in (1, 2):
            self.clock.advance(600)
            self.assertEqual(len(self.reports()), count)
            self.assertEqual(self.remove(self.reports()[-1]), 1)
        self.pay(b"7")
        self.assertEqual((self.arrived(), self.waiting()), ([b"7"], 0))

    def set_clock(self, seconds: float) -> None:
        """Set the wall clock, forward or back."""
        self.clock.set_wall(self.clock.now().wall + seconds)

    def empty(self) -> None:
        """The backup is one of an empty queue."""
        self.stop(self.alpha)
        self.backup = copy.deepcopy(self.stores["ALPHA"])
        self.alpha = self.begin("ALPHA", ALPHA)

    def test_new_messages_of_an_empty_queue(self) -> None:
        """MQQB-3.1.1.3.1-06: they arrive, whether more or fewer were sent after the backup."""
        for old, new in ((5, 3), (3, 5), (4, 4)):
            self.empty()
            self.pay(*(b"old %d" % number for number in range(old)))
            self.assertEqual(len(self.arrived()), old)
            self.restore()
            bodies = [b"new %d" % number for number in range(new)]
            self.pay(*bodies)
            self.assertEqual((self.arrived(), self.waiting(), self.reports()), (bodies, 0, []))

    def test_a_clock_that_begins_anew(self) -> None:
        """MQQB-3.1.1.3.1-06: without a clock that advances, new messages have no identifiers of others that
        were sent after the backup, and are not lost as duplicates: they arrive, or wait and are reported.
        """
        self.empty()
        self.set_clock(-1_000_000.0)
        self.restart_alpha()
        self.pay(b"4", b"5")
        self.assertEqual(self.arrived(), [b"4", b"5"])
        self.set_clock(-499.5)
        self.restore()
        self.pay(b"6", b"7", b"8")
        self.assertEqual((self.arrived(), self.waiting(), self.reports()), ([b"6", b"7", b"8"], 0, []))
        self.set_clock(-500.25)
        self.restore()
        self.pay(b"9")
        self.clock.advance(600)
        self.assertEqual((self.arrived(), self.waiting(), len(self.reports())), ([], 1, 1))

    def test_a_clock_that_is_behind(self) -> None:
        """What was sent since the restore is not delivered, which is reported as such; it arrives once the
        clock is right.
        """
        self.empty()
        self.set_clock(10_000.0)
        self.restart_alpha()
        self.pay(b"4")
        self.assertEqual(self.arrived(), [b"4"])
        self.set_clock(-9_000.0)
        self.restore()
        self.pay(b"5", b"6")
        self.clock.advance(600)
        [reason] = self.reports()
        self.assertIn(f"the receiver of {TO_BETA} has messages of a later sequence than this", reason)
        self.assertIn("They were not delivered", reason)
        self.assertEqual((self.arrived(), self.waiting()), ([], 2))
        self.set_clock(9_000.0)
        self.restart_alpha()
        self.assertEqual(self.remove(reason, copies=True), 2)
        self.clock.advance(60)
        self.assertEqual((self.arrived(), self.waiting()), ([b"5", b"6"], 0))


class OtherQueueTests(SenderTestCase):
    """OrderAcks of later sequences that may be of another queue of the same receiver."""

    def test_messages_that_the_receiver_has_not_stored(self) -> None:
        """They may not have been delivered, so nothing asks an operator to remove them."""
        self.put(b"1")
        self.alpha = self.restart(self.alpha)
        for _ in range(6):
            self.clock.advance(30)
            self.tell(order_ack(self.sequence() + 1, 9))
            self.peer.hang_up()
        self.assertEqual(self.passed(), 0)
        for _ in range(6):
            self.clock.advance(30)
            self.peer.acknowledge()
            self.tell(order_ack(self.sequence() + 1, 9))
            self.peer.hang_up()
        self.assertEqual(self.passed(), 1)

    def passed(self) -> int:
        stored = self.successResultOf(self.alpha.store.read_events(0, 1000))
        return [each.event.event for each in stored].count("sequence_passed")

    def test_late_acknowledgements_of_another_queue(self) -> None:
        """They do not cause a report, for which an operator would remove messages that have not arrived."""
        self.put(b"1")
        self.alpha = self.restart(self.alpha)
        self.clock.advance(10)
        self.assertEqual(self.peer.bodies, [b"1"])
        others = "DIRECT=TCP:127.0.0.4\\private$\\others"
        late = b""
        for number in range(20):
            message = Message(body=b"other %d" % number, transactional=True, journal=True)
            self.run_to_end(self.alpha.service.send(others, [message]))
            self.clock.advance(1)
            if late:
                self.tell(late)
            received = next(each for each in reversed(self.peer.messages) if each.body == message.body)
            self.tell(final_ack(received))
            late = order_ack(*received.place[:2])
            for _ in range(10):
                self.peer.acknowledge()
                self.clock.advance(10)
        self.assertEqual(self.remaining(), 1)
        self.assertEqual(self.passed(), 0)


class ResumedSenderTests(SenderTestCase):
    """ALPHA was resumed from a snapshot with its memory: GAMMA has numbers that ALPHA has not sent since."""

    def reports(self) -> list[str]:
        stored = self.successResultOf(self.alpha.store.read_events(0, 1000))
        return [each.event.reason for each in stored if each.event.event == "sequence_passed"]

    def test_numbers_that_were_not_sent(self) -> None:
        """New messages with them are not lost as duplicates: that is reported once, and they arrive once they
        are copied.
        """
        self.put(b"1", b"2", b"3")
        self.peer.acknowledge()
        self.tell(order_ack(self.sequence(), 1))
        sequence = self.sequence()
        self.tell(order_ack(sequence, 5))
        self.put(b"4", b"5", b"6")
        for number in (5, 6, 4):
            self.tell(order_ack(sequence, number))
        self.tell(final_ack(self.peer.messages[-1]))
        self.assertEqual(self.peer.bodies, [b"1", b"2", b"3"])
        self.assertEqual(self.remaining(), 5)
        [reason] = self.reports()
        self.assertIn(f"numbers up to 5 of the sequence {sequence}, of which this server has sent", reason)
        self.assertIn(f"\\{self.peer.messages[-1].message_id}, numbers 2 to 3, the receiver has", reason)
        service = self.alpha.service
        self.successResultOf(service.pause_outgoing(TO_GAMMA))
        for session in service.inspection.sessions():
            service.close_session(session.identifier)
        self.clock.advance(60)
        page = self.run_to_end(service.inspection.browse(TO_GAMMA))
        found = [each.lookup_id for each in page.messages]
        self.run_to_end(service.message_administration.copy(TO_GAMMA, found, TO_GAMMA))
        self.run_to_end(service.message_administration.remove(TO_GAMMA, found))
        self.successResultOf(service.resume_outgoing(TO_GAMMA))
        self.clock.advance(60)
        self.assertEqual(self.peer.bodies, [b"2", b"3", b"4", b"5", b"6"])
        self.assertNotEqual(self.sequence(), sequence)
        self.tell(order_ack(*self.peer.messages[-1].place[:2]))
        self.assertEqual((self.remaining(), len(self.reports())), (0, 1))

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        if name == "ALPHA":
            kwargs.setdefault("store", FaultyStore())
        return super().node(name, identifier, **kwargs)

    def held(self) -> int:
        """How many sequences are stored as held."""
        assert isinstance(self.alpha.store, FaultyStore)
        return sum(name.startswith("tx/disputed/") for name in self.alpha.store.names())

    def test_a_restart_before_they_are_copied(self) -> None:
        """They stay in the queue, and hold up later ones, until an operator has removed them."""
        self.put(b"1", b"2")
        self.peer.acknowledge()
        sequence = self.sequence()
        self.tell(order_ack(sequence, 5))
        self.put(b"3")
        self.assertEqual((self.remaining(), self.held()), (3, 1))
        self.alpha = self.restart(self.alpha)
        self.put(b"4")
        self.clock.advance(100)
        for number in (5, 6):
            self.tell(order_ack(sequence, number))
        self.assertEqual((self.peer.bodies, self.remaining(), self.held()), ([], 4, 1))
        service = self.alpha.service
        page = self.run_to_end(service.inspection.browse(TO_GAMMA))
        found = [each.lookup_id for each in page.messages][:2]
        self.run_to_end(service.message_administration.remove(TO_GAMMA, found))
        self.clock.advance(60)
        self.assertEqual(self.peer.bodies, [b"3"])
        for _ in range(2):
            self.tell(order_ack(*self.peer.messages[-1].place[:2]))
        self.assertEqual((self.peer.bodies, self.remaining(), self.held()), ([b"3", b"4"], 0, 0))

    def test_a_hold_that_was_wrong(self) -> None:
        """The receiver acknowledges a number that was sent: nothing is held, also after a restart."""
        self.put(b"1", b"2")
        self.peer.acknowledge()
        sequence = self.sequence()
        self.tell(order_ack(sequence, 5))
        self.assertEqual(self.held(), 1)
        self.tell(order_ack(sequence, 1))
        self.assertEqual((self.remaining(), self.held()), (1, 0))
        self.alpha = self.restart(self.alpha)
        self.clock.advance(10)
        self.assertEqual(self.peer.bodies, [b"2"])

    def test_a_queue_that_is_emptied(self) -> None:
        """Nothing of the hold remains."""
        self.put(b"1", b"2")
        self.peer.acknowledge()
        self.tell(order_ack(self.sequence(), 5))
        for session in self.alpha.service.inspection.sessions():
            self.alpha.service.close_session(session.identifier)
        self.assertEqual((self.remaining(), self.held()), (2, 1))
        self.run_to_end(self.alpha.service.purge_outgoing(TO_GAMMA))
        self.assertEqual((self.remaining(), self.held()), (0, 0))
