# Generated from msmq/interfaces/plugins.py by `make stubs`; do not edit.
from __future__ import annotations
from typing import Protocol as _Protocol
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from uuid import UUID
import attrs
from twisted.internet.interfaces import IReactorTime
from twisted.plugin import IPlugin
from zope.interface import Attribute, Interface
from msmq.interfaces.access import IAccessControl
from msmq.interfaces.clock import IClock
from msmq.interfaces.directory import IDirectory
from msmq.interfaces.routing import IRouter
from msmq.interfaces.session_policy import ISessionPolicy
from msmq.interfaces.storage import IMessageStore

class IStorageFactory(IPlugin, _Protocol):

    @property
    def name(self) -> str:
        ...

    @property
    def description(self) -> str:
        ...

    def open_store(self, argument: str, data: Path) -> IMessageStore:
        ...

class ILossAcceptance(Interface, _Protocol):

    def open_with_loss(self, argument: str, data: Path) -> IMessageStore:
        ...

class IStorageProbe(Interface, _Protocol):

    def probe(self, argument: str, data: Path) -> None:
        ...

@attrs.frozen
class DirectoryContext:
    clock: IClock
    reactor: IReactorTime
    data: Path
    options: Mapping[str, object] = attrs.field(factory=dict)
    find_servers: Callable[[], Awaitable[Sequence[str]]] | None = None

class IDirectoryFactory(IPlugin, _Protocol):

    @property
    def name(self) -> str:
        ...

    @property
    def description(self) -> str:
        ...

    def make_directory(self, argument: str, context: DirectoryContext) -> IDirectory:
        ...

class IProbedDirectory(Interface, _Protocol):

    def probe(self, argument: str, context: DirectoryContext) -> Awaitable[str]:
        ...

class IIdentitySource(Interface, _Protocol):

    def identifier_of(self, argument: str, computer_name: str, context: DirectoryContext) -> Awaitable[UUID | None]:
        ...

@attrs.frozen(kw_only=True)
class ServerContext:
    identifier: UUID
    name: str
    data: Path
    clock: IClock
    reactor: IReactorTime
    directory: IDirectory | None

class IRouterFactory(IPlugin, _Protocol):

    @property
    def name(self) -> str:
        ...

    @property
    def description(self) -> str:
        ...

    def make_router(self, argument: str, context: ServerContext) -> IRouter:
        ...

class IAccessControlFactory(IPlugin, _Protocol):

    @property
    def name(self) -> str:
        ...

    @property
    def description(self) -> str:
        ...

    def make_access_control(self, argument: str, context: ServerContext, documented: IAccessControl) -> IAccessControl:
        ...

class ISessionPolicyFactory(IPlugin, _Protocol):

    @property
    def name(self) -> str:
        ...

    @property
    def description(self) -> str:
        ...

    def make_session_policy(self, argument: str, context: ServerContext) -> ISessionPolicy:
        ...
