"""Reads in two phases: a message is locked first, and its reader decides later."""

from __future__ import annotations

from msmq.queues.leaving.departure_kinds import Departure
from msmq.queues.position import PositionState
from msmq.queues.queue import MessagePosition
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.status import Status
from tests.builders import ALPHA
from tests.queues.builders import admit, bodies, completions
from tests.queues.leaving.two_phase import DequeueEnd, dequeue_end
from tests.queues.reading.handles import HandleTestCase

OK = Status.MQ_OK
SEQUENCE = Status.MQ_ERROR_TRANSACTION_SEQUENCE


class DequeueEndTests(HandleTestCase):
    """[MS-MQDMPR] 3.1.7.1.12."""

    def begin(self, body: bytes = b"1") -> MessagePosition:
        """Receive a message that is there."""
        self.assertEqual(self.receive(), body)
        return self.taken[-1]

    def end(
        self, position: MessagePosition, *, delete: bool, owner: object = None, transactional: bool = False
    ) -> DequeueEnd:
        return dequeue_end(
            self.model,
            self.handle,
            position,
            owner=owner or self.last_tag,
            delete=delete,
            is_transactional=transactional,
            now=self.now,
        )

    def test_delete(self) -> None:
        """MQDMPR-3.1.7.1.12-04: the message is removed permanently, as received."""
        self.put(b"1")
        position = self.begin()
        end = self.end(position, delete=True)
        assert end.removal is not None
        self.assertEqual((end.status, list(end.removal.positions)), (OK, [position]))
        self.model.removed(end.removal, self.now)
        self.assertEqual((position.state, self.queue.message_count), (PositionState.DELETED, 0))

    def test_give_back(self) -> None:
        """MQDMPR-3.1.7.1.12-06: the message is where it was, and a waiting reader gets it."""
        self.put(b"1", b"2")
        position = self.begin()
        self.assertEqual(self.end(position, delete=False).status, OK)
        self.assertEqual([self.peek(), position.state], [b"1", PositionState.AVAILABLE])
        position, other = self.begin(), self.hold(b"2")
        owner = self.last_tag = str(position.owner)
        self.receive(seconds=None)
        end = self.end(position, delete=False, owner=owner)
        self.assertEqual(completions(end.effects), [(self.last_tag, [b"1"])])
        self.assertIs(other.state, PositionState.LOCKED_READER)

    def test_a_queue_that_is_gone(self) -> None:
        """It says so, and the message went with it."""
        self.put(b"1")
        position = self.begin()
        self.model.delete_queue(self.queue)
        for delete in (True, False):
            end = self.end(position, delete=delete)
            self.assertEqual(end, DequeueEnd(Status.MQ_ERROR_QUEUE_NOT_AVAILABLE))

    def test_second_end(self) -> None:
        """A second end finds a returned message unlocked, and a deleted one missing (reading 36).

        MQDMPR-3.1.7.1.12-02: a message that is available again stays in its queue.
        """
        self.put(b"1")
        position = self.begin()
        self.end(position, delete=False)
        self.assertEqual(self.end(position, delete=True), DequeueEnd(SEQUENCE))
        self.assertEqual(list(self.model.remove([position]).positions), [])
        self.assertEqual(self.peek(), b"1")
        position = self.begin()
        end = self.end(position, delete=True)
        for _ in range(2):
            again = self.end(position, delete=True)
            self.assertEqual(again, DequeueEnd(Status.MQ_ERROR_MESSAGE_NOT_FOUND))
            assert end.removal is not None
            self.model.removed(end.removal, self.now)

    def test_of_another_reader(self) -> None:
        """A read cannot end what another began, nor what a transaction has (reading 36)."""
        self.put(b"1", b"2")
        position = self.begin()
        self.assertEqual(self.end(position, delete=True, owner="another"), DequeueEnd(SEQUENCE))
        transaction = self.model.transacting.transactions.create(ALPHA, 0.0)
        self.receive(owner=transaction)
        self.assertEqual(self.end(self.taken[-1], delete=True), DequeueEnd(SEQUENCE))
        self.assertIs(position.state, PositionState.LOCKED_READER)

    def test_in_a_transaction(self) -> None:
        """The end changes nothing; the transaction decides."""
        self.put(b"1")
        transacting = self.model.transacting
        transaction = transacting.transactions.create(ALPHA, 0.0)
        self.receive(owner=transaction, on_taken=lambda taken: transacting.receive(transaction, taken))
        end = self.end(self.taken[0], delete=True, owner=transaction, transactional=True)
        self.assertEqual(end, DequeueEnd(OK))
        self.assertIs(self.taken[0].state, PositionState.LOCKED_READER)
        self.model.aborted(transacting.abort(transaction, self.now), self.now)
        self.assertEqual(self.peek(), b"1")

    def test_purged_messages(self) -> None:
        """It was received if its reader deletes it, and purged if its reader returns it (reading 27)."""
        for delete in (True, False):
            self.put(b"1")
            position = self.begin()
            while self.model.purge(self.queue, self.model.last_sequential, 9):
                pass
            end = self.end(position, delete=delete)
            self.assertEqual(end.status, OK)
            if end.removal is not None:
                self.assertTrue(delete)
                self.assertEqual((list(end.removal.positions), end.removal.departures), ([position], ()))
                self.model.removed(end.removal, self.now)
            else:
                [departure] = end.effects
                assert isinstance(departure, Departure)
                self.assertEqual(departure, Departure(self.queue, [position], MessageClass.NACK_Q_PURGED))
                self.model.settled(self.model.settle(departure, self.now), self.now)
            self.assertEqual(self.queue.message_count, 0)

    def test_what_is_not_there_yet(self) -> None:
        """A read cannot have begun with a message that is not stored."""
        [position] = admit(self.model, self.queue, b"1").positions
        self.assertEqual(self.end(position, delete=True, owner="reader"), DequeueEnd(SEQUENCE))
        self.assertEqual(bodies([position]), [b"1"])
