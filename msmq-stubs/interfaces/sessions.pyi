# Generated from msmq/interfaces/sessions.py by `make stubs`; do not edit.
from __future__ import annotations
from typing import Protocol as _Protocol
from collections.abc import Callable, Collection, Mapping, Sequence
from zope.interface import Attribute, Interface
from msmq.interfaces.broker import IBroker
from msmq.interfaces.session import IConnector, ISession, RoutedHop
from msmq.session.connection_limits import RefusedPeer
from msmq.session.descriptor_shares import DescriptorUse
from msmq.session.effects import CloseReason
from msmq.session.packet_counts import TrafficCounts

class ISessions(Interface, _Protocol):

    @property
    def connections(self) -> Collection[ISession]:
        ...

    @property
    def counts(self) -> TrafficCounts:
        ...

    @property
    def refused(self) -> Mapping[str, int]:
        ...

    @property
    def refused_peers(self) -> Sequence[RefusedPeer]:
        ...

    @property
    def descriptors(self) -> DescriptorUse:
        ...

    @property
    def is_offline(self) -> bool:
        ...

    def attach(self, broker: IBroker, *, is_offline: bool) -> None:
        ...

    def take_offline(self) -> None:
        ...

    def bring_online(self) -> None:
        ...

    def connector(self, host: str, has_backlog: Callable[[], bool], dialled_for: object=None) -> IConnector:
        ...

    def routed_connector(self, hops: Callable[[], Sequence[RoutedHop]], has_backlog: Callable[[], bool], dialled_for: object=None) -> IConnector:
        ...

    def close_all(self, reason: CloseReason=CloseReason.STOPPED) -> None:
        ...
