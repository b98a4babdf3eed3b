"""Limit on guesses of tokens by one host, as a pure decision of counts and times."""

from __future__ import annotations

from typing import Final

import attrs

FREE: Final = 5
"""Different wrong tokens of a host before the next one has to wait."""

LONGEST: Final = 60.0
"""The longest wait, in seconds; the first is one second, and each is twice the one before."""

FORGOTTEN: Final = 600.0
"""Seconds after the latest wrong token until a host starts anew."""

HOSTS: Final = 1024
"""Hosts that are remembered; beyond it the one that failed least recently is forgotten."""

_KNOWN: Final = 8
_WRONG: Final = 8


@attrs.define
class _Guesses:
    """What one host has sent."""

    failures: int = 0
    latest: float = 0.0
    until: float = 0.0
    # Digests of tokens that were valid from this host, so that a guesser does not lock out its neighbours.
    known: list[bytes] = attrs.field(factory=list)
    # Digests of the latest wrong tokens: a repetition of one is not another guess.
    wrong: list[bytes] = attrs.field(factory=list)


class TokenGuessLimit:
    """Slows a host that sends wrong tokens.

    While a host has to wait, its tokens are refused unread, except those that were valid from it before.
    Times are monotonic seconds.
    """

    def __init__(self) -> None:
        # Ordered by the latest use.
        self._hosts: dict[str, _Guesses] = {}

    def wait(self, host: str, digest: bytes, now: float) -> float:
        """The seconds until a token of this host is read; 0 for now.

        @param host: as of L{counted_host<msmq.wire.addresses.counted_host>}.
        @param digest: the digest of the token.
        """
        found = self._hosts.get(host)
        if found is None or digest in found.known:
            return 0.0
        return max(0.0, found.until - now)

    def failed(self, host: str, digest: bytes, now: float) -> None:
        """A host has sent a wrong token.

        One that was valid from it before, or was just wrong, is not a guess: a program that goes on with a
        removed token, also after a restart of the server, must not keep the new token of its neighbour from
        being read.
        """
        found = self._use(host)
        if digest in found.known or digest in found.wrong:
            return
        found.wrong = [*found.wrong[1 - _WRONG :], digest]
        if now - found.latest > FORGOTTEN:
            found.failures = 0
        found.failures += 1
        found.latest = now
        if found.failures > FREE:
            found.until = now + min(LONGEST, 2.0 ** min(found.failures - FREE - 1, 10))

    def succeeded(self, host: str, digest: bytes) -> None:
        """A host has sent a valid token."""
        found = self._use(host)
        if digest not in found.known:
            found.known = [*found.known[1 - _KNOWN :], digest]

    def _use(self, host: str) -> _Guesses:
        found = self._hosts.pop(host, None) or _Guesses()
        if len(self._hosts) >= HOSTS:
            del self._hosts[next(iter(self._hosts))]
        self._hosts[host] = found
        return found
