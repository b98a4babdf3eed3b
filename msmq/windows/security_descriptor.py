"""SECURITY_DESCRIPTOR, in its self-relative form, which is stored and transferred. [MS-DTYP] 2.4.6."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import ClassVar, Final, Self, TypeGuard, TypeVar

import attrs

from msmq.errors import LocalProtocolError
from msmq.windows.access_masks import AccessMask, ObjectKind
from msmq.windows.security_descriptor_aces import Ace, AceFlags, AceType, Acl, AnyAce, read_sid
from msmq.windows.well_known_sids import EVERYONE
from msmq.wire.reader import Reader
from msmq.wire.sid import format_sid
from msmq.wire.structure import Structure
from msmq.wire.writer import Writer

T = TypeVar("T")


class Control(enum.IntFlag):
    """Control; the document's table counts the bits from the most significant one. [MS-DTYP] 2.4.6."""

    OWNER_DEFAULTED = 0x0001
    GROUP_DEFAULTED = 0x0002
    DACL_PRESENT = 0x0004
    DACL_DEFAULTED = 0x0008
    SACL_PRESENT = 0x0010
    SACL_DEFAULTED = 0x0020
    DACL_TRUSTED = 0x0040
    SERVER_SECURITY = 0x0080
    DACL_COMPUTED_INHERITANCE_REQUIRED = 0x0100
    SACL_COMPUTED_INHERITANCE_REQUIRED = 0x0200
    DACL_AUTO_INHERITED = 0x0400
    SACL_AUTO_INHERITED = 0x0800
    DACL_PROTECTED = 0x1000
    SACL_PROTECTED = 0x2000
    RM_CONTROL_VALID = 0x4000
    SELF_RELATIVE = 0x8000


_HEAD: Final = 20
_ABSENT: Final = 0
_PLAIN_TYPES: Final = (AceType.ACCESS_ALLOWED, AceType.ACCESS_DENIED)
_DECIDING_TYPES: Final = (
    *_PLAIN_TYPES,
    AceType.ACCESS_ALLOWED_OBJECT,
    AceType.ACCESS_DENIED_OBJECT,
    AceType.ACCESS_ALLOWED_CALLBACK,
    AceType.ACCESS_DENIED_CALLBACK,
    AceType.ACCESS_ALLOWED_CALLBACK_OBJECT,
    AceType.ACCESS_DENIED_CALLBACK_OBJECT,
)


@attrs.frozen
class SecurityDescriptor(Structure):
    """The owner of an object, and the rights of accounts to it. [MS-DTYP] 2.4.6.

    A DACL without entries denies access to every account; C{None}, whether present or absent, grants every
    account full access.

    @ivar owner: a SID, as C{group} is.
    @ivar control: always includes SELF_RELATIVE, and DACL_PRESENT and SACL_PRESENT if there is such a list.
    @ivar resource_manager_control: Sbz1, which has a meaning only with RM_CONTROL_VALID.
    """

    NAME: ClassVar[str] = "SECURITY_DESCRIPTOR"
    SECTION: ClassVar[str] = "[MS-DTYP] 2.4.6"

    owner: bytes | None = None
    group: bytes | None = None
    dacl: Acl | None = None
    sacl: Acl | None = None
    control: Control = attrs.field(default=Control(0), converter=Control)
    resource_manager_control: int = 0

    def __attrs_post_init__(self) -> None:
        control = self.control | Control.SELF_RELATIVE
        if self.dacl is not None:
            control |= Control.DACL_PRESENT
        if self.sacl is not None:
            control |= Control.SACL_PRESENT
        object.__setattr__(self, "control", control)

    @classmethod
    def from_bytes(cls, data: bytes | bytearray | memoryview) -> Self:
        """Parse a descriptor; its parts may be in any order, and bytes between them are ignored.

        @raise RemoteProtocolError: its revision is not 1, it is not self-relative, a part is outside of its
            bounds or malformed, or there is a list that is absent according to Control.
        """
        reader = Reader(data)
        with reader.header(cls.NAME, cls.SECTION):
            revision = reader.u8("Revision")
            if revision != 1:
                raise reader.malformed("Revision", f"{revision} is not 1", offset=0)
            sbz1 = reader.u8("Sbz1")
            control = Control(reader.u16("Control"))
            if not control & Control.SELF_RELATIVE:
                raise reader.malformed("Control", "lacks SELF_RELATIVE", offset=2)
            owner, group, sacl, dacl = (
                reader.u32(field) for field in ("OffsetOwner", "OffsetGroup", "OffsetSacl", "OffsetDacl")
            )
            for offset, field, flag in (
                (sacl, "OffsetSacl", Control.SACL_PRESENT),
                (dacl, "OffsetDacl", Control.DACL_PRESENT),
            ):
                if offset and not control & flag:
                    raise reader.malformed(field, f"{offset} although Control lacks its bit")
            return cls(
                owner=_part(reader, data, owner, "OffsetOwner", read_sid),
                group=_part(reader, data, group, "OffsetGroup", read_sid),
                dacl=_part(reader, data, dacl, "OffsetDacl", Acl.read),
                sacl=_part(reader, data, sacl, "OffsetSacl", Acl.read),
                control=control,
                resource_manager_control=sbz1,
            )

    def write(self, writer: Writer) -> None:
        """Write the descriptor: header, SACL, DACL, owner, group.

        @raise LocalProtocolError: a list has more than 65535 bytes.
        """
        parts = Writer()
        offsets: dict[str, int] = {}
        for name, part in (
            ("Sacl", None if self.sacl is None else self.sacl.to_bytes()),
            ("Dacl", None if self.dacl is None else self.dacl.to_bytes()),
            ("Owner", self.owner),
            ("Group", self.group),
        ):
            offsets[name] = _ABSENT if part is None else _HEAD + parts.position
            parts.bytes(part or b"")
        writer.u8(1, "Revision")
        writer.u8(self.resource_manager_control, "Sbz1")
        writer.u16(self.control, "Control")
        for name in ("Owner", "Group", "Sacl", "Dacl"):
            writer.u32(offsets[name], f"Offset{name}")
        writer.bytes(parts.getvalue())


def _part(
    outer: Reader,
    data: bytes | bytearray | memoryview,
    offset: int,
    field: str,
    read: Callable[[Reader], T],
) -> T | None:
    if offset == _ABSENT:
        return None
    if not _HEAD <= offset <= len(data):
        raise outer.malformed(field, f"{offset} is not between the header and the end of {len(data)} bytes")
    return read(Reader(memoryview(data)[offset:], base=offset))


def allow(sid: bytes, mask: int) -> Ace:
    """An entry that allows C{sid} the rights in C{mask}. [MS-DTYP] 2.4.4.2."""
    return Ace(AceType.ACCESS_ALLOWED, int(mask), sid)


def deny(sid: bytes, mask: int) -> Ace:
    """An entry that denies C{sid} the rights in C{mask}. [MS-DTYP] 2.4.4.4."""
    return Ace(AceType.ACCESS_DENIED, int(mask), sid)


def restricted(descriptor: SecurityDescriptor, kind: ObjectKind) -> SecurityDescriptor:
    """The descriptor with generic rights mapped to specific ones, in every entry of its DACL.

    @raise LocalProtocolError: an entry, which the text names, has a bit that is no right to such an object.
    """

    def specific(index: int, ace: AnyAce) -> AnyAce:
        if not isinstance(ace, Ace):
            return ace
        mask = kind.mapping.specific(ace.mask)
        if rest := mask & ~kind.every_right:
            raise LocalProtocolError(
                f"entry {index + 1} of the DACL, about {format_sid(ace.sid)}, has 0x{rest:08X} in its mask,"
                f" which is not a right to a {kind.name}"
            )
        return attrs.evolve(ace, mask=mask)

    if descriptor.dacl is None:
        return descriptor
    aces = tuple(specific(index, ace) for index, ace in enumerate(descriptor.dacl.aces))
    return attrs.evolve(descriptor, dacl=attrs.evolve(descriptor.dacl, aces=aces))


def with_entry(descriptor: SecurityDescriptor, entry: Ace) -> SecurityDescriptor:
    """The descriptor with an entry merged in that allows or denies rights.

    The rights are removed from entries of the other kind for the same SID, and added to the one of this kind.
    A new entry comes after those of its kind: entries that deny before those that allow, and both before
    inherited ones. An existing entry is extended only if it is in this canonical order, since an entry that
    denies after one that allows may have no effect.
    Without a DACL every account has every right: an entry that allows changes nothing, and one that denies
    is followed by an entry that allows everything to everyone.

    @param entry: from L{allow} or L{deny}.
    """
    if descriptor.dacl is None:
        if entry.type is AceType.ACCESS_ALLOWED:
            return descriptor
        everybody = allow(EVERYONE, AccessMask.GENERIC_ALL)
        return attrs.evolve(descriptor, dacl=Acl((entry, everybody)))
    rank = _rank(entry)
    aces: list[AnyAce] = []
    joined = is_behind_others = False
    for ace in descriptor.dacl.aces:
        if _is_about(ace, entry.sid):
            if ace.type is not entry.type:
                ace = attrs.evolve(ace, mask=ace.mask & ~entry.mask)
                if not ace.mask:
                    continue
            elif not (joined or is_behind_others or ace.flags):
                ace, joined = attrs.evolve(ace, mask=ace.mask | entry.mask), True
        is_behind_others |= _rank(ace) > rank
        aces.append(ace)
    if not joined:
        place = next((index for index, ace in enumerate(aces) if _rank(ace) > rank), len(aces))
        aces.insert(place, entry)
    return attrs.evolve(descriptor, dacl=attrs.evolve(descriptor.dacl, aces=tuple(aces)))


def without_entries_of(descriptor: SecurityDescriptor, sid: bytes) -> SecurityDescriptor:
    """The descriptor without the entries that allow or deny one SID anything, conditional ones included."""
    if descriptor.dacl is None:
        return descriptor
    aces = tuple(
        ace
        for ace in descriptor.dacl.aces
        if not (isinstance(ace, Ace) and ace.sid == sid and ace.type in _DECIDING_TYPES)
    )
    return attrs.evolve(descriptor, dacl=attrs.evolve(descriptor.dacl, aces=aces))


def _is_about(ace: AnyAce, sid: bytes) -> TypeGuard[Ace]:
    """Whether it is an entry of this SID that was not inherited, and applies to the object itself."""
    return (
        isinstance(ace, Ace)
        and ace.sid == sid
        and ace.type in _PLAIN_TYPES
        and not ace.flags & (AceFlags.INHERITED | AceFlags.INHERIT_ONLY)
    )


def _rank(ace: AnyAce) -> int:
    """The rank of an entry in canonical order: denying entries first, inherited ones last."""
    is_denial = ace.type in (
        AceType.ACCESS_DENIED,
        AceType.ACCESS_DENIED_OBJECT,
        AceType.ACCESS_DENIED_CALLBACK,
    )
    return (0 if is_denial else 1) if not ace.flags & AceFlags.INHERITED else 2
