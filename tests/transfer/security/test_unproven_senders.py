"""Cache of negative answers of the directory: its size and its lifetime."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from msmq.moment import Moment
from msmq.transfer.security.unproven_senders import LIFETIME, UnprovenSenders

SID, OTHER = b"a sid", b"another sid"


def at(seconds: float) -> Moment:
    """This number of seconds after the start, with jumps of the wall clock."""
    return Moment(1000.0 + seconds, 5.0 * seconds % 7)


class UnprovenSenderTests(SynchronousTestCase):
    """L{UnprovenSenders}."""

    def test_unproven_senders(self) -> None:
        """A sender is found for every certificate except those that the directory has, and no other sender
        is.
        """
        senders = UnprovenSenders()
        self.assertIsNone(senders.find(SID, b"mine", at(0)))
        senders.add(SID, [b"one", b"two"], at(0))
        for proof, is_found in ((b"mine", True), (b"", True), (b"one", False), (b"two", False)):
            self.assertEqual(senders.find(SID, proof, at(1)) is not None, is_found, proof)
        self.assertIsNone(senders.find(OTHER, b"mine", at(1)))
        senders.add(OTHER, None, at(1))
        found = senders.find(OTHER, b"mine", at(1))
        self.assertIsNone(found and found.count)

    def test_time(self) -> None:
        """It ends after its time, which another message does not prolong."""
        senders = UnprovenSenders()
        senders.add(SID, [], at(0))
        for seconds in (0, 1, LIFETIME - 0.01):
            self.assertIsNotNone(senders.find(SID, b"mine", at(seconds)))
        self.assertIsNone(senders.find(SID, b"mine", at(LIFETIME)))
        senders.add(SID, [], at(0))
        senders.forget(SID)
        senders.forget(SID)
        self.assertIsNone(senders.find(SID, b"mine", at(0)))

    def test_size(self) -> None:
        """The number of entries is limited, the latest are kept."""
        senders = UnprovenSenders(size=3)
        for number in range(10):
            senders.add(bytes([number]), [], at(0))
            self.assertLessEqual(len(senders), 3)
        left = [number for number in range(10) if senders.find(bytes([number]), b"", at(0))]
        self.assertEqual(left, [7, 8, 9])
        senders.add(b"\x07", [], at(1))
        senders.add(b"\x0a", [], at(1))
        left = [number for number in range(11) if senders.find(bytes([number]), b"", at(1))]
        self.assertEqual(left, [7, 9, 10])

    def test_a_sender_that_is_known(self) -> None:
        """A newer answer about it takes the place of the old one, and no other's; it is the latest then."""
        senders = UnprovenSenders(size=3)
        for number in (1, 2, 3, 2, 4):
            senders.add(bytes([number]), [], at(0))
            if number == 2:
                self.assertIsNotNone(senders.find(b"\1", b"", at(0)))
        left = [number for number in range(1, 5) if senders.find(bytes([number]), b"", at(0))]
        self.assertEqual(left, [2, 3, 4])
        senders.add(b"\5", [], at(0))
        left = [number for number in range(1, 6) if senders.find(bytes([number]), b"", at(0))]
        self.assertEqual(left, [2, 4, 5])

    def test_reasons(self) -> None:
        """For some certificates the reason is cached too."""
        senders = UnprovenSenders()
        made = senders.add(SID, [], at(0))
        for number in range(100):
            made.explain(bytes([number]), f"reason {number}")
        found = senders.find(SID, b"\0", at(0))
        assert found is not None
        reported = [found.reason(bytes([number])) for number in range(100)]
        self.assertEqual(reported[:8], [f"reason {number}" for number in range(8)])
        self.assertEqual(set(reported[8:]), {None})
