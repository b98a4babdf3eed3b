"""Limits on the messages that wait for a commit of the store, per session and in total."""

from __future__ import annotations

from typing import Final

SESSION_BACKLOG: Final = 1024 * 1024
"""Limit on the bytes of one session in pending commits, beyond which it waits."""

TOTAL_BACKLOG: Final = 16 * 1024 * 1024
"""The same limit for all sessions together."""


def has_to_wait(*, of_session: int, of_all: int) -> bool:
    """Whether a session reads no more until its messages are stored.

    @param of_session: bytes of its messages in pending commits.
    @param of_all: the same of all sessions.
    """
    return of_session > SESSION_BACKLOG or of_all > TOTAL_BACKLOG
