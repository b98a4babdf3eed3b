"""Checks a configured LDAP directory before a server runs."""

from __future__ import annotations

from typing import Any, Final

import attrs

from msmq.directory.ldap.settings import LdapSettings
from msmq.directory.ldap.transport.certificates import LdapConfigurationError
from msmq.directory.ldap.transport.connection import LdapConnection
from msmq.interfaces.directory import DirectoryError

TIMEOUT: Final = 5.0
"""Seconds within which each server has to answer."""


async def probe(settings: LdapSettings, reactor: Any) -> str:
    """Bind to a server, and look up the base.

    @return: empty if that succeeds, otherwise why no server can be reached.
    @raise ValueError: a file cannot be used, the account is refused, the certificate of the server is not
        trusted, or there is no such base.
    """
    connection = LdapConnection(attrs.evolve(settings, connect_timeout=TIMEOUT), reactor)
    try:
        await connection.check()
        if settings.servers:
            await connection.root()
    except LdapConfigurationError as error:
        raise ValueError(str(error)) from error
    except DirectoryError as error:
        if connection.is_refused:
            raise ValueError(error.detail) from error
        return error.detail
    finally:
        connection.close()
    return ""
