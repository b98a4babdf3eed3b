"""A sender of transactional messages whose store is restored from a backup."""

from __future__ import annotations

import copy

from msmq.queues.arriving.message import Message
from tests.nodes.outgoing.senders import SenderTestCase
from tests.nodes.outgoing.test_redirects import TO_BETA, MovingTestCase
from tests.nodes.scripted import final_ack, order_ack
from tests.nodes.support import ADDRESSES


class RestoredSenderTests(MovingTestCase):
    """ALPHA sends to BETA; its backup has two messages that BETA gets only afterwards."""

    def setUp(self) -> None:
        super().setUp()
        self.pay(b"1")
        link = ADDRESSES["ALPHA"], ADDRESSES["BETA"]
        self.network.partition(*link)
        self.network.cut(*link)
        self.pay(b"2", b"3")
        self.stop(self.alpha)
        self.backup = copy.deepcopy(self.stores["ALPHA"])
        self.network.heal(*link)
        self.alpha = self.begin("ALPHA", self.alpha.model.identifier)
        self.clock.advance(60)
        self.assertEqual(self.arrived(), [b"1", b"2", b"3"])

    def restore(self) -> None:
        self.stop(self.alpha)
        self.stores["ALPHA"] = self.backup
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

    def test_a_later_sequence(self) -> None:
        """BETA refuses the two for ever: that is reported once, and later messages arrive once they are
        removed.
        """
        self.pay(b"4")
        self.assertEqual(self.arrived(), [b"4"])
        self.restore()
        self.pay(b"5")
        self.clock.advance(3000)
        self.assertEqual((self.arrived(), self.waiting()), ([], 3))
        [reason] = self.reports()
        self.assertIn(f"the receiver of {TO_BETA} has messages that were sent after the 2 that are", reason)
        service = self.alpha.service
        self.successResultOf(service.pause_outgoing(TO_BETA))
        for session in service.inspection.sessions():
            service.close_session(session.identifier)
        self.clock.advance(60)
        page = self.run_to_end(service.inspection.browse(TO_BETA, count=2))
        numbers = [each.lookup_id for each in page.messages]
        removed = self.run_to_end(service.message_administration.remove(TO_BETA, numbers))
        self.assertEqual(len(removed), 2)
        self.successResultOf(service.resume_outgoing(TO_BETA))
        self.clock.advance(60)
        self.assertEqual((self.arrived(), self.waiting(), len(self.reports())), ([b"5"], 0, 1))


class OtherQueueTests(SenderTestCase):
    """GAMMA has two queues; its queue orders is full for a long time."""

    def test_late_acknowledgements_of_another_queue(self) -> None:
        """They do not cause a report, for which an operator would remove messages that have not arrived."""
        self.put(b"1")
        self.alpha = self.restart(self.alpha)
        self.clock.advance(10)
        self.assertEqual(self.peer.bodies, [b"1"])
        others = "DIRECT=TCP:127.0.0.4\\private$\\others"
        for number in range(20):
            message = Message(body=b"other %d" % number, transactional=True, journal=True)
            self.run_to_end(self.alpha.service.send(others, [message]))
            self.clock.advance(1)
            if number:
                self.tell(order_ack(*received.place[:2]))
            received = next(each for each in reversed(self.peer.messages) if each.body == message.body)
            self.tell(final_ack(received))
            for _ in range(10):
                self.peer.acknowledge()
                self.clock.advance(10)
        self.assertEqual(self.remaining(), 1)
        reading = self.alpha.store.read_events(0, 1000)
        self.assertNotIn("sequence_passed", [each.event.event for each in self.successResultOf(reading)])
