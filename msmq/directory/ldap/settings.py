"""Where a directory is and how it is spoken to, from a configuration."""

from __future__ import annotations

import enum
import ipaddress
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import attrs

from msmq.directory.ldap.names import DistinguishedNameError, split

LDAP_PORT: Final = 389
LDAPS_PORT: Final = 636

CONNECT_TIMEOUT: Final = 10.0
"""Seconds that a server has until it can be asked, names, TLS and credentials included."""

ANSWER_TIMEOUT: Final = 30.0
"""Seconds that a server has for the whole answer to one request."""


class Dialect(enum.Enum):
    """What makes the attributes that every object has: its GUID, its times, its security descriptor."""

    ACTIVE_DIRECTORY = "active-directory"
    OPENLDAP = "openldap"


@attrs.frozen
class LdapSettings:
    """Where a directory is and how it is spoken to.

    @ivar is_tls: TLS from the first byte on, as C{ldaps:} has it.
    @ivar starts_tls: TLS after the first request, on the port of C{ldap:}.
    @ivar base: the distinguished name of the domain; empty for that which the server names.
    @ivar bind_name: who we are: a distinguished name or, for Active Directory, C{name@domain}; empty for
        nobody.
    @ivar password_file: it holds the password and nothing else, but for one line end.
    @ivar ca_file: the certificates, PEM, of those who vouch for the server; those of the system otherwise.
    @ivar dialect: C{None} for what the server says of itself.
    @ivar may_be_plain: a password may be sent over a network that others listen to.
    @ivar connect_timeout: seconds until a server counts as one that cannot be reached.
    @ivar answer_timeout: the same for one that is reached and does not answer.
    """

    host: str
    port: int
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

    def __attrs_post_init__(self) -> None:
        if bool(self.bind_name) != (self.password_file is not None):
            raise ValueError("bind_dn and password_file belong together")
        if self.is_tls and self.starts_tls:
            raise ValueError("ldaps: is TLS already; start_tls is for ldap:")
        if self.bind_name and not self.is_encrypted and not self.may_be_plain and not _is_loopback(self.host):
            raise ValueError(
                f"the password would go to {self.host} for all to read; use ldaps: or start_tls = true"
            )

    @property
    def is_encrypted(self) -> bool:
        """Whether there is TLS."""
        return self.is_tls or self.starts_tls

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'ldaps' if self.is_tls else 'ldap'}://{host}:{self.port}/{self.base}"


def parse_settings(description: str, options: Mapping[str, object]) -> LdapSettings:
    """What C{ldap://HOST[:PORT][/BASE]} and the keys of C{[directory]} say.

    @param options: C{bind_dn}, C{password_file}, C{ca_file}, C{dialect} and C{start_tls}; others are not
        looked at.
    @raise ValueError: something is wrong; its text tells what.
    """
    try:
        parts = urlsplit(description)
        port = parts.port
    except ValueError as error:
        raise ValueError(f"{description}: {error}") from error
    if parts.scheme not in ("ldap", "ldaps"):
        raise ValueError(f"{description} is neither ldap: nor ldaps:")
    if not parts.hostname:
        raise ValueError("needs a host, as in ldap://dc.example.com/dc=example,dc=com")
    if parts.username is not None or parts.password is not None:
        raise ValueError("who we are is told by bind_dn and password_file")
    if parts.query or parts.fragment:
        raise ValueError("takes a host and a base, and nothing behind it")
    base = unquote(parts.path.removeprefix("/"))
    try:
        split(base)
    except DistinguishedNameError as error:
        raise ValueError(f"the base {base!r} is no distinguished name: {error}") from error
    is_tls = parts.scheme == "ldaps"
    return LdapSettings(
        parts.hostname,
        port or (LDAPS_PORT if is_tls else LDAP_PORT),
        base,
        is_tls,
        starts_tls=_flag(options, "start_tls"),
        bind_name=_text(options, "bind_dn"),
        password_file=_path(options, "password_file"),
        ca_file=_path(options, "ca_file"),
        dialect=_dialect(_text(options, "dialect")),
    )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


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
        raise ValueError(f"dialect {text!r} is not {known}") from error
