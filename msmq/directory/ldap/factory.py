"""From C{ldap://...} in a configuration to the directory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
from zope.interface import implementer

from msmq.directory.ldap.settings import parse_settings
from msmq.interfaces.clock import IClock
from msmq.interfaces.directory import IDirectory
from msmq.interfaces.plugins import DirectoryContext, IDirectoryFactory


def ldap_directory(
    description: str, options: Mapping[str, object], clock: IClock, reactor: Any
) -> IDirectory:
    """The directory at C{ldap://HOST[:PORT][/BASE]} or C{ldaps://...}, which is not open yet.

    @param options: the keys C{bind_dn}, C{password_file}, C{ca_file}, C{dialect} and C{start_tls} of
        C{[directory]}.
    @param reactor: of Twisted: connects, keeps time and looks up names.
    @raise ValueError: the description or an option is unsuitable, or ldaptor is not installed.
    """
    settings = parse_settings(description, options)
    try:
        from msmq.directory.ldap.provider import LdapDirectory
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "ldaptor":
            raise
        raise ValueError("needs ldaptor; install msmq[ldap]") from error
    return LdapDirectory(settings, clock, reactor)


@implementer(IDirectoryFactory)
@attrs.frozen
class LdapDirectoryFactory:
    """C{ldap://HOST[:PORT][/BASE]}."""

    name: str = "ldap"
    description: str = "Active Directory, or another LDAP server that knows MSMQ's schema"

    def make_directory(self, argument: str, context: DirectoryContext) -> IDirectory:
        """See L{IDirectoryFactory.make_directory}."""
        return ldap_directory(f"{self.name}:{argument}", context.options, context.clock, context.reactor)


@implementer(IDirectoryFactory)
@attrs.frozen
class LdapsDirectoryFactory(LdapDirectoryFactory):
    """C{ldaps://HOST[:PORT][/BASE]}, the same over TLS."""

    name: str = "ldaps"
    description: str = "the same over TLS"
