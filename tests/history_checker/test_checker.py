"""The checker finds every violation that is planted in a history, and none where there is none."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from tests.history_checker.__main__ import main
from tests.history_checker.checker import check_history
from tests.history_checker.operations import NoHistory
from tests.history_checker.recorder import Recorder, digest

ORDERS = "BETA orders"


class History:
    """A history that a test writes.

    @ivar step: seconds between its lines.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.seconds = 0.0
        self.step = 1.0
        self.record = Recorder(self.lines.append, self.clock)

    def clock(self) -> float:
        self.seconds += self.step
        return self.seconds

    def send(self, *labels: str, result: str | None = "done", **facts: Any) -> int:
        """Messages from ALPHA; C{None} for a send without an end."""
        facts = {"sender": "ALPHA", "queue": ORDERS, "transactional": True, "recoverable": True, **facts}
        number = self.record.begin(
            "send", messages=[(each, digest(each.encode())) for each in labels], **facts
        )
        if result is not None:
            self.record.end(number, result)
        return number

    def receive(self, *labels: str, result: str | None = "done", queue: str = ORDERS, body: str = "") -> int:
        """A reader that sees these messages."""
        number = self.record.begin("receive", queue=queue)
        self.record.shown(number, [(each, digest((body or each).encode())) for each in labels])
        if result is not None:
            self.record.end(number, result)
        return number

    def fate(self, label: str | None, fate: str, *, arrived: bool = True, node: str = "BETA") -> None:
        self.record.note("fate", label=label, fate=fate, arrived=arrived, node=node)

    def acknowledged(self, label: str, kind: str) -> None:
        self.record.note("acknowledgement", label=label, **{"class": kind})

    def violations(self) -> list[str]:
        """What the checker says at the end."""
        self.record.note("end")
        return check_history(self.lines).violations


class CheckerTests(SynchronousTestCase):
    """One violation in each history."""

    def setUp(self) -> None:
        self.history = History()

    def assert_found(self, *texts: str) -> None:
        """There is exactly one violation for each text, in order."""
        found = self.history.violations()
        self.assertEqual(len(found), len(texts), found)
        for text, violation in zip(texts, found, strict=True):
            self.assertIn(text, violation)

    def test_drained_queues(self) -> None:
        """A message may be received where its queue was drained to, also over two drains, and once."""
        history = self.history
        history.send("1", "2", "3", "4")
        history.record.note("drain", queue=ORDERS, to="GAMMA orders")
        history.record.note("drain", queue="GAMMA orders", to="DELTA orders")
        history.receive("1", queue="GAMMA orders")
        history.receive("4")
        history.receive("2", "3", queue="DELTA orders")
        self.assert_found()

    def test_faults_of_a_drain(self) -> None:
        """Elsewhere a message is a phantom; in both queues it is doubled, and in one it has its order."""
        history = self.history
        history.send("1", "2", "3", "4")
        history.record.note("drain", queue=ORDERS, to="GAMMA orders")
        history.receive("1", queue="DELTA orders")
        history.receive("2")
        history.receive("2", queue="GAMMA orders")
        history.receive("4", queue="GAMMA orders")
        history.receive("3", queue="GAMMA orders")
        self.assert_found("1: in DELTA orders", "doubled: 2", "4 was seen at")

    def test_refused_after_a_drain(self) -> None:
        """It had arrived before; without a fate elsewhere it has to be seen to have arrived."""
        history = self.history
        history.send("1", "2", result=None, transactional=False)
        history.record.note("drain", queue=ORDERS, to="GAMMA orders")
        history.acknowledged("1", "reached")
        history.fate("1", "nack_bad_dst_q", arrived=False, node="GAMMA")
        history.acknowledged("2", "reached")
        self.assert_found("early acknowledgement: 2")

    def test_given_back_and_drained(self) -> None:
        """A reader that has had a message meanwhile may be the reason that the next one is drained first."""
        history = self.history
        history.send("1", "2")
        history.record.note("drain", queue=ORDERS, to="GAMMA orders")
        history.receive("1", result="returned")
        history.receive("2", "1", queue="GAMMA orders")
        self.assert_found()

    def test_nothing_wrong(self) -> None:
        """Kills, aborts, unknown results, limits and purges are not violations by themselves."""
        history = self.history
        history.send("1", "2")
        history.send("3", result=None)
        history.send("4", result="refused")
        history.receive("1", result="returned")
        history.record.note("kill", node="BETA")
        history.receive("1", "2")
        history.acknowledged("1", "reached")
        history.acknowledged("1", "received")
        history.send("5", limits=["reach"])
        history.fate("5", "reach timeout", arrived=False)
        history.send("6")
        history.record.note("purge", queue=ORDERS)
        history.fate("6", "purged")
        history.send("7")
        history.receive("7", result=None)
        self.assert_found()

    def test_lost(self) -> None:
        """A message that was taken, and is nowhere."""
        self.history.send("1", "2")
        self.history.receive("2")
        self.assert_found("lost: 1")

    def test_lost_after_it_was_seen(self) -> None:
        """A message that a reader gave back, and that is never seen again."""
        self.history.send("1")
        reader = self.history.receive("1", result="returned")
        self.assert_found(f"lost: 1: taken by operation 1, last seen by operation {reader}")

    def test_half_of_a_transaction(self) -> None:
        """Of a send of unknown result one message is there, and the other is not."""
        self.history.send("1", "2", result=None)
        self.history.receive("1")
        self.assert_found("lost: half")

    def test_half_of_a_transaction_to_two_queues(self) -> None:
        """A transaction of unknown result of which one queue has its part."""
        self.history.send("1", result=None, transaction="t")
        self.history.send("2", result=None, transaction="t", queue="BETA letters")
        self.history.receive("1")
        self.assert_found("lost: half")

    def test_half_of_a_transaction_that_forwards(self) -> None:
        """Of a transaction of unknown result the received message is back although another one was sent, or
        gone although none was; both or neither are no violation.
        """
        history = self.history
        history.send("1", "2", "3", "4")
        forwards = [(label, history.receive(label, result=None)) for label in "1234"]
        for label, reader in forwards:
            history.send(f"{label}0", result=None, queue="GAMMA orders", received_by=reader)
        history.receive("1", "2")
        history.receive("10", "30", queue="GAMMA orders")
        self.assert_found("half: 1: back", "half: 4: gone")

    def test_result_of_a_forwarded_message_at_its_sender(self) -> None:
        """What its sender purges may have arrived; what is purged in its queue was back there."""
        history = self.history
        history.send("1", "2")
        for label in "12":
            reader = history.receive(label, result=None)
            history.send(f"{label}0", result=None, queue="GAMMA orders", received_by=reader)
        history.receive("10", "20", queue="GAMMA orders")
        history.record.note("purge", queue=None)
        history.fate("1", "purged", arrived=False, node="ALPHA")
        history.fate("2", "purged")
        self.assert_found("half: 2: back")

    def test_message_logs(self) -> None:
        """Each message that was in the queue is there once, and no others; express ones may come twice."""
        history = self.history
        history.send("1", "2", "3")
        history.send("4", queue="BETA letters")
        history.send("5", recoverable=False, transactional=False)
        history.receive("1", "2", "3", "5")
        history.receive("4", queue="BETA letters")
        history.record.note("log", queue=ORDERS, labels=["1", "2", "2", "4", "5", "5"], complete=True)
        self.assert_found("doubled: 2: 2 times", "phantom: 4: in the log", "lost: 3: not in the log")

    def test_incomplete_message_log(self) -> None:
        """One that was trimmed, or switched on later, need not have all."""
        self.history.send("1", "2")
        self.history.receive("1", "2")
        self.history.record.note("log", queue=ORDERS, labels=["2"], complete=False)
        self.assert_found()

    def test_incomplete_queue(self) -> None:
        """What may still be in a queue is not lost; without an end nothing is."""
        self.history.send("1")
        self.assertEqual(check_history(self.history.lines).violations, [])
        self.history.record.note("end", incomplete=[ORDERS])
        self.assertEqual(check_history(self.history.lines).violations, [])

    def test_damaged(self) -> None:
        """A message whose bytes were damaged has that fate, also if its name was lost."""
        self.history.send("1")
        self.history.send("2")
        self.history.fate("1", "damaged")
        self.history.fate(None, "damaged")
        self.assert_found()

    def test_damaged_event(self) -> None:
        """The event by which a message is known to have arrived may be damaged, where it was sent to."""
        self.history.send("1")
        self.history.acknowledged("1", "reached")
        self.history.fate("1", "expired", arrived=False, node="ALPHA")
        self.history.fate(None, "damaged", node="ALPHA")
        self.assert_found("1: it never was in")
        self.history.fate(None, "damaged", node="BETA")
        self.assert_found()

    def test_received_twice(self) -> None:
        """Two readers removed the same message."""
        self.history.send("1")
        self.history.receive("1")
        self.history.receive("1")
        self.assert_found("doubled: 1: received by operations [2, 3]")

    def test_seen_again(self) -> None:
        """A message that was removed is shown to another reader, who gives it back."""
        self.history.send("1")
        self.history.receive("1")
        self.history.receive("1", result="returned")
        self.assert_found("doubled: 1: received, and seen again")

    def test_acknowledged_twice(self) -> None:
        """Its sender gets the same acknowledgement twice."""
        self.history.send("1")
        self.history.receive("1")
        self.history.acknowledged("1", "received")
        self.history.acknowledged("1", "received")
        self.assert_found("doubled: 1: 2 acknowledgements received")

    def test_reordered(self) -> None:
        """The second message is seen before the first."""
        self.history.send("1")
        self.history.send("2")
        self.history.receive("2")
        self.history.receive("1")
        self.assert_found("reordered: ALPHA to BETA orders: 2")

    def test_reordered_in_one_batch(self) -> None:
        """Of one send, and in one receive."""
        self.history.send("1", "2", "3")
        self.history.receive("1", "3", "2")
        self.assert_found("reordered: ALPHA to BETA orders: 3")

    def test_order_with_other_readers(self) -> None:
        """A reader that died may have held the first message, and one that gave it back had seen it."""
        self.history.send("1")
        self.history.record.begin("receive", queue=ORDERS)
        self.history.send("2")
        self.history.receive("2")
        self.history.receive("1")
        self.history.send("5")
        failed = self.history.record.begin("receive", queue=ORDERS)
        self.history.send("6")
        self.history.receive("6")
        self.history.record.end(failed, "failed")
        self.history.receive("5")
        self.history.send("3", "4")
        self.history.receive("3", result="returned")
        self.history.receive("4")
        self.history.receive("3")
        self.assert_found()

    def test_order_of_senders(self) -> None:
        """Other senders, other queues, sends at the same time and messages without order."""
        history = self.history
        history.send("1", sender="GAMMA")
        history.send("2")
        one = history.send("3", result=None)
        history.send("4")
        history.record.end(one, "done")
        history.send("5", transactional=False)
        history.send("6", transactional=False)
        history.receive("2", "1")
        history.receive("4", "3")
        history.receive("6", "5")
        self.assert_found()

    def test_phantoms(self) -> None:
        """Messages that were not sent, or not so, or not there, or later."""
        history = self.history
        history.receive("9")
        history.send("1")
        history.receive("1", body="other")
        history.send("2")
        history.receive("2", queue="BETA letters")
        history.send("3", result="refused")
        history.receive("3")
        history.acknowledged("8", "reached")
        self.assert_found(
            "9: in BETA orders, but was not sent",
            "1: in BETA orders with another body",
            "2: in BETA letters, but was sent to BETA orders",
            "8: acknowledgement of a message that was not sent",
            "3: its send was refused",
        )

    def test_seen_before_it_was_sent(self) -> None:
        """The send began after a reader saw the message."""
        self.history.receive("1")
        self.history.send("1")
        self.assert_found("phantom: 1: in BETA orders before it was sent")

    def test_early_acknowledgements(self) -> None:
        """An acknowledgement comes before what it acknowledges, or that never comes."""
        history = self.history
        history.send("1")
        history.acknowledged("1", "received")
        history.receive("1")
        history.send("2")
        history.acknowledged("2", "received")
        history.acknowledged("2", "reached")
        history.fate("2", "damaged", arrived=False)
        self.assert_found("1: it was not yet received", "2: it was not received", "2: it never was in")

    def test_two_fates(self) -> None:
        """A message was received, and removed otherwise, and its sender gets an acknowledgement of that."""
        history = self.history
        history.send("1")
        history.receive("1")
        history.record.note("purge", queue=ORDERS)
        history.fate("1", "purged")
        history.acknowledged("1", "purged")
        history.record.note("dead_letter", label="1", **{"class": "purged"})
        self.assert_found(
            "received, and purged in its queue",
            "received, purged: more than one",
            "received, but acknowledged as purged",
            "received, and a dead letter: purged",
        )

    def test_damaged_copy(self) -> None:
        """A copy of a message that was refused elsewhere may be damaged at its sender; the one in its queue
        may not have been refused too.
        """
        history = self.history
        for label, node in (("1", "ALPHA"), ("2", "BETA")):
            history.send(label)
            history.fate(label, "nack_bad_dst_q", arrived=False)
            history.fate(label, "damaged", node=node)
        self.assert_found("2: nack_bad_dst_q, damaged: more than one")

    def test_fates_without_a_reason(self) -> None:
        """A message expires without a limit, or is purged without a purge, or twice."""
        history = self.history
        history.send("1")
        history.fate("1", "receive timeout")
        history.send("2")
        history.fate("2", "purged")
        history.send("3", limits=["receive"])
        history.fate("3", "receive timeout")
        history.fate("3", "receive timeout")
        self.assert_found(
            "1: receive timeout, but it has no such limit",
            "2: purged, but BETA orders was not purged",
            "3: receive timeout at BETA, 2 times",
        )

    def test_express(self) -> None:
        """Express messages may be lost."""
        self.history.send("1", transactional=False, recoverable=False)
        self.assert_found()


class HistoryTests(SynchronousTestCase):
    """Files that are read."""

    def test_malformed(self) -> None:
        """The error has the number of the line."""
        good = json.dumps({"operation": 1, "at": 1.0, "kind": "kill", "node": "BETA"})
        for line in ("{", "[]", '{"operation": 1}', '{"operation": 7, "at": 2, "result": "done"}', good):
            error = self.assertRaises(NoHistory, check_history, [good, line])
            self.assertIn("line 2", str(error))

    def test_same_label(self) -> None:
        """Two messages with one label cannot be distinguished."""
        history = History()
        history.send("1")
        history.send("1")
        self.assertIn("1 was sent before", str(self.assertRaises(NoHistory, check_history, history.lines)))

    def test_command(self) -> None:
        """Status 0 without a violation, 1 with one, 2 for what is not a history."""
        history = History()
        history.send("1")
        history.receive("1")
        path = Path(self.mktemp())
        written: list[str] = []
        self.patch(sys.stdout, "write", written.append)
        self.patch(sys.stderr, "write", written.append)
        path.write_text("".join(history.lines))
        self.assertEqual(main([str(path)]), 0)
        history.receive("1")
        path.write_text("".join(history.lines))
        self.assertEqual(main([str(path)]), 1)
        path.write_text("no history")
        self.assertEqual(main([str(path)]), 2)
        self.assertEqual(main([]), 2)
        self.assertIn("1 messages, 1 received", written[0])
        self.assertIn("doubled: 1", written[1])

    def test_imports_nothing_of_the_product(self) -> None:
        """The judge shares no code with what it judges."""
        for path in Path(__file__).parent.glob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                self.assertFalse([name for name in names if name.startswith("msmq")], path)
