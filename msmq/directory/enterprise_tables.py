"""Schema of the enterprise file: its tables, their keys, and the parsers of their values."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Final

import attrs

from msmq.errors import RemoteProtocolError
from msmq.quoting import quoted
from msmq.structures.directory.public_keys import MqdsPublicKeys
from msmq.structures.names.path_name import PathKind, parse_path_name
from msmq.structures.status import MQError
from msmq.toml.value_kinds import (
    Flag,
    Guid,
    Text,
    ValueKind,
    WholeNumber,
    WholeSeconds,
    computer_name,
    type_name,
)
from msmq.wire.sid import parse_sid


def _whole(text: str) -> None:
    if not text or "\0" in text:
        raise ValueError("must be text of at least one character")


def _public_path(text: str) -> None:
    try:
        path = parse_path_name(text)
    except MQError as error:
        raise ValueError(error.detail or str(error)) from error
    if path.kind is not PathKind.PUBLIC or path.computer == ".":
        raise ValueError(
            f"must name a public queue with its computer, such as ALPHA\\orders, not {quoted(text)}"
        )


def _address(text: str) -> None:
    host, colon, port = text.rpartition(":")
    if not colon or (":" in host and not host.endswith("]")):
        host = text
    elif not (port.isascii() and port.isdigit() and len(port) <= 5 and 1 <= int(port) <= 65535):
        raise ValueError(f"names the port {quoted(port)}, which is not a number from 1 to 65535")
    try:
        ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        raise ValueError(f"must be IP, IP:PORT or [IPv6]:PORT, not {quoted(text)}") from None


def _sid(text: str) -> None:
    parse_sid(text)


def read_public_keys(text: str) -> MqdsPublicKeys:
    """Parse public keys, as a queue manager writes them into its data directory. [MS-MQMQ] 2.2.2.

    @raise ValueError: it is not the base64 of an MQDSPUBLICKEYS.
    """
    try:
        return MqdsPublicKeys.from_bytes(base64.b64decode(text.strip(), validate=True))
    except (ValueError, RemoteProtocolError) as error:
        raise ValueError(f"must be the content of a file keys/encryption-keys.txt: {error}") from error


def _control(text: str) -> None:
    kind, _, rest = text.partition(":")
    if kind not in ("ssl", "tls", "tcp", "unix") or not rest or "\0" in text:
        raise ValueError(f"must be a control endpoint as ssl:HOST:PORT, not {quoted(text)}")
    if "tokenFile=" in rest:
        raise ValueError("must not contain tokenFile; the caller sets the token file")


def _public_keys(text: str) -> None:
    read_public_keys(text)


_FLAG: Final = Flag()
GUID: Final = Guid()
_NAME: Final = Text(_whole, "a name")
_COMPUTER: Final = Text(computer_name, "a computer name")


@attrs.frozen
class _References:
    """An array of names or GUIDs of other things in the file."""

    type_name: str = "an array"
    range_text: str = "names or GUIDs"

    def read(self, value: object) -> tuple[str, ...]:
        if not isinstance(value, list):
            raise ValueError(f"must be an array of names or GUIDs, not {type_name(value)}")
        for element in value:
            if not isinstance(element, str):
                raise ValueError(f"must hold names or GUIDs, not {type_name(element)}")
        return tuple(value)


_REFERENCES: Final = _References()

TABLES: Final[Mapping[str, Mapping[str, ValueKind]]] = {
    "enterprise": {"id": GUID, "name": _NAME, "default_time_to_live": WholeSeconds(0, 0xFFFFFFFF)},
    "site": {"name": _NAME, "id": GUID, "foreign": _FLAG},
    "link": {
        "sites": _REFERENCES,
        # Routing checks the range of costs, so that all problems are reported together.
        "cost": WholeNumber(-(1 << 63), (1 << 63) - 1),
        "gates": _REFERENCES,
        "description": _NAME,
    },
    "queue_manager": {
        "encryption_keys": Text(_public_keys, "the content of a file of public keys"),
        "name": _COMPUTER,
        "id": GUID,
        "dns_name": _COMPUTER,
        "address": Text(_address, "IP, IP:PORT or [IPv6]:PORT"),
        "control": Text(_control, "a control endpoint, as ssl:HOST:PORT"),
        "sites": _REFERENCES,
        "routing_server": _FLAG,
        "in_routing_servers": _REFERENCES,
        "out_routing_servers": _REFERENCES,
        "connected_networks": _REFERENCES,
    },
    "queue": {"path": Text(_public_path, "the path of a public queue"), "id": GUID},
    "user": {
        "sid": Text(_sid, "a SID"),
        "name": _NAME,
        "groups": _REFERENCES,
        "certificates": _REFERENCES,
    },
    "group": {"sid": Text(_sid, "a SID"), "name": _NAME, "groups": _REFERENCES},
}
"""The tables of a file and the keys of each, with the values that they take."""

REQUIRED: Final[Mapping[str, tuple[str, ...]]] = {
    "enterprise": ("id",),
    "site": ("name", "id"),
    "link": ("sites", "cost"),
    "queue_manager": ("name", "id", "sites"),
    "queue": ("path", "id"),
    "user": ("sid",),
    "group": ("sid", "name"),
}
