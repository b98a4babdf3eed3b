"""SRV Records: discovery of the servers of a domain in DNS. [MS-ADTS] 6.3.2.3."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

from twisted.internet.defer import Deferred, gatherResults
from twisted.logger import Logger
from twisted.names import client, dns

from msmq.directory.ldap.names import split

MOST_SERVERS: Final = 100
"""Limit on the servers of one answer."""

TIMEOUTS: Final = (1, 2)
"""Timeouts, in seconds, of the attempts to query a name server."""

REMEMBERED: Final = 60.0
"""Seconds for which a negative answer of DNS is cached."""

RESOLVER_FILE: Final = Path("/etc/resolv.conf")

RECORDS: Final = ("_ldap._tcp.dc._msdcs.{domain}", "_ldap._tcp.{domain}")
"""The records of domain controllers, and those of any LDAP server of a domain (RFC 2782)."""


def domain_of(base: str) -> str:
    """The DNS domain of a distinguished name; empty if it has no C{dc}.

    @raise DistinguishedNameError: the base is not a distinguished name.
    """
    return ".".join(value for kind, value in split(base) if kind == "dc")


def name_servers(file: Path) -> list[str]:
    """The addresses of the name servers in a C{resolv.conf}, three at most.

    @raise OSError: it cannot be read.
    """
    words = [line.split() for line in file.read_text(errors="replace").splitlines()]
    return [each[1] for each in words if len(each) > 1 and each[0] == "nameserver"][:3]


class DomainControllers:
    """Discovers the servers of a domain: in DNS, and elsewhere if DNS has none.

    @param resolver: a resolver of L{twisted.names}; by default one of L{RESOLVER_FILE}, read each time.
    @param elsewhere: called if DNS names no server; C{None} for DNS only.
    @param draw: a number from 0 to 1, for the weights of RFC 2782.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(
        self,
        domain: str,
        reactor: Any,
        elsewhere: Callable[[], Awaitable[Sequence[str]]] | None,
        *,
        resolver: Any = None,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._domain = domain
        self._reactor = reactor
        self._elsewhere = elsewhere
        self._resolver = resolver
        self._draw = draw
        self._again = 0.0

    async def find(self) -> Sequence[str]:
        """The names of servers, in the order in which they are to be tried; none if there are none."""
        if self._domain and self._reactor.seconds() >= self._again:
            for found in await self._all_records():
                if found:
                    return found
            self._again = self._reactor.seconds() + REMEMBERED
        return () if self._elsewhere is None else await self._elsewhere()

    async def _all_records(self) -> list[list[str]]:
        """The servers of each of L{RECORDS}, looked up together."""
        try:
            # A resolver that reads the file itself keeps polling it every minute.
            servers = [(each, dns.PORT) for each in name_servers(RESOLVER_FILE)]
            resolver = self._resolver or client.Resolver(servers=servers, reactor=self._reactor)
        except (OSError, ValueError) as error:
            self.log.debug("no name server is known: {error}", error=error)
            return []
        names = [record.format(domain=self._domain) for record in RECORDS]
        return await gatherResults([Deferred.fromCoroutine(self._look_up(resolver, name)) for name in names])

    async def _look_up(self, resolver: Any, name: str) -> list[str]:
        try:
            answers, _, _ = await resolver.lookupService(name, timeout=TIMEOUTS)
        except Exception as error:  # DNS has its own errors for every kind of answer, and for timeouts.
            self.log.debug("no SRV record {name}: {error}", name=name, error=type(error).__name__)
            return []
        records = [answer.payload for answer in answers if answer.type == dns.SRV]
        ordered = sorted(records, key=lambda record: (record.priority, -self._weight(record.weight)))
        names = (record.target.name.decode("ascii", "replace").rstrip(".") for record in ordered)
        return list(dict.fromkeys(each.lower() for each in names if each))[:MOST_SERVERS]

    def _weight(self, weight: int) -> float:
        """RFC 2782: among servers of one priority the more often first, the greater its weight."""
        return float(self._draw() ** (1 / (weight or 0.01)))
