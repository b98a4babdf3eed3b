"""Authentication of callers by a token, with a limit on the guesses of each host."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime
from hashlib import sha256
from http import HTTPStatus
from typing import ClassVar

from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from msmq.control.authentication.guess_limit import TokenGuessLimit
from msmq.control.authentication.token_file import TokenFile, TokenHolder
from msmq.control.protocol.refusals import ControlError
from msmq.line_limit import LineLimit
from msmq.moment import Moment
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
    @param clock: monotonic time.
    @param wall: returns seconds since 1970-01-01 UTC.
    """

    _log: ClassVar[Logger] = Logger()

    def __init__(
        self, tokens: TokenFile, limit: TokenGuessLimit, clock: IReactorTime, wall: Callable[[], float]
    ) -> None:
        self._tokens = tokens
        self._limit = limit
        self._clock = clock
        self._wall = wall
        self._expired = LineLimit.a_minute(1)

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
        if found.has_expired(self._wall()):
            # It is no guess: a program that goes on with it must not lock out its neighbours.
            self._log_expired(found, host, now)
            raise TokenRequired(f"the token sent expired on {_date(found.expires)}")
        self._limit.succeeded(name, digest)
        return found

    def still(self, digest: bytes) -> TokenHolder | None:
        """The holder of a token that was shown before; C{None} if it has expired, or the file has it no
        longer.
        """
        found = self._tokens.holder_with(digest)
        return None if found is None or found.has_expired(self._wall()) else found

    def _log_expired(self, holder: TokenHolder, host: str, now: float) -> None:
        if (others := self._expired.take(Moment(monotonic=now, wall=now))) is not None:
            self._log.warn(
                "{token} from {peer} is refused: it expired on {date}; give its line of the token file"
                " another token and date, or remove it{others}",
                token=holder.name,
                peer=host,
                date=_date(holder.expires),
                others=others,
            )


def _date(time: float | None) -> str:
    return "" if time is None else f"{datetime.fromtimestamp(time, UTC):%Y-%m-%d %H:%M} UTC"
