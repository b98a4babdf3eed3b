"""A message does not wander from room to room."""

from __future__ import annotations

from typing import Final

from twisted.trial.unittest import SynchronousTestCase

from tests.arrival_walk import Arrival

MOST: Final = 46
"""Half of what there were when decisions, facts and effects were one part."""


class CallTraceTests(SynchronousTestCase):
    """How often the calls for one arriving message change rooms, as the design counts it."""

    def test_recoverable_message(self) -> None:
        """The rooms change at most half as often as they once did."""
        self.assertLessEqual(Arrival().walk().counts["room_changes"], MOST)
