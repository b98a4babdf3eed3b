"""How often a host may be wrong."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from msmq.moment import Moment
from msmq.transfer.acknowledgement_guesses import GUESSES, HOSTS_REMEMBERED, GuessLimit

START = Moment(100.0, 1.7e9)


class GuessLimitTests(SynchronousTestCase):
    def wrong(self, limit: GuessLimit, *addresses: str) -> None:
        for address in addresses:
            limit.count_wrong(address, START)

    def test_one_network_of_ipv6_is_one_host(self) -> None:
        """A host with one address of it has them all."""
        limit = GuessLimit()
        self.wrong(limit, *(f"2001:db8::{number:x}" for number in range(GUESSES)))
        self.assertFalse(limit.admits("2001:db8::ffff:1", START))
        self.assertTrue(limit.admits("2001:db8:0:1::1", START))
        self.assertTrue(limit.admits("2001:db8::1", Moment(101.0, 1.7e9)))

    def test_hosts_have_an_end(self) -> None:
        """The one that was wrong longest ago is forgotten first."""
        limit = GuessLimit()
        self.wrong(limit, *["10.0.0.1"] * GUESSES)
        self.wrong(limit, *(f"10.{number >> 8}.{number & 255}.2" for number in range(HOSTS_REMEMBERED - 1)))
        self.assertFalse(limit.admits("10.0.0.1", START))
        self.wrong(limit, "10.255.0.2")
        self.assertTrue(limit.admits("10.0.0.1", START))

    def test_a_burst_and_then_a_rate(self) -> None:
        """A host may be wrong so often at once, and ten times a second then; others are not touched."""
        limit = GuessLimit()
        self.assertTrue(limit.admits("10.0.0.1", START))
        self.wrong(limit, *["10.0.0.1"] * (GUESSES - 1))
        self.assertTrue(limit.admits("10.0.0.1", START))
        self.wrong(limit, "10.0.0.1")
        self.assertFalse(limit.admits("10.0.0.1", START))
        self.assertFalse(limit.admits("10.0.0.1", START.later(0.0625)))
        self.assertTrue(limit.admits("10.0.0.1", START.later(0.125)))
        self.assertTrue(limit.admits("10.0.0.2", START))

    def test_a_host_that_is_wrong_again_is_remembered(self) -> None:
        """The latest error counts, so another host is forgotten in its place."""
        limit = GuessLimit()
        self.wrong(limit, *["10.0.0.1"] * GUESSES, *["10.0.0.3"] * GUESSES)
        self.wrong(limit, *(f"10.{number >> 8}.{number & 255}.2" for number in range(HOSTS_REMEMBERED - 2)))
        self.assertFalse(limit.admits("10.0.0.3", START))
        self.wrong(limit, "10.0.0.1", "10.255.0.2")
        self.assertFalse(limit.admits("10.0.0.1", START))
        self.assertTrue(limit.admits("10.0.0.3", START))
