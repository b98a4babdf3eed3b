"""Encoding of values without a database type: LookupIdentifiers, queue definitions."""

from __future__ import annotations

import base64
import enum
import json
from typing import Any, Final
from uuid import UUID

import attrs

from msmq.interfaces.storage import StorageError
from msmq.persistence.definition import QueueDefinition

LAST_LOOKUP_ID: Final = (1 << 64) - 1
"""The largest LookupIdentifier."""
SIGN: Final = -(1 << 63)
"""Offset that maps a LookupIdentifier to a signed integer of the same order."""

_FIELDS = {field.name: field.type for field in attrs.fields(attrs.resolve_types(QueueDefinition))}


def stored_lookup_id(lookup_id: int) -> int:
    """Convert a LookupIdentifier to a signed integer of the same order.

    @raise StorageError: it is not an unsigned integer of 64 bits.
    """
    if not 0 <= lookup_id <= LAST_LOOKUP_ID:
        raise outside(lookup_id)
    return lookup_id + SIGN


def outside(lookup_id: int) -> StorageError:
    """The error for a number that is not a LookupIdentifier."""
    return StorageError(f"the LookupIdentifier {lookup_id} is not within 64 bits")


def lookup_id_of(stored: int) -> int:
    """Convert a stored integer to its LookupIdentifier."""
    return stored - SIGN


def definition_record(definition: QueueDefinition) -> bytes:
    """A definition as JSON: every property by its name.

    A path is stored as bytes, since a peer may send invalid Unicode such as a lone surrogate.
    """
    properties = {name: _plain(getattr(definition, name)) for name in _FIELDS}
    return json.dumps(properties, ensure_ascii=False).encode("utf-8", "surrogatepass")


def read_definition(record: bytes) -> QueueDefinition:
    """The definition in a record; a property that it lacks has its default.

    @raise ValueError: it is invalid, or has a property that this version does not know.
    """
    try:
        properties = json.loads(record.decode("utf-8", "surrogatepass"))
        typed: dict[str, Any] = {name: _typed(name, value) for name, value in properties.items()}
        return QueueDefinition(**typed)
    except Exception as error:
        raise ValueError(f"not the definition of a queue: {error!r}") from error


def _plain(value: object) -> object:
    match value:
        case UUID():
            return str(value)
        case enum.Enum():
            return value.value
        case bytes():
            return base64.b64encode(value).decode("ascii")
        case _:
            return value


def _typed(name: str, value: Any) -> object:
    type_ = _FIELDS[name]
    if type_ == UUID | None:
        return None if value is None else UUID(value)
    if isinstance(type_, type) and issubclass(type_, UUID | enum.Enum):
        return type_(value)
    if type_ is bytes:
        return base64.b64decode(value, validate=True)
    return value
