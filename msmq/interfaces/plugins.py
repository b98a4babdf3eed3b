"""Interfaces of plugins: factories of stores, directories, routers, access controls and session policies.

A plugin is an object that provides one of these interfaces, at module level of a file in a directory
C{twisted/plugins} on the import path, where L{twisted.plugin.getPlugins} finds it; neither C{twisted} nor
C{plugins} holds an C{__init__.py} there.
Such a file should do little more than name a module, since C{twistd} may import it for any purpose.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from uuid import UUID

import attrs
from twisted.internet.interfaces import IReactorTime
from twisted.plugin import IPlugin
from zope.interface import Attribute, Interface

from msmq.interfaces.clock import IClock
from msmq.interfaces.directory import IDirectory
from msmq.interfaces.routing import IRouter
from msmq.interfaces.security.access import IAccessControl
from msmq.interfaces.session_policy import ISessionPolicy
from msmq.interfaces.storage import IMessageStore


class IStorageFactory(IPlugin):
    """Factory of message stores, selected by name in the configuration.

    In C{backend = "ledger:/srv/q"}, C{ledger} is the name and C{/srv/q} the argument.
    """

    name: str = Attribute("Its name in configurations: lower-case letters, digits and hyphens.")

    description: str = Attribute("A description in one line.")

    def open_store(argument: str, data: Path) -> IMessageStore:
        """Create a store that is not open yet; nothing is read or written before
        L{IMessageStore.open<msmq.interfaces.storage.IMessageStore.open>}.

        @param argument: the description after its first colon; empty without one.
        @param data: the data directory of the queue manager, for files without a path of their own.
        @raise ValueError: the argument is unsuitable; its text is the reason.
        """


class ILossAcceptance(Interface):
    """Provided by a storage factory whose stores detect that they are not the one last used."""

    def open_with_loss(argument: str, data: Path) -> IMessageStore:
        """As L{IStorageFactory.open_store}, for a store that opens in spite of losses.

        It accepts missing or older contents, and records an event about that.

        @raise ValueError: the argument is unsuitable; its text is the reason.
        """


class IArgumentProbe(Interface):
    """A factory of routers, access controls or session policies that can check an argument for C{msmq config
    check}, before a server runs.
    """

    def probe(argument: str) -> None:
        """Check the argument, and the file that it names, without changes; may block for some seconds.

        @param argument: the description after its first colon; empty without one.
        @raise ValueError: it is unsuitable; its text is the reason.
        """


class IStorageProbe(Interface):
    """A storage factory that can check, before a store is opened, whether it can be."""

    def probe(argument: str, data: Path) -> None:
        """Check whether the store can be opened, without changes; may block for some seconds.

        @param argument: as of L{IStorageFactory.open_store}; so is C{data}.
        @raise ValueError: it cannot; the text is the reason.
        """


@attrs.frozen
class DirectoryContext:
    """The context of a directory, in addition to the argument of its description.

    @ivar data: the data directory of the queue manager, where a directory may keep what has to survive; it
        may not exist yet.
    @ivar options: the other keys of the table C{[directory]}, as far as the configuration has them.
    @ivar find_servers: [MS-MQSD] 3.1.4.1 Get Directory Server List, for a directory whose description
    contains no servers; it takes 15 seconds or more, returns computer names, possibly none, and is called
    each time.
    """

    clock: IClock
    reactor: IReactorTime
    data: Path
    options: Mapping[str, object] = attrs.field(factory=dict)
    find_servers: Callable[[], Awaitable[Sequence[str]]] | None = None


class IDirectoryFactory(IPlugin):
    """Factory of directories, selected by name in the configuration.

    In C{backend = "file:estate.toml"}, C{file} is the name and C{estate.toml} the argument.
    """

    name: str = Attribute("Its name in configurations: lower-case letters, digits and hyphens.")

    description: str = Attribute("A description in one line.")

    def make_directory(argument: str, context: DirectoryContext) -> IDirectory:
        """Create a directory that is not open yet; it sends no requests before that.

        @raise ValueError: the argument is unsuitable; its text is the reason.
        """


class IProbedDirectory(Interface):
    """A factory whose directories can be tried before a server runs, for C{msmq config check}."""

    def probe(argument: str, context: DirectoryContext) -> Awaitable[str]:
        """Check whether a directory can be used as configured; takes some seconds at most.

        @return: empty if it can; if the directory is unreachable, the reason.
        @raise ValueError: it refuses the account, or lacks what the description names; has the reason.
        """


class IIdentitySource(Interface):
    """A directory factory that can look up the identifier of a queue manager before its first start."""

    def identifier_of(argument: str, computer_name: str, context: DirectoryContext) -> Awaitable[UUID | None]:
        """QueueManager.Identifier of a computer; C{None} if it is unknown.

        @raise ValueError: through the awaitable: the directory cannot be used; its text is the reason.
        """


@attrs.frozen(kw_only=True)
class ServerContext:
    """The server for which a plugin creates a router, an access control or a session policy.

    @ivar identifier: QueueManager.Identifier.
    @ivar name: [MS-MQDMPR] 3.1.1.1 ComputerName.
    @ivar data: the data directory.
    @ivar clock: the time; the only one that decisions should use.
    @ivar reactor: for timers.
    @ivar directory: the directory of the server, which the server opens and closes; C{None} without one.
    """

    identifier: UUID
    name: str
    data: Path
    clock: IClock
    reactor: IReactorTime
    directory: IDirectory | None


class IRouterFactory(IPlugin):
    """Factory of routers, selected by name with C{backend} in C{[routing]}.

    In C{backend = "static:routes.toml"}, C{static} is the name and C{routes.toml} the argument.
    """

    name: str = Attribute("Its name in configurations: lower-case letters, digits and hyphens.")

    description: str = Attribute("A description in one line.")

    def make_router(argument: str, context: ServerContext) -> IRouter:
        """Create a router that is not open yet; the server opens and closes it.

        @raise ValueError: the argument is unsuitable; its text is the reason.
        """


class IAccessControlFactory(IPlugin):
    """Factory of access controls, selected by name with C{access} in C{[security]}.

    In C{access = "hours:8-18"}, C{hours} is the name and C{8-18} the argument.
    """

    name: str = Attribute("Its name in configurations: lower-case letters, digits and hyphens.")

    description: str = Attribute("A description in one line.")

    def make_access_control(
        argument: str, context: ServerContext, documented: IAccessControl
    ) -> IAccessControl:
        """Create an access control.

        @param documented: the access control by descriptors, rules and accounts that the server would use
            otherwise, for everything that this one does not decide itself.
        @raise ValueError: the argument is unsuitable; its text is the reason.
        """


class ISessionPolicyFactory(IPlugin):
    """Factory of session policies, selected by name with C{session_policy} in C{[security]}.

    In C{session_policy = "known-peers:peers.txt"}, C{known-peers} is the name and C{peers.txt} the argument.
    """

    name: str = Attribute("Its name in configurations: lower-case letters, digits and hyphens.")

    description: str = Attribute("A description in one line.")

    def make_session_policy(argument: str, context: ServerContext) -> ISessionPolicy:
        """Create a session policy.

        @raise ValueError: the argument is unsuitable; its text is the reason.
        """
