"""Parses the properties of messages, from query parameters and from record headers.

The names are those of a message in JSON, so that a received message can be sent again.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from typing import Any, Final
from uuid import UUID

from msmq.control.protocol.refusals import invalid
from msmq.persistence.send_key import check_key
from msmq.queues.arriving.message import Acknowledge, Delivery, Message
from msmq.quoting import quoted
from msmq.structures.algorithms import AuthenticationLevel, HashAlgorithm, PrivacyLevel
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.names.format_name import FormatName, parse_format_name
from msmq.structures.status import MQError, Status
from msmq.wire.guid import parse_guid

ACKNOWLEDGE: Final = {
    "none": Acknowledge.NONE,
    "reach": Acknowledge.POSITIVE_ARRIVAL,
    "receive": Acknowledge.POSITIVE_RECEIVE,
    "nack-reach": Acknowledge.NEGATIVE_ARRIVAL,
    "full-reach": Acknowledge.NEGATIVE_ARRIVAL | Acknowledge.POSITIVE_ARRIVAL,
    "nack-receive": Acknowledge.NEGATIVE_ARRIVAL | Acknowledge.NEGATIVE_RECEIVE,
    "full-receive": (
        Acknowledge.NEGATIVE_ARRIVAL | Acknowledge.NEGATIVE_RECEIVE | Acknowledge.POSITIVE_RECEIVE
    ),
}
"""AcknowledgementsRequested: the flags of each name. [MS-MQDMPR] 3.1.1.12."""

PRIVACY_LEVELS: Final = {level.name.lower(): level for level in PrivacyLevel}
"""PrivacyLevel, by its names. [MS-MQDMPR] 3.1.1.12."""

LARGEST: Final = (1 << 63) - 1
"""The largest number that a store can hold."""

_LONGEST_SHOWN: Final = 100
_DIGITS: Final = re.compile(r"[0-9]{1,20}")
_FLAGS: Final = {"true": True, "1": True, "": True, "false": False, "0": False}


def shown(value: object) -> str:
    """Quote a refused value in an error, shortened."""
    return quoted(value, _LONGEST_SHOWN)


def text(name: str, value: object) -> str:
    """Parse a text property."""
    if not isinstance(value, str):
        raise invalid(f"{name} is text, not {shown(value)}")
    return value


def number(name: str, value: object) -> int:
    """Parse a non-negative integer property."""
    found = int(value) if isinstance(value, str) and _DIGITS.fullmatch(value) else value
    if not isinstance(found, int) or isinstance(found, bool) or not 0 <= found <= LARGEST:
        raise invalid(f"{name} is a whole number from 0 to {LARGEST}, not {shown(value)}")
    return found


def flag(name: str, value: object) -> bool:
    """Parse a boolean property; a query parameter without a value is true."""
    if isinstance(value, bool):
        return value
    found = _FLAGS.get(value.lower()) if isinstance(value, str) else None
    if found is None:
        raise invalid(f"{name} is true or false, not {shown(value)}")
    return found


def seconds(name: str, value: object) -> float:
    """Parse a duration: non-negative seconds, with or without decimals."""
    try:
        found = float(value) if isinstance(value, str | int | float) else -1.0
    except (ValueError, OverflowError):
        found = -1.0
    if not 0 <= found < float("inf"):
        raise invalid(f"{name} is a number of seconds from 0 on, not {shown(value)}")
    return found


def _delivery(name: str, value: object) -> Delivery:
    try:
        return Delivery(value)
    except ValueError:
        raise invalid(f"{name} is express or recoverable, not {shown(value)}") from None


def _privacy_level(name: str, value: object) -> PrivacyLevel:
    level = PRIVACY_LEVELS.get(value) if isinstance(value, str) else None
    if level is None:
        raise invalid(f"{name} is {', '.join(PRIVACY_LEVELS)}, not {shown(value)}")
    return level


def _acknowledge(name: str, value: object) -> Acknowledge:
    found = Acknowledge.NONE
    for word in value if isinstance(value, list) else text(name, value).split(","):
        asked = ACKNOWLEDGE.get(word.strip()) if isinstance(word, str) else None
        if asked is None:
            raise invalid(f"{name} has {', '.join(ACKNOWLEDGE)}, not {shown(word)}")
        found |= asked
    return found


def _format_name(name: str, value: object) -> FormatName | None:
    if value is None or value == "":
        return None
    try:
        return parse_format_name(text(name, value))
    except MQError as error:
        raise MQError(error.status, f"{name}: {error.detail}") from error


def _path(name: str, value: object) -> str:
    return "" if value is None else text(name, value)


def _correlation(name: str, value: object) -> bytes:
    return MessageIdentifier.parse(text(name, value)).to_bytes()


def _base64(name: str, value: object) -> bytes:
    try:
        return base64.b64decode(text(name, value), validate=True)
    except ValueError:
        raise invalid(f"{name} is not base64") from None


def guid(name: str, value: object) -> UUID:
    """Parse a GUID property, with or without braces."""
    try:
        return parse_guid(text(name, value))
    except ValueError:
        raise MQError(
            Status.MQ_ERROR_ILLEGAL_PROPERTY_VALUE, f"{name} is not a GUID: {shown(value)}"
        ) from None


def _guid(name: str, value: object) -> UUID | None:
    return None if value is None else guid(name, value)


_SIGNATURES: Final[Mapping[object, AuthenticationLevel]] = {
    "1.0": AuthenticationLevel.SIG_1_0,
    "2.0": AuthenticationLevel.SIG_2_0,
    "3.0": AuthenticationLevel.SIG_3_0,
}
_HASHES: Final[Mapping[object, HashAlgorithm]] = {
    algorithm.name.lower().replace("sha_", "sha"): algorithm for algorithm in HashAlgorithm
}


def _signature(name: str, value: object) -> AuthenticationLevel:
    if not isinstance(value, str) or value not in _SIGNATURES:
        raise invalid(f"{name} is {', '.join(map(str, _SIGNATURES))}, not {shown(value)}")
    return _SIGNATURES[value]


def _hash(name: str, value: object) -> HashAlgorithm:
    if not isinstance(value, str) or value not in _HASHES:
        raise invalid(f"{name} is {', '.join(map(str, _HASHES))}, not {shown(value)}")
    return _HASHES[value]


_ARGUMENTS: Final[Mapping[str, str]] = {
    "extension_base64": "extension",
    "sign": "authentication_level",
    "hash": "hash_algorithm",
    "certificate": "sender_certificate",
}
"""The field names in L{Message} of properties with other names."""

PROPERTIES: Final[Mapping[str, Callable[[str, object], Any]]] = {
    "label": text,
    "body_type": number,
    "priority": number,
    "delivery": _delivery,
    "transactional": flag,
    "time_to_reach_queue": number,
    "time_to_be_received": number,
    "journal": flag,
    "dead_letter": flag,
    "dead_letter_queue": _path,
    "acknowledge": _acknowledge,
    "admin_queue": _format_name,
    "response_queue": _format_name,
    "correlation_id": _correlation,
    "application_tag": number,
    "extension_base64": _base64,
    "trace": _guid,
    "privacy_level": _privacy_level,
    "sign": _signature,
    "hash": _hash,
    "certificate": text,
}
"""The properties that a sender chooses, with their parsers."""


def read_properties(properties: Mapping[str, object], *, is_recoverable: bool = False) -> dict[str, Any]:
    """Convert properties to the arguments of L{Message}, without the body.

    @param is_recoverable: the default without C{delivery}. A message with a key is recoverable if the store
        is durable, since a key cannot prevent a duplicate after a restart that loses it.
    @raise MQError: a property is unknown, or its value is invalid.
    """
    arguments: dict[str, Any] = {"delivery": Delivery.RECOVERABLE} if is_recoverable else {}
    for name, value in properties.items():
        read = PROPERTIES.get(name)
        if read is None:
            raise invalid(f"a message has no property {quoted(name)}; it has {', '.join(PROPERTIES)}")
        arguments[_ARGUMENTS.get(name, name)] = read(name, value)
    return arguments


def read_key(value: object) -> str | None:
    """The idempotency key of a send, if any; it is not a property of the message."""
    if value is None:
        return None
    key = text("key", value)
    check_key(key)
    return key


def read_message(properties: Mapping[str, object], body: bytes, *, is_recoverable: bool = False) -> Message:
    """Build the message to send.

    @param is_recoverable: as L{read_properties}.
    @raise MQError: a property is unknown, or its value is out of range.
    """
    return Message(body=body, **read_properties(properties, is_recoverable=is_recoverable))
