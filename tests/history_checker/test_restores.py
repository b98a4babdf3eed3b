"""The checker allows what a restore from a backup may lose or bring back, and finds everything else."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from tests.history_checker.test_checker import ORDERS, History


class RestoreTests(SynchronousTestCase):
    """One violation in each history, or none."""

    def setUp(self) -> None:
        self.history = History()

    def assert_found(self, *texts: str) -> None:
        """There is exactly one violation for each text, in order."""
        found = self.history.violations()
        self.assertEqual(len(found), len(texts), found)
        for text, violation in zip(texts, found, strict=True):
            self.assertIn(text, violation)

    def restore(self, moment: float, *held: str, node: str = "BETA") -> None:
        self.history.record.note("restore", node=node, moment=moment, held=held)

    def test_received_again(self) -> None:
        """What was received since the backup is there again; what was received before it is not."""
        history = self.history
        history.send("1", "2", "3")
        history.receive("1")
        moment = history.seconds + 0.5
        history.receive("2")
        self.restore(moment, "2", "3")
        history.receive("1")
        history.receive("2")
        history.receive("3")
        self.assert_found("doubled: 1: received by operations")

    def test_received_twice_after_it(self) -> None:
        """A restore brings a message back once."""
        history = self.history
        history.send("1")
        moment = history.seconds
        history.receive("1")
        self.restore(moment, "1")
        history.receive("1")
        history.receive("1")
        self.assert_found("doubled: 1: received by operations")

    def test_restored_in_the_same_moment(self) -> None:
        """What is received in the moment of the backup may be in it, and what is received in that of the
        restore, before it, comes back too.
        """
        history = self.history
        history.send("1")
        history.step = 0.0
        history.receive("1")
        self.restore(history.seconds, "1")
        history.receive("1")
        self.assert_found()

    def test_another_was_restored(self) -> None:
        """The restore of its sender does not bring a message back that was received."""
        history = self.history
        history.send("1")
        moment = history.seconds
        history.receive("1")
        self.restore(moment, node="ALPHA")
        history.receive("1")
        self.assert_found("doubled: 1: received by operations")

    def test_lost_with_its_receiver(self) -> None:
        """What arrived may be lost, what was sent after the restore may not."""
        history = self.history
        history.send("1")
        self.restore(0.5)
        history.send("2")
        self.assert_found("lost: 2: taken by operation")

    def test_lost_with_its_sender(self) -> None:
        """What was sent after the backup may be lost, what was sent before it may not."""
        history = self.history
        history.send("1")
        moment = history.seconds + 0.1
        history.send("2")
        self.restore(moment, node="ALPHA")
        self.assert_found("lost: 1: taken by operation")

    def test_lost_with_a_relay(self) -> None:
        """A relay may lose messages that are not transactional; those that were sent later it may not."""
        history = self.history
        history.send("1", transactional=False)
        history.send("2")
        self.history.record.note("restore", node="GATE", moment=0.5, held=(), relays=True)
        history.send("3", transactional=False)
        self.assert_found("lost: 2: taken by operation", "lost: 3: taken by operation")

    def test_refused_by_a_relay_alone(self) -> None:
        """A transactional message whose time to reach its queue is over is refused by a relay, and its sender
        has no event of that; one without such a time stays with its sender.
        """
        history = self.history
        history.send("1", limits=["reach"])
        history.send("2", limits=["receive"])
        history.record.note("restore", node="GATE", moment=0.5, held=(), relays=True)
        self.assert_found("lost: 2: taken by operation")

    def test_refused_by_a_relay(self) -> None:
        """A relay that was restored has lost the events of copies that it refused; each has a negative
        acknowledgement; that it arrived is still acknowledged once.
        """
        history = self.history
        history.send("1", limits=["reach"])
        history.send("2")
        self.history.record.note("restore", node="GATE", moment=0.5, held=(), relays=True)
        history.fate("1", "reach timeout", arrived=False, node="ALPHA")
        history.receive("2")
        for label, kind in (("1", "reach timeout"), ("2", "reached")):
            for _ in range(3):
                history.acknowledged(label, kind)
        self.assert_found("doubled: 2: 3 acknowledgements reached")

    def test_relay_restored_before_it_was_sent(self) -> None:
        """The restore of a relay excuses nothing of what is sent later."""
        history = self.history
        history.record.note("restore", node="GATE", moment=0.5, held=(), relays=True)
        history.send("1", limits=["reach"])
        history.fate("1", "reach timeout", arrived=False, node="ALPHA")
        history.acknowledged("1", "reach timeout")
        history.acknowledged("1", "reach timeout")
        self.assert_found("doubled: 1: 2 acknowledgements reach timeout")

    def test_sent_at_the_moment_of_the_backup(self) -> None:
        """It may have been sent before the backup or after it."""
        history = self.history
        history.send("1")
        self.restore(history.seconds, node="ALPHA")
        self.assert_found()

    def test_lost_with_a_backup(self) -> None:
        """What the backup had is there afterwards, until it is received or removed."""
        history = self.history
        history.send("1", "2", "3")
        moment = history.seconds
        history.receive("1", "2")
        self.restore(moment, "1", "2", "3")
        history.fate("3", "refused")
        history.receive("2")
        self.assert_found("lost: 1: not there after BETA was restored from a backup that had it")

    def test_restored_twice(self) -> None:
        """The second restore is from a backup in which it was received."""
        history = self.history
        history.send("1")
        moment = history.seconds
        history.receive("1")
        later = history.seconds
        self.restore(moment, "1")
        self.restore(later)
        self.assert_found()

    def test_in_a_backup_before_it_was_sent(self) -> None:
        """A backup has nothing that was sent later, or not at all."""
        self.restore(0.5, "7")
        self.history.send("1")
        self.restore(0.5, "1")
        self.history.receive("1")
        self.assert_found("phantom: 7: in a backup of BETA", "phantom: 1: in a backup of BETA")

    def test_order(self) -> None:
        """Messages come again in order after one that came before the restore, and not otherwise."""
        history = self.history
        history.send("1", "2", "3", "4")
        history.receive("2")
        self.restore(0.5)
        history.receive("1")
        history.receive("4")
        history.receive("3")
        self.assert_found("reordered: ALPHA to BETA orders: 4")

    def test_acknowledgements(self) -> None:
        """One that was acknowledged may be lost, or acknowledged again; what is sent after the restore is
        acknowledged once it has arrived.
        """
        history = self.history
        history.send("1")
        self.restore(0.5)
        history.acknowledged("1", "reached")
        history.acknowledged("1", "reached")
        history.send("2", limits=["reach"])
        history.acknowledged("2", "reached")
        history.fate("2", "reach timeout", arrived=False, node="ALPHA")
        self.assert_found("early acknowledgement: 2")

    def test_interrupted_transactions(self) -> None:
        """Of messages that an interrupted operation sent, one may be lost with its receiver."""
        for queues in ((ORDERS, "GAMMA orders"), ("GAMMA orders", "DELTA orders")):
            self.history = history = History()
            facts: dict[str, Any] = {"transaction": "T", "result": None}
            history.send("1", queue=queues[0], **facts)
            history.send("2", queue=queues[1], **facts)
            self.restore(0.5)
            history.receive("2", queue=queues[1])
            self.assert_found(*([] if ORDERS in queues else ["lost: half of the messages"]))

    def test_message_log(self) -> None:
        """The log of a restored queue manager is older; those of others are complete."""
        history = self.history
        history.send("1")
        history.send("2", queue="GAMMA orders")
        moment = history.seconds
        history.receive("1")
        history.receive("2", queue="GAMMA orders")
        self.restore(moment, "1")
        history.receive("1")
        for queue in (ORDERS, "GAMMA orders"):
            history.record.note("log", queue=queue, labels=[], complete=True)
        self.assert_found("lost: 2: not in the log of GAMMA orders")

    def remove_refused(self, *labels: str) -> None:
        self.history.record.note("remove refused", node="ALPHA", labels=labels)

    def test_removed_as_refused(self) -> None:
        """What its receiver got before the restore is removed at its sender; that is no second fate."""
        history = self.history
        history.send("1", "2", "3")
        moment = history.seconds + 0.1
        history.receive("1")
        self.restore(moment, node="ALPHA")
        self.remove_refused("1", "2")
        for label in ("1", "2", "3"):
            history.fate(label, "purged", arrived=False, node="ALPHA")
        self.assert_found(
            f"wrong fate: 3: purged, but {ORDERS} was not purged",
            "lost: 2: removed as refused by its receiver, which never had it",
        )

    def test_removed_as_refused_before(self) -> None:
        """What is sent later was not removed, and not lost with it."""
        history = self.history
        history.send("1")
        self.remove_refused("2")
        history.receive("1")
        history.send("2")
        history.receive("2")
        self.assert_found("phantom: 2: removed at ALPHA, but was not sent")

    def test_may_have_been_removed_before(self) -> None:
        """A message that could expire or be purged after the backup may not have been seen there, nor one
        whose receiver was restored too.
        """
        history = self.history
        history.send("1", limits=["reach"])
        self.remove_refused("1")
        history.fate("1", "purged", arrived=False, node="ALPHA")
        history.send("2")
        self.restore(history.seconds)
        self.remove_refused("2")
        history.send("3")
        history.record.note("purge", queue=None)
        self.remove_refused("3")
        history.fate("3", "purged", arrived=False, node="ALPHA")
        self.assert_found()
