"""DirectoryObject and the attribute declarations of its types. [MS-MQDMPR] 3.1.1."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from typing import ClassVar, Final
from uuid import UUID

import attrs

from msmq.membership.attribute_kinds import INTEGER, AttributeKind, kind_of
from msmq.quoting import quoted
from msmq.structures.status import MQError, Status
from msmq.wire.guid import NULL_GUID


@attrs.frozen
class DirectoryAttribute:
    """Attribute of a type of directory object.

    @ivar default: its default value.
    @ivar is_optional: whether it may be C{None}.
    @ivar is_published: whether a directory can hold it ([MS-MQDMPR] 3.1.1 Directory attribute).
    @ivar range: the least and the greatest value, if it is a whole number.
    """

    name: str
    kind: AttributeKind
    default: object
    is_optional: bool
    is_published: bool
    range: tuple[int, int]

    def check(self, of: type[DirectoryObject], value: object) -> None:
        """Check a value of the attribute.

        @raise MQError: MQ_ERROR_ILLEGAL_PROPERTY_VALUE.
        """
        if value is None and self.is_optional:
            return
        if not self.kind.holds(value):
            raise illegal(of, self.name, f"{quoted(value)} is not {self.kind.name}")
        if self.kind is INTEGER and isinstance(value, int):
            least, greatest = self.range
            if not least <= value <= greatest:
                raise illegal(of, self.name, f"{value} is not within {least}..{greatest}")


@attrs.frozen(kw_only=True)
class DirectoryObject:
    """DirectoryObject. [MS-MQDMPR] 3.1.1.

    @cvar TYPE: the document's name of the element.
    @cvar NAME: the attributes that identify an object of the type; empty if there is only one object.
    @cvar NOT_PUBLISHED: the attributes that are never published.
    @cvar RANGES: the ranges of whole numbers other than 0 to 0xFFFFFFFF.
    @ivar identifier: never changes; null until a directory assigns one.
    @raise MQError: MQ_ERROR_ILLEGAL_PROPERTY_VALUE for an invalid attribute value.
    """

    TYPE: ClassVar[str] = "DirectoryObject"
    NAME: ClassVar[tuple[str, ...]] = ()
    NOT_PUBLISHED: ClassVar[frozenset[str]] = frozenset()
    RANGES: ClassVar[Mapping[str, tuple[int, int]]] = {}

    identifier: UUID = NULL_GUID

    def __attrs_post_init__(self) -> None:
        for name, attribute in attributes_of_type(type(self)).items():
            attribute.check(type(self), getattr(self, name))


_KNOWN: Final[dict[type[DirectoryObject], Mapping[str, DirectoryAttribute]]] = {}


def attributes_of_type(of: type[DirectoryObject]) -> Mapping[str, DirectoryAttribute]:
    """All attributes of a type by name, in the order of the document."""
    known = _KNOWN.get(of)
    if known is None:
        hints = typing.get_type_hints(of)
        known = _KNOWN[of] = {
            field.name: DirectoryAttribute(
                field.name,
                kind_of(hints[field.name]),
                field.default,
                field.default is None,
                field.name not in of.NOT_PUBLISHED,
                of.RANGES.get(field.name, (0, 0xFFFFFFFF)),
            )
            for field in attrs.fields(of)
        }
    return known


def directory_attributes(of: type[DirectoryObject]) -> frozenset[str]:
    """The names of the Directory attributes of a type. [MS-MQDMPR] 3.1.1."""
    return frozenset(name for name, row in attributes_of_type(of).items() if row.is_published)


def illegal(of: type[DirectoryObject], name: str, problem: str) -> MQError:
    """Create the error about an attribute, for the caller to raise."""
    return MQError(Status.MQ_ERROR_ILLEGAL_PROPERTY_VALUE, f"{of.TYPE}.{name}: {problem}")
