"""The log gets at most a hundred lines a minute about everything that peers cause together."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from msmq.manager import log_summaries, performer
from msmq.manager.membership import public_names
from msmq.manager.peers import peer_queue_limits, peer_table
from msmq.manager.securing import reply_access_check
from msmq.net import discovery, ping
from msmq.settings import SessionSettings


class CeilingTests(SynchronousTestCase):
    """Each limit by itself is shown by the tests of its module."""

    def test_all_limits_together(self) -> None:
        """Limits of modules are shares of one ceiling: raising one takes from another.

        A ping responder has three kinds of lines and a pinger one; a discovery server has two; messages that
        are refused and messages that leave unread have a limit each.
        """
        shares = (
            SessionSettings().log_lines,
            performer.LINES_OF_ALL,
            2 * log_summaries.LINES,
            peer_table.LINES,
            peer_queue_limits.LINES,
            4 * ping.LINES,
            2 * discovery.LINES,
            reply_access_check.LINES,
            public_names.LINES,
        )
        self.assertLessEqual(sum(shares), 100)
