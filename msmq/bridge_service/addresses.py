"""Addresses of RabbitMQ in C{from} and C{to} of a route: C{amqp://HOST/VHOST?exchange=...}."""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit

import attrs

from msmq.bridge_service.rabbitmq.settings import BrokerAddress
from msmq.quoting import quoted

SCHEMES: Final = {"amqp": 5672, "amqps": 5671}
"""Schemes, with their default ports."""

_PARAMETERS: Final = ("exchange", "routing_key", "queue")


@attrs.frozen
class BrokerUrl:
    """A parsed address.

    @ivar user: C{None} without one.
    @ivar exchange: C{None} without one; so are C{routing_key} and C{queue}.
    """

    is_tls: bool
    node: BrokerAddress
    virtual_host: str
    user: str | None = None
    password: str | None = attrs.field(default=None, repr=False)
    exchange: str | None = None
    routing_key: str | None = attrs.field(default=None, repr=False)
    queue: str | None = None


def is_broker_url(text: str) -> bool:
    """Whether a text is the address of a broker, and not that of a queue."""
    return text.partition("://")[0].lower() in SCHEMES


def parse_broker_url(text: str) -> BrokerUrl:
    """Parse an address.

    @raise ValueError: it is invalid; the text has no part of it, since it may have a password.
    """
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise ValueError("is not an address of the form amqp://HOST:PORT/VHOST?...") from None
    if not parts.hostname:
        raise ValueError("has no host; it has to be amqp://HOST:PORT/VHOST?...")
    if parts.fragment:
        raise ValueError("has a part after #; write %23 for the character")
    found = parse_qs(parts.query, keep_blank_values=True)
    for name, values in found.items():
        if name not in _PARAMETERS:
            raise ValueError(f"has the parameter {quoted(name)}; there are {', '.join(_PARAMETERS)}")
        if len(values) > 1:
            raise ValueError(f"has the parameter {name} {len(values)} times")
    path = parts.path.removeprefix("/")
    if "/" in path:
        raise ValueError("has a virtual host with a slash; write %2F for it")
    is_tls = parts.scheme == "amqps"
    return BrokerUrl(
        is_tls,
        BrokerAddress(parts.hostname, port or SCHEMES[parts.scheme]),
        unquote(path) or "/",
        None if parts.username is None else unquote(parts.username),
        None if parts.password is None else unquote(parts.password),
        *(found.get(name, [None])[0] for name in _PARAMETERS),
    )


def parse_node(text: str) -> BrokerAddress:
    """C{HOST:PORT} or C{[IPv6]:PORT}.

    @raise ValueError: it is invalid.
    """
    try:
        parts = urlsplit(f"//{text}")
        if parts.hostname and parts.port and parts.netloc == text and "@" not in text:
            return BrokerAddress(parts.hostname, parts.port)
    except ValueError:
        pass
    raise ValueError(f"must be HOST:PORT, not {quoted(text)}")
