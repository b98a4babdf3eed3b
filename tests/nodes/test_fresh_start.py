"""A queue manager after its start, as a plain peer sees it."""

from __future__ import annotations

from msmq.queues.arriving.message import Delivery, Message
from msmq.queues.reading.descriptor import QueueAccessType
from msmq.structures.status import MQError, Status
from tests.nodes.scripted import ScriptedTestCase, order_ack, transactional

TO_GAMMA = "DIRECT=TCP:127.0.0.4\\private$\\orders"


class FreshStartTests(ScriptedTestCase):
    """[MS-MQQB] 3.1.4.1: nothing was configured, and nothing was stored."""

    def put(self, *bodies: bytes) -> None:
        messages = [Message(body=body, transactional=True) for body in bodies]
        self.run_to_end(self.alpha.service.send(TO_GAMMA, messages))

    def test_defaults(self) -> None:
        """The window is 64, an acknowledgement is awaited for 20 seconds, sending again follows the table.

        MQQB-3.1.4.1-01
        """
        self.listen(is_prompt=True)
        self.put(b"1")
        self.clock.advance(1)
        [peer] = self.peers
        _, ack_timeout, _, window = peer.parameters
        self.assertEqual((ack_timeout, window), (20_000, 64))
        peer.send(transactional(b"x", (7, 1, 0), destination="TCP:127.0.0.2\\private$\\nobody"))
        self.clock.advance(20)
        self.assertEqual({ack[-2] for ack in peer.acks}, {64})
        # No acknowledgement confirms that the message has arrived, so it comes again and again.
        waits: list[float] = []
        heard = len(peer.messages)
        since = 21.0
        while len(waits) < 6:
            self.clock.advance(1)
            since += 1
            if sum(len(each.messages) for each in self.peers) > heard:
                heard += 1
                waits.append(round(since, -1))
                since = 0.0
        self.assertEqual(waits, [30, 30, 30, 300, 300, 300])
        self.peers[-1].send(order_ack(self.peers[-1].messages[-1].place[0], 1))
        self.clock.advance(5)
        self.assertEqual(self.waiting(self.alpha), 0)

    def test_every_window_is_new(self) -> None:
        """A session begins with the whole window, independent of the previous one.

        MQQB-3.1.4.1-01
        """
        self.listen()
        messages = [Message(body=b"%d" % number, delivery=Delivery.RECOVERABLE) for number in range(100)]
        self.run_to_end(self.alpha.service.send(TO_GAMMA, messages))
        for _ in range(2):
            self.clock.advance(5)
            self.assertEqual(len(self.peers[-1].messages), 64)
            self.peers[-1].hang_up()
            self.clock.advance(10)


class NamesThatAreNotDialledTests(ScriptedTestCase):
    """[MS-MQQB] 3.1.7.12: multicast and HTTP have transports of their own, which are not offered."""

    def test_no_connection_is_attempted(self) -> None:
        """Sending is refused, no outgoing queue is there, and the host of the name is not contacted.

        MQQB-3.1.7.12-02
        """
        self.listen()
        for name in (
            "MULTICAST=234.1.1.1:1801",
            "DIRECT=HTTP://127.0.0.4/msmq/private$/orders",
            "DIRECT=HTTPS://127.0.0.4:1801/msmq/private$/orders",
        ):
            for delivery in Delivery:
                sending = self.deferred(
                    self.alpha.service.send(name, [Message(body=b"x", delivery=delivery)])
                )
                refused = self.failureResultOf(sending, MQError).value
                self.assertEqual(refused.status, Status.MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION)
            with self.assertRaises(MQError):
                self.alpha.service.open_queue(name, QueueAccessType.SEND)
        self.clock.advance(120)
        self.assertEqual((self.peers, self.alpha.service.inspection.outgoing()), ([], []))
