"""Addresses of brokers in C{from} and C{to} of a route: C{SCHEME://HOST:PORT,HOST:PORT/PATH?NAME=VALUE}."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import parse_qs, unquote, urlsplit

import attrs

from msmq.bridge_service.broker_settings import BrokerAddress
from msmq.quoting import quoted


@attrs.frozen
class BrokerUrl:
    """A parsed address.

    @ivar path: what follows the slash behind the hosts, still with its percent signs; empty without one.
    @ivar user: C{None} without one.
    """

    scheme: str
    nodes: tuple[BrokerAddress, ...]
    path: str = attrs.field(repr=False)
    user: str | None
    password: str | None = attrs.field(repr=False)
    parameters: Mapping[str, str] = attrs.field(repr=False)


def scheme_of(text: str) -> str:
    """The scheme of an address in lower case; empty for the name of a queue."""
    scheme, separator, _ = text.partition("://")
    return scheme.lower() if separator else ""


def parse_url(text: str, port: int, form: str, parameters: Sequence[str]) -> BrokerUrl:
    """Parse an address.

    @param port: for hosts without one.
    @param form: the form that it should have, for errors.
    @param parameters: the names of its parameters.
    @raise ValueError: it is invalid; the text has no part of it, since it may have a password.
    """
    scheme, _, rest = text.partition("://")
    # Several hosts are not what urlsplit knows as a network location.
    end = next((index for index, character in enumerate(rest) if character in "/?#"), len(rest))
    login, _, hosts = rest[:end].rpartition("@")
    path, _, query = rest[end:].partition("?")
    user, has_password, password = login.partition(":")
    try:
        nodes = tuple(_address(host, port) for host in hosts.split(","))
    except ValueError:
        raise ValueError(f"has no valid host; it has to be {form}") from None
    if "#" in rest:
        raise ValueError("has a part after #; write %23 for the character")
    found = parse_qs(query, keep_blank_values=True)
    for name, values in found.items():
        if name not in parameters:
            raise ValueError(f"has the parameter {quoted(name)}; there are {', '.join(parameters)}")
        if len(values) > 1:
            raise ValueError(f"has the parameter {name} {len(values)} times")
    return BrokerUrl(
        scheme.lower(),
        nodes,
        path.removeprefix("/"),
        unquote(user) if login else None,
        unquote(password) if has_password else None,
        {name: values[0] for name, values in found.items()},
    )


def parse_node(text: str) -> BrokerAddress:
    """C{HOST:PORT} or C{[IPv6]:PORT}.

    @raise ValueError: it is invalid.
    """
    try:
        return _address(text, 0)
    except ValueError:
        raise ValueError(f"must be HOST:PORT, not {quoted(text)}") from None


def _address(text: str, port: int) -> BrokerAddress:
    """A host, with a port unless there is one by default."""
    parts = urlsplit(f"//{text}")
    if not parts.hostname or parts.netloc != text or "@" in text or not (parts.port or port):
        raise ValueError("is not a host")
    return BrokerAddress(parts.hostname, parts.port or port)
