"""[MS-MQDMPR] 3.1.1.12: attributes of messages that their queue looks at."""

from __future__ import annotations

from msmq.queues.position import PositionState
from msmq.structures.status import Status
from tests.builders import ALPHA
from tests.queues.reading.handles import HandleTestCase

EMPTY = Status.MQ_ERROR_IO_TIMEOUT


class AllowPeekWhenLockedTests(HandleTestCase):
    """AllowPeekWhenLocked."""

    def test_nothing_said(self) -> None:
        """A message that one reader has locked is hidden from the others, until it is returned.

        MQDMPR-3.1.1.12-04.
        """
        self.put(b"1")
        held = self.hold(b"1")
        cursor = self.cursor()
        self.assertEqual((self.peek(), self.peek(cursor)), (EMPTY, EMPTY))
        self.give_back(held)
        self.assertEqual((self.peek(), self.peek(self.cursor())), (b"1", b"1"))

    def test_allowed(self) -> None:
        """It is seen while it is locked, and cannot be received; the permission ends with the lock.

        MQDMPR-3.1.1.12-04 (reading 39).
        """
        self.put(b"1")
        held = self.hold(b"1", allow_peek=True)
        self.assertIs(held.state, PositionState.LOCKED_READER)
        cursor = self.cursor()
        self.assertEqual((self.peek(), self.peek(cursor), self.peek(cursor)), (b"1", b"1", b"1"))
        self.assertEqual(self.receive(), EMPTY)
        self.give_back(held)
        self.hold(b"1")
        self.assertEqual((self.peek(), self.peek(self.cursor())), (EMPTY, EMPTY))

    def test_received_in_a_transaction(self) -> None:
        """A message received in a transaction is not visible, unless the transaction aborts."""
        self.put(b"1")
        transacting = self.model.transacting
        transaction = transacting.transactions.create(ALPHA, 0.0)
        self.receive(owner=transaction, on_taken=lambda taken: transacting.receive(transaction, taken))
        self.assertEqual(self.peek(), EMPTY)
        self.model.aborted(transacting.abort(transaction, self.now), self.now)
        self.assertEqual(self.peek(), b"1")
