"""The checker finds what is wrong with moves, rejections, journals, and dead letters that are sent again."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from tests.history_checker.recorder import digest
from tests.history_checker.test_checker import ORDERS, History

ASIDE = f"{ORDERS};aside"


class HandlingTests(SynchronousTestCase):
    """One violation in each history, or none."""

    def setUp(self) -> None:
        self.history = History()

    def assert_found(self, *texts: str) -> None:
        """There is exactly one violation for each text, in order."""
        found = self.history.violations()
        self.assertEqual(len(found), len(texts), found)
        for text, violation in zip(texts, found, strict=True):
            self.assertIn(text, violation)

    def move(self, *labels: str, queue: str = ORDERS, to: str = ASIDE, result: str | None = "done") -> int:
        record = self.history.record
        number = record.begin("move", queue=queue, to=to, labels=labels)
        if result is not None:
            record.shown(number, [(label, "") for label in labels])
            record.end(number, result)
        return number

    def journal(self, *labels: str, queue: str = ORDERS, complete: bool = True) -> None:
        self.history.record.note("journal", queue=queue, labels=labels, complete=complete)

    def sent_journal(self, *labels: str, complete: bool = True, proven: bool = False) -> None:
        facts = {"labels": labels, "complete": complete, "proven": proven, "decided": True}
        self.history.record.note("sent_journal", node="ALPHA", **facts)

    def again(self, label: str, letter: str, *, result: str | None = "done", seen: bool = True) -> None:
        """A dead letter is sent again as another message, which is received."""
        self.history.send(label, result=result, requeues=letter)
        if seen:
            self.history.receive(label)

    def dead_letter(self, label: str, letter: str) -> None:
        self.history.record.note("dead_letter", label=label, letter=letter, **{"class": "purged"})

    def test_moved(self) -> None:
        """One that was moved is in its subqueue, where the others are not, until it comes back; they may
        overtake it.
        """
        history = self.history
        history.send("1", "2", "3", "4")
        self.move("1", "2")
        history.receive("3")
        self.move("2", queue=ASIDE, to=ORDERS)
        history.receive("2")
        history.receive("1", queue=ASIDE)
        self.move("4", result="refused")
        history.receive("4", result="returned")
        history.receive("4", queue=ASIDE)
        self.assert_found("moved: 4: in BETA orders;aside, where no operation has moved it")

    def test_moved_and_still_there(self) -> None:
        """A message is seen in its queue although it was moved; an interrupted move may have done either."""
        history = self.history
        history.send("1", "2", "3")
        number = self.move("1")
        self.move("2", result=None)
        self.move("3", result=None)
        history.receive("1", "2")
        history.receive("3", queue=ASIDE)
        self.assert_found(f"moved: 1: in BETA orders at 9.000000, after operation {number}")

    def test_poison(self) -> None:
        """What is poison is moved by itself, also again after it was moved back."""
        history = self.history
        poison = f"{ORDERS};poison"
        history.send("1", "2")
        history.receive("1", queue=poison, result="returned")
        self.move("1", queue=poison, to=ORDERS)
        history.receive("2")
        history.receive("1", queue=poison)
        self.assert_found()

    def test_picked(self) -> None:
        """Messages that were peeked, or received by name, say nothing of the order; others do."""
        history = self.history
        history.send("1", "2", "3", "4")
        for label, facts in (("4", {"peeks": True}), ("3", {"picks": "3"})):
            number = history.record.begin("receive", queue=ORDERS, **facts)
            history.record.shown(number, [(label, _digest(label))])
            history.record.end(number, "returned")
        history.receive("1", "2", "3", "4")
        history.send("5", "6")
        history.receive("6")
        history.receive("5")
        self.assert_found("reordered: ALPHA to BETA orders: 6")

    def test_picked_and_interrupted(self) -> None:
        """One that was being received by name may be gone, although its reader has not seen it."""
        history = self.history
        history.send("1", "2")
        history.record.begin("receive", queue=ORDERS, picks="1")
        history.record.note("kill", node="BETA")
        history.acknowledged("1", "reached")
        history.acknowledged("1", "received")
        self.assert_found("lost: 2")

    def test_rejected(self) -> None:
        """A message that no reader has rejected."""
        history = self.history
        history.send("1", "2")
        history.receive("1", result="rejected")
        history.receive("2", result="returned")
        history.fate("1", "nack_receive_rejected")
        history.fate("2", "nack_receive_rejected")
        self.assert_found("2: rejected, but no reader rejected it")

    def test_sent_again(self) -> None:
        """A dead letter is gone once it was sent again, and not otherwise."""
        self.history.send("9", result=None)
        self.again("1", "ALPHA 1")
        self.again("2", "ALPHA 2", result="refused", seen=False)
        self.dead_letter("9", "ALPHA 2")
        self.again("3", "ALPHA 3", result=None)
        self.again("4", "ALPHA 4", result=None, seen=False)
        self.dead_letter("9", "ALPHA 4")
        self.assert_found()

    def test_sent_again_and_left(self) -> None:
        """A dead letter that was sent again is still there, also if only its message proves that."""
        self.history.send("9", result=None)
        self.again("1", "ALPHA 1")
        self.dead_letter("9", "ALPHA 1")
        self.again("2", "ALPHA 2", result=None)
        self.dead_letter("9", "ALPHA 2")
        self.assert_found("ALPHA 1: sent again by operations [2] and is left", "ALPHA 2: sent again by")

    def test_sent_again_twice(self) -> None:
        """Two operators have sent a dead letter again."""
        self.again("1", "ALPHA 1")
        self.again("2", "ALPHA 1", result=None)
        self.assert_found("doubled: dead letter ALPHA 1: sent again by operations [1, 3]")

    def test_neither_sent_again_nor_left(self) -> None:
        """A dead letter is gone, and there is no message in its stead; unless it was damaged."""
        self.again("1", "ALPHA 1", result=None, seen=False)
        self.assertIn("lost: dead letter ALPHA 1", "".join(self.history.violations()))
        self.history.record.note("damaged_copy", node="ALPHA")
        self.assert_found()

    def test_journal_of_a_queue(self) -> None:
        """It has each message that was received once, also from a subqueue, and no others."""
        history = self.history
        history.send("1", "2", "3", "4", "5")
        history.receive("1", "2", "3")
        history.receive("4", result="returned")
        self.move("5")
        history.receive("5", queue=ASIDE)
        history.receive("4", result=None)
        self.journal("2", "3", "3", "5")
        self.journal("9", queue="BETA letters", complete=False)
        history.send("9", queue="BETA letters", result=None)
        self.assert_found(
            "lost: 1: not in the journal of BETA orders",
            "doubled: 3: 2 times in the journal of BETA orders",
            "journal: 9: in that of BETA letters, but not received",
        )

    def test_journal_of_a_sender(self) -> None:
        """It has the transactional messages that ask for it and were received."""
        history = self.history
        history.send("1", "2", "3", journal=["1", "2"])
        history.send("4", result=None, journal=["4"])
        history.send("5", sender="GAMMA")
        history.receive("1", "2", "3", "5")
        self.sent_journal("2", "2", "4", "5")
        self.assert_found(
            "lost: 1: not in the journal of ALPHA",
            "doubled: 2: 2 times in the journal of ALPHA",
            "journal: 4: in that of ALPHA, but it was not received",
            "journal: 5: in that of ALPHA, which has not sent it",
        )

    def test_journal_that_needs_a_proof(self) -> None:
        """A message that is not transactional has arrived, or was received, as its acknowledgement says."""
        history = self.history
        facts: dict[str, Any] = {"transactional": False, "result": None}
        for label, proof in (("1", "reached"), ("2", "received"), ("3", "reached"), ("4", "received")):
            history.send(label, proof={label: proof}, **facts)
        history.send("5", proof={}, **facts)
        history.receive("1", "2", result="returned")
        self.sent_journal("1", "2", "3", "4", "5", proven=True)
        self.assert_found(
            "2: in that of ALPHA, but it was not received",
            "3: in that of ALPHA, but it has not arrived",
            "4: in that of ALPHA, but it was not received",
        )

    def test_journal_with_a_proof(self) -> None:
        """A copy whose acknowledgement has come is made; one that is not proved is not."""
        history = self.history
        for label, proof in (("1", "reached"), ("2", "received"), ("3", "received")):
            history.send(label, transactional=False, proof={label: proof}, journal=[label])
        history.receive("1", "2", "3")
        for label in "123":
            history.acknowledged(label, "reached")
        history.acknowledged("3", "received")
        self.sent_journal(proven=True)
        self.assert_found("lost: 1: not in the journal of ALPHA", "lost: 3: not in the journal of ALPHA")

    def test_journal_of_what_is_handed_over(self) -> None:
        """Without a proof the copy says only that the message was sent on."""
        self.history.send("1", transactional=False, result=None, proof={"1": "received"}, journal=["1"])
        self.sent_journal("1")
        self.assert_found()

    def test_forwarded_and_peeked(self) -> None:
        """A peek at a message that a transaction holds does not mean that it is back."""
        history = self.history
        history.send("1")
        reader = history.receive("1", result=None)
        history.send("10", result=None, queue="GAMMA orders", received_by=reader)
        number = history.record.begin("receive", queue=ORDERS, peeks=True)
        history.record.shown(number, [("1", _digest("1"))])
        history.record.end(number, "returned")
        history.receive("10", queue="GAMMA orders")
        self.assert_found()


def _digest(label: str) -> str:
    return digest(label.encode())
