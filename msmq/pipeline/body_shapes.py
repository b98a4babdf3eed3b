"""Shapes of decoded bodies: which fields they have, of which kinds, and the type of Spark that holds them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import attrs

NULL: Final = "null"
BOOLEAN: Final = "boolean"
INTEGER: Final = "integer"
NUMBER: Final = "number"
STRING: Final = "string"
OBJECT: Final = "object"
ARRAY: Final = "array"

MOST_FIELDS: Final = 1000
"""Limit on the fields of a shape, since senders choose their names; further fields are left out."""
DEEPEST: Final = 12
"""Nesting up to which a shape is followed; deeper values are texts in JSON."""
MOST_PATHS: Final = 500
"""Limit on the paths of one body; further ones are left out."""
LONGEST_PATH: Final = 300
"""Limit on the characters of a path."""

_SMALLEST, _LARGEST = -(1 << 63), (1 << 63) - 1


def kind_of(value: Any) -> str:
    """The kind of a value of JSON."""
    match value:
        case None:
            return NULL
        case bool():
            return BOOLEAN
        case int():
            return INTEGER if _SMALLEST <= value <= _LARGEST else NUMBER
        case float():
            return NUMBER
        case str():
            return STRING
        case list():
            return ARRAY
    return OBJECT


@attrs.define
class BodyShape:
    """The shape of any number of values.

    @ivar kinds: the kinds that were seen.
    @ivar fields: the shapes of the fields of objects, in the order of their first appearance.
    @ivar items: the shape of the elements of arrays.
    """

    kinds: set[str] = attrs.field(factory=set)
    fields: dict[str, BodyShape] = attrs.field(factory=dict)
    items: BodyShape | None = None

    @classmethod
    def of(cls, values: Iterable[Any]) -> BodyShape:
        """The common shape of these values."""
        shape, room = cls(), [MOST_FIELDS]
        for value in values:
            shape._add(value, 0, room)
        return shape

    def _add(self, value: Any, depth: int, room: list[int]) -> None:
        kind = kind_of(value)
        self.kinds.add(kind)
        if depth >= DEEPEST:
            return
        if kind == ARRAY:
            self.items = self.items or BodyShape()
            for item in value:
                self.items._add(item, depth + 1, room)
        elif kind == OBJECT:
            for name, field in value.items():
                if name not in self.fields:
                    if not room[0]:
                        continue
                    room[0] -= 1
                    self.fields[name] = BodyShape()
                self.fields[name]._add(field, depth + 1, room)

    def ddl(self) -> str:
        """The type of Spark for these values.

        Values of different kinds are texts. An array and a single value are an array, since XML does not
        distinguish an element from a list with one element.
        """
        kinds = self.kinds - {NULL}
        if ARRAY in kinds:
            # A single value is an element.
            one = BodyShape(kinds - {ARRAY}, self.fields)
            return f"ARRAY<{_merged(self.items or BodyShape(), one).ddl()}>"
        if kinds == {OBJECT} and self.fields:
            inner = ", ".join(f"{_quoted(name)}: {field.ddl()}" for name, field in self.fields.items())
            return f"STRUCT<{inner}>"
        if kinds == {OBJECT}:
            return "MAP<STRING, STRING>"
        if kinds == {BOOLEAN}:
            return "BOOLEAN"
        if kinds == {INTEGER}:
            return "BIGINT"
        return "DOUBLE" if kinds and kinds <= {INTEGER, NUMBER} else "STRING"


def _merged(one: BodyShape, other: BodyShape) -> BodyShape:
    fields = dict(one.fields)
    for name, field in other.fields.items():
        fields[name] = _merged(fields[name], field) if name in fields else field
    items = one.items if other.items is None else other.items
    if one.items is not None and other.items is not None:
        items = _merged(one.items, other.items)
    return BodyShape(one.kinds | other.kinds, fields, items)


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def paths_of(value: Any) -> Iterator[tuple[str, str]]:
    """The paths in a decoded body, each once with each of its kinds.

    The path of the body itself is C{$}, of a field C{$.order.id}, of the elements of an array C{$.lines[]}.
    Whole numbers and others are one kind, since a price of 5 is no other kind than one of 5.5.
    """
    seen: set[tuple[str, str]] = set()
    waiting: list[tuple[str, Any, int]] = [("$", value, 0)]
    while waiting and len(seen) < MOST_PATHS:
        path, found, depth = waiting.pop()
        kind = kind_of(found)
        one = (path[:LONGEST_PATH], NUMBER if kind == INTEGER else kind)
        if one not in seen:
            seen.add(one)
            yield one
        if depth < DEEPEST:
            waiting += _inside(path, found, depth + 1)


def _inside(path: str, value: Any, depth: int) -> Iterator[tuple[str, Any, int]]:
    if isinstance(value, list):
        for item in value:
            yield f"{path}[]", item, depth
    elif isinstance(value, Mapping):
        for name in reversed(value):
            yield f"{path}.{name}", value[name], depth


def parent_of(path: str) -> str:
    """The path of the object or array that a path is in; empty for the body itself."""
    if path.endswith("[]"):
        return path[:-2]
    return path.rpartition(".")[0]
