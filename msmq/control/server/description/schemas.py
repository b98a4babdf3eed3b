"""JSON schemas (draft 2020-12) of requests and responses."""

from __future__ import annotations

import enum
import types
from collections.abc import Mapping, Sequence
from typing import Any, Final, Union, get_args, get_origin, get_type_hints
from uuid import UUID

import attrs

from msmq.control.server.messages.properties import LARGEST

Schema = dict[str, Any]

TEXT: Final[Schema] = {"type": "string"}
GUID: Final[Schema] = {
    "type": "string",
    "pattern": r"^(\{[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}\}"
    r"|[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12})$",
}
NUMBER: Final[Schema] = {"type": "integer", "minimum": 0, "maximum": LARGEST}
FLAG: Final[Schema] = {"type": "boolean"}
SECONDS: Final[Schema] = {"type": "number", "minimum": 0}
TIME: Final[Schema] = {"type": "string", "format": "date-time"}

QUERY_FLAG: Final[Schema] = {"type": "string", "enum": ["true", "false", "1", "0", ""]}
"""A flag in a query; without a value it is true."""

JSON_FLAG: Final[Schema] = {"enum": [True, False, "true", "false", "1", "0", ""]}
"""A flag in a request body, which may be written as in a query."""

JSON_NUMBER: Final[Schema] = {"anyOf": [NUMBER, {"type": "string", "pattern": "^[0-9]{1,18}$"}]}

OBJECT: Final[Schema] = {"type": "object"}

REFUSAL: Final[Schema] = {
    "type": "object",
    "required": ["error", "detail"],
    "properties": {
        "error": {"type": "string", "pattern": "^MQ_", "description": "the name of the MQ_ERROR"},
        "detail": {"type": "string", "description": "what is wrong, and with which value"},
        "too_large": {
            "const": True,
            "description": "the message is larger than a packet or than a whole quota, and refused each time",
        },
    },
}


def choice(*values: object) -> Schema:
    """One of these values."""
    return {"enum": list(values)}


def nullable(schema: Schema) -> Schema:
    """A value or null."""
    return {"anyOf": [schema, {"type": "null"}]}


def array(items: Schema) -> Schema:
    """A list of values."""
    return {"type": "array", "items": items}


def answer(*required: str, **properties: Schema) -> Schema:
    """An object of a response, which has these keys and may have more.

    @param required: keys with any value.
    """
    return {
        "type": "object",
        "required": [*required, *properties],
        "properties": {**{name: {} for name in required}, **properties},
    }


def request(*required: str, **properties: Schema) -> Schema:
    """An object of a request, which has no other keys.

    @param required: which of the keys must be there.
    """
    return {
        "type": "object",
        "required": list(required),
        "properties": properties,
        "additionalProperties": False,
    }


def record_schema(kind: type[Any]) -> Schema:
    """The JSON object of an attrs value, as L{json_record
    <msmq.control.server.messages.json_records.json_record>} makes it.

    Every key is described; none is required, since some are left out where they do not apply.
    """
    hints = get_type_hints(kind)
    fields = attrs.fields(kind)
    properties = {
        field.name: nullable(TIME) if "time" in field.metadata else _value_schema(hints[field.name])
        for field in fields
    }
    return {"type": "object", "properties": properties}


def _value_schema(kind: Any) -> Schema:
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return {"anyOf": [_value_schema(each) for each in get_args(kind)]}
    simple: Mapping[Any, Schema] = {
        str: TEXT,
        bool: FLAG,
        int: {"type": "integer"},
        float: {"type": "number"},
        UUID: TEXT,
        bytes: TEXT,
        type(None): {"type": "null"},
    }
    if kind in simple:
        return simple[kind]
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": "object"}
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return array(_value_schema(get_args(kind)[0]))
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return {"enum": [each.value for each in kind]}
    if isinstance(kind, type) and attrs.has(kind):
        return record_schema(kind)
    return {}
