"""Answers Ping Requests, up to a rate limit. [MS-MQQB] 3.1.7.7.

A response is indistinguishable from a request: both have the same 24 bytes, and a responder that receives a
response on its port answers it.  So one datagram with the forged source of a second responder would make the
two answer each other forever.

Never answering datagrams from the ping port is not a solution: the source port of a request can be any port
(2.1.2), and the port of a responder is configurable (note 11), so this would refuse valid requests and still
miss some loops.

What distinguishes them is the Cookie.  It identifies an individual request (2.2.7), an initiator increments
it for each (3.1.7.6), and a responder repeats it (3.1.7.7).  In such a loop the same cookie therefore arrives
again from the same address and port, which an initiator never sends. So a cookie from one address and port is
answered only a few times, until that source has been silent for a while; the first datagram that is not
answered ends the loop, since no other is in flight.
"""

from __future__ import annotations

import enum
from collections import Counter, OrderedDict
from collections.abc import Callable
from uuid import UUID

import attrs

from msmq.errors import RemoteProtocolError
from msmq.moment import Moment
from msmq.session.host_rates import HostRates
from msmq.settings import SessionSettings
from msmq.structures.internal.ping import Ping
from msmq.token_bucket import TokenBucket
from msmq.wire.addresses import can_be_answered

REPEATS_ANSWERED = 10
"""Limit on answers to one cookie from one address and port; networks also duplicate datagrams."""
SILENCE = 10.0
"""Seconds without a cookie from an address and port after which its count is reset."""
SOURCES_REMEMBERED = 1024
"""Limit on hosts with a recorded rate; the least recent one is dropped first."""
COOKIES_REMEMBERED = 4096
"""Limit on recorded cookies; the least recent one is dropped first."""


class Ignored(enum.Enum):
    """Why a datagram was not answered; its sender is not notified."""

    MALFORMED = "not 24 bytes, or another Signature"
    RESPONSE = "RF is set, which no request may do"
    REPEATED = "the same cookie came too often from the same port"
    SOURCE_RATE = "too many requests from one host"
    RATE = "too many requests"
    NO_RETURN_ADDRESS = "no address or port to answer to"


@attrs.frozen
class PingAnswer:
    """A request that is answered.

    @ivar response: is sent to the source address and port of the request.
    """

    request: Ping
    response: Ping


@attrs.define
class _Repeats:
    count: int
    heard: float


class PingResponder:
    """Receive Ping Request. [MS-MQQB] 3.1.7.7.

    At most C{settings.pings_per_second} requests are answered in a second over all, and half of these
    to one host; further requests are dropped without an answer, and counted.
    Memory is bounded for any number of sources.

    @param identifier: QueueManager.Identifier, the QMGuid of each response.
    @ivar answered: requests that were answered.
    @ivar ignored: datagrams that were not, by reason.
    """

    def __init__(self, identifier: UUID, settings: SessionSettings) -> None:
        self._identifier = identifier
        self.configure(settings)
        self._repeats: OrderedDict[tuple[str, int, int], _Repeats] = OrderedDict()
        self.answered = 0
        self.ignored: Counter[Ignored] = Counter()

    def configure(self, settings: SessionSettings) -> None:
        """Apply other limits."""
        self._rate = float(settings.pings_per_second)
        of_host = float(min(settings.pings_per_second, max(1, settings.pings_per_second // 2)))
        self._sources = HostRates(of_host, SOURCES_REMEMBERED)
        self._overall: TokenBucket | None = None

    def answer(
        self,
        datagram: bytes,
        host: str,
        port: int,
        now: Moment,
        *,
        refuses: Callable[[], bool] | bool = False,
    ) -> PingAnswer | Ignored:
        """Process a datagram that arrived at the ping port.

        @param host: the IP address that it came from.
        @param port: the port that it came from.
        @param refuses: whether a session from this initiator would be refused now (RF); a callable is called
        only for a request that is answered.
        """
        outcome = self._classify(datagram, host, port, now)
        if isinstance(outcome, Ignored):
            self.ignored[outcome] += 1
            return outcome
        self.answered += 1
        refused = refuses if isinstance(refuses, bool) else refuses()
        return PingAnswer(outcome, outcome.response(self._identifier, is_refused=refused))

    def _classify(self, datagram: bytes, host: str, port: int, now: Moment) -> Ping | Ignored:
        try:
            request = Ping.from_bytes(datagram)
        except RemoteProtocolError:
            return Ignored.MALFORMED
        if request.is_refused:
            return Ignored.RESPONSE
        if not can_be_answered(host, port):
            return Ignored.NO_RETURN_ADDRESS
        # The rate is checked before a new cookie is recorded, so that a flood cannot displace the cookie of a
        # loop.
        if self._exceeds_rate(host, port, request.cookie, now):
            return Ignored.REPEATED
        exceeded = self._exceeded(host, now)
        if exceeded is not None:
            return exceeded
        self._remember(host, port, request.cookie, now)
        return request

    def _exceeds_rate(self, host: str, port: int, cookie: int, now: Moment) -> bool:
        key = host, port, cookie
        repeats = self._repeats.get(key)
        if repeats is None:
            return False
        if now.monotonic - repeats.heard >= SILENCE:
            del self._repeats[key]
            return False
        repeats.heard = now.monotonic
        self._repeats.move_to_end(key)
        return repeats.count >= REPEATS_ANSWERED

    def _remember(self, host: str, port: int, cookie: int, now: Moment) -> None:
        repeats = self._repeats.setdefault((host, port, cookie), _Repeats(0, now.monotonic))
        repeats.count += 1
        if len(self._repeats) > COOKIES_REMEMBERED:
            self._repeats.popitem(last=False)

    def _exceeded(self, host: str, now: Moment) -> Ignored | None:
        overall = self._overall
        if overall is None:
            overall = self._overall = TokenBucket.full(self._rate, now)
        source = self._sources.of(host, now)
        if not source.has_one(now):
            return Ignored.SOURCE_RATE
        if not overall.has_one(now):
            return Ignored.RATE
        source.take()
        overall.take()
        return None
