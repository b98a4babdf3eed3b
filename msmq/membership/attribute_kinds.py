"""Kinds of directory attribute values: type checks, ordering, JSON form."""

from __future__ import annotations

import base64
import enum
import types
import typing
from collections.abc import Callable
from typing import Any, Final
from uuid import UUID

import attrs

from msmq.errors import RemoteProtocolError
from msmq.structures.directory.public_keys import MqdsPublicKeys
from msmq.structures.directory.user_sign_certs import MqUserSignCerts
from msmq.wire.guid import format_guid, parse_guid


@attrs.frozen
class AttributeKind:
    """Kind of directory attribute values.

    @ivar name: a value in words, C{a text} for example.
    @ivar holds: type check of a value.
    @ivar pack: conversion of a value to JSON.
    @ivar unpack: conversion from JSON; raises C{ValueError} or C{TypeError} for values that C{pack} never
        returns.
    @ivar is_ordered: whether values have an order.
    @ivar is_list: whether a value is a list.
    """

    name: str
    holds: Callable[[Any], bool]
    pack: Callable[[Any], Any]
    unpack: Callable[[Any], Any]
    is_ordered: bool = False
    is_list: bool = False


def _same(value: Any) -> Any:
    return value


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _pack_bytes(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")


def _unpack_bytes(value: Any) -> bytes:
    return base64.b64decode(value, validate=True)


def _unpack_keys(value: Any) -> MqdsPublicKeys:
    try:
        return MqdsPublicKeys.from_bytes(_unpack_bytes(value))
    except RemoteProtocolError as error:
        raise ValueError(str(error)) from error


def _unpack_certificates(value: Any) -> MqUserSignCerts:
    try:
        return MqUserSignCerts.from_bytes(_unpack_bytes(value))
    except RemoteProtocolError as error:
        raise ValueError(str(error)) from error


TEXT: Final = AttributeKind("a text", lambda value: isinstance(value, str), _same, _same, is_ordered=True)
INTEGER: Final = AttributeKind("a whole number", _is_integer, _same, _same, is_ordered=True)
BOOLEAN: Final = AttributeKind("true or false", lambda value: isinstance(value, bool), _same, _same)
GUID: Final = AttributeKind("a GUID", lambda value: isinstance(value, UUID), format_guid, parse_guid)
BYTES: Final = AttributeKind("bytes", lambda value: isinstance(value, bytes), _pack_bytes, _unpack_bytes)
PUBLIC_KEYS: Final = AttributeKind(
    "an MQDSPUBLICKEYS",
    lambda value: isinstance(value, MqdsPublicKeys),
    lambda value: _pack_bytes(value.to_bytes()),
    _unpack_keys,
)
CERTIFICATES: Final = AttributeKind(
    "an MQUSERSIGNCERTS",
    lambda value: isinstance(value, MqUserSignCerts),
    lambda value: _pack_bytes(value.to_bytes()),
    _unpack_certificates,
)

_SIMPLE: Final[dict[Any, AttributeKind]] = {
    str: TEXT,
    int: INTEGER,
    bool: BOOLEAN,
    UUID: GUID,
    bytes: BYTES,
    MqdsPublicKeys: PUBLIC_KEYS,
    MqUserSignCerts: CERTIFICATES,
}


def kind_of(annotation: Any) -> AttributeKind:
    """Kind for a type annotation; C{X | None} and C{tuple[X, ...]} have that of C{X}."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is types.UnionType:
        return kind_of(next(argument for argument in arguments if argument is not types.NoneType))
    if origin is tuple:
        return _list_of(kind_of(arguments[0]))
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return _enumeration(annotation)
    return _SIMPLE[annotation]


def _list_of(kind: AttributeKind) -> AttributeKind:
    return AttributeKind(
        f"a tuple, each member {kind.name}",
        lambda value: isinstance(value, tuple) and all(map(kind.holds, value)),
        lambda value: [kind.pack(member) for member in value],
        lambda value: tuple(kind.unpack(member) for member in value),
        kind.is_ordered,
        is_list=True,
    )


def _enumeration(members: type[enum.Enum]) -> AttributeKind:
    return AttributeKind(
        f"one of {members.__name__}",
        lambda value: isinstance(value, members),
        lambda value: value.value,
        members,
    )
