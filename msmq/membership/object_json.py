"""JSON serialization of directory objects for the store."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from msmq.errors import MsmqError
from msmq.membership.attributes import DirectoryObject, attributes_of_type
from msmq.structures.status import MQError

T = TypeVar("T", bound=DirectoryObject)


class StateDamaged(MsmqError):
    """A stored value is damaged.

    @ivar name: the name of the value.
    @ivar problem: what is wrong with it.
    """

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(name, problem)
        self.name = name
        self.problem = problem

    def __str__(self) -> str:
        return f"the stored value {self.name} is damaged: {self.problem}"


def pack_object(kept: DirectoryObject) -> dict[str, Any]:
    """Convert an object to plain JSON values, unpublished attributes included."""
    packed = {}
    for name, row in attributes_of_type(type(kept)).items():
        value = getattr(kept, name)
        packed[name] = None if value is None else row.kind.pack(value)
    return packed


def unpack_object(of: type[T], packed: Any) -> T:
    """Inverse of L{pack_object}; a missing attribute has its default.

    @raise ValueError: not such an object; the text is the reason.
    """
    rows = attributes_of_type(of)
    if not isinstance(packed, dict):
        raise ValueError(f"no {of.TYPE}")
    values: dict[str, Any] = {}
    for name, value in packed.items():
        if name not in rows:
            raise ValueError(f"{of.TYPE} has no {name}")
        try:
            values[name] = None if value is None else rows[name].kind.unpack(value)
        except (ValueError, TypeError, AttributeError) as error:
            raise ValueError(f"{of.TYPE}.{name}: {error}") from error
    try:
        return of(**values)
    except MQError as error:
        raise ValueError(error.detail) from error


def to_json(value: Any) -> bytes:
    """Encode plain values as bytes for the store."""
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode("utf-8")


def from_json(name: str, data: bytes) -> Any:
    """Inverse of L{to_json}.

    @raise StateDamaged: it is not JSON.
    """
    try:
        return json.loads(data)
    except ValueError as error:
        raise StateDamaged(name, str(error)) from error
