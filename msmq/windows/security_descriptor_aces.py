"""The entries of an access control list, and the list. [MS-DTYP] 2.4.4 and 2.4.5."""

from __future__ import annotations

import enum
from typing import ClassVar, Final, Self, TypeAlias
from uuid import UUID

import attrs

from msmq.errors import LocalProtocolError
from msmq.wire.reader import Reader
from msmq.wire.structure import Structure, WholeStructure
from msmq.wire.writer import Writer


class AceType(enum.IntEnum):
    """AceType.  The reserved types (alarms and compound ones) have no layout. [MS-DTYP] 2.4.4.1."""

    ACCESS_ALLOWED = 0x00
    ACCESS_DENIED = 0x01
    SYSTEM_AUDIT = 0x02
    ACCESS_ALLOWED_OBJECT = 0x05
    ACCESS_DENIED_OBJECT = 0x06
    SYSTEM_AUDIT_OBJECT = 0x07
    ACCESS_ALLOWED_CALLBACK = 0x09
    ACCESS_DENIED_CALLBACK = 0x0A
    ACCESS_ALLOWED_CALLBACK_OBJECT = 0x0B
    ACCESS_DENIED_CALLBACK_OBJECT = 0x0C
    SYSTEM_AUDIT_CALLBACK = 0x0D
    SYSTEM_AUDIT_CALLBACK_OBJECT = 0x0F
    SYSTEM_MANDATORY_LABEL = 0x11
    SYSTEM_RESOURCE_ATTRIBUTE = 0x12
    SYSTEM_SCOPED_POLICY_ID = 0x13


class AceFlags(enum.IntFlag):
    """AceFlags. [MS-DTYP] 2.4.4.1."""

    OBJECT_INHERIT = 0x01
    CONTAINER_INHERIT = 0x02
    NO_PROPAGATE_INHERIT = 0x04
    INHERIT_ONLY = 0x08
    INHERITED = 0x10
    SUCCESSFUL_ACCESS = 0x40
    FAILED_ACCESS = 0x80


OBJECT_TYPES: Final = frozenset(
    {
        AceType.ACCESS_ALLOWED_OBJECT,
        AceType.ACCESS_DENIED_OBJECT,
        AceType.SYSTEM_AUDIT_OBJECT,
        AceType.ACCESS_ALLOWED_CALLBACK_OBJECT,
        AceType.ACCESS_DENIED_CALLBACK_OBJECT,
        AceType.SYSTEM_AUDIT_CALLBACK_OBJECT,
    }
)
"""The types whose entries may name an object type."""

_KNOWN: Final = frozenset(int(member) for member in AceType)
_OBJECT_TYPE_PRESENT: Final = 1
_INHERITED_OBJECT_TYPE_PRESENT: Final = 2


@attrs.frozen
class Ace(Structure):
    """An entry: rights that one SID is allowed or denied, or that are audited. [MS-DTYP] 2.4.4.2 to 2.4.4.16.

    @ivar type: a type with a layout.
    @ivar mask: its rights.
    @ivar sid: the trustee.
    @ivar flags: L{AceFlags}, and other bits of the eight.
    @ivar object_type: only of an object entry, as is C{inherited_object_type}.
    @ivar data: what follows the SID, a multiple of four bytes: the condition of a callback entry, the value
        of an attribute.
    @raise LocalProtocolError: an object type where the type has none, or C{data} of another size.
    """

    type: AceType
    mask: int
    sid: bytes
    flags: int = 0
    object_type: UUID | None = None
    inherited_object_type: UUID | None = None
    data: bytes = attrs.field(default=b"", repr=False)

    def __attrs_post_init__(self) -> None:
        if not self.is_object and not (self.object_type is self.inherited_object_type is None):
            raise LocalProtocolError(f"ObjectType: an entry of type {self.type.name} has none")
        if len(self.data) % 4:
            raise LocalProtocolError(f"ApplicationData: {len(self.data)} bytes are not a multiple of 4")

    @property
    def is_object(self) -> bool:
        """Whether it may apply to a part of the object only."""
        return self.type in OBJECT_TYPES

    def write(self, writer: Writer) -> None:
        """Write the entry."""
        body = Writer()
        body.u32(self.mask, "Mask")
        if self.is_object:
            body.u32(
                _OBJECT_TYPE_PRESENT * (self.object_type is not None)
                | _INHERITED_OBJECT_TYPE_PRESENT * (self.inherited_object_type is not None),
                "Flags",
            )
            for guid in (self.object_type, self.inherited_object_type):
                if guid is not None:
                    body.guid(guid)
        body.bytes(self.sid)
        body.bytes(self.data)
        _write_header(writer, self.type, self.flags, body)


@attrs.frozen
class UnknownAce(Structure):
    """An entry of a type without a layout, which is preserved unchanged and ignored by access checks.

    @ivar body: the bytes after its ACE_HEADER.
    """

    type: int
    flags: int
    body: bytes = attrs.field(repr=False)

    def write(self, writer: Writer) -> None:
        """Write the entry unchanged."""
        body = Writer()
        body.bytes(self.body)
        _write_header(writer, self.type, self.flags, body)


AnyAce: TypeAlias = Ace | UnknownAce


def read_ace(reader: Reader) -> AnyAce:
    """Read one entry.

    @raise RemoteProtocolError: its size is not a multiple of four, larger than the list, or smaller than
        what its type needs.
    """
    with reader.header("ACE", "[MS-DTYP] 2.4.4") as start:
        number = reader.u8("AceType")
        flags = reader.u8("AceFlags")
        size = reader.u16("AceSize")
        if size % 4 or size < 4:
            raise reader.malformed("AceSize", f"{size} is not a multiple of 4 from 4 on", offset=start + 2)
        with reader.confined(size - 4, "AceSize"):
            if number not in _KNOWN:
                return UnknownAce(number, flags, reader.bytes(reader.remaining, "body"))
            type_ = AceType(number)
            mask = reader.u32("Mask")
            present = reader.u32("Flags") if type_ in OBJECT_TYPES else 0
            object_type = reader.guid("ObjectType") if present & _OBJECT_TYPE_PRESENT else None
            inherited = (
                reader.guid("InheritedObjectType") if present & _INHERITED_OBJECT_TYPE_PRESENT else None
            )
            sid = read_sid(reader)
            data = reader.bytes(reader.remaining, "ApplicationData")
            return Ace(type_, mask, sid, flags, object_type, inherited, data)


def read_sid(reader: Reader) -> bytes:
    """Read a SID. [MS-DTYP] 2.4.2.2.

    @raise RemoteProtocolError: its revision is not 1, or it has more than fifteen parts, or fewer bytes.
    """
    with reader.header("SID", "[MS-DTYP] 2.4.2") as start:
        revision = reader.u8("Revision")
        if revision != 1:
            raise reader.malformed("Revision", f"{revision} is not 1", offset=start)
        count = reader.u8("SubAuthorityCount")
        if count > 15:
            raise reader.malformed("SubAuthorityCount", f"{count} is more than 15", offset=start + 1)
        return bytes((revision, count)) + reader.bytes(6 + 4 * count, "SubAuthority")


def _write_header(writer: Writer, type_: int, flags: int, body: Writer) -> None:
    writer.u8(type_, "AceType")
    writer.u8(flags, "AceFlags")
    writer.u16(4 + body.position, "AceSize")
    writer.bytes(body.getvalue())


@attrs.frozen
class Acl(WholeStructure):
    """ACL: entries in the order in which they are evaluated. [MS-DTYP] 2.4.5.

    @ivar aces: at most 65535.
    @ivar revision: ACL_REVISION or ACL_REVISION_DS; by default the one that the entries need.
    """

    NAME: ClassVar[str] = "ACL"
    SECTION: ClassVar[str] = "[MS-DTYP] 2.4.5"
    END_FIELD: ClassVar[str] = "AclSize"
    ACL_REVISION: ClassVar[int] = 2
    ACL_REVISION_DS: ClassVar[int] = 4
    _HEAD: ClassVar[int] = 8

    aces: tuple[AnyAce, ...] = ()
    revision: int = attrs.field()

    @revision.default
    def _needed(self) -> int:
        needs_more = any(isinstance(ace, Ace) and ace.is_object for ace in self.aces)
        return self.ACL_REVISION_DS if needs_more else self.ACL_REVISION

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Read the list; space reserved for more entries is skipped.

        @raise RemoteProtocolError: a revision that is neither of the two, or fewer entries than declared.
        """
        with reader.header(cls.NAME, cls.SECTION) as start:
            revision = reader.u8("AclRevision")
            if revision not in (cls.ACL_REVISION, cls.ACL_REVISION_DS):
                raise reader.malformed("AclRevision", f"{revision} is neither 2 nor 4", offset=start)
            reader.skip(1, "Sbz1")
            size = reader.u16("AclSize")
            if size < cls._HEAD:
                raise reader.malformed("AclSize", f"{size} is less than 8", offset=start + 2)
            count = reader.u16("AceCount")
            reader.skip(2, "Sbz2")
            with reader.confined(size - cls._HEAD, "AclSize", slack=size):
                aces = tuple(read_ace(reader) for _ in range(count))
            return cls(aces, revision)

    def write(self, writer: Writer) -> None:
        """Write the list.

        @raise LocalProtocolError: it has more than 65535 bytes.
        """
        entries = Writer()
        for ace in self.aces:
            ace.write(entries)
        writer.u8(self.revision, "AclRevision")
        writer.u8(0, "Sbz1")
        writer.u16(self._HEAD + entries.position, "AclSize")
        writer.u16(len(self.aces), "AceCount")
        writer.u16(0, "Sbz2")
        writer.bytes(entries.getvalue())
