"""Dead letters: copies of messages that were not received or not delivered."""

from __future__ import annotations

from msmq.persistence.changes import AppendEvent, PutMessage, RemoveMessages
from msmq.queues.position import PacketHolder
from msmq.structures.names.name_text import QueueSuffix
from msmq.structures.packet.kept_packet import kept_headers, packet_of
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.user_message_rewrites import patch_message_class
from msmq.structures.packet.user_message_view import UserMessageView
from tests.builders import ALPHA, BETA
from tests.queues.leaving.copy_case import SECONDS, CopyCase, asking
from tests.queues.simulation import Alpha


class DeadLetterTests(CopyCase):
    """Reading 46: NegativeJournalingRequested, for what failed here."""

    def test_not_received_in_time(self) -> None:
        """A copy with the class of the failure is in the dead-letter queue, if its sender asked for that.

        MQDMPR-3.1.1.12-22.
        """
        self.alpha.put(self.queue, asking(b"asked"), asking(b"not", dead_letter=False))
        self.alpha.later(SECONDS)
        self.assertEqual(self.dead_letters(), [(b"asked", MessageClass.NACK_RECEIVE_TIMEOUT)])
        [dead_letter] = self.system(QueueSuffix.DEADLETTER).peek(9)
        self.assertEqual(
            (dead_letter.due, dead_letter.kept, dead_letter.priority), (None, PacketHolder.STORE, 5)
        )
        self.assertEqual(self.alpha.bodies(self.journal), [], "it was not received")

    def test_one_batch(self) -> None:
        """The dead letter, the event and the removal are one change of the store.

        MQDMPR-3.1.7.2.1-03
        """
        self.alpha.put(self.queue, asking(b"1"))
        self.alpha.later(SECONDS)
        kinds = [type(change) for change in self.alpha.store.done[-1]]
        for kind in (PutMessage, AppendEvent, RemoveMessages):
            self.assertEqual(kinds.count(kind), 1)
        [event] = self.alpha.last_events
        self.assertEqual(event.identity, BETA.bytes_le + (9).to_bytes(4, "little"))
        self.assertEqual((event.event, event.message_class), ("expired", MessageClass.NACK_RECEIVE_TIMEOUT))
        self.assertIn("dead letter", event.reason)

    def test_a_store_that_fails(self) -> None:
        """There is no dead letter then; there is one when the store works again."""
        self.alpha.put(self.queue, asking(b"1"))
        self.alpha.store.fails = 2
        self.alpha.later(SECONDS)
        self.alpha.try_again()
        self.assertEqual((self.dead_letters(), self.queue.message_count), ([], 1))
        self.alpha.try_again()
        self.assertEqual((len(self.dead_letters()), self.queue.message_count), (1, 0))

    def test_express(self) -> None:
        """An express message becomes an express dead letter; a restart loses it."""
        self.alpha.put(self.queue, asking(b"1", recoverable=False))
        self.alpha.later(SECONDS)
        self.assertEqual(len(self.dead_letters()), 1)
        self.alpha = self.alpha.restart()
        self.assertEqual(self.dead_letters(), [])

    def test_no_dead_letter_after_a_removal_by_hand(self) -> None:
        """A purge or a deletion leaves an event and no dead letter."""
        self.alpha.put(self.queue, asking(b"1"), asking(b"2"))
        held = self.alpha.receive(self.queue)
        self.alpha.purge(self.queue)
        self.alpha.give_back(held)
        self.alpha.put(self.queue, asking(b"3"))
        self.alpha.delete(self.queue)
        self.assertEqual(self.dead_letters(), [])
        self.assertEqual([event for event, _ in self.alpha.events], ["purged", "purged", "deleted"])

    def test_received_and_released_too_late(self) -> None:
        """There is one dead letter, whichever operation fails first."""
        self.alpha.put(self.queue, asking(b"1"))
        held = self.alpha.receive(self.queue)
        self.alpha.later(SECONDS)
        self.alpha.give_back(held)
        self.assertEqual(len(self.dead_letters()), 1)

    def test_transactional_messages_of_others(self) -> None:
        """Their dead letters are kept where they were sent from."""
        queue = self.alpha.create("t", transactional=True)
        self.alpha.put(queue, asking(b"1", transactional=True))
        self.alpha.later(SECONDS)
        self.assertEqual((self.dead_letters(), self.dead_letters(QueueSuffix.DEADXACT)), ([], []))
        self.assertEqual(self.alpha.events, [("expired", "private$\\t")])

    def test_transactional_messages_of_ours(self) -> None:
        """A message that was sent here and failed here is in the transactional dead-letter queue."""
        queue = self.alpha.create("t", transactional=True)
        self.alpha.put(queue, asking(b"1", transactional=True, source=ALPHA))
        transaction = self.alpha.begin()
        self.alpha.send_in(transaction, queue, asking(b"2", transactional=True, source=ALPHA))
        self.alpha.now = self.alpha.now.later(SECONDS)
        self.alpha.commit(transaction)
        self.alpha.later(0)
        self.assertEqual(self.dead_letters(), [])
        self.assertEqual(
            sorted(self.dead_letters(QueueSuffix.DEADXACT)),
            [(b"1", MessageClass.NACK_RECEIVE_TIMEOUT), (b"2", MessageClass.NACK_RECEIVE_TIMEOUT)],
        )

    def test_queue_deleted_before_the_commit(self) -> None:
        """Messages that the transaction sent to it become dead letters with the commit, with that event."""
        queue = self.alpha.create("t", transactional=True)
        transaction = self.alpha.begin()
        self.alpha.send_in(transaction, queue, asking(b"1", transactional=True, source=ALPHA))
        self.alpha.delete(queue)
        batches = len(self.alpha.store.done)
        self.alpha.commit(transaction)
        kinds = [type(change) for change in self.alpha.store.done[batches]]
        self.assertEqual((kinds.count(PutMessage), kinds.count(AppendEvent)), (1, 1))
        self.assertEqual(self.dead_letters(QueueSuffix.DEADXACT), [(b"1", MessageClass.NACK_Q_DELETED)])
        [event] = self.alpha.last_events
        self.assertEqual((event.event, event.reason), ("deleted", "kept as a dead letter"))

    def test_quota(self) -> None:
        """A dead letter beyond the quota is not written; the message leaves all the same, once.

        MQDMPR-3.1.1.12-23.
        """
        self.alpha = Alpha(journal_quota=1)
        self.queue = self.alpha.create()
        self.alpha.put(self.queue, asking(b"x" * 700), asking(b"y" * 700))
        self.alpha.later(SECONDS)
        self.assertEqual([body for body, _ in self.dead_letters()], [b"x" * 700])
        self.assertEqual((self.queue.message_count, self.alpha.model.copying.dropped), (0, 1))
        self.assertEqual(
            [event.reason for event in self.alpha.last_events][1], "the dead-letter queue is full"
        )

    def test_dead_letters_do_not_expire(self) -> None:
        """Messages in system queues have no time limit, after a restart neither.

        MQDMPR-3.1.2.4-04.
        """
        self.alpha.put(self.queue, asking(b"1"))
        self.alpha.later(SECONDS)
        self.alpha.later(1000)
        self.assertEqual(len(self.dead_letters()), 1)
        self.alpha = self.alpha.restart()
        self.alpha.later(1000)
        self.assertEqual(len(self.dead_letters()), 1)


class WayTests(CopyCase):
    """Readings 46 and 68: copies of what was sent from here."""

    def test_not_delivered_in_time(self) -> None:
        """A message that was sent here is kept as a dead letter, one that is forwarded is not.

        MQDMPR-3.1.1.12-22.
        """
        for source in (ALPHA, BETA):
            for dead_letter in (True, False):
                self.alpha.put(self.outgoing(), asking(b"1", source=source, dead_letter=dead_letter))
        self.alpha.later(SECONDS + 1)
        self.assertEqual(self.dead_letters(), [(b"1", MessageClass.NACK_REACH_QUEUE_TIMEOUT)])
        self.assertEqual(self.outgoing().positions, {})
        self.assertEqual(len(self.alpha.events), 4)

    def test_transactional(self) -> None:
        """A transactional one is in the queue for those."""
        self.alpha.put(self.outgoing(), asking(b"1", source=ALPHA, transactional=True))
        self.alpha.later(SECONDS + 1)
        self.assertEqual(self.dead_letters(), [])
        self.assertEqual(
            self.dead_letters(QueueSuffix.DEADXACT), [(b"1", MessageClass.NACK_REACH_QUEUE_TIMEOUT)]
        )

    def test_delivered(self) -> None:
        """A copy of what was delivered is in the machine journal, if its sender asked for that.

        MQDMPR-3.1.1.12-20.
        """
        outgoing = self.outgoing()
        for source in (ALPHA, BETA):
            for journal in (True, False):
                self.alpha.put(outgoing, asking(b"1", source=source, journal=journal))
        self.receive(outgoing, 9)
        kept = self.alpha.bodies(self.system(QueueSuffix.JOURNAL))
        self.assertEqual((kept, outgoing.positions), ([b"1"], {}))
        self.assertEqual(self.dead_letters(), [])

    def test_arrived_in_a_local_queue(self) -> None:
        """A message that was sent here and has arrived here is journaled; an acknowledgement, a message for
        the order queue, and one in a system queue are not, whatever their flags say.
        """
        plain = asking(b"1", source=ALPHA, journal=True)
        second = asking(b"2", source=ALPHA, journal=True)
        answer = UserMessageView(packet_of(patch_message_class(second, MessageClass.ACK_RECEIVE)))
        to_order = "DIRECT=OS:alpha\\private$\\order_queue$"
        order = asking(b"3", source=ALPHA, journal=True, destination=to_order)
        self.alpha.put(self.alpha.create("quiet"), plain, answer, order)
        journal = self.system(QueueSuffix.JOURNAL)
        self.assertEqual(self.alpha.bodies(journal), [b"1"])
        [copy] = journal.peek(9)
        copy.view = plain
        self.assertIsNone(self.alpha.model.copying.arrive(copy, []))

    def test_received_from_a_local_queue(self) -> None:
        """A transactional message that was sent here is journaled when it is received; an acknowledgement is
        not, and neither is the copy when it is received from the journal.
        """
        queue = self.alpha.create("t", transactional=True)
        first, second = (
            asking(body, source=ALPHA, journal=True, transactional=True) for body in (b"1", b"2")
        )
        answer = UserMessageView(packet_of(patch_message_class(second, MessageClass.ACK_RECEIVE)))
        self.alpha.put(queue, first, answer)
        self.receive(queue, 2)
        journal = self.system(QueueSuffix.JOURNAL)
        self.assertEqual(self.alpha.bodies(journal), [b"1"])
        self.receive(journal)
        self.assertEqual(journal.positions, {})

    def test_application_dead_letter_queue_of_the_system(self) -> None:
        """A system queue is not used for dead letters of an application: they go to the queue for all."""
        for name in (".\\system$;journal", f".\\{self.queue.definition.path};journal"):
            packet = asking(b"1", source=ALPHA).packet + kept_headers(name)
            self.alpha.put(self.outgoing(), UserMessageView(packet))
        self.alpha.later(SECONDS + 1)
        self.assertEqual(self.dead_letters(), [(b"1", MessageClass.NACK_REACH_QUEUE_TIMEOUT)] * 2)
        for journal in (self.journal, self.system(QueueSuffix.JOURNAL)):
            self.assertEqual(journal.positions, {})

    def test_a_copy_that_is_removed(self) -> None:
        """A copy that leaves a system queue unread becomes no dead letter, whatever its flags say: its
        message was delivered.
        """
        queue = self.alpha.create("t", transactional=True)
        self.alpha.put(queue, asking(b"1", transactional=True, journal=True, source=ALPHA))
        self.receive(queue)
        journal = self.system(QueueSuffix.JOURNAL)
        [copy] = journal.peek(9)
        self.assertTrue(self.alpha.view(copy).dead_letter)
        self.alpha.purge(journal)
        self.assertEqual((journal.positions, self.dead_letters(QueueSuffix.DEADXACT)), ({}, []))

    def test_application_dead_letter_queue_of_a_peer(self) -> None:
        """Only a message of this queue manager names one of its queues; that of a peer names the peer's."""
        own = self.alpha.create("failed")
        for number, source in ((1, BETA), (2, ALPHA)):
            packet = asking(b"%d" % number, source=source).packet + kept_headers(f".\\{own.definition.path}")
            self.alpha.put(self.queue, UserMessageView(packet))
        self.alpha.later(SECONDS)
        self.assertEqual(self.dead_letters(), [(b"1", MessageClass.NACK_RECEIVE_TIMEOUT)])
        self.assertEqual(self.alpha.bodies(own), [b"2"])

    def test_delivered_over_quota(self) -> None:
        """Without room there is no copy, and the message is delivered.

        MQDMPR-3.1.1.12-21.
        """
        self.alpha = Alpha(journal_quota=0)
        outgoing = self.outgoing()
        self.alpha.put(outgoing, asking(b"1", source=ALPHA, journal=True))
        self.receive(outgoing)
        self.assertEqual(self.system(QueueSuffix.JOURNAL).positions, {})
        self.assertEqual((outgoing.positions, self.alpha.stored(outgoing)), ({}, []))
        self.queue = self.alpha.create()
        self.alpha.put(self.queue, asking(b"2", source=ALPHA, journal=True))
        self.assertEqual(self.alpha.bodies(self.queue), [b"2"])
        self.assertEqual(self.system(QueueSuffix.JOURNAL).positions, {})

    def test_not_delivered_and_not_journaled(self) -> None:
        """A message that expires in transit is not a success."""
        self.alpha.put(self.outgoing(), asking(b"1", source=ALPHA, journal=True))
        self.alpha.later(SECONDS + 1)
        self.assertEqual(self.system(QueueSuffix.JOURNAL).positions, {})
