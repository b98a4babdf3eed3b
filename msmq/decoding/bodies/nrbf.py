"""Bodies of System.Messaging's BinaryMessageFormatter, and of BinaryFormatter: [MS-NRBF] streams."""

from __future__ import annotations

from collections import Counter
from struct import Struct
from struct import error as StructError
from typing import Any, Final

from zope.interface import implementer

from msmq.decoding.bodies.budget import Budget
from msmq.decoding.bodies.nrbf_records import (
    ArrayObject,
    ClassObject,
    NrbfReference,
    Object,
    RecordReader,
    StringObject,
    Value,
)
from msmq.decoding.bodies.scalars import guid_text
from msmq.decoding.values import base64_text
from msmq.errors import RemoteProtocolError
from msmq.interfaces.decoding import Body, BodyNotDecoded, DecodedBody, IBodyDecoder, Limits

BODY_TYPE: Final = 768
"""The BodyType that BinaryMessageFormatter writes."""
_VERSION: Final = b"\x01\0\0\0\0\0\0\0"
_LISTS: Final = ("System.Collections.Generic.List`1[[", "System.Collections.ArrayList")
_BACKING: Final = ">k__BackingField"
_GUID_LAYOUT: Final = Struct("<ihh8B")
_GUID: Final = tuple(f"_{letter}" for letter in "abcdefghijk")


@implementer(IBodyDecoder)
class NrbfDecoder:
    """Objects of .NET as plain data.

    A class is an object with C{$type} and its members (of a property that the compiler keeps, the name of the
    property), an array a list, of several dimensions a list of lists, of bytes base64. Decimal numbers are
    text of all their digits, times are in ISO 8601, durations as .NET writes them; NaN and infinity are
    NaN or Infinity as text. A System.Guid is its text, a List or ArrayList a list, a boxed number the number.
    An object with several references is written at its first occurrence, with an C{$id} (an array is then
    under C{$values}), and as C{{"$ref": id}} elsewhere; so cycles end.
    """

    name = "nrbf"

    def recognises(self, body: Body) -> bool:
        return body.body_type == BODY_TYPE or (
            body.body_type == 0 and body.data[:1] == b"\0" and body.data[9:17] == _VERSION
        )

    def decode(self, body: Body, limits: Limits) -> DecodedBody:
        budget = Budget(limits, len(body.data))
        reader = RecordReader(body.data, budget)
        try:
            root = reader.read()
        except RemoteProtocolError as error:
            raise BodyNotDecoded(f"is not a sound stream: {error}") from None
        value = _Plain(reader.objects, budget).value(root, 1)
        return DecodedBody(self.name, ".NET binary format (NRBF)", value)


class _Plain:
    """Converts an object graph to plain data."""

    def __init__(self, objects: dict[int, Object], budget: Budget) -> None:
        self._objects = objects
        self._budget = budget
        self._shown: set[int] = set()
        self._places = Counter(
            found.identifier
            for holder in objects.values()
            for found in _held(holder)
            if isinstance(found, NrbfReference | ClassObject | ArrayObject)
        )

    def value(self, value: Value, depth: int) -> Any:
        self._budget.depth(depth)
        if isinstance(value, NrbfReference):
            try:
                value = self._objects[value.identifier]
            except KeyError:
                raise BodyNotDecoded(f"refers to object {value.identifier}, which does not exist") from None
        if isinstance(value, StringObject):
            value = value.text
        if isinstance(value, str):
            self._budget.characters(len(value))
            return value
        if not isinstance(value, ClassObject | ArrayObject):
            return value
        if value.identifier in self._shown:
            return {"$ref": value.identifier}
        if isinstance(value, ClassObject):
            if (guid := _guid(value)) is not None:
                return guid
            unwrapped = self._unwrapped(value)
            if not isinstance(unwrapped, ClassObject | ArrayObject):
                return self.value(unwrapped, depth)
            value = unwrapped
        self._shown.add(value.identifier)
        shared = self._places[value.identifier] > (depth > 1)
        if isinstance(value, ClassObject):
            return self._of_class(value, shared, depth)
        return self._of_array(value, shared, depth)

    def _unwrapped(self, held: ClassObject) -> Value:
        """The value of a boxed number, or the used items of a list."""
        if held.name.startswith("System.") and len(held.members) == 1 and held.members[0][0] == "m_value":
            boxed = held.members[0][1]
            return held if isinstance(boxed, NrbfReference | ClassObject | ArrayObject) else boxed
        members = dict(held.members) if held.name.startswith(_LISTS) else {}
        if not {"_items", "_size"} <= set(members):
            return held
        array, size = members["_items"], members["_size"]
        if isinstance(array, NrbfReference):
            array = self._objects.get(array.identifier)
        if not isinstance(array, ArrayObject) or array.octets is not None or len(array.lengths) != 1:
            return held
        if self._places[array.identifier] != 1:
            # The array is shared: each list that refers to it would show all of it.
            return held
        if not isinstance(size, int) or not 0 <= size <= len(array.items):
            return held
        return ArrayObject(held.identifier, (size,), array.items[:size])

    def _of_class(self, held: ClassObject, shared: bool, depth: int) -> dict[str, Any]:
        self._budget.characters(len(held.name))
        made: dict[str, Any] = {"$id": held.identifier} if shared else {}
        made["$type"] = held.name
        for name, member in held.members:
            key = name[1 : -len(_BACKING)] if name.startswith("<") and name.endswith(_BACKING) else name
            self._budget.characters(len(key))
            made[key if key not in made else name] = self.value(member, depth + 1)
        return made

    def _of_array(self, held: ArrayObject, shared: bool, depth: int) -> Any:
        if held.octets is not None:
            self._budget.characters(len(held.octets))
            made: Any = base64_text(held.octets)
        else:
            # Each dimension is a list in a list.
            made = [self.value(item, depth + len(held.lengths)) for item in held.items]
            for length in reversed(held.lengths[1:]):
                if not length:
                    # Without a row the others cannot be identified.
                    break
                # A row of one item takes as much as the item; there may be as many rows in each dimension.
                self._budget.item(-(-len(made) // length))
                made = [made[start : start + length] for start in range(0, len(made), length)]
        return {"$id": held.identifier, "$values": made} if shared else made


def _held(holder: Object) -> list[Value]:
    """The objects that an object refers to."""
    if isinstance(holder, ClassObject):
        return [value for _, value in holder.members]
    return holder.items if isinstance(holder, ArrayObject) else []


def _guid(held: ClassObject) -> str | None:
    """The text of a System.Guid, whose eleven members are its parts."""
    if held.name != "System.Guid" or tuple(name for name, _ in held.members) != _GUID:
        return None
    try:
        return guid_text(_GUID_LAYOUT.pack(*(value for _, value in held.members)))
    except StructError:
        return None
