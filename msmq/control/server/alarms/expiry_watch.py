"""Log lines about TLS certificates of the server, and tokens of its callers, that expire soon."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import ClassVar, Final

from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from msmq.alarm_limits import EXPIRES_SOON, TOKEN_EXPIRES_SOON
from msmq.control.authentication.token_file import TokenExpiry
from msmq.interfaces.security.tls import EndpointCertificate
from msmq.quantities import duration

INTERVAL: Final = 86400.0
"""Seconds between two looks at them."""


class ExpiryWatch:
    """Logs once a day each certificate that expires within L{EXPIRES_SOON}, each token that expires
    within L{TOKEN_EXPIRES_SOON}, and those that have expired.

    @param certificates: returns the certificates that the endpoints present now.
    @param tokens: returns the tokens that expire.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(
        self,
        reactor: IReactorTime,
        certificates: Callable[[], Sequence[EndpointCertificate]],
        tokens: Callable[[], Sequence[TokenExpiry]],
    ) -> None:
        self._reactor = reactor
        self._tokens = tokens
        self._certificates = certificates
        self._call: IDelayedCall | None = None

    def start(self) -> None:
        """Look at them now, and then each day."""
        self._call = self._reactor.callLater(INTERVAL, self.start)
        for each in self._certificates():
            if each.remaining < 0:
                self.log.error(
                    "{endpoint}: the TLS certificate expired on {date}, and clients refuse it;"
                    " write a new one to its file and reload the configuration",
                    endpoint=each.endpoint,
                    date=_date(each.not_after),
                )
            elif each.remaining < EXPIRES_SOON:
                self.log.warn(
                    "{endpoint}: the TLS certificate expires in {left}, on {date};"
                    " write a new one to its file and reload the configuration",
                    endpoint=each.endpoint,
                    left=duration(each.remaining),
                    date=_date(each.not_after),
                )

        for token in self._tokens():
            if token.remaining <= 0:
                self.log.warn(
                    "{token} expired on {date}, and is refused; give its caller another one, or remove its"
                    " line of the token file",
                    token=token.token,
                    date=_date(token.not_after),
                )
            elif token.remaining < TOKEN_EXPIRES_SOON:
                self.log.warn(
                    "{token} expires in {left}, on {date}; give its caller another one",
                    token=token.token,
                    left=duration(token.remaining),
                    date=_date(token.not_after),
                )

    def stop(self) -> None:
        """Look at them no more."""
        if self._call is not None:
            self._call.cancel()
            self._call = None


def _date(time: float) -> str:
    return f"{datetime.fromtimestamp(time, UTC):%Y-%m-%d %H:%M} UTC"
