"""Thresholds of C{msmq check}."""

from __future__ import annotations

from tests.cli.served import ServedCommandTestCase
from tests.control.support import ORDERS


class QuotaThresholdTests(ServedCommandTestCase):
    """The quota of a queue, in percent."""

    def test_warning_alone(self) -> None:
        """With a warning alone, a full quota stays critical; another critical threshold is chosen."""
        self.put(bytes(700))
        for quota, chosen, status in (
            (1, "50", 1),
            (1, "99.5", 0),
            (0, "50", 2),
            (0, "150", 0),
            (0, "50,1000", 1),
            (0, ",1000", 0),
            (1, "50,60", 2),
        ):
            with self.subTest(quota=quota, chosen=chosen):
                self.run_to_end(self.service.set_queue(ORDERS, {"quota": quota}))
                ended = self.msmq("check", "--queue", ORDERS, "--quota", chosen)
                self.assertEqual(ended.status, status, ended.output)
