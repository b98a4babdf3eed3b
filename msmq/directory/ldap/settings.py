"""Settings of an LDAP directory: servers, base, credentials, TLS."""

from __future__ import annotations

import enum
import ipaddress
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import attrs

from msmq.directory.ldap.names import DistinguishedNameError, split
from msmq.quoting import quoted

LDAP_PORT: Final = 389
LDAPS_PORT: Final = 636

CONNECT_TIMEOUT: Final = 10.0
"""Seconds to connect to each server, including name resolution, TLS and bind."""

LONGEST_PRINCIPAL: Final = 1024

ANSWER_TIMEOUT: Final = 30.0
"""Seconds within which a server has to return the whole answer to one request."""


class Dialect(enum.Enum):
    """The kind of server, which determines how GUID, times and security descriptor of objects are stored."""

    ACTIVE_DIRECTORY = "active-directory"
    OPENLDAP = "openldap"


@attrs.frozen
class LdapServer:
    """One of the servers of a directory."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_local(self) -> bool:
        """Whether it is on this computer."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


@attrs.frozen
class LdapSettings:
    """Servers, base, credentials and TLS of an LDAP directory.

    @ivar servers: the configured ones, in the order in which they are tried; if there are none, they are
        discovered.
    @ivar port: of servers without a port of their own.
    @ivar is_tls: TLS from the first byte on, as C{ldaps:} has it.
    @ivar starts_tls: TLS after the first request, on the port of C{ldap:}.
    @ivar base: the distinguished name of the domain; empty for the server's default.
    @ivar bind_name: the account: a distinguished name or, for Active Directory, C{name@domain}; empty for an
        anonymous bind.
    @ivar password_file: a file with the password, and perhaps one line end.
    @ivar keytab: a file with the key of the account for a Kerberos bind, in place of a name and a
        password.
    @ivar principal: of the account in the keytab; empty for the only one there.
    @ivar ca_file: the certificates, PEM, of trusted authorities; by default those of the system.
    @ivar dialect: C{None} to detect it.
    @ivar may_be_plain: a password may be sent over a network without encryption.
    @ivar connect_timeout: seconds after which a server counts as unreachable.
    @ivar answer_timeout: seconds after which a connected server without an answer counts as unreachable.
    """

    servers: tuple[LdapServer, ...]
    base: str = ""
    is_tls: bool = False
    starts_tls: bool = False
    bind_name: str = ""
    password_file: Path | None = None
    ca_file: Path | None = None
    dialect: Dialect | None = None
    may_be_plain: bool = False
    connect_timeout: float = CONNECT_TIMEOUT
    answer_timeout: float = ANSWER_TIMEOUT
    port: int = LDAP_PORT
    keytab: Path | None = None
    principal: str = ""

    def __attrs_post_init__(self) -> None:
        if bool(self.bind_name) != (self.password_file is not None):
            raise ValueError("bind_dn and password_file belong together")
        if self.is_tls and self.starts_tls:
            raise ValueError("ldaps: is TLS already; start_tls is for ldap:")
        self._check_keytab()
        if not self.bind_name:
            return
        for server in self.servers:
            if not self.is_encrypted and not self.may_be_plain and not server.is_local:
                raise ValueError(
                    f"the password would be sent to {server.host} unencrypted; use ldaps: or start_tls = true"
                )
        if not self.servers and not (self.is_encrypted and self.ca_file):
            # Any host can answer the broadcast, and may have a certificate of a public authority.
            raise ValueError(
                "the password would be sent to an unauthenticated server;"
                " use ldaps: or start_tls = true, and a ca_file of your own"
            )

    def _check_keytab(self) -> None:
        if self.keytab is None:
            if self.principal:
                raise ValueError("principal names a key of a keytab; set keytab too")
            return
        if self.bind_name:
            raise ValueError("keytab replaces bind_dn and password_file; remove one or the other")
        if len(self.principal) > LONGEST_PRINCIPAL or not self.principal.isprintable():
            raise ValueError(f"principal takes at most {LONGEST_PRINCIPAL} printable characters")
        if self.is_encrypted or (self.servers and all(server.is_local for server in self.servers)):
            return
        # Kerberos authenticates the connection once; only TLS keeps others from changing what follows.
        raise ValueError("a bind with a keytab needs TLS; use ldaps: or start_tls = true")

    @property
    def is_encrypted(self) -> bool:
        """Whether there is TLS."""
        return self.is_tls or self.starts_tls

    def __str__(self) -> str:
        default = LDAPS_PORT if self.is_tls else LDAP_PORT
        servers = ",".join(map(str, self.servers)) or ("" if self.port == default else f":{self.port}")
        return f"{'ldaps' if self.is_tls else 'ldap'}://{servers}/{self.base}"


def parse_settings(description: str, options: Mapping[str, object]) -> LdapSettings:
    """Parse C{ldap://[HOST[:PORT][,...]][/BASE]} and the keys of C{[directory]}.

    @param options: C{bind_dn}, C{password_file}, C{keytab}, C{principal}, C{ca_file}, C{dialect} and
        C{start_tls}; others are ignored.
    @raise ValueError: a value is invalid; the text says which.
    """
    scheme, separator, rest = description.partition("://")
    if scheme not in ("ldap", "ldaps") or not separator:
        raise ValueError(
            "needs the servers, as in ldap://dc1.example.com,dc2.example.com/dc=example,dc=com,"
            " or ldap:///dc=example,dc=com to discover them"
        )
    hosts, _, path = rest.partition("/")
    if "?" in rest or "#" in rest:
        raise ValueError("takes servers and a base, and nothing after it")
    base = unquote(path)
    try:
        split(base)
    except DistinguishedNameError as error:
        raise ValueError(f"the base {quoted(base)} is not a distinguished name: {error}") from error
    is_tls = scheme == "ldaps"
    default = LDAPS_PORT if is_tls else LDAP_PORT
    port, servers = _servers(hosts, default)
    return LdapSettings(
        tuple(servers),
        base,
        is_tls,
        starts_tls=_flag(options, "start_tls"),
        bind_name=_text(options, "bind_dn"),
        password_file=_path(options, "password_file"),
        ca_file=_path(options, "ca_file"),
        dialect=_dialect(_text(options, "dialect")),
        port=port,
        keytab=_path(options, "keytab"),
        principal=_text(options, "principal"),
    )


def _servers(text: str, default: int) -> tuple[int, Sequence[LdapServer]]:
    """The port for discovered servers, and the configured servers."""
    if text.startswith(":") and "," not in text:
        # A port without a host is the port of discovered servers.
        return _server(f"any{text}", default).port, ()
    servers = dict.fromkeys(_server(each, default) for each in text.split(",")) if text else {}
    return default, list(servers)


def _server(text: str, default: int) -> LdapServer:
    if "@" in text:
        raise ValueError("set credentials with bind_dn and password_file, or with keytab")
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise ValueError(f"{text}: {error}") from error
    if not host or port == 0:
        raise ValueError(f"{quoted(text)} is not a HOST[:PORT]")
    return LdapServer(host, port or default)


def _text(options: Mapping[str, object], key: str) -> str:
    value = options.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError(f"{key} has to be a text")
    return value


def _path(options: Mapping[str, object], key: str) -> Path | None:
    value = options.get(key)
    if isinstance(value, Path):
        return value
    text = _text(options, key)
    return Path(text) if text else None


def _flag(options: Mapping[str, object], key: str) -> bool:
    value = options.get(key, False)
    if not isinstance(value, bool):
        raise ValueError(f"{key} has to be true or false")
    return value


def _dialect(text: str) -> Dialect | None:
    if not text:
        return None
    try:
        return Dialect(text)
    except ValueError as error:
        known = " or ".join(f'"{each.value}"' for each in Dialect)
        raise ValueError(f"dialect {quoted(text)} is not {known}") from error
