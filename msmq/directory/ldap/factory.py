"""From C{ldap://...} in a configuration to the directory."""

from __future__ import annotations

from uuid import UUID

import attrs
from zope.interface import implementer

from msmq.directory.ldap.settings import parse_settings
from msmq.interfaces.directory import IDirectory
from msmq.interfaces.plugins import DirectoryContext, IDirectoryFactory, IIdentitySource


def ldap_directory(description: str, context: DirectoryContext) -> IDirectory:
    """The directory at C{ldap://[HOST[:PORT][,...]][/BASE]} or C{ldaps://...}, which is not open yet.

    @param context: its options C{bind_dn}, C{password_file}, C{ca_file}, C{dialect} and C{start_tls} count;
        its reactor, which has to be one of Twisted, connects, keeps time and looks up names.
    @raise ValueError: the description or an option is unsuitable, or ldaptor is not installed.
    """
    settings = parse_settings(description, context.options)
    try:
        from msmq.directory.ldap.provider import LdapDirectory
    except ModuleNotFoundError as error:
        raise _missing(error) from error
    return LdapDirectory(settings, context.clock, context.reactor, find_servers=context.find_servers)


def _missing(error: ModuleNotFoundError) -> Exception:
    if (error.name or "").split(".")[0] != "ldaptor":
        return error
    return ValueError("needs ldaptor; install msmq[ldap]")


@implementer(IDirectoryFactory, IIdentitySource)
@attrs.frozen
class LdapDirectoryFactory:
    """C{ldap://[HOST[:PORT][,...]][/BASE]}."""

    name: str = "ldap"
    description: str = "Active Directory, or another LDAP server that knows MSMQ's schema"

    def make_directory(self, argument: str, context: DirectoryContext) -> IDirectory:
        """See L{IDirectoryFactory.make_directory}."""
        return ldap_directory(f"{self.name}:{argument}", context)

    async def identifier_of(
        self, argument: str, computer_name: str, context: DirectoryContext
    ) -> UUID | None:
        """See L{IIdentitySource.identifier_of}."""
        settings = parse_settings(f"{self.name}:{argument}", context.options)
        try:
            from msmq.directory.ldap.identifying import identify
        except ModuleNotFoundError as error:
            raise _missing(error) from error
        return await identify(settings, computer_name, context)


@implementer(IDirectoryFactory, IIdentitySource)
@attrs.frozen
class LdapsDirectoryFactory(LdapDirectoryFactory):
    """C{ldaps://[HOST[:PORT][,...]][/BASE]}, the same over TLS."""

    name: str = "ldaps"
    description: str = "the same over TLS"
