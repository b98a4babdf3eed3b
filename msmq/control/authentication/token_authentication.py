"""Authentication of callers by a token, with a limit on the guesses of each host."""

from __future__ import annotations

import math
from hashlib import sha256
from http import HTTPStatus

from twisted.internet.interfaces import IReactorTime

from msmq.control.authentication.guess_limit import TokenGuessLimit
from msmq.control.authentication.token_file import TokenFile, TokenHolder
from msmq.control.protocol.refusals import ControlError
from msmq.structures.status import Status
from msmq.wire.addresses import counted_host


class TokenRequired(ControlError):
    """The caller has no valid token."""

    def __init__(self, detail: str) -> None:
        super().__init__(Status.MQ_ERROR_ACCESS_DENIED, detail, HTTPStatus.UNAUTHORIZED)


class TooManyGuesses(ControlError):
    """The host of the caller has sent too many wrong tokens.

    @ivar seconds: when to try again.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = math.ceil(seconds)
        super().__init__(
            Status.MQ_ERROR_ACCESS_DENIED,
            f"this address has sent too many wrong tokens; try again in {self.seconds} s",
            HTTPStatus.TOO_MANY_REQUESTS,
        )


class TokenAuthentication:
    """Identifies the holders of tokens, for all endpoints of a server.

    @param tokens: the accepted tokens.
    @param limit: the guesses of each host.
    """

    def __init__(self, tokens: TokenFile, limit: TokenGuessLimit, clock: IReactorTime) -> None:
        self._tokens = tokens
        self._limit = limit
        self._clock = clock

    def bearer(self, values: list[bytes], host: str) -> TokenHolder:
        """The holder of the token in the C{Authorization} headers of a request.

        @param host: the address of the caller.
        @raise ControlError: L{TokenRequired} without exactly one header with a valid token, and
            L{TooManyGuesses}.
        """
        if len(values) != 1:
            raise TokenRequired("this endpoint requires a token, and the request has none")
        scheme, _, text = values[0].strip().partition(b" ")
        return self.holder(text if scheme.lower() == b"bearer" else b"", host)

    def holder(self, text: bytes, host: str) -> TokenHolder:
        """The holder of a token that a caller shows.

        @raise ControlError: L{TokenRequired} if the token is not valid, and L{TooManyGuesses}.
        """
        name, digest, now = counted_host(host), sha256(text.strip()).digest(), self._clock.seconds()
        if (wait := self._limit.wait(name, digest, now)) > 0:
            raise TooManyGuesses(wait)
        found = self._tokens.holder_with(digest)
        if found is None:
            self._limit.failed(name, digest, now)
            raise TokenRequired("this endpoint requires a token, and the token sent is unknown")
        self._limit.succeeded(name, digest)
        return found

    def still(self, digest: bytes) -> TokenHolder | None:
        """The holder of a token that was shown before; C{None} if the file has it no longer."""
        return self._tokens.holder_with(digest)
