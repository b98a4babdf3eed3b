"""[queues] journal_on = "acknowledgement": crashes between commits, and the setting switched off."""

from __future__ import annotations

from typing import Any

from msmq.queues.arriving.message import Delivery
from tests.nodes.journal.support import (
    REFUSED,
    CutStore,
    ReceiverTestCase,
    admin_ack,
)
from tests.nodes.scripted import (
    DEADLETTER,
)


class RestartTests(ReceiverTestCase):
    """ALPHA is killed."""

    def again(self, **kwargs: Any) -> None:
        """Start once more on what the store has."""
        store = self.alpha.store
        assert isinstance(store, CutStore)
        store.left = None
        self.alpha = self.restart(self.alpha, **kwargs)
        self.clock.advance(70)

    def run_until(self, commits: int | None, order: str) -> bytes:
        """Send two messages, one of which is refused, on a store that performs only this number of commits.

        @param order: of what the receiver does: A for its acknowledgements, H for the handover.
        @return: the acknowledgements.
        """
        store = self.alpha.store
        assert isinstance(store, CutStore)
        self.ask(self.to, b"good", b"bad", dead_letter=True)
        good, bad = self.peer.messages[-2:]
        answers = admin_ack(good), admin_ack(bad, REFUSED)
        store.left, store.done = commits, 0
        for step in order:
            if step == "A":
                self.say(*answers)
            else:
                self.hand_over()
        self.clock.advance(3)
        return b"".join(answers)

    def verify_cut(self, order: str) -> None:
        commits = 0
        while True:
            with self.subTest(order=order, commits=commits):
                answers = self.run_until(commits, order)
                store = self.alpha.store
                assert isinstance(store, CutStore)
                is_last = store.left != 0
                self.again()
                # The receiver sends again what was not acknowledged, and refuses duplicates.
                peer = self.dial("ALPHA")
                self.say(answers[: len(answers) // 2], answers[len(answers) // 2 :], peer=peer)
                if self.peer.is_open:
                    self.hand_over()
                self.assertEqual((self.journal, self.kept(DEADLETTER)), ([b"good"], [(b"bad", REFUSED)]))
                self.assertEqual(len(self.take(self.alpha, ".\\private$\\admin")), 2)
                self.verify_nothing_left()
            if is_last:
                break
            commits += 1
        self.assertGreaterEqual(commits, 2)

    def test_between_commits(self) -> None:
        """A crash between any two commits leaves one copy in the journal, and one dead letter."""
        self.verify_cut("AH")

    def test_between_commits_of_the_other_order(self) -> None:
        """The same where the handover comes first."""
        self.verify_cut("HA")

    def test_the_setting_off(self) -> None:
        """Messages that wait are settled after the setting was removed; others are journaled at handover."""
        self.ask(self.to, b"waits", b"refused", dead_letter=True)
        self.hand_over()
        first, second = self.peer.messages
        self.again(options={})
        self.say(admin_ack(first), admin_ack(second, REFUSED), peer=self.dial("ALPHA"))
        self.assertEqual((self.journal, self.kept(DEADLETTER)), ([b"waits"], [(b"refused", REFUSED)]))
        self.ask(self.to, b"new")
        self.hand_over()
        self.assertEqual(self.journal, [b"new"])
        self.verify_nothing_left()

    def test_the_setting_off_before_the_handover(self) -> None:
        """Answers that came before the handover are dropped with the setting."""
        self.ask(self.to, b"1", b"2")
        first, second = self.peer.messages
        self.say(admin_ack(first), admin_ack(second, REFUSED))
        self.again(options={})
        self.hand_over()
        self.assertEqual(self.journal, [b"1", b"2"])
        self.verify_nothing_left()

    def test_express(self) -> None:
        """An express message that waits is gone with the process, and nothing waits for it."""
        self.ask(self.to, b"1", delivery=Delivery.EXPRESS)
        self.hand_over()
        assert isinstance(self.alpha.store, CutStore)
        self.assertEqual((self.unproven, self.alpha.store.names()), (1, []))
        self.again()
        self.assertEqual(self.journal, [])
        self.verify_nothing_left()
