"""The limits on messages that wait for a commit, as a table."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from msmq.transfer.decisions.commit_backlog import SESSION_BACKLOG, TOTAL_BACKLOG, has_to_wait


class CommitBacklogTests(SynchronousTestCase):
    """L{has_to_wait}: whether a session reads more before its messages are stored."""

    def test_limits(self) -> None:
        """A session waits beyond its own limit, and beyond that of all sessions together."""
        for of_session, of_all, expected in (
            (0, 0, False),
            (SESSION_BACKLOG, TOTAL_BACKLOG, False),
            (SESSION_BACKLOG + 1, SESSION_BACKLOG + 1, True),
            (1, TOTAL_BACKLOG + 1, True),
        ):
            self.assertIs(has_to_wait(of_session=of_session, of_all=of_all), expected)
