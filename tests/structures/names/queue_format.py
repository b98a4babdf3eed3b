"""[MS-MQMQ] 2.2.6, 2.2.7 and 2.2.11 QUEUE_FORMAT: a format name as remote procedure calls carry it."""

from __future__ import annotations

import enum
import ipaddress
from typing import ClassVar, Final, Self

import attrs

from msmq.structures.identifiers import MulticastIdentifier, ObjectIdentifier
from msmq.structures.names.format_name import (
    ConnectorFormatName,
    DirectFormatName,
    DistributionListFormatName,
    FormatName,
    MachineFormatName,
    MulticastFormatName,
    PrivateFormatName,
    PublicFormatName,
    QueueSuffix,
)
from msmq.structures.ndr import read_string, read_string_pointer, write_pointer, write_string
from msmq.structures.status import MQError
from msmq.wire.reader import Reader
from msmq.wire.structure import WholeStructure
from msmq.wire.writer import Writer


class QueueFormatType(enum.IntEnum):
    """[MS-MQMQ] 2.2.6 QUEUE_FORMAT_TYPE, the values of m_qft."""

    UNKNOWN = 0
    PUBLIC = 1
    PRIVATE = 2
    DIRECT = 3
    MACHINE = 4
    CONNECTOR = 5
    DL = 6
    MULTICAST = 7
    SUBQUEUE = 8


class QueueSuffixType(enum.IntEnum):
    """[MS-MQMQ] 2.2.11 QUEUE_SUFFIX_TYPE, the low four bits of m_SuffixAndFlags."""

    NONE = 0
    JOURNAL = 1
    DEADLETTER = 2
    DEADXACT = 3
    XACTONLY = 4
    SUBQUEUE = 5


QUEUE_FORMAT_FLAG_SYSTEM: Final = 0x80
"""The flag, in the high four bits of m_SuffixAndFlags, of a system queue."""

_JOURNAL: Final = QUEUE_FORMAT_FLAG_SYSTEM | QueueSuffixType.JOURNAL
_DEADLETTER: Final = QUEUE_FORMAT_FLAG_SYSTEM | QueueSuffixType.DEADLETTER
_DEADXACT: Final = QUEUE_FORMAT_FLAG_SYSTEM | QueueSuffixType.DEADXACT

_SUFFIXES: Final = {
    0: QueueSuffix.NONE,
    _JOURNAL: QueueSuffix.JOURNAL,
    _DEADLETTER: QueueSuffix.DEADLETTER,
    _DEADXACT: QueueSuffix.DEADXACT,
}
_NUMBERS: Final = {suffix: number for number, suffix in _SUFFIXES.items()}

ALLOWED: Final[dict[QueueFormatType, tuple[int, ...]]] = {
    QueueFormatType.UNKNOWN: (0,),
    QueueFormatType.PUBLIC: (0, _JOURNAL),
    QueueFormatType.PRIVATE: (0, _JOURNAL),
    QueueFormatType.DIRECT: (0, _JOURNAL, _DEADLETTER, _DEADXACT),
    QueueFormatType.MACHINE: (_JOURNAL, _DEADLETTER, _DEADXACT),
    QueueFormatType.CONNECTOR: (
        0,
        QueueSuffixType.XACTONLY,
        QUEUE_FORMAT_FLAG_SYSTEM | QueueSuffixType.XACTONLY,
    ),
    QueueFormatType.DL: (0,),
    QueueFormatType.MULTICAST: (0,),
    QueueFormatType.SUBQUEUE: (QueueSuffixType.SUBQUEUE,),
}
"""What m_SuffixAndFlags may be beside each m_qft."""


@attrs.frozen
class QueueFormat(WholeStructure):
    """[MS-MQMQ] 2.2.7 QUEUE_FORMAT.

    m_qft at 0, m_SuffixAndFlags at 1, m_reserved at 2, m_qft once more at 4 as the union's tag, and the arm
    that it selects at 8.
    The four bytes of an IP address are in the order in which they are printed.

    @ivar name: the name, or L{None} for m_qft 0, an unknown one.
    """

    NAME: ClassVar[str] = "QUEUE_FORMAT"
    SECTION: ClassVar[str] = "[MS-MQMQ] 2.2.7"
    END_FIELD: ClassVar[str] = "m_qft"

    name: FormatName | None = None

    @property
    def queue_format_type(self) -> QueueFormatType:
        """m_qft."""
        match self.name:
            case None:
                return QueueFormatType.UNKNOWN
            case PublicFormatName():
                return QueueFormatType.PUBLIC
            case PrivateFormatName():
                return QueueFormatType.PRIVATE
            case DirectFormatName(subqueue=subqueue):
                return QueueFormatType.DIRECT if subqueue is None else QueueFormatType.SUBQUEUE
            case MachineFormatName():
                return QueueFormatType.MACHINE
            case ConnectorFormatName():
                return QueueFormatType.CONNECTOR
            case DistributionListFormatName():
                return QueueFormatType.DL
            case MulticastFormatName():
                return QueueFormatType.MULTICAST

    @property
    def suffix_and_flags(self) -> int:
        """m_SuffixAndFlags."""
        match self.name:
            case DirectFormatName(subqueue=str()):
                return QueueSuffixType.SUBQUEUE
            case PublicFormatName() | PrivateFormatName() | DirectFormatName() | MachineFormatName():
                return _NUMBERS[self.name.suffix]
            case ConnectorFormatName(is_transactional=True):
                return QueueSuffixType.XACTONLY
        return 0

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Read the structure and what its pointer points to."""
        with reader.header(cls.NAME, cls.SECTION):
            reader.align(4)
            start = reader.position
            number, suffix_and_flags = reader.u8("m_qft"), reader.u8("m_SuffixAndFlags")
            if number not in ALLOWED:
                raise reader.malformed("m_qft", f"{number} is not a QUEUE_FORMAT_TYPE", offset=start)
            kind = QueueFormatType(number)
            if suffix_and_flags not in ALLOWED[kind]:
                rule = f"0x{suffix_and_flags:02X} does not go with m_qft {number}"
                raise reader.malformed("m_SuffixAndFlags", rule, offset=start + 1)
            reader.skip(2, "m_reserved")
            if reader.u8("m_qft") != number:
                raise reader.malformed("m_qft", "differs from the tag of the union", offset=start)
            if kind is QueueFormatType.UNKNOWN:
                return cls()
            reader.align(4)
            return cls(_read_name(reader, kind, suffix_and_flags))

    def write(self, writer: Writer) -> None:
        """Write the structure and what its pointer points to."""
        kind = self.queue_format_type
        writer.align(4)
        writer.u8(kind, "m_qft")
        writer.u8(self.suffix_and_flags, "m_SuffixAndFlags")
        writer.u16(0, "m_reserved")
        writer.u8(kind, "m_qft")
        if self.name is not None:
            writer.align(4)
            _write_name(writer, self.name)


def _read_name(reader: Reader, kind: QueueFormatType, suffix_and_flags: int) -> FormatName:
    match kind:
        case QueueFormatType.PUBLIC:
            return PublicFormatName(reader.guid("m_gPublicID"), _SUFFIXES[suffix_and_flags])
        case QueueFormatType.PRIVATE:
            queue = ObjectIdentifier.read(reader)
            return PrivateFormatName(queue.lineage, queue.uniquifier, _SUFFIXES[suffix_and_flags])
        case QueueFormatType.MACHINE:
            return MachineFormatName(reader.guid("m_gMachineID"), _SUFFIXES[suffix_and_flags])
        case QueueFormatType.CONNECTOR:
            return ConnectorFormatName(reader.guid("m_GConnectorID"), suffix_and_flags != 0)
    start = reader.position
    try:
        if kind is QueueFormatType.DL:
            return _read_distribution_list(reader)
        if kind is QueueFormatType.MULTICAST:
            multicast = MulticastIdentifier.read(reader)
            address = ipaddress.IPv4Address(multicast.address.to_bytes(4, "little"))
            return MulticastFormatName(str(address), multicast.port)
        return _read_direct(reader, kind, suffix_and_flags)
    except MQError as error:
        raise reader.malformed("m_qft", str(error), offset=start) from None


def _read_distribution_list(reader: Reader) -> DistributionListFormatName:
    with reader.header("DL_ID", "[MS-MQMQ] 2.2.9"):
        guid = reader.guid("m_DlGuid")
        read_string_pointer(reader, "m_pwzDomain")
        return DistributionListFormatName(guid, read_string(reader, "m_pwzDomain") or None)


def _read_direct(reader: Reader, kind: QueueFormatType, suffix_and_flags: int) -> DirectFormatName:
    field = "m_pDirectID" if kind is QueueFormatType.DIRECT else "m_pDirectSubqueueID"
    start = reader.position
    read_string_pointer(reader, field)
    name = DirectFormatName.from_wire_text(read_string(reader, field))
    if QueueFormat(name).suffix_and_flags != suffix_and_flags:
        raise reader.malformed(field, f"{name} does not go with 0x{suffix_and_flags:02X}", offset=start)
    return name


def _write_name(writer: Writer, name: FormatName) -> None:
    match name:
        case PublicFormatName(queue=guid):
            writer.guid(guid)
        case MachineFormatName(queue_manager=guid) | ConnectorFormatName(network=guid):
            writer.guid(guid)
        case PrivateFormatName():
            ObjectIdentifier(name.queue_manager, name.number).write(writer)
        case DirectFormatName():
            write_pointer(writer, "m_pDirectID")
            write_string(writer, name.wire_text, "m_pDirectID")
        case DistributionListFormatName():
            writer.guid(name.identifier)
            write_pointer(writer, "m_pwzDomain")
            write_string(writer, name.domain or "", "m_pwzDomain")
        case MulticastFormatName():
            address = int.from_bytes(ipaddress.IPv4Address(name.address).packed, "little")
            MulticastIdentifier(address, name.port).write(writer)
