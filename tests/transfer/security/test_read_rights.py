"""Which right a reader needs, by what it reads. [MS-MQMQ] 2.2.23 and 2.2.24."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from msmq.transfer.security.read_rights import ReadSource, read_right
from msmq.windows.access_masks import QueueAccess, QueueManagerAccess

TABLE = (
    (ReadSource.QUEUE, QueueAccess.MQSEC_PEEK_MESSAGE, QueueAccess.MQSEC_RECEIVE_MESSAGE),
    (ReadSource.JOURNAL, QueueAccess.MQSEC_PEEK_MESSAGE, QueueAccess.MQSEC_RECEIVE_JOURNAL_MESSAGE),
    (
        ReadSource.MACHINE_JOURNAL,
        QueueManagerAccess.MQSEC_PEEK_JOURNAL_QUEUE_MESSAGE,
        QueueManagerAccess.MQSEC_RECEIVE_JOURNAL_QUEUE_MESSAGE,
    ),
    (
        ReadSource.DEAD_LETTERS,
        QueueManagerAccess.MQSEC_PEEK_DEADLETTER_MESSAGE,
        QueueManagerAccess.MQSEC_RECEIVE_DEADLETTER_MESSAGE,
    ),
)


class ReadRightTests(SynchronousTestCase):
    """The rights to peek and to receive."""

    def test_each_source(self) -> None:
        """A queue, its journal and both kinds of system queues have rights of their own."""
        self.assertEqual([source for source, *_ in TABLE], list(ReadSource))
        for source, to_peek, to_receive in TABLE:
            with self.subTest(source=source.name):
                self.assertEqual(read_right(source, peek=True), to_peek)
                self.assertEqual(read_right(source, peek=False), to_receive)

    def test_receiving_includes_peeking(self) -> None:
        """An account that may receive from a source may peek at it."""
        for source in ReadSource:
            to_peek = read_right(source, peek=True)
            self.assertEqual(read_right(source, peek=False) & to_peek, to_peek, source)
