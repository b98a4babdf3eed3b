"""How many lines the log gets about what peers cause."""

from __future__ import annotations

import attrs
from twisted.trial.unittest import SynchronousTestCase

from msmq.line_limit import LineBudget
from msmq.moment import Moment

NOW = Moment(wall=1_700_000_000.0, monotonic=10.0)


def later(seconds: float) -> Moment:
    return attrs.evolve(NOW, monotonic=NOW.monotonic + seconds)


class BudgetTests(SynchronousTestCase):
    """Several kinds of lines."""

    def test_one_kind(self) -> None:
        """A kind has its lines; those beyond them are counted in its next line."""
        budget = LineBudget(3, 10)
        found = [budget.take("a", NOW) for _ in range(8)]
        self.assertEqual(found, ["", "", "", None, None, None, None, None])
        self.assertEqual(budget.take("a", later(60)), "; 5 more since the last such line")
        self.assertEqual(budget.take("a", later(60)), "")

    def test_all_together(self) -> None:
        """All kinds together have no more than their sum allows; what that leaves out is counted by kind."""
        budget = LineBudget(3, 4)
        found = [budget.take(kind, NOW) is not None for kind in "aaabbbcc"]
        self.assertEqual(found, [True, True, True, True, False, False, False, False])
        self.assertEqual(budget.take("c", later(60)), "; 2 more since the last such line")
        self.assertEqual(budget.take("b", later(60)), "; 2 more since the last such line")

    def test_one_kind_leaves_room(self) -> None:
        """A flood of one kind does not take the lines of the others."""
        budget = LineBudget(3, 12)
        for _ in range(1000):
            budget.take("flood", NOW)
        self.assertEqual([budget.take("other", NOW) for _ in range(3)], [""] * 3)
