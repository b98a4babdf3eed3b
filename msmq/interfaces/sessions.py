"""ISessions: all sessions of a queue manager, accepted and dialled."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from zope.interface import Attribute, Interface

from msmq.interfaces.broker import IBroker
from msmq.interfaces.session import IConnector, ISession, RoutedHop
from msmq.session.connection_limits import RefusedPeer
from msmq.session.descriptor_shares import DescriptorUse
from msmq.session.effects import CloseReason
from msmq.session.packet_counts import TrafficCounts


class ISessions(Interface):
    """All sessions of a queue manager, accepted and dialled."""

    connections: Collection[ISession] = Attribute("Every session that has a connection, in any state.")

    counts: TrafficCounts = Attribute("The packets of all sessions so far, by kind.")

    refused: Mapping[str, int] = Attribute(
        "The number of refused connections, by the limit or setting that refused them."
    )

    refused_peers: Sequence[RefusedPeer] = Attribute("The peers of refused connections, the latest first.")

    descriptors: DescriptorUse = Attribute(
        "Connections in both directions, and their limits by the descriptors of the process."
    )

    is_offline: bool = Attribute("Whether connections are refused, and no host is dialled.")

    def attach(broker: IBroker, *, is_offline: bool) -> None:
        """Set the broker of all events; called once, before the first session.

        @param is_offline: the first value of C{is_offline}.
        @raise msmq.errors.LocalProtocolError: there is a broker already.
        """

    def take_offline() -> None:
        """Refuse connections, and do not dial; existing sessions stay."""

    def bring_online() -> None:
        """End L{take_offline}."""

    def connector(host: str, has_backlog: Callable[[], bool], dialled_for: object = None) -> IConnector:
        """The connector of a computer name or address; it does not dial until it is requested.

        @param has_backlog: whether messages wait for that host.
        @param dialled_for: becomes C{dialled_for} of its sessions.
        """

    def routed_connector(
        hops: Callable[[], Sequence[RoutedHop]], has_backlog: Callable[[], bool], dialled_for: object = None
    ) -> IConnector:
        """The connector of the first reachable one of several queue managers.

        @param hops: returns these, in the order in which they are tried; called for each attempt.
        @param has_backlog: whether messages wait for them; C{dialled_for} as for L{connector}.
        """

    def close_all(reason: CloseReason = CloseReason.STOPPED) -> None:
        """End every session."""
