"""Cache of directory answers about senders that could not be authenticated, for a few seconds.

It is not in the documents: without it, each message signed with a self-made certificate would cause a
directory query.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from hashlib import sha256
from typing import Final

import attrs

from msmq.moment import Moment

LIFETIME: Final = 3.0
"""Seconds for which an answer is cached, and newly published certificates are not seen."""

MOST: Final = 1000
"""The maximum number of cached senders."""

_MOST_REASONS: Final = 8


@attrs.define(eq=False)
class UnprovenSender:
    """What the directory has of a sender.

    @ivar until: when that is forgotten, on the clock that never goes back.
    @ivar count: how many certificates, or keys, it has; C{None} if it does not know the sender at all.
    """

    until: float
    count: int | None
    _proofs: frozenset[bytes]
    _reasons: dict[bytes, str] = attrs.field(factory=dict, init=False)

    def has(self, proof: bytes) -> bool:
        """Whether a certificate, or a key, is among what it has."""
        return _short(proof) in self._proofs

    def explain(self, proof: bytes, reason: str) -> None:
        """Remember why one is not that of the sender; of many only some."""
        if len(self._reasons) < _MOST_REASONS:
            self._reasons[_short(proof)] = reason

    def reason(self, proof: bytes) -> str | None:
        """Why one is not that of the sender, if that was asked before."""
        return self._reasons.get(_short(proof))


class UnprovenSenders:
    """Senders that the directory did not confirm.

    Only answers are cached, never their absence; a registered certificate is not refused because of others
    that were not registered.
    """

    def __init__(self, size: int = MOST, lifetime: float = LIFETIME) -> None:
        self._size = size
        self._lifetime = lifetime
        # In the order in which they came, which is that in which they end.
        self._senders: dict[Hashable, UnprovenSender] = {}

    def __len__(self) -> int:
        """The number of entries, including expired ones."""
        return len(self._senders)

    def find(self, sender: Hashable, proof: bytes, now: Moment) -> UnprovenSender | None:
        """The cached answer about a sender, if it does not confirm this certificate or key."""
        found = self._senders.get(sender)
        if found is None or found.until <= now.monotonic or found.has(proof):
            return None
        return found

    def add(self, sender: Hashable, proofs: Iterable[bytes] | None, now: Moment) -> UnprovenSender:
        """Remember what the directory has of a sender; the oldest makes room.

        @param proofs: the certificates, or the keys; C{None} if it does not know the sender.
        """
        self._senders.pop(sender, None)
        if len(self._senders) >= self._size:
            del self._senders[next(iter(self._senders))]
        known = frozenset(map(_short, proofs or ()))
        count = None if proofs is None else len(known)
        made = self._senders[sender] = UnprovenSender(now.monotonic + self._lifetime, count, known)
        return made

    def forget(self, sender: Hashable) -> None:
        """Drop the entry of a sender that has changed."""
        self._senders.pop(sender, None)


def _short(proof: bytes) -> bytes:
    return sha256(proof).digest()
