"""Types of the attributes of a message that a caller sends. [MS-MQDMPR] 3.1.1.12."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final
from uuid import UUID

from msmq.quoting import kind_of
from msmq.structures.names.format_name import FormatName
from msmq.structures.status import MQError, Status

_BYTES: Final = ((bytes, bytearray, memoryview), "bytes")
_TEXT: Final = ((str,), "a str")
_NUMBER: Final = ((int,), "an int")
_SECONDS: Final = ((int,), "an int, in seconds")
_FLAG: Final = ((bool,), "a bool")
_FORMAT_NAME: Final = (FormatName, "a format name, or its text")

_TYPES: Final[Mapping[str, tuple[Any, str]]] = {
    "body": _BYTES,
    "label": _TEXT,
    "body_type": _NUMBER,
    "priority": _NUMBER,
    "transactional": _FLAG,
    "time_to_reach_queue": _SECONDS,
    "time_to_be_received": _SECONDS,
    "journal": _FLAG,
    "dead_letter": _FLAG,
    "acknowledge": _NUMBER,
    "admin_queue": _FORMAT_NAME,
    "response_queue": _FORMAT_NAME,
    "correlation_id": _BYTES,
    "application_tag": _NUMBER,
    "extension": _BYTES,
    "trace": ((UUID,), "a UUID"),
    "message_class": _NUMBER,
    "connector_type": ((UUID,), "a UUID"),
    "hash_algorithm": _NUMBER,
    "encryption_algorithm": _NUMBER,
    "dead_letter_queue": _TEXT,
    "privacy_level": _NUMBER,
    "authentication_level": _NUMBER,
    "sender_certificate": _TEXT,
    "sender_identifier_type": _NUMBER,
}

_MAY_BE_NONE: Final = frozenset(
    {
        "time_to_reach_queue",
        "admin_queue",
        "response_queue",
        "trace",
        "connector_type",
        "sender_identifier_type",
    }
)


def check_types(attributes: Mapping[str, object], delivery: type[Enum]) -> None:
    """Check the types of the attributes of a message.

    @param delivery: the type of its C{delivery}.
    @raise MQError: MQ_ERROR_ILLEGAL_PROPERTY_VT with the name of the first that has another type.
    """
    for name, value in attributes.items():
        types, words = _TYPES[name] if name in _TYPES else ((delivery,), "a Delivery")
        if isinstance(value, types) or (value is None and name in _MAY_BE_NONE):
            continue
        hint = "; encode the text" if words == "bytes" and isinstance(value, str) else ""
        if words == "a str" and isinstance(value, bytes):
            hint = "; decode the bytes"
        raise MQError(
            Status.MQ_ERROR_ILLEGAL_PROPERTY_VT,
            f"{name} of a message is {kind_of(value)}, it has to be {words}{hint}",
        )
