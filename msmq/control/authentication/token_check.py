"""Token check of the control API for remote callers, before any request is processed.

The server buffers at most one request head for an unauthenticated caller, for a few seconds, and limits the
number of such callers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.http import HTTPChannel
from twisted.web.http import Request as HTTPRequest
from twisted.web.server import Site

from msmq.control.authentication.token_authentication import (
    TokenAuthentication,
    TokenRequired,
    TooManyGuesses,
)
from msmq.control.authentication.token_connections import TokenConnections
from msmq.control.authentication.token_file import TokenHolder
from msmq.control.protocol.refusals import ControlError, refusal, too_many
from msmq.control.server.http.channel import ControlChannel
from msmq.control.server.http.request_memory import RequestMemory
from msmq.control.server.http.requests import ControlRequest
from msmq.control.server.http.responses import to_json
from msmq.line_limit import LineLimit
from msmq.moment import Moment
from msmq.wire.addresses import counted_host

if TYPE_CHECKING:
    from msmq.control.server.api_site import ApiSite
    from msmq.control.server.http.limits import ControlLimits
    from msmq.control.server.sending.pipeline import PausableSource
    from msmq.control.server.sending.request_body import SendBody

UNAUTHENTICATED: Final = 64
"""Limit on unauthenticated connections; beyond it the oldest of the host with the most is closed."""

PATIENCE: Final = 10.0
"""Seconds within which a connection has to authenticate, TLS handshake included."""

_QUIET: Final = 60.0
"""Seconds between two log lines about refused callers."""


class TokenCheck:
    """Checks the token of callers, and limits their connections and those of callers without one.

    @param connections: the most connections of callers with tokens.
    @param unauthenticated: the most of those without.
    @param patience: seconds within which a connection has to authenticate.
    """

    _log: ClassVar[Logger] = Logger()

    def __init__(
        self,
        tokens: TokenAuthentication,
        clock: IReactorTime,
        *,
        connections: int,
        unauthenticated: int = UNAUTHENTICATED,
        patience: float = PATIENCE,
    ) -> None:
        self.connections: TokenConnections[TokenChannel] = TokenConnections(connections)
        self._full = LineLimit.a_minute(1)
        self._cut = LineLimit.a_minute(1)
        self._tokens = tokens
        self._clock = clock
        self._limit = unauthenticated
        self._patience = patience
        # Ordered by age, the oldest first.
        self._unauthenticated: dict[TokenChannel, IDelayedCall] = {}
        self._refused = 0
        self._quiet_until = clock.seconds()

    def enter(self, channel: TokenChannel) -> None:
        """Register an unauthenticated connection, which is closed unless it authenticates in time."""
        if channel in self._unauthenticated:
            return
        if len(self._unauthenticated) >= self._limit:
            displaced = self._displaced_by(channel)
            self.leave(displaced)
            displaced.cut()
        self._unauthenticated[channel] = self._clock.callLater(self._patience, self._out_of_time, channel)

    def _displaced_by(self, channel: TokenChannel) -> TokenChannel:
        """The connection to close for a new one: one of the host with the most, so that a flood affects only
        its own host.
        """
        own = counted_host(channel.host)
        hosts = {each: counted_host(each.host) for each in self._unauthenticated}
        places = Counter((*hosts.values(), own))
        most = max(places.values())
        candidates = [each for each, host in hosts.items() if places[host] == most]
        return next((each for each in candidates if hosts[each] == own), candidates[0])

    def leave(self, channel: TokenChannel) -> None:
        """Remove a connection that has authenticated or disconnected."""
        call = self._unauthenticated.pop(channel, None)
        if call is not None and call.active():
            call.cancel()

    def shown_by(self, request: HTTPRequest, host: str) -> TokenHolder:
        """Remove the token from a request and return its holder.

        @raise ControlError: there is no valid token, or the host has sent too many wrong ones.
        """
        shown = request.requestHeaders.getRawHeaders(b"authorization", [])
        request.requestHeaders.removeHeader(b"authorization")
        return self._tokens.bearer(list(shown), host)

    def admit(self, channel: TokenChannel, holder: TokenHolder) -> None:
        """Register the connection of a caller with a token, for which another one may be closed.

        @raise ControlError: all connections are in use, and no other token has more of them.
        """
        is_admitted, displaced = self.connections.admit(channel, holder.digest)
        if is_admitted:
            self.leave(channel)
            if displaced is not None:
                self._displace(displaced, holder)
            return
        if (others := self._full.take(self._now())) is not None:
            self._log.warn(
                "remote control: a connection with {token} from {peer} is refused: {limit} are in use, none"
                " of them by a token with more{others}",
                token=holder.name,
                peer=channel.host,
                limit=self.connections.limit,
                others=others,
            )
        raise too_many("connections of remote control", self.connections.limit)

    def _displace(self, channel: TokenChannel, holder: TokenHolder) -> None:
        """Close a connection for one of another token; the log has the reason why its request has failed."""
        if channel.requests and (others := self._cut.take(self._now())) is not None:
            self._log.warn(
                "remote control: a request of {token} from {peer} is ended for a connection of {other}:"
                " {limit} are in use, and {token} has the most{others}",
                token=channel.token_name,
                peer=channel.host,
                other=holder.name,
                limit=self.connections.limit,
                others=others,
            )
        channel.cut()

    def _now(self) -> Moment:
        return Moment(monotonic=self._clock.seconds(), wall=self._clock.seconds())

    def is_current(self, holder: TokenHolder) -> bool:
        """Whether a token is still valid, with the same role; its name may be another one."""
        found = self._tokens.still(holder.digest)
        return found is not None and found.role == holder.role

    def refused(self, peer: str) -> None:
        """Log a caller without the token, at a limited rate."""
        self._refused += 1
        now = self._clock.seconds()
        if now >= self._quiet_until:
            self._quiet_until = now + _QUIET
            self._log.warn(
                "remote control: {peer} sent no valid token; {count} such requests since the last such line",
                peer=peer,
                count=self._refused,
            )
            self._refused = 0

    def _out_of_time(self, channel: TokenChannel) -> None:
        del self._unauthenticated[channel]
        channel.cut()


class TokenRequest(ControlRequest):
    """Request with a token.

    @ivar holder: the holder of the token.
    """

    holder: TokenHolder | None = None

    @property
    def account(self) -> Hashable:
        """See L{ControlRequest.account}."""
        return super().account if self.holder is None else self.holder.digest

    def is_current(self) -> bool:
        """See L{ControlRequest.is_current}."""
        if self.channel is None:
            return False
        site: TokenSite = vars(self.channel)["site"]
        return self.holder is not None and site.guard.is_current(self.holder)


class TokenChannel(ControlChannel):
    """HTTP connection that requires the token in every request.

    @ivar token_name: the name of the token of its latest request.
    """

    token_name = ""
    _is_over = False

    @property
    def _guard(self) -> TokenCheck:
        site: TokenSite = vars(self)["site"]
        return site.guard

    @property
    def host(self) -> str:
        """The address of the caller; empty on transports without addresses."""
        return getattr(cast(Any, self.transport).getPeer(), "host", "unknown")

    def connectionMade(self) -> None:
        """Register the connection as unauthenticated."""
        self._guard.enter(self)
        super().connectionMade()

    def connectionLost(self, reason: Failure) -> None:  # type: ignore[override]
        """Unregister the connection."""
        self._guard.leave(self)
        super().connectionLost(reason)

    def cut(self) -> None:
        """Abort the connection."""
        self._is_over = True
        cast(Any, self.transport).abortConnection()

    def loseConnection(self) -> None:
        """Close the connection after the written bytes are sent; read no more."""
        self._is_over = True
        HTTPChannel.loseConnection(self)

    def allHeadersReceived(self) -> None:
        """Check the token when the request head is complete, before any of it takes effect."""
        guard = self._guard
        request = cast(TokenRequest, self.requests[-1])
        try:
            holder = guard.shown_by(request, self.host)
        except ControlError as error:
            guard.refused(self.host)
            self._refuse(error)
            return
        try:
            guard.admit(self, holder)
        except ControlError as error:
            self._refuse(error)
            return
        request.holder = holder
        self.token_name = request.token_name = holder.name
        request.role = holder.role
        HTTPChannel.allHeadersReceived(self)

    def _refuse(self, error: ControlError) -> None:
        """Answer a caller that is not admitted, and process nothing more of it."""
        guard = self._guard
        self._is_over = True
        self.requests.pop()
        # Closing while the caller still sends would lose the response; so the server discards input until the
        # caller closes or times out.
        guard.connections.leave(self)
        guard.enter(self)
        cast(Any, self.transport).write(_answer(error))

    def allContentReceived(self) -> None:
        """The whole request is in."""
        self._unless_over(super().allContentReceived)

    def dataReceived(self, data: bytes) -> None:
        """Receive bytes."""
        self._unless_over(super().dataReceived, data)

    def lineReceived(self, line: bytes) -> None:
        """Receive a line of a request head."""
        self._unless_over(super().lineReceived, line)

    def rawDataReceived(self, data: bytes) -> None:
        """Receive bytes that follow a request head."""
        self._unless_over(super().rawDataReceived, data)

    def _unless_over(self, take: Callable[..., None], *data: bytes) -> None:
        if not self._is_over:
            take(*data)


class TokenSite(Site):
    """The control API for remote callers, which authenticate with a token."""

    protocol = TokenChannel  # type: ignore[assignment]
    requestFactory = TokenRequest

    def __init__(
        self, site: ApiSite, tokens: TokenAuthentication, clock: IReactorTime, **bounds: Any
    ) -> None:
        """Require tokens for a site.

        @param bounds: those of L{TokenCheck}; connections are limited as those of the site.
        """
        Site.__init__(self, site.resource, reactor=clock)
        self.guard = TokenCheck(tokens, clock, connections=site.limits.connections, **bounds)
        self._site = site

    @property
    def role_without_token(self) -> None:
        """No rights without a token."""
        return None

    @property
    def limits(self) -> ControlLimits:
        """The limits of the API."""
        return self._site.limits

    @property
    def request_memory(self) -> RequestMemory:
        """The memory of request bodies, shared with the other callers of the API."""
        return self._site.request_memory

    @property
    def reader_memory(self) -> RequestMemory:
        """The same for callers that may only read."""
        return self._site.reader_memory

    def connected(self, channel: ControlChannel) -> None:
        """Do nothing: L{TokenCheck} has the connection already."""

    def answered(self, channel: ControlChannel) -> None:
        """Register that a connection is idle."""
        self.guard.connections.answered(cast(TokenChannel, channel))

    def disconnected(self, channel: ControlChannel) -> None:
        """Unregister a connection."""
        self.guard.connections.leave(cast(TokenChannel, channel))

    def send_body(self, source: PausableSource) -> SendBody | None:
        """See L{ApiSite.send_body}."""
        return self._site.send_body(source)

    def acceptableProtocols(self) -> list[bytes]:
        """The protocols that TLS may negotiate: HTTP/1.1."""
        return [b"http/1.1"]

    def log(self, request: HTTPRequest) -> None:
        """Nothing, as on the control socket."""


def _answer(error: ControlError) -> bytes:
    body = to_json(refusal(error)) + b"\n"
    status = error.http_status
    advice = ""
    if isinstance(error, TokenRequired):
        advice = 'WWW-Authenticate: Bearer realm="msmq"\r\n'
    elif isinstance(error, TooManyGuesses):
        advice = f"Retry-After: {error.seconds}\r\n"
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\n{advice}"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode("ascii") + body
