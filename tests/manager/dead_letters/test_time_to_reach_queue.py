"""[MS-MQDMPR] 3.1.1.12 TimeToReachQueue of messages that do not say."""

from __future__ import annotations

from msmq.queues.reading.descriptor import QueueAccessType
from msmq.structures.packet.base_header import INFINITE
from msmq.structures.packet.message_class import MessageClass
from tests.manager.support import ASK_ALL, DEADLETTER, ManagerTestCase

NOWHERE = "DIRECT=TCP:127.0.0.4\\private$\\orders"
DAY = 86400


class DefaultTests(ManagerTestCase):
    """A queue manager without a directory."""

    def test_four_days(self) -> None:
        """MQDMPR-3.1.1.12-39: such a message has a limit of 0x54600 seconds, and expires after it."""
        self.put(NOWHERE, b"default", dead_letter=True, acknowledge=ASK_ALL)
        self.put(NOWHERE, b"patient", time_to_reach_queue=INFINITE)
        waiting = self.service.open_queue(NOWHERE, QueueAccessType.PEEK_ADMIN)
        self.assertEqual(self.run_to_end(waiting.peek()).view.time_to_reach_queue, 0x54600)
        waiting.close()
        self.clock.advance(4 * DAY)
        self.assertEqual(self.service.inspection.outgoing()[0].messages, 2)
        self.clock.advance(2)
        self.assertEqual(self.service.inspection.outgoing()[0].messages, 1)
        self.assertEqual(self.answers(), [(MessageClass.NACK_REACH_QUEUE_TIMEOUT, b"default")])
        self.assertEqual(self.seen(DEADLETTER), [b"default"])

    def test_local_messages_have_arrived(self) -> None:
        """In the queue that it was for it has arrived, and stays."""
        self.put(self.orders, b"1")
        self.clock.advance(5 * DAY)
        self.restart()
        self.assertEqual(self.seen(self.orders), [b"1"])
