"""Exclusive lock of a store, which a server holds while the store is open."""

from __future__ import annotations

import fcntl
from time import sleep
from typing import Final

ATTEMPTS: Final = 20
PAUSE: Final = 0.01
"""Seconds between two attempts: altogether a fifth of a second, in a worker thread."""


def lock_exclusively(descriptor: int) -> None:
    """Lock a file while its descriptor is open; blocks for a fifth of a second at most.

    A check of the store has the lock for an instant, to find out whether there is a server.

    @raise BlockingIOError: another process holds the lock.
    @raise OSError: the file cannot be locked.
    """
    for _ in range(ATTEMPTS - 1):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sleep(PAUSE)
        else:
            return
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
