"""The ledger of the chaos tests notices each kind of broken promise."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from tests.faults.exactly_once import Ledger, Parcel

ORDERS = "orders"


class LedgerTests(SynchronousTestCase):
    """Received messages, compared with sent ones."""

    def setUp(self) -> None:
        self.ledger = Ledger()

    def send(self, *labels: str, is_confirmed: bool = True, is_transaction: bool = True) -> None:
        """Send messages at once."""
        sending = self.ledger.begin(
            [Parcel(ORDERS, label) for label in labels], is_transaction=is_transaction
        )
        if is_confirmed:
            self.ledger.confirm(sending)

    def receive(self, *labels: str) -> None:
        """Find messages at the head of the queue, and receive them."""
        self.ledger.found(ORDERS, labels)
        self.ledger.receive(ORDERS, labels)

    def doubt(self, *labels: str) -> None:
        """Find messages at the head of the queue, and lose the answer to the receipt."""
        self.ledger.found(ORDERS, labels)
        self.ledger.doubt(ORDERS, labels)

    def assertWrong(self, *patterns: str) -> None:
        faults = self.ledger.judge()
        self.assertEqual(len(faults), len(patterns), faults)
        for fault, pattern in zip(faults, patterns, strict=True):
            self.assertIn(pattern, fault)

    def test_all_is_well(self) -> None:
        """Each message once, in order."""
        self.send("1", "2")
        self.assertFalse(self.ledger.is_complete)
        self.receive("1")
        self.receive("2")
        self.assertTrue(self.ledger.is_complete)
        self.assertWrong()

    def test_lost_message(self) -> None:
        """A message that was taken, and never came."""
        self.send("1", "2")
        self.receive("2")
        self.assertFalse(self.ledger.is_complete)
        self.assertWrong("1 of 2 are missing")

    def test_duplicate_message(self) -> None:
        """A message that came again."""
        self.send("1", "2")
        self.receive("1", "2")
        self.receive("1")
        self.assertWrong("1 in orders arrived 2 times")

    def test_out_of_order(self) -> None:
        """Messages that came in another order, which matters to transactions alone."""
        self.send("1", is_transaction=False)
        self.send("2", is_transaction=False)
        self.receive("2", "1")
        self.assertWrong()
        self.send("3")
        self.assertWrong("1 of 1 are missing", "2 in the place of 1")

    def test_never_sent(self) -> None:
        """A message that came from nowhere."""
        self.receive("1")
        self.assertWrong("1 in orders was never sent")

    def test_in_part(self) -> None:
        """An unconfirmed message may arrive or not, but a transaction arrives whole."""
        self.send("1", "2", is_confirmed=False)
        self.assertTrue(self.ledger.is_complete)
        self.assertWrong()
        self.receive("1")
        self.assertWrong("a transaction arrived in part")
        self.receive("2")
        self.assertWrong()

    def test_a_receipt_in_doubt(self) -> None:
        """A receipt without an answer was taken unless its messages are still there."""
        self.send("1", "2", "3")
        self.doubt("1", "2")
        self.receive("1", "2")
        self.doubt("3")
        self.assertFalse(self.ledger.is_complete)
        self.receive()
        self.assertEqual(self.ledger.received, {ORDERS: ["1", "2", "3"]})
        self.assertTrue(self.ledger.is_complete)
        self.assertWrong()
        self.send("4", "5")
        self.doubt("4")
        self.receive("5")
        self.assertWrong()
