"""Sizes, ages and rates for people."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from msmq.cli.units import age_text, rate_text, size_text


class UnitTests(SynchronousTestCase):
    """Texts that are short, and exact where that is short too."""

    def test_sizes(self) -> None:
        """Four digits are printed as they are; more have a suffix, a power of 1024."""
        cases = {
            0: "0",
            9999: "9999",
            10240: "10.0K",
            150_000: "146K",
            1024**2 - 1: "1.0M",
            5 * 1024**4: "5.0T",
        }
        self.assertEqual({size: size_text(size) for size in cases}, cases)

    def test_ages(self) -> None:
        """Two units at most, and none that is zero."""
        cases = {
            -3: "0 s",
            0.9: "0 s",
            59: "59 s",
            60: "1 m",
            185: "3 m 5 s",
            3605: "1 h",
            187_200: "2 d 4 h",
        }
        self.assertEqual({age: age_text(age) for age in cases}, cases)

    def test_rates(self) -> None:
        """Small rates have a decimal."""
        cases = {0.0: "0", 0.5: "0.5", 99.94: "99.9", 1234.5: "1234"}
        self.assertEqual({rate: rate_text(rate) for rate in cases}, cases)
