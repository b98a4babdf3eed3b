"""Address of a PostgreSQL store: a libpq URL with two options of msmq."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, unquote

import attrs
from psycopg import ProgrammingError, pq
from psycopg.conninfo import conninfo_to_dict

from msmq.quoting import quoted

SCHEMA: Final = "msmq"
"""Default schema of the tables."""

WAIT: Final = 30.0
"""Default time that commits wait for an unavailable database, in seconds."""

_SCHEMA_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_LONGEST_WAIT: Final = 3600.0
_SECRETS: Final = ("password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key")
_FORM: Final = "must be postgresql://[USER@]HOST[:PORT]/DATABASE[?OPTION=VALUE&...]"
_SPECIAL: Final = (
    f"{_FORM}; a special character in a name or a password is written as %XX, an IPv6 address in brackets"
)


@attrs.frozen
class Address:
    """Schema of a database, and its connection parameters.

    @ivar text: readable text: user, host, port, database and schema, without secrets.
    @ivar schema: the schema of the tables.
    @ivar wait: seconds that commits wait for an unavailable database.
    @ivar parameters: connection parameters of libpq, the password included.
    """

    text: str
    schema: str
    wait: float
    parameters: Mapping[str, str] = attrs.field(repr=False)

    def without_secrets(self, text: str) -> str:
        """Remove every secret of the address from a text."""
        for name in _SECRETS:
            if secret := self.parameters.get(name):
                text = text.replace(secret, "***")
        return text


def parse_address(argument: str) -> Address:
    """Parse the text after C{postgresql:}; empty text means libpq's default database.

    @raise ValueError: it is not a valid URL; the text has no secret.
    """
    base, _, query = (argument or "//").partition("?")
    if not base.startswith("//"):
        raise ValueError(_FORM)
    if "@" in base[2:].partition("/")[2] or "@" in query:
        # Otherwise a part of the password would be shown as the host.
        raise ValueError(_SPECIAL)
    own: dict[str, str] = {}
    others: list[str] = []
    for option in filter(None, query.split("&")):
        name, mark, value = option.partition("=")
        if name in ("schema", "wait"):
            own[name] = unquote(value)
        elif not mark or name not in _known():
            raise ValueError(f"{_plain(name)} is not an option of a PostgreSQL URL, or has no value")
        else:
            others.append(option)
    try:
        found = conninfo_to_dict(f"postgresql:{base}" + (f"?{'&'.join(others)}" if others else ""))
    except ProgrammingError:
        # The error of libpq quotes the URL, password included.
        raise ValueError(_SPECIAL) from None
    parameters = {name: str(value) for name, value in found.items() if value is not None}
    for port in filter(None, parameters.get("port", "").split(",")):
        if not port.isdecimal() or len(port) > 5 or not 1 <= int(port) <= 65535:
            raise ValueError("the port must be a number from 1 to 65535")
    schema = own.get("schema", SCHEMA)
    if not _SCHEMA_NAME.fullmatch(schema) or schema.lower().startswith("pg_"):
        raise ValueError(
            f"schema {quoted(schema)} must have 1 to 63 letters, digits and underscores,"
            " must not begin with a digit and not with pg_"
        )
    return Address(_text(parameters, schema), schema, _wait(own.get("wait")), parameters)


def _wait(text: str | None) -> float:
    if text is None:
        return WAIT
    try:
        wait = float(text)
    except ValueError:
        wait = math.nan
    if not 0 < wait <= _LONGEST_WAIT:
        raise ValueError(f"wait must be a number of seconds, at most {_LONGEST_WAIT:g}, not {quoted(text)}")
    return wait


def _plain(name: str) -> str:
    """A name for an error text, unless it may be a part of a secret."""
    return repr(name) if re.fullmatch("[a-z_]{1,40}", name) else "what follows the question mark"


def _known() -> set[str]:
    """Names of the connection options of libpq."""
    return {option.keyword.decode() for option in pq.Conninfo.get_defaults()}


def _text(parameters: Mapping[str, str], schema: str) -> str:
    user = parameters.get("user", "")
    host = parameters.get("host", parameters.get("hostaddr", ""))
    port = parameters.get("port", "")
    options = {}
    if "/" in host:
        # The directory of a unix socket.
        options["host"], host = host, ""
    if schema != SCHEMA:
        options["schema"] = schema
    return "".join(
        (
            "postgresql://",
            f"{quote(user)}@" if user else "",
            f"[{host}]" if ":" in host else host,
            f":{port}" if port else "",
            f"/{quote(parameters.get('dbname', ''))}",
            "?" if options else "",
            "&".join(f"{name}={value}" for name, value in options.items()),
        )
    )
