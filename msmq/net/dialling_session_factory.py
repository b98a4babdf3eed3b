"""Session factory of a queue manager: accepted sessions, and dialled ones."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from uuid import UUID

import attrs
from twisted.internet.interfaces import IReactorPluggableNameResolver, IReactorTime
from zope.interface import implementer

from msmq.errors import LocalProtocolError
from msmq.interfaces.broker import IBroker
from msmq.interfaces.clock import IClock
from msmq.interfaces.session import RoutedHop
from msmq.interfaces.session_policy import ISessionPolicy
from msmq.interfaces.sessions import ISessions
from msmq.net.connector import Connector, Probe
from msmq.net.resolver import HostResolver, NextHopAddress
from msmq.net.session_factory import DEFAULT_SHARES, MakeSession, SessionFactory
from msmq.session.descriptor_shares import DescriptorShares
from msmq.settings import SessionSettings
from msmq.structures.status import MQError, Status
from msmq.wire.addresses import AddressSet

Lookup = Callable[[str], Awaitable[Sequence[NextHopAddress]]]
"""Finds the endpoints of a computer name or address; raises L{msmq.structures.status.MQError} if there are
none."""


@implementer(ISessions)
class DiallingSessionFactory(SessionFactory):
    """A session factory that also dials.

    While messages wait, a session that has ended, or could not be opened, is dialled again: by its connector,
    or when there is a C{broker}, which gets C{reconnect}, if that calls C{connect} of the connector.

    @param lookup: finds the addresses of a host; by default the name service of the reactor does, with port
        1801.
    @raise LocalProtocolError: as of L{SessionFactory}, or the reactor needs a C{lookup}.
    @param shares: how many descriptors accepted and dialled connections may have; as of L{SessionFactory}.
    @param policy: as of L{SessionFactory}; so are C{reactor} and C{clock}.
    @param probe: pings an address before a session, if the settings say so.
    """

    def __init__(
        self,
        identifier: UUID,
        *,
        reactor: IReactorTime | None = None,
        clock: IClock | None = None,
        lookup: Lookup | None = None,
        shares: DescriptorShares = DEFAULT_SHARES,
        probe: Probe | None = None,
        settings: SessionSettings | None = None,
        broker: IBroker | None = None,
        allowed: AddressSet | None = None,
        protocol: MakeSession | None = None,
        policy: ISessionPolicy | None = None,
    ) -> None:
        super().__init__(
            identifier,
            reactor=reactor,
            clock=clock,
            shares=shares,
            settings=settings,
            broker=broker,
            allowed=allowed,
            protocol=protocol,
            policy=policy,
        )
        if lookup is None and IReactorPluggableNameResolver(self.reactor, None) is None:
            raise LocalProtocolError("lookup is missing; the reactor has no name service that finds hosts")
        self._lookup = self._look_up if lookup is None else lookup
        self._probe = probe

    async def _look_up(self, host: str) -> Sequence[NextHopAddress]:
        """Ask the name service of the reactor.

        @raise MQError: no address was found.
        """
        resolver = HostResolver(self.reactor, IReactorPluggableNameResolver(self.reactor).nameResolver)
        return await resolver.resolve(host)

    def routed_connector(
        self,
        hops: Callable[[], Sequence[RoutedHop]],
        has_backlog: Callable[[], bool],
        dialled_for: object = None,
    ) -> Connector:
        """See L{ISessions.routed_connector}."""
        return Connector(
            self,
            lambda: self.next_hops(hops()),
            has_backlog,
            dialled_for=dialled_for,
            probe=self._probe if self.settings.ping_before_session else None,
        )

    async def next_hops(self, hops: Sequence[RoutedHop]) -> list[NextHopAddress]:
        """NextHopCollection: one for each address of each of them (reading 22). [MS-MQQB] 3.1.5.2.1.

        @raise MQError: no address of any was found.
        """
        found: list[NextHopAddress] = []
        problem = MQError(Status.MQ_ERROR_REMOTE_MACHINE_NOT_AVAILABLE, "routing has no next hop")
        for hop in hops:
            try:
                addresses = await self._lookup(hop.host)
            except MQError as error:
                problem = error
                continue
            found += (attrs.evolve(address, identifier=hop.identifier) for address in addresses)
        if not found:
            raise problem
        return found

    def connector(self, host: str, has_backlog: Callable[[], bool], dialled_for: object = None) -> Connector:
        """The connector of a computer name or address; it does not dial until it is requested."""
        return Connector(
            self,
            lambda: self._lookup(host),
            has_backlog,
            dialled_for=dialled_for,
            probe=self._probe if self.settings.ping_before_session else None,
        )
