"""Which open handles of a queue exclude each other."""

from __future__ import annotations

from msmq.queues.reading.descriptor import (
    SHARED_AS_WRITTEN,
    SHARED_STRICTLY,
    QueueAccessType,
    QueueOperation,
    QueueShareMode,
    ReaderKind,
    ShareTable,
)
from msmq.queues.reading.descriptors import OpenQueueDescriptors
from msmq.structures.status import MQError, Status
from tests.queues.builders import ORDERS, create, put
from tests.queues.reading.test_descriptor import BETA_ORDERS, DescriptorTestCase

RECEIVE = QueueAccessType.RECEIVE
SEND = QueueAccessType.SEND
PEEK = QueueAccessType.PEEK
DENY_NONE = QueueShareMode.DENY_NONE
DENY_RECEIVE = QueueShareMode.DENY_RECEIVE


class ShareTests(DescriptorTestCase):
    """[MS-MQDMPR] 3.1.7.1.5 and 3.1.1.17 QueueShareMode, as reading 18 has it."""

    KINDS = (
        (DENY_NONE, PEEK),
        (DENY_NONE, RECEIVE),
        (DENY_RECEIVE, PEEK),
        (DENY_RECEIVE, RECEIVE),
    )

    def table(self, table: ShareTable | None = None) -> list[str]:
        """A line for each handle that there is, a sign for each new one: + it is opened, - it is refused."""
        if table is not None:
            self.descriptors = OpenQueueDescriptors(self.model.collection, self.model.readers, table=table)
        lines: list[str] = []
        for share_mode, access in self.KINDS:
            there = self.open(access, share_mode)
            signs = (self.refused(str(ORDERS), new, mode) for mode, new in self.KINDS)
            lines.append("".join("+" if status is None else "-" for status in signs))
            self.descriptors.close(there)
        return lines

    def test_table(self) -> None:
        """Each pair of kinds of readers.

        MQDMPR-3.1.7.1.5-24 MQDMPR-3.1.7.1.5-25 MQDMPR-3.1.7.1.5-26 MQDMPR-3.1.7.1.5-27 MQDMPR-3.1.1.17-05
        """
        self.assertEqual(self.table(), ["++++", "++--", "+-+-", "----"])

    def test_as_in_the_document(self) -> None:
        """The document admits a peeking handle together with one that denies receiving."""
        self.assertEqual(self.table(SHARED_AS_WRITTEN), ["++++", "++--", "+-+-", "+---"])

    def test_strictly(self) -> None:
        """[MS-MQMP] demands that a handle that denies receiving is the only one."""
        self.assertEqual(self.table(SHARED_STRICTLY), ["++--", "++--", "----", "----"])

    def test_status(self) -> None:
        """A refusal says that it is for the sake of another."""
        self.open(RECEIVE, DENY_RECEIVE)
        self.assertEqual(self.refused(str(ORDERS), RECEIVE), Status.MQ_ERROR_SHARING_VIOLATION)

    def test_administrators(self) -> None:
        """Their handles count as others that receive or peek."""
        self.open(QueueAccessType.PEEK_ADMIN, DENY_RECEIVE)
        refused = Status.MQ_ERROR_SHARING_VIOLATION
        self.assertEqual(self.refused(str(ORDERS), QueueAccessType.RECEIVE_ADMIN), refused)
        self.assertEqual(self.refused(str(ORDERS), RECEIVE), refused)
        self.assertIsNone(self.refused(str(ORDERS), PEEK))

    def test_senders_and_movers_do_not_count(self) -> None:
        """They are not excluded, and exclude no other handle."""
        for access in (SEND, QueueAccessType.MOVE):
            self.assertIsNone(ReaderKind.of(access, DENY_NONE))
            handle = self.open(access)
            self.assertIsNone(self.refused(str(ORDERS), RECEIVE, DENY_RECEIVE))
            self.descriptors.close(handle)
        self.open(RECEIVE, DENY_RECEIVE)
        self.assertIsNone(self.refused(str(ORDERS), SEND))
        self.assertIsNone(self.refused(str(ORDERS), QueueAccessType.MOVE))

    def test_any_of_many(self) -> None:
        """One handle among many is enough to refuse, and when it is closed others may come in.

        MQDMPR-3.1.7.1.6-05
        """
        handles = [self.open(PEEK) for _ in range(3)]
        first, second = self.open(PEEK, DENY_RECEIVE), self.open(PEEK, DENY_RECEIVE)
        self.assertEqual(self.refused(str(ORDERS), RECEIVE), Status.MQ_ERROR_SHARING_VIOLATION)
        self.descriptors.close(first)
        self.assertEqual(self.refused(str(ORDERS), RECEIVE), Status.MQ_ERROR_SHARING_VIOLATION)
        self.descriptors.close(second)
        self.assertIsNone(self.refused(str(ORDERS), RECEIVE))
        self.assertEqual(len(self.descriptors), len(handles))

    def test_other_queues(self) -> None:
        """A share mode applies to one queue only."""
        create(self.model, "other")
        self.open(RECEIVE, DENY_RECEIVE)
        self.assertIsNone(self.refused("DIRECT=OS:.\\private$\\other", RECEIVE, DENY_RECEIVE))


class AccessTests(DescriptorTestCase):
    """[MS-MQDMPR] 3.1.1.17 QueueAccessType."""

    def test_operations(self) -> None:
        """Each access allows what its name says.

        MQDMPR-3.1.1.17-03 MQDMPR-3.1.1.17-04
        """
        receiver = {QueueOperation.PEEK, QueueOperation.RECEIVE, QueueOperation.PURGE}
        for access, operations in (
            (RECEIVE, receiver),
            (QueueAccessType.RECEIVE_ADMIN, receiver),
            (PEEK, {QueueOperation.PEEK}),
            (QueueAccessType.PEEK_ADMIN, {QueueOperation.PEEK}),
            (SEND, {QueueOperation.SEND}),
            (QueueAccessType.MOVE, {QueueOperation.MOVE}),
        ):
            handle = self.open(access)
            for operation in QueueOperation:
                if operation in operations:
                    self.assertEqual(self.descriptors.queues_for(handle, operation), [self.queue])
                else:
                    with self.assertRaises(MQError) as caught:
                        self.descriptors.queues_for(handle, operation)
                    self.assertEqual(caught.exception.status, Status.MQ_ERROR_ACCESS_DENIED)

    def test_reads(self) -> None:
        """MQDMPR-3.1.1.17-03: a read that the access does not allow fails, and takes nothing."""
        self.put(b"1")
        denied = Status.MQ_ERROR_ACCESS_DENIED
        peeker, sender = self.open(PEEK), self.open(SEND)
        self.assertEqual([self.receive(handle=each) for each in (peeker, sender)], [denied, denied])
        self.assertEqual([self.peek(handle=each) for each in (peeker, sender)], [b"1", denied])

    def test_outgoing_queue(self) -> None:
        """Administrators read messages that wait to be sent; other queue managers' queues cannot be read
        otherwise.

        MQDMPR-3.1.1.17-04
        """
        queue = self.open(SEND, name=BETA_ORDERS).queue
        assert queue is not None
        put(self.model, queue, b"1")
        self.assertEqual(self.refused(BETA_ORDERS, RECEIVE), Status.MQ_ERROR_QUEUE_NOT_FOUND)
        peeker = self.open(QueueAccessType.PEEK_ADMIN, name=BETA_ORDERS)
        self.assertEqual(self.peek(handle=peeker), b"1")
        receiver = self.open(QueueAccessType.RECEIVE_ADMIN, name=BETA_ORDERS)
        self.assertEqual(self.receive(handle=receiver), b"1")
        self.assertIsNone(self.receive(handle=receiver, seconds=None))
        effects = put(self.model, queue, b"2")
        self.assertEqual(self.outcome(effects, self.last_tag), b"2")
