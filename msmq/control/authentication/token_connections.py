"""Connections of callers with tokens, as a pure decision which of them makes way for a new one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sized
from typing import Generic, Protocol, TypeVar


class TokenConnection(Protocol):
    """A connection whose caller has shown a token.

    @ivar requests: those without a complete response.
    """

    @property
    def requests(self) -> Sized:
        """See above."""


C = TypeVar("C", bound=TokenConnection)


class TokenConnections(Generic[C]):
    """The connections of all tokens, up to a limit.

    At the limit the token with the most connections gives one up, one without a request if it has any; so a
    program never closes the connections of a token that has fewer.

    @param limit: the most connections.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        # The digest of the token of each, ordered by idle time, the longest first.
        self._tokens: dict[C, bytes] = {}

    def admit(self, connection: C, token: bytes) -> tuple[bool, C | None]:
        """Register a connection by the token of its next request.

        @param token: the digest of the token.
        @return: whether it is admitted, and the connection to close for it, which is registered no longer.
        """
        if connection in self._tokens:
            self._tokens[connection] = token
            return True, None
        displaced = None
        if len(self._tokens) >= self.limit:
            displaced = self._displaced_by(token)
            if displaced is None:
                return False, None
            del self._tokens[displaced]
        self._tokens[connection] = token
        return True, displaced

    def answered(self, connection: C) -> None:
        """A response is complete: the connection is idle from now on."""
        token = self._tokens.pop(connection, None)
        if token is not None:
            self._tokens[connection] = token

    def leave(self, connection: C) -> None:
        """Unregister a connection that has ended."""
        self._tokens.pop(connection, None)

    def _displaced_by(self, token: bytes) -> C | None:
        counts = Counter((*self._tokens.values(), token))
        most = max(counts.values())
        candidates = [each for each, other in self._tokens.items() if counts[other] == most]
        idle = next((each for each in candidates if not each.requests), None)
        if idle is not None or counts[token] == most:
            return idle
        return candidates[-1]
