"""Limits on connections of peers: allowed addresses, number and rate.

A refused peer gets no answer: the connection is closed before anything is read from it.
No message is lost by that, since nothing is sent before a session is open, and a peer with messages retries
later.
"""

from __future__ import annotations

import enum
from collections import Counter, OrderedDict
from collections.abc import Mapping
from typing import Final

import attrs

from msmq.moment import Moment
from msmq.session.host_rates import HostRates
from msmq.wire.addresses import AddressSet, counted_host, is_loopback

PEERS_REMEMBERED: Final = 4096
"""Limit on hosts with recorded rates and refusals; the least recent one is dropped first."""

PEERS_SHOWN: Final = 20
"""Limit on hosts in the status, the latest refused."""

QUIET: Final = 60.0
"""Seconds between two lines of the log about the same host and the same reason."""


class ConnectionRefusal(enum.Enum):
    """Why a connection did not become a session."""

    OFFLINE = "offline"
    NOT_ALLOWED = "sessions_from"
    RATE = "sessions_per_second"
    CONNECTIONS = "max_connections_per_host"
    HANDSHAKES = "max_handshakes"
    SESSIONS = "max_sessions"
    ADDRESSEE = "wrong_queue_manager"
    BY_PEER = "refused_by_peer"
    CERTIFICATE = "pins"
    POLICY = "session_policy"


@attrs.define
class _Refused:
    """The refusals of one host.

    @ivar logged: the monotonic second of the last log line, by reason.
    """

    last: float = 0.0
    counts: Counter[ConnectionRefusal] = attrs.field(factory=Counter)
    logged: dict[ConnectionRefusal, float] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class RefusedPeer:
    """A host whose connections did not become sessions.

    @ivar last: when one was refused last, in seconds since 1970-01-01 UTC.
    @ivar reasons: how many were refused, by reason.
    """

    address: str
    last: float = attrs.field(metadata={"time": True})
    reasons: Mapping[str, int]


class ConnectionLimits:
    """Accepts or refuses each connection before anything is read from it, and counts refusals by host.

    Memory is bounded for any number of hosts.

    @param rate: connections that one host may open in a second, and the burst after an idle period; 0 for no
        limit. Hosts on loopback may always open any number.
        A host is a L{counted_host}.
    @param most: connections that one host may have at one time.
    @param allowed: the addresses from which connections are taken; C{None} for all.
    @ivar refused: how often each reason applied.
    """

    def __init__(self, rate: int, most: int, allowed: AddressSet | None = None) -> None:
        self.configure(rate, most, allowed)
        self._hosts: OrderedDict[str, _Refused] = OrderedDict()
        self.refused: Counter[ConnectionRefusal] = Counter()

    def configure(self, rate: int, most: int, allowed: AddressSet | None) -> None:
        """Apply other limits; connections that are open stay. The parameters are those of the constructor."""
        self._has_rate = bool(rate)
        self._rates = HostRates(float(rate), PEERS_REMEMBERED)
        self._most = most
        self._allowed = allowed

    def admits(self, host: str) -> bool:
        """Whether connections from this host are accepted at all.

        @param host: as of L{check}.
        """
        return not host or self._allowed is None or host in self._allowed

    def check(self, host: str, connections: int, now: Moment) -> ConnectionRefusal | None:
        """Why a connection from this host is refused; C{None} if it is accepted.

        @param host: its IP address; empty for a connection without one, from this machine.
        @param connections: the number of its open connections.
        """
        if not self.admits(host):
            return ConnectionRefusal.NOT_ALLOWED
        if connections >= self._most:
            return ConnectionRefusal.CONNECTIONS
        if self._has_rate and host and not is_loopback(host) and self._exceeds(host, now):
            return ConnectionRefusal.RATE
        return None

    def note(self, host: str, refusal: ConnectionRefusal, now: Moment) -> bool:
        """Count a refusal.

        @return: whether to log it; similar refusals are logged once a minute.
        """
        self.refused[refusal] += 1
        host = counted_host(host)
        known = self._hosts.setdefault(host, _Refused())
        self._hosts.move_to_end(host)
        if len(self._hosts) > PEERS_REMEMBERED:
            self._hosts.popitem(last=False)
        known.last = now.wall
        known.counts[refusal] += 1
        logged = known.logged.get(refusal)
        if logged is not None and now.monotonic - logged < QUIET:
            return False
        known.logged[refusal] = now.monotonic
        return True

    def refused_peers(self) -> list[RefusedPeer]:
        """The hosts that were refused last, the latest first."""
        latest = list(reversed(self._hosts.items()))[:PEERS_SHOWN]
        return [
            RefusedPeer(
                address=host,
                last=known.last,
                reasons={refusal.value: count for refusal, count in known.counts.items()},
            )
            for host, known in latest
        ]

    def _exceeds(self, host: str, now: Moment) -> bool:
        bucket = self._rates.of(host, now)
        if not bucket.has_one(now):
            return True
        bucket.take()
        return False
