"""[queues] journal_on = "acknowledgement": limits of time and number, and a full journal."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from msmq.manager.peers import source_journal
from msmq.settings import SessionSettings
from msmq.transfer.awaiting_acknowledgements import AFTER_START
from tests.builders import ALPHA
from tests.nodes.journal.support import (
    RECEIPT,
    RECEIVED,
    UNKNOWN,
    WAIT,
    ReceiverTestCase,
    admin_ack,
)
from tests.nodes.scripted import (
    DEADLETTER,
)
from tests.nodes.support import Node


class EndOfWaitTests(ReceiverTestCase):
    """A message waits until a deadline, and the number of waiting messages is limited."""

    def test_late_answers(self) -> None:
        """An acknowledgement after the end of the wait changes nothing; the application gets it all
        the same.
        """
        self.ask(self.to, b"1", acknowledge=RECEIPT, dead_letter=True, time_to_be_received=20)
        self.hand_over()
        [message] = self.peer.messages
        self.clock.advance(20 + WAIT + 2)
        self.assertEqual(self.kept(DEADLETTER), [(b"1", UNKNOWN)])
        # The session was idle for so long that it closed.
        self.say(admin_ack(message, RECEIVED), peer=self.dial("ALPHA"))
        self.assertEqual((self.journal, self.kept(DEADLETTER)), ([], []))
        self.assertEqual(len(self.take(self.alpha, ".\\private$\\admin")), 1)
        self.verify_nothing_left()

    def test_removed_queue(self) -> None:
        """The wait goes on when the outgoing queue was removed meanwhile, since nothing else was sent."""
        self.ask(self.to, b"1", acknowledge=RECEIPT, time_to_be_received=100_000)
        self.hand_over()
        [message] = self.peer.messages
        for _ in range(4 * 60):
            self.clock.advance(60)
        self.assertEqual(self.alpha.service.inspection.outgoing(), [])
        self.assertEqual((self.journal, self.unproven), ([], 1))
        self.say(admin_ack(message, RECEIVED), peer=self.dial("ALPHA"))
        self.assertEqual((self.journal, self.unproven), ([b"1"], 0))

    def test_many_at_once(self) -> None:
        """Hundreds of waits that end together end in several commits."""
        self.ask(self.to, *(b"x" for _ in range(30)), time_to_reach_queue=5)
        self.hand_over()
        self.patch(source_journal, "AT_ONCE", 7)
        self.clock.advance(1)
        self.ask(self.to, b"waits on", time_to_reach_queue=1000)
        self.hand_over()
        self.clock.advance(WAIT + 5)
        self.assertEqual((len(self.reasons()), self.unproven), (30, 1))

    def test_after_a_start(self) -> None:
        """A wait that has ended meanwhile goes on for ten minutes after a start."""
        self.ask(self.to, b"1", b"2", time_to_reach_queue=1)
        self.hand_over()
        first, _ = self.peer.messages
        self.alpha.service.stopService()
        self.alpha.deaf()
        self.clock.advance(1000)
        self.alpha = self.restart(self.alpha)
        self.clock.advance(AFTER_START - 5)
        self.say(admin_ack(first), peer=self.dial("ALPHA"))
        self.assertEqual((self.journal, self.unproven), ([b"1"], 1))
        self.clock.advance(10)
        self.assertEqual((self.unproven, len(self.reasons())), (0, 1))
        self.verify_nothing_left()


class LimitTests(ReceiverTestCase):
    """At most three messages wait."""

    settings = SessionSettings(acknowledgement_wait=WAIT, awaiting_acknowledgements=3)

    def test_the_oldest_wait_no_longer(self) -> None:
        """Those beyond the limit are dead letters if they asked for it, and an event says why."""
        self.ask(self.to, b"1", b"2", dead_letter=True)
        self.hand_over()
        self.ask(self.to, b"3", b"4", b"5")
        self.hand_over()
        self.assertEqual(self.kept(DEADLETTER), [(b"1", UNKNOWN), (b"2", UNKNOWN)])
        reason = (
            "more messages than [limits] awaiting_acknowledgements waited; it may have arrived;"
            " kept as a dead letter"
        )
        self.assertEqual(self.reasons(), [("unacknowledged", reason)] * 2)
        self.say(*map(admin_ack, self.peer.messages))
        self.assertEqual(self.journal, [b"3", b"4", b"5"])
        self.verify_nothing_left()

    def test_a_batch_beyond_it(self) -> None:
        """The first messages of a batch that exceeds the limit end with it."""
        self.ask(self.to, b"1", b"2", b"3", b"4", dead_letter=True)
        self.hand_over()
        self.assertEqual((self.unproven, self.kept(DEADLETTER)), (3, [(b"1", UNKNOWN)]))


class FullJournalTests(ReceiverTestCase):
    """The quota of journals is used up."""

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        quota = {"journal_quota": 2} if identifier == ALPHA else {}
        return super().node(name, identifier, **quota, **kwargs)

    def test_no_copy(self) -> None:
        """A message for whose copy the journal has no space leaves without one, and is counted."""
        for number in range(4):
            self.ask(self.to, b"x" * 600)
            self.hand_over()
            self.say(admin_ack(self.peer.messages[-1]))
            self.assertEqual(self.unproven, 0, number)
        self.assertEqual(self.alpha.service.inspection.status().copies_dropped, 2)
        self.assertEqual(len(self.journal), 2)
        self.alpha = self.restart(self.alpha)
        self.assertEqual((self.unproven, self.waiting(self.alpha)), (0, 0))

    def test_several_at_once(self) -> None:
        """Copies replace the messages that end their wait in the same commit, which count against the same
        quota.
        """
        self.ask(self.to, *[b"x" * 600] * 4)
        self.hand_over()
        self.assertEqual(self.unproven, 4)
        self.say(*map(admin_ack, self.peer.messages))
        self.assertEqual((self.unproven, len(self.journal)), (0, 2))

    def test_several_dead_letters_at_once(self) -> None:
        """So do dead letters."""
        self.ask(self.to, *[b"x" * 600] * 4, dead_letter=True, time_to_reach_queue=5)
        self.hand_over()
        self.assertEqual(self.unproven, 4)
        self.clock.advance(WAIT + 10)
        self.assertEqual((self.unproven, len(self.kept(DEADLETTER))), (0, 2))
