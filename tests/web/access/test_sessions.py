"""Sessions of browsers: their ends and limits."""

from __future__ import annotations

from itertools import count

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from msmq.web.access.sessions import IDLE, LONGEST, OF_ONE_TOKEN, SESSIONS, BrowserSessions


class SessionTests(SynchronousTestCase):
    """The sessions of a server, on a clock that the test advances."""

    def setUp(self) -> None:
        self.clock = Clock()
        numbers = count()
        self.sessions = BrowserSessions(lambda: f"random {next(numbers)}", self.clock.seconds)

    def test_two_secrets(self) -> None:
        """The cookie and the CSRF token are different, and new for each session."""
        first, second = self.sessions.open(b"a"), self.sessions.open(b"a")
        sessions = [self.sessions.find(cookie) for cookie in (first, second)]
        secrets = {first, second, *(session.csrf for session in sessions if session)}
        self.assertEqual(len(secrets), 4)
        self.assertNotIn(first, repr(sessions))
        self.assertIsNone(self.sessions.find("random 9"))

    def test_idle(self) -> None:
        """A session ends half an hour after its latest request."""
        cookie = self.sessions.open(b"a")
        for _ in range(3):
            self.clock.advance(IDLE - 1)
            self.assertIsNotNone(self.sessions.find(cookie))
        self.clock.advance(IDLE)
        self.assertIsNone(self.sessions.find(cookie))
        self.assertEqual(len(self.sessions), 0)

    def test_age(self) -> None:
        """A session that is used all the time ends twelve hours after the login."""
        cookie = self.sessions.open(b"a")
        while self.clock.seconds() + IDLE / 2 < LONGEST:
            self.clock.advance(IDLE / 2)
            self.assertIsNotNone(self.sessions.find(cookie))
        self.clock.advance(IDLE / 2)
        self.assertIsNone(self.sessions.find(cookie))

    def test_logout(self) -> None:
        """A session that is closed is not found again; closing twice does nothing."""
        cookie = self.sessions.open(b"a")
        self.sessions.close(cookie)
        self.sessions.close(cookie)
        self.assertIsNone(self.sessions.find(cookie))

    def test_limits(self) -> None:
        """The session of a token that is idle longest ends for a new one, and so over all tokens."""
        first, second = self.sessions.open(b"a"), self.sessions.open(b"a")
        for _ in range(OF_ONE_TOKEN - 2):
            self.sessions.open(b"a")
        self.assertIsNotNone(self.sessions.find(first))
        self.sessions.open(b"a")
        self.assertIsNotNone(self.sessions.find(first))
        self.assertIsNone(self.sessions.find(second))
        for number in range(SESSIONS):
            self.sessions.open(b"%d" % number)
        self.assertEqual(len(self.sessions), SESSIONS)
        self.assertIsNone(self.sessions.find(first))
