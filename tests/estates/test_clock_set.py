"""A server whose wall clock is set while its timers run."""

from __future__ import annotations

import unittest
from contextlib import ExitStack

from twisted.trial.unittest import SynchronousTestCase

from tests.estates.processes import Member, home, started, wait_until
from tests.faults.machine import FAKETIME, JumpingClock
from tests.servers.own_address import own_address

DAY = 24 * 3600


@unittest.skipUnless(FAKETIME, "libfaketime is not installed")
class ClockSetTests(SynchronousTestCase):
    """ALPHA has messages for BETA, which does not run, when ALPHA's clock is set back by a day."""

    def test_set_back(self) -> None:
        """The next attempt is not a day late: BETA has the messages soon after it has started."""
        running = ExitStack()
        self.addCleanup(running.close)
        directory = home(running)
        clock = JumpingClock(directory / "clock")
        environment = {**clock.environment, "FAKETIME_NO_CACHE": "1"}
        members = [
            Member(directory, "ALPHA", own_address(46), environment=environment),
            Member(directory, "BETA", own_address(47)),
        ]
        alpha, beta = started(running, members)
        beta.create(".\\private$\\orders", transactional=True)
        beta.stop()
        alpha.send(f"DIRECT=TCP:{beta.address}\\private$\\orders", [b"1", b"2"], transactional=True)

        def is_retrying() -> bool:
            [outgoing] = alpha.client.outgoing()
            return outgoing["next_attempt"] is not None

        wait_until(is_retrying, "ALPHA waits for its next attempt")
        clock.jump(-DAY)
        beta.start()
        self.assertEqual(beta.bodies(".\\private$\\orders", 2), [b"1", b"2"])
