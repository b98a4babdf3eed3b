"""Sessions of browsers that have logged in with a token."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Final

import attrs

IDLE: Final = 30 * 60.0
"""Seconds after its latest request when a session expires."""

LONGEST: Final = 12 * 3600.0
"""Seconds after the login when a session expires in any case."""

SESSIONS: Final = 1000
"""Sessions of all tokens; beyond it the one that is idle longest ends."""

OF_ONE_TOKEN: Final = 50
"""Sessions of one token, likewise."""


@attrs.define
class BrowserSession:
    """One browser.

    @ivar token: the digest of the token with which it logged in.
    @ivar csrf: the token that its forms repeat.
    """

    token: bytes = attrs.field(repr=False)
    csrf: str = attrs.field(repr=False)
    _began: float
    _used: float

    def has_expired(self, now: float) -> bool:
        """Whether it has ended by its age, or without a request for too long."""
        return now - self._began >= LONGEST or now - self._used >= IDLE

    def use(self, now: float) -> None:
        """A request belongs to it."""
        self._used = now


class BrowserSessions:
    """The open sessions, in memory; a restart of the server ends all.

    @param random_text: a text that cannot be guessed, a new one at each call.
    @param seconds: the monotonic time.
    """

    def __init__(self, random_text: Callable[[], str], seconds: Callable[[], float]) -> None:
        self._random_text = random_text
        self._seconds = seconds
        # By the digest of the cookie, ordered by the latest use; so neither a dump nor a comparison shows it.
        self._sessions: dict[bytes, BrowserSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, token: bytes) -> str:
        """Begin a session.

        @param token: the digest of the token.
        @return: the value of its cookie.
        """
        now = self._seconds()
        self._sessions = {key: each for key, each in self._sessions.items() if not each.has_expired(now)}
        own = [key for key, each in self._sessions.items() if each.token == token]
        if len(own) >= OF_ONE_TOKEN:
            del self._sessions[own[0]]
        elif len(self._sessions) >= SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        cookie = self._random_text()
        self._sessions[session_key(cookie)] = BrowserSession(token, self._random_text(), now, now)
        return cookie

    def find(self, cookie: str) -> BrowserSession | None:
        """The session of a cookie, which is used now; C{None} if it has ended or never was."""
        key, now = session_key(cookie), self._seconds()
        session = self._sessions.pop(key, None)
        if session is None or session.has_expired(now):
            return None
        session.use(now)
        self._sessions[key] = session
        return session

    def is_open(self, key: bytes) -> bool:
        """Whether a session has not ended, without using it.

        @param key: as of L{session_key}.
        """
        session = self._sessions.get(key)
        return session is not None and not session.has_expired(self._seconds())

    def close(self, cookie: str) -> None:
        """End the session of a cookie."""
        self._sessions.pop(session_key(cookie), None)


def session_key(cookie: str) -> bytes:
    """The key of the session of a cookie."""
    return sha256(cookie.encode("utf-8", "surrogateescape")).digest()
