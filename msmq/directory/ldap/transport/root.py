"""RootDSE of an LDAP server: its naming contexts and its dialect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from msmq.directory.ldap.names import SERVICES, child
from msmq.directory.ldap.settings import Dialect, LdapSettings
from msmq.directory.ldap.transport.wire import Entry
from msmq.membership.attributes import DirectoryObject
from msmq.membership.objects import EnterpriseObject, RoutingLinkObject, SiteObject

ROOT_ATTRIBUTES: Final = (
    "defaultNamingContext",
    "configurationNamingContext",
    "rootDomainNamingContext",
    "supportedCapabilities",
    "namingContexts",
)

_ACTIVE_DIRECTORY: Final = b"1.2.840.113556.1.4.800"

_TIMES: Final = {
    Dialect.ACTIVE_DIRECTORY: {"create_time": "whenCreated", "modify_time": "whenChanged"},
    Dialect.OPENLDAP: {"create_time": "createTimestamp", "modify_time": "modifyTimestamp"},
}


class UnsuitableServerError(ValueError):
    """The RootDSE of a server lacks its naming contexts."""


@attrs.frozen
class Root:
    """The naming contexts of a server.

    @ivar domain: the distinguished name below which computers and users are.
    @ivar configuration: [MS-MQDSSM] 3.1.1.5 CachedConfigurationNamingContext.
    @ivar root_domain: the name of the enterprise ([MS-MQDSSM] 3.1.6.11.3.1).
    """

    dialect: Dialect
    domain: str
    configuration: str
    root_domain: str

    @property
    def times(self) -> Mapping[str, str]:
        """The server's attributes for C{create_time} and C{modify_time}."""
        return _TIMES[self.dialect]

    @property
    def makes_identifiers(self) -> bool:
        """Whether the server assigns the objectGUID of new entries."""
        return self.dialect is Dialect.ACTIVE_DIRECTORY

    @property
    def sites(self) -> str:
        """The parent of the sites."""
        return child("Sites", self.configuration)

    @property
    def services(self) -> str:
        """The mSMQEnterpriseSettings, the parent of the routing links."""
        return child(SERVICES, child("Services", self.configuration))

    @property
    def computers(self) -> str:
        """The parent of new computers."""
        return child("Computers", self.domain)

    def base_of(self, of: type[DirectoryObject]) -> str:
        """BaseDN of searches for objects of a type. [MS-MQDSSM] 3.1.6.15.

        For queue managers, queues and users the document names the configuration, where they never are.
        """
        if of is SiteObject:
            return self.sites
        if of is RoutingLinkObject:
            return self.services
        if of is EnterpriseObject:
            return child("Services", self.configuration)
        return self.domain


def read_root(entry: Entry, settings: LdapSettings) -> Root:
    """Parse the RootDSE. [MS-MQDSSM] 3.1.3.

    @raise UnsuitableServerError: it lacks a value that the settings lack too.
    """
    is_active = _ACTIVE_DIRECTORY in entry.all("supportedCapabilities")
    dialect = settings.dialect or (Dialect.ACTIVE_DIRECTORY if is_active else Dialect.OPENLDAP)
    domain = settings.base or _text(entry, "defaultNamingContext")
    if not domain:
        contexts = entry.all("namingContexts")
        if len(contexts) != 1:
            raise UnsuitableServerError(f"the server has {len(contexts)} naming contexts; name one of them")
        domain = contexts[0].decode(errors="replace")
    root_domain = _text(entry, "rootDomainNamingContext") or domain
    configuration = _text(entry, "configurationNamingContext") or child("Configuration", root_domain)
    if dialect is Dialect.OPENLDAP:
        root_domain, configuration = domain, child("Configuration", domain)
    return Root(dialect, domain, configuration, root_domain)


def _text(entry: Entry, attribute: str) -> str:
    return (entry.first(attribute) or b"").decode(errors="replace")
