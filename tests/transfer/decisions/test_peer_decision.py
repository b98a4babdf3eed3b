"""Every rule about identifiers, addresses and clocks of peers, as tables."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from msmq.transfer.decisions.peer_decision import (
    CLOCK_TOLERANCE,
    MOVED_AFTER,
    IdentifierFacts,
    StatedIdentifier,
    classify_identifier,
    is_clock_off,
    is_source_address,
)

KNOWN, OWN = StatedIdentifier.KNOWN, StatedIdentifier.OWN
MOVED, ELSEWHERE = StatedIdentifier.MOVED, StatedIdentifier.ELSEWHERE


class IdentifierTests(SynchronousTestCase):
    """L{classify_identifier}: a known identifier at another address is a clone, a forgery, or has moved."""

    def test_each_outcome(self) -> None:
        """A line for each; the first fact that applies decides."""
        for facts, expected in (
            ({}, MOVED),
            ({"absent_for": MOVED_AFTER - 1}, ELSEWHERE),
            ({"is_connected": True}, ELSEWHERE),
            ({"is_listed": True}, KNOWN),
            ({"is_at_address": True}, KNOWN),
            ({"is_own": True}, OWN),
            ({"is_own": True, "is_at_address": True}, OWN),
            ({"is_own": True, "is_listed": True}, OWN),
        ):
            known: dict[str, Any] = {
                "is_own": False,
                "is_at_address": False,
                "is_listed": False,
                "is_connected": False,
                "absent_for": MOVED_AFTER,
                **facts,
            }
            with self.subTest(facts=facts):
                self.assertIs(classify_identifier(IdentifierFacts(**known)), expected)


class SourceTests(SynchronousTestCase):
    """The address that counts for the source of a message, and its clock."""

    def test_addresses(self) -> None:
        """An untrusted address never replaces the known one; the known one is not looked up again."""
        for known, is_admitted, expected in (
            (None, False, True),
            ("127.31.0.2", True, True),
            ("127.31.0.2", False, False),
            ("127.31.0.3", True, False),
        ):
            with self.subTest(known=known, is_admitted=is_admitted):

                def admitted(answer: bool = is_admitted) -> bool:
                    return answer

                self.assertIs(is_source_address(known, "127.31.0.3", admitted), expected)

    def test_clocks(self) -> None:
        """Ahead and behind alike, above the tolerance."""
        for offset, expected in ((0, False), (CLOCK_TOLERANCE, False), (CLOCK_TOLERANCE + 1, True)):
            self.assertEqual((is_clock_off(offset), is_clock_off(-offset)), (expected, expected))
