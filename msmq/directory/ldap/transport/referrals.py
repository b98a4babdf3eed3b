"""Referrals of writes by a read-only server. RFC 4511 4.1.10."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

import attrs

from msmq.directory.ldap.settings import LDAP_PORT, LDAPS_PORT, LdapServer, LdapSettings
from msmq.directory.ldap.transport.results import REFERRAL, UNWILLING
from msmq.directory.ldap.transport.wire import Add, Delete, Exchange, Modify, Request, Result

MOST_REFERRALS: Final = 4
"""Limit on the servers of a referral that are tried."""

WRITER_TIME: Final = 300.0
"""Seconds for which reads follow a write to another server, until it is replicated."""

_SHADOW: Final = "shadow context"
"""The text of OpenLDAP for a replica without C{olcUpdateRef}."""


def is_write(request: Request) -> bool:
    """Whether a request changes the directory, and so may be referred to another server."""
    return isinstance(request, Add | Modify | Exchange | Delete)


def is_elsewhere(result: Result) -> bool:
    """Whether a write was referred to another server."""
    return result.code == REFERRAL or (result.code == UNWILLING and _SHADOW in result.message.lower())


def writable_servers(
    result: Result, settings: LdapSettings, known: Sequence[LdapServer], asked: LdapServer | None
) -> list[LdapServer]:
    """The servers that may accept a write, in the order in which they are tried.

    These are the servers of the referral or, if it has no usable name, the other known ones. A known server
    keeps its port. Any other one is used with the settings of the configuration: over TLS if that demands it,
    whatever the URL is.

    @param asked: the server that refers.
    """
    found: dict[LdapServer, None] = {}
    for url in result.referrals[:MOST_REFERRALS]:
        server = _server(url, settings)
        if server is not None:
            same = [each for each in known if each.host.lower() == server.host]
            exact = [each for each in same if each.port == server.port]
            found[(exact or same or [server])[0]] = None
    servers = found or dict.fromkeys(known)
    return [server for server in servers if server != asked][:MOST_REFERRALS]


def settings_for(server: LdapServer, settings: LdapSettings) -> LdapSettings:
    """The settings for requests to another server.

    @raise ValueError: the password would be sent to it without TLS.
    """
    return attrs.evolve(settings, servers=(server,))


def _server(url: str, settings: LdapSettings) -> LdapServer | None:
    try:
        parts = urlsplit(url.strip())
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if parts.scheme.lower() not in ("ldap", "ldaps") or not host or port == 0:
        return None
    usual = LDAPS_PORT if settings.is_tls else LDAP_PORT
    is_same_kind = (parts.scheme.lower() == "ldaps") == settings.is_tls
    return LdapServer(host, port if port and is_same_kind else usual)
