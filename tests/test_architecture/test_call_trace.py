"""The calls for one message stay as few as the design counts them."""

from __future__ import annotations

from typing import Final

from twisted.trial.unittest import SynchronousTestCase

from tests.arrival_walk import Arrival

ARRIVING: Final = {
    False: {"calls": 179, "files": 61, "room_changes": 44},
    True: {"calls": 221, "files": 65, "room_changes": 48},
}
"""Limits on what an arriving message takes, by whether it is transactional.

A change that raises one of them says in its commit what is gained, and changes C{docs/design/house.md} too.
"""

LEAVING: Final = {
    False: {"calls": 184, "files": 61, "room_changes": 69},
    True: {"calls": 347, "files": 82, "room_changes": 115},
}
"""The same for a message that leaves."""


class CallTraceTests(SynchronousTestCase):
    """The functions that one message calls, the files that they are in, and the changes from room to room."""

    def test_counts(self) -> None:
        """Neither an arriving message nor one that leaves takes more than it does at present."""
        for transactional in (False, True):
            with self.subTest(transactional=transactional):
                messages = Arrival()
                self.check(messages.walk(transactional=transactional).counts, ARRIVING[transactional])
                self.check(messages.leaving_walk(transactional=transactional).counts, LEAVING[transactional])

    def check(self, counts: dict[str, int], limits: dict[str, int]) -> None:
        for name, limit in limits.items():
            self.assertLessEqual(counts[name], limit, name)
