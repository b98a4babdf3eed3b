"""The parts of a server that an application may bring itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias
from uuid import UUID

import attrs
from twisted.internet.interfaces import IReactorTime

from msmq.errors import LocalProtocolError
from msmq.interfaces.clock import IClock
from msmq.interfaces.directory import IDirectory
from msmq.interfaces.routing import IRouter
from msmq.interfaces.security.access import IAccessControl
from msmq.interfaces.security.gate import IGate
from msmq.interfaces.session_policy import ISessionPolicy
from msmq.interfaces.storage import IMessageStore
from msmq.manager.membership.membership import Membership
from msmq.net.dialling_session_factory import DiallingSessionFactory
from msmq.net.discovery import DiscoveryServerProtocol
from msmq.net.ping import PingResponderProtocol
from msmq.net.session import SessionProtocol
from msmq.net.session_factory import MakeSession, SessionFactory
from msmq.plugins import lacking
from msmq.service.directory_servers import DirectorySearch, DirectoryServerProtocol
from msmq.service.settings import QueueManagerSettings


class ServerPingProtocol(PingResponderProtocol):
    """Refuses in a ping what the handshake would refuse ([MS-MQQB] 3.1.7.7); a subclass may refuse more."""

    def __init__(self, identifier: UUID, sessions: SessionFactory, clock: IClock) -> None:
        super().__init__(identifier, clock=clock, settings=sessions.settings)
        self._sessions = sessions

    def would_refuse(self, address: tuple[str, int]) -> bool:
        """Whether MaxInSessions is reached, the initiator is not in C{sessions_from}, or the queue manager is
        offline.
        """
        return self._sessions.would_refuse(address[0])


MakePing: TypeAlias = Callable[[UUID, SessionFactory, IClock], PingResponderProtocol]
"""L{ServerPingProtocol}, a subclass of it, or a callable that creates one."""

MakeDiscovery: TypeAlias = Callable[
    [QueueManagerSettings, IReactorTime, Callable[[], Membership | None], DirectorySearch],
    DiscoveryServerProtocol,
]
"""L{DirectoryServerProtocol}, a subclass of it, or a callable that creates one."""

MakeSessions: TypeAlias = Callable[..., DiallingSessionFactory]
"""L{DiallingSessionFactory}, a subclass of it, or a callable with its arguments."""


@attrs.frozen(kw_only=True)
class Replacements:
    """The parts that replace those of the configuration; C{None} for the configured one.

    @ivar session_protocol: creates each session.
    @ivar session_factory: creates the factory of all sessions.
    @ivar ping_protocol: creates the responder to pings.
    @ivar discovery: creates the responder to discovery requests.
    @raise LocalProtocolError: a part lacks a member of its interface, or is not callable; names both.
    """

    router: IRouter | None = None
    directory: IDirectory | None = None
    store: IMessageStore | None = None
    access: IAccessControl | None = None
    session_policy: ISessionPolicy | None = None
    gate: IGate | None = None
    session_protocol: MakeSession = SessionProtocol
    session_factory: MakeSessions = DiallingSessionFactory
    ping_protocol: MakePing = ServerPingProtocol
    discovery: MakeDiscovery = DirectoryServerProtocol

    def __attrs_post_init__(self) -> None:
        for name, interface in _INTERFACES.items():
            part = getattr(self, name)
            if part is not None and (lack := lacking(interface, part)):
                raise LocalProtocolError(f"{name} cannot be used as an {interface.__name__}: {lack}")
        for name in ("session_protocol", "session_factory", "ping_protocol", "discovery"):
            part = getattr(self, name)
            if not callable(part):
                raise LocalProtocolError(
                    f"{name} is an object of {type(part).__name__}; it has to be a class or another callable"
                )


_INTERFACES: Final[Mapping[str, type]] = {
    "router": IRouter,
    "directory": IDirectory,
    "store": IMessageStore,
    "access": IAccessControl,
    "session_policy": ISessionPolicy,
    "gate": IGate,
}

CONFIGURED: Final = Replacements()
"""Everything as the configuration has it."""
