"""Real ciphers, made once in a process: tests share them, and change nothing of them."""

from __future__ import annotations

from functools import cache

from msmq.security.ciphers import LibraryCiphers
from msmq.security.keys import KeyRing


@cache
def ciphers() -> LibraryCiphers:
    """Those of a queue manager with a key of each provider, all of 1024 bits."""
    made = LibraryCiphers(KeyRing(None, weak=True, bits=1024))
    made.open()
    return made
