"""Creates an LDAP directory from C{ldap://...} in a configuration."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from uuid import UUID

import attrs
from zope.interface import implementer

from msmq.directory.ldap.settings import LdapSettings, parse_settings
from msmq.interfaces.directory import IDirectory
from msmq.interfaces.plugins import DirectoryContext, IDirectoryFactory, IIdentitySource, IProbedDirectory


def ldap_directory(description: str, context: DirectoryContext) -> IDirectory:
    """The directory at C{ldap://[HOST[:PORT][,...]][/BASE]} or C{ldaps://...}, which is not open yet.

    @param context: its options C{bind_dn}, C{password_file}, C{keytab}, C{principal}, C{ca_file}, C{dialect}
        and C{start_tls} are used; its reactor, which has to be one of Twisted, provides connections, timers
        and name resolution.
    @raise ValueError: the description or an option is unsuitable, or ldaptor is not installed.
    """
    settings = parse_settings(description, context.options)
    try:
        from msmq.directory.ldap.provider import LdapDirectory
    except ModuleNotFoundError as error:
        raise _missing(error) from error
    return LdapDirectory(
        settings, context.clock, context.reactor, find_servers=_find_servers(settings, context)
    )


def _find_servers(
    settings: LdapSettings, context: DirectoryContext
) -> Callable[[], Awaitable[Sequence[str]]]:
    """DNS first, if the base is a domain; then a broadcast."""
    from msmq.directory.ldap.transport.domain_controllers import DomainControllers, domain_of

    return DomainControllers(domain_of(settings.base), context.reactor, context.find_servers).find


def _missing(error: ModuleNotFoundError) -> Exception:
    if (error.name or "").split(".")[0] != "ldaptor":
        return error
    return ValueError("needs ldaptor; install msmq[ldap]")


@implementer(IDirectoryFactory, IIdentitySource, IProbedDirectory)
@attrs.frozen
class LdapDirectoryFactory:
    """C{ldap://[HOST[:PORT][,...]][/BASE]}."""

    name: str = "ldap"
    description: str = "Active Directory, or another LDAP server with MSMQ's schema"

    def make_directory(self, argument: str, context: DirectoryContext) -> IDirectory:
        """See L{IDirectoryFactory.make_directory}."""
        return ldap_directory(f"{self.name}:{argument}", context)

    async def identifier_of(
        self, argument: str, computer_name: str, context: DirectoryContext
    ) -> UUID | None:
        """See L{IIdentitySource.identifier_of}."""
        settings = parse_settings(f"{self.name}:{argument}", context.options)
        try:
            from msmq.directory.ldap.identity import identify
        except ModuleNotFoundError as error:
            raise _missing(error) from error
        context = attrs.evolve(context, find_servers=_find_servers(settings, context))
        return await identify(settings, computer_name, context)

    def probe(self, argument: str, context: DirectoryContext) -> Awaitable[str]:
        """See L{IProbedDirectory.probe}."""
        return self._probe(argument, context)

    async def _probe(self, argument: str, context: DirectoryContext) -> str:
        settings = parse_settings(f"{self.name}:{argument}", context.options)
        try:
            from msmq.directory.ldap.probe import probe
        except ModuleNotFoundError as error:
            raise _missing(error) from error
        return await probe(settings, context.reactor)


@implementer(IDirectoryFactory, IIdentitySource, IProbedDirectory)
@attrs.frozen
class LdapsDirectoryFactory(LdapDirectoryFactory):
    """C{ldaps://[HOST[:PORT][,...]][/BASE]}, the same over TLS."""

    name: str = "ldaps"
    description: str = "the same over TLS"
