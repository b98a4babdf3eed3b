"""Dead letters of refused and of forwarded messages, and deliveries that are proven."""

from __future__ import annotations

from typing import Any

from msmq.persistence.changes import (
    AppendLog,
    Change,
    MoveMessage,
    PutState,
    RemoveMessages,
)
from msmq.queues.arriving.arrivals import wants_local_dead_letter
from msmq.queues.leaving.copies import journaled_bytes
from msmq.queues.position import PacketHolder
from msmq.queues.queue import MessagePosition, Queue
from msmq.structures.names.name_text import QueueSuffix
from msmq.structures.packet.kept_packet import kept_headers, marked_for_dead_letters, packet_of
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.user_message_rewrites import patch_message_class
from msmq.structures.packet.user_message_view import UserMessageView
from tests.builders import ALPHA
from tests.queues.builders import NOW
from tests.queues.leaving.copy_case import SECONDS, CopyCase, asking
from tests.queues.simulation import Alpha

LATE = MessageClass.NACK_REACH_QUEUE_TIMEOUT


class RefusedTests(CopyCase):
    """[MS-MQQB] 3.1.5.8.8: messages of peers that are refused on arrival."""

    def test_who_wants_one(self) -> None:
        """A message with negative source journaling, unless it is transactional or an acknowledgement."""
        answer = UserMessageView(packet_of(patch_message_class(asking(b"1"), MessageClass.ACK_RECEIVE)))
        for view, expected in (
            (asking(b"1"), True),
            (asking(b"1", dead_letter=False), False),
            (asking(b"1", dead_letter=False, journal=True), False),
            (asking(b"1", transactional=True), False),
            (asking(b"1", transactional=True, dead_letter=False), False),
            (answer, False),
        ):
            self.assertIs(wants_local_dead_letter(view), expected)

    def keep(self, view: UserMessageView, *, is_stored: bool = True) -> tuple[bool, list[Change]]:
        """Keep a refused message as a dead letter, if there is room; and the changes for that."""
        model = self.alpha.model
        admission = model.admit([], self.alpha.now)
        refusal = MessageClass.NACK_Q_EXCEED_QUOTA
        is_kept = model.dead_letter_refused(
            view, refusal, self.alpha.now, admission.copies, admission.changes
        )
        self.assertEqual(len(admission.copies), int(is_kept))
        admission.dropped += int(not is_kept)
        self.alpha.store.ask(
            admission.changes,
            lambda: self.alpha.perform(model.commit(admission, self.alpha.now)),
            lambda: self.assertEqual(model.withdraw(admission), []),
        )
        return is_kept, admission.changes

    def test_kept(self) -> None:
        """It is in the dead-letter queue with the class of the refusal, behind others of its priority."""
        self.assertTrue(self.keep(asking(b"1"))[0])
        self.assertTrue(self.keep(asking(b"2", recoverable=False))[0])
        refused = MessageClass.NACK_Q_EXCEED_QUOTA
        self.assertEqual(self.dead_letters(), [(b"1", refused), (b"2", refused)])
        dead_letters = self.system(QueueSuffix.DEADLETTER).peek(9)
        self.assertEqual([each.priority for each in dead_letters], [5, 5])
        self.assertEqual([each.arrived for each in dead_letters], [NOW.wall, NOW.wall])
        self.assertEqual([each.kept for each in dead_letters], [PacketHolder.STORE, PacketHolder.MEMORY])
        self.assertEqual(self.alpha.model.dead_letter_counts, {refused: 2})

    def test_not_stored(self) -> None:
        """Without the store it is not there, and counts nowhere."""
        self.alpha.store.fails = 1
        self.keep(asking(b"1"))
        self.assertEqual((self.dead_letters(), self.alpha.model.storage.used), ([], 0))
        self.assertTrue(self.keep(asking(b"1"))[0])
        self.assertEqual(len(self.dead_letters()), 1)

    def test_limits(self) -> None:
        """The limits of all queues, of express memory and of the dead letters of peers hold to the byte."""
        size = asking(b"1").size
        express = asking(b"1", recoverable=False)
        self.assertEqual(express.size, size)
        for limits, view, is_kept in (
            ({"limit": size}, asking(b"1"), True),
            ({"limit": size - 1}, asking(b"1"), False),
            ({"limit": size}, express, True),
            ({"limit": size - 1}, express, False),
            ({"express_limit": size}, express, True),
            ({"express_limit": size - 1}, express, False),
            ({"express_limit": size - 1}, asking(b"1"), True),
            ({"peer_dead_letters": size}, asking(b"1"), True),
            ({"peer_dead_letters": size - 1}, asking(b"1"), False),
            ({"peer_dead_letters": None}, asking(b"1"), True),
            ({"journal_limit": size}, asking(b"1"), True),
            ({"journal_limit": size - 1}, asking(b"1"), False),
        ):
            with self.subTest(limits=limits, is_kept=is_kept):
                self.alpha = Alpha()
                self.queue = self.alpha.create()
                for name, value in limits.items():
                    setattr(self.alpha.model.storage, name, value)
                self.assertIs(self.keep(view)[0], is_kept)
                self.assertEqual(self.alpha.model.copying.dropped, int(not is_kept))
                self.assertEqual(len(self.dead_letters()), int(is_kept))

    def test_numbers_are_reserved(self) -> None:
        """A dead letter that uses up the reserved numbers reserves more."""
        self.keep(asking(b"1"))
        sequential = self.alpha.model.holdings.sequential
        sequential.take(sequential.requested - sequential.last - sequential.block // 2)
        self.assertIn(PutState, map(type, self.keep(asking(b"2"))[1]))
        self.assertNotIn(PutState, map(type, self.keep(asking(b"3"))[1]))


class TransitTests(CopyCase):
    """Dead letters of forwarded messages, and of messages with a queue of their own for them."""

    def test_marked(self) -> None:
        """A forwarded message is kept where it fails if it is marked for that, within the limit for peers."""
        marked = UserMessageView(marked_for_dead_letters(asking(b"1").packet))
        for limit, expected in (
            (None, [(b"1", LATE)]),
            (asking(b"1").size, [(b"1", LATE)]),
            (asking(b"1").size - 1, []),
        ):
            self.alpha = Alpha()
            self.queue = self.alpha.create()
            self.alpha.model.storage.peer_dead_letters = limit
            self.alpha.put(self.outgoing(), marked)
            self.alpha.later(SECONDS + 1)
            self.assertEqual(self.dead_letters(), expected)
            self.assertEqual(self.alpha.model.copying.dropped, int(not expected))

    def failed(self, name: str = ".\\private$\\failed", **properties: Any) -> Queue:
        """Let a message fail in transit whose dead letters go to a queue of this name; answers with it."""
        self.alpha = Alpha()
        own = self.alpha.create("failed", **properties)
        self.alpha.subqueue(own)
        packet = asking(b"1", source=ALPHA).packet + kept_headers(name)
        self.alpha.put(self.outgoing(), UserMessageView(packet))
        self.alpha.later(SECONDS + 1)
        return own

    def test_own_queue(self) -> None:
        """The queue of the sender's choice has the dead letter, and so has its log if it keeps one."""
        for log in (False, True):
            own = self.failed(log=log)
            [dead_letter] = own.peek(9)
            self.assertEqual(
                (self.alpha.body(dead_letter), self.alpha.view(dead_letter).message_class), (b"1", LATE)
            )
            self.assertEqual(self.dead_letters(), [])
            logs = [each for each in self.alpha.store.done[-1] if isinstance(each, AppendLog)]
            self.assertEqual(
                [(each.queue, each.lookup_id) for each in logs],
                [(own.definition.identifier, dead_letter.lookup_id)] * log,
            )

    def test_unsuitable_queue(self) -> None:
        """A queue of another kind or without room, a subqueue and what is no queue are not used."""
        for properties in ({"transactional": True}, {"quota": 0}):
            self.assertEqual(self.failed(**properties).positions, {})
            self.assertEqual(self.dead_letters(), [(b"1", LATE)])
        for name in (".\\private$\\failed;sub", "no path", ".\\private$\\missing"):
            own = self.failed(name)
            self.assertEqual((own.positions, own.subqueues["sub"].positions), ({}, {}))
            self.assertEqual(self.dead_letters(), [(b"1", LATE)])

    def test_full_queue_manager(self) -> None:
        """A dead letter in a queue of an application counts against the quota of all queues, to the byte."""
        size = self.failed().total_bytes
        for room in (size, size - 1):
            self.alpha = Alpha()
            own = self.alpha.create("failed")
            packet = asking(b"1", source=ALPHA).packet + kept_headers(".\\private$\\failed")
            self.alpha.put(self.outgoing(), UserMessageView(packet))
            self.alpha.model.storage.limit = self.alpha.model.storage.used + room
            self.alpha.later(SECONDS + 1)
            self.assertEqual(own.message_count, int(room == size))


class ProvenTests(CopyCase):
    """L{msmq.queues.leaving.copies.MessageCopies.keep_proven}: an acknowledgement proves a delivery."""

    def prove(self, position: MessagePosition) -> list[Change]:
        """The changes that store the result; see that it takes effect."""
        changes: list[Change] = []
        copy = self.alpha.model.copying.keep_proven(position, changes, journaled_bytes((position,)))
        self.alpha.store.ask(changes)
        copies = () if copy is None else (copy,)
        self.alpha.perform(self.alpha.model.disposed(position, copies, self.alpha.now))
        return changes

    def test_moved_to_the_journal(self) -> None:
        """The message is in the machine journal then, moved within the store."""
        outgoing = self.outgoing()
        self.alpha.put(outgoing, asking(b"1", source=ALPHA, journal=True))
        [position] = self.alpha.receive(outgoing)
        self.assertIn(MoveMessage, map(type, self.prove(position)))
        self.assertEqual(self.alpha.bodies(self.system(QueueSuffix.JOURNAL)), [b"1"])
        self.assertEqual(outgoing.positions, {})

    def test_full(self) -> None:
        """In a full journal there is no copy, and the message is removed; one that counts already fits."""
        size = asking(b"1").size
        for is_pending, limit, is_kept in (
            (False, size, True),
            (False, size - 1, False),
            (True, size, True),
            (True, size - 1, False),
        ):
            with self.subTest(is_pending=is_pending, limit=limit):
                self.alpha = Alpha()
                outgoing = self.outgoing()
                self.alpha.put(outgoing, asking(b"1", source=ALPHA, journal=True))
                held = self.alpha.receive(outgoing)
                if is_pending:
                    model = self.alpha.model
                    relocation = model.move_locked(held, model.collection.unproven)
                    self.alpha.store.ask(relocation.changes)
                    self.alpha.perform(model.moved(relocation, self.alpha.now))
                    held = self.alpha.receive(model.collection.unproven)
                self.alpha.model.storage.journal_limit = limit
                changes = self.prove(held[0])
                journal = self.system(QueueSuffix.JOURNAL)
                self.assertEqual(journal.message_count, int(is_kept))
                self.assertEqual(
                    [each for each in changes if isinstance(each, RemoveMessages)] == [], is_kept
                )
                self.assertEqual(self.alpha.model.message_count, int(is_kept))

    def test_numbers_of_copies_are_reserved(self) -> None:
        """A copy that uses up the reserved numbers reserves more; a removal alone does not."""
        sequential = self.alpha.model.holdings.sequential
        for is_copied in (True, False):
            queue = self.alpha.create(f"journal-{is_copied}", journal=is_copied)
            message = asking(b"1", dead_letter=is_copied)
            self.alpha.put(queue, message, message)
            sequential.take(sequential.requested - sequential.last - sequential.block // 2)
            self.receive(queue)
            kinds = [type(change) for change in self.alpha.store.done[-1]]
            self.assertEqual(PutState in kinds, is_copied)
            sequential.take(sequential.requested - sequential.last - sequential.block // 2)
            self.alpha.later(SECONDS)
            kinds = [type(change) for change in self.alpha.store.done[-1]]
            self.assertEqual(PutState in kinds, is_copied)

    def test_behind_a_message_without_copy(self) -> None:
        """Of messages that leave together each is copied that asks for it, wherever it is among them."""
        outgoing = self.outgoing()
        queue = self.alpha.create("t", transactional=True)
        for is_transactional, where in ((False, outgoing), (True, queue)):
            for asks in ((False, True), (True, False), (False, False, True), (False, False)):
                views = [
                    asking(b"1", source=ALPHA, journal=each, transactional=is_transactional) for each in asks
                ]
                self.alpha.put(where, *views)
                self.receive(where, len(views))
                journal = self.system(QueueSuffix.JOURNAL)
                self.assertEqual(journal.message_count, asks.count(True))
                self.receive(journal, 1)
                self.assertEqual(journal.message_count, 0)

    def test_throttled(self) -> None:
        """While all queues are full, no copy is made of a message that is received here; it is counted."""
        for is_throttled in (False, True):
            queue = self.alpha.create("t", transactional=True)
            self.alpha.put(queue, asking(b"1", source=ALPHA, journal=True, transactional=True))
            held = self.alpha.receive(queue)
            self.alpha.model.storage.throttled = is_throttled
            self.alpha.confirm(held)
            self.assertEqual(self.system(QueueSuffix.JOURNAL).message_count, 1)
            self.assertEqual(self.alpha.model.copying.dropped, int(is_throttled))
            self.alpha.model.storage.throttled = False
            self.alpha.delete(queue)
