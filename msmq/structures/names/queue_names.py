"""The names of queues in a UserHeader. [MS-MQMQ] 2.2.18.1.5 and 2.2.18.1.7.

Three bits of the header's flags determine the structure of a name, and some of the structures identify a
queue only together with another field; L{resolve_queue_name} combines them.
"""

from __future__ import annotations

import enum
from struct import Struct
from typing import ClassVar, Final, TypeAlias
from uuid import UUID

import attrs

from msmq.errors import LocalProtocolError
from msmq.structures.names.format_name import (
    DirectFormatName,
    FormatName,
    PrivateFormatName,
    PublicFormatName,
)
from msmq.structures.status import MQError
from msmq.wire.guid import guid_from_bytes
from msmq.wire.reader import Reader
from msmq.wire.writer import Writer


class QueueNameKind(enum.IntEnum):
    """Flags.DQ, Flags.AQ and Flags.RQ: the kind of a name, and its structure. [MS-MQMQ] 2.2.19.2.

    A DestinationQueue is of kind 0, 3, 5 or 7, an AdminQueue of any kind but 1 and 4, a ResponseQueue
    of any kind.
    """

    NONE = 0
    SAME_AS_ADMIN_QUEUE = 1
    PRIVATE_ON_SOURCE = 2
    PRIVATE_ON_DESTINATION = 3
    PRIVATE_ON_ADMIN_QUEUE_HOST = 4
    PUBLIC = 5
    PRIVATE = 6
    DIRECT = 7


@attrs.frozen
class PrivateQueueFormatNameId:
    """PrivateQueueFormatNameId: a private queue; another field has its host. [MS-MQMQ] 2.2.18.1.5.1.

    @ivar number: 32 bits, unique on that host.
    """

    SIZE: ClassVar[int] = 4

    number: int

    @classmethod
    def read(cls, reader: Reader) -> PrivateQueueFormatNameId:
        """Read the four bytes."""
        with reader.header("PrivateQueueFormatNameId", "[MS-MQMQ] 2.2.18.1.5.1"):
            return cls(reader.u32("PrivateQueueIdentifier"))

    def write(self, writer: Writer) -> None:
        """Write the four bytes.

        @raise LocalProtocolError: the number does not fit 32 bits.
        """
        writer.u32(self.number, "PrivateQueueIdentifier")


@attrs.frozen
class PublicQueueFormatName:
    """PublicQueueFormatName: a queue by its GUID in the directory. [MS-MQMQ] 2.2.18.1.7.1."""

    SIZE: ClassVar[int] = 16

    queue: UUID

    @classmethod
    def read(cls, reader: Reader) -> PublicQueueFormatName:
        """Read the sixteen bytes."""
        with reader.header("PublicQueueFormatName", "[MS-MQMQ] 2.2.18.1.7.1"):
            return cls(reader.guid("PublicQueueIdentifier"))

    def write(self, writer: Writer) -> None:
        """Write the sixteen bytes."""
        writer.guid(self.queue)


@attrs.frozen
class PrivateQueueFormatName:
    """PrivateQueueFormatName: a private queue and its host. [MS-MQMQ] 2.2.18.1.7.2.

    @ivar number: 32 bits.
    """

    LAYOUT: ClassVar[Struct] = Struct("<16sI")
    SIZE: ClassVar[int] = LAYOUT.size

    queue_manager: UUID
    number: int

    @classmethod
    def read(cls, reader: Reader) -> PrivateQueueFormatName:
        """Read the twenty bytes."""
        with reader.header("PrivateQueueFormatName", "[MS-MQMQ] 2.2.18.1.7.2"):
            guid, number = reader.unpack(cls.LAYOUT, "SourceQueueManager")
        return cls(guid_from_bytes(guid), number)

    def write(self, writer: Writer) -> None:
        """Write the twenty bytes.

        @raise LocalProtocolError: the number does not fit 32 bits.
        """
        writer.guid(self.queue_manager)
        writer.u32(self.number, "PrivateQueueIdentifier")


@attrs.frozen
class DirectQueueFormatName:
    r"""DirectQueueFormatName: a queue by the address of its computer. [MS-MQMQ] 2.2.18.1.5.2.

    @ivar text: C{OS:alpha\private$\orders}; peers may begin it with C{DIRECT=}, msmq never does.
        Any text is accepted here; L{resolve_queue_name} determines whether it names a queue.
    """

    MAXIMUM_COUNT: ClassVar[int] = 0xFFFE

    text: str

    @classmethod
    def read(cls, reader: Reader) -> DirectQueueFormatName:
        """Read the counted text, and its padding up to a multiple of four bytes.

        @raise RemoteProtocolError: Count is odd or 0, or the text does not end with its only NUL.
        """
        with reader.header("DirectQueueFormatName", "[MS-MQMQ] 2.2.18.1.5.2") as start:
            count = reader.u16("Count")
            if count < 2 or count % 2:
                raise reader.malformed("Count", f"{count} bytes are not NUL-terminated text", offset=start)
            text = reader.utf16(count, "DirectFormatName")
            reader.align(4)
        return cls(text)

    def write(self, writer: Writer) -> None:
        """Write Count, the text with its NUL, and zeros up to a multiple of four bytes.

        @raise LocalProtocolError: the text contains a NUL, or is longer than Count allows.
        """
        count = 2 * utf16_length(self.text) + 2
        if count > self.MAXIMUM_COUNT:
            raise LocalProtocolError(f"DirectFormatName: {count} bytes are more than {self.MAXIMUM_COUNT}")
        writer.u16(count, "Count")
        writer.utf16(self.text, "DirectFormatName")
        writer.align(4)


QueueName: TypeAlias = (
    PrivateQueueFormatNameId | PublicQueueFormatName | PrivateQueueFormatName | DirectQueueFormatName
)

STRUCTURE_OF_KIND: Final[dict[QueueNameKind, type[QueueName]]] = {
    QueueNameKind.PRIVATE_ON_SOURCE: PrivateQueueFormatNameId,
    QueueNameKind.PRIVATE_ON_DESTINATION: PrivateQueueFormatNameId,
    QueueNameKind.PRIVATE_ON_ADMIN_QUEUE_HOST: PrivateQueueFormatNameId,
    QueueNameKind.PUBLIC: PublicQueueFormatName,
    QueueNameKind.PRIVATE: PrivateQueueFormatName,
    QueueNameKind.DIRECT: DirectQueueFormatName,
}
"""The structure of each kind of name; the two missing kinds have no bytes."""


def utf16_length(text: str) -> int:
    """How many 16-bit units C{text} takes, without a NUL."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def read_queue_name(kind: QueueNameKind, reader: Reader) -> QueueName | None:
    """Read a name of this kind; C{None} for a kind without bytes.

    @raise RemoteProtocolError: it is malformed.
    """
    structure = STRUCTURE_OF_KIND.get(kind)
    return None if structure is None else structure.read(reader)


def resolve_queue_name(
    kind: QueueNameKind,
    name: QueueName | None,
    *,
    source_queue_manager: UUID,
    queue_manager_address: UUID,
    admin_queue: FormatName | None = None,
) -> FormatName | None:
    """Resolve a name of a UserHeader to the format name of a queue.

    C{None} if there is no name, or if it is a private queue of a host that the packet does not identify: a
    private number on the host of an AdminQueue that is missing, public or direct.

    @param source_queue_manager: of the same header.
    @param queue_manager_address: of the same header; null in a message to a direct name, and then
        C{PRIVATE_ON_DESTINATION} results in a name with the null GUID, which stands for the queue manager
            at which the message arrives.
    @param admin_queue: what the AdminQueue of the same header resolves to, for a ResponseQueue.
    @raise MQError: MQ_ERROR_ILLEGAL_FORMATNAME, the text of a direct name names no queue.
    """
    match name:
        case None:
            return admin_queue if kind is QueueNameKind.SAME_AS_ADMIN_QUEUE else None
        case PublicQueueFormatName():
            return PublicFormatName(name.queue)
        case PrivateQueueFormatName():
            return PrivateFormatName(name.queue_manager, name.number)
        case DirectQueueFormatName():
            return DirectFormatName.from_wire_text(name.text)
        case PrivateQueueFormatNameId():
            if kind is QueueNameKind.PRIVATE_ON_SOURCE:
                return PrivateFormatName(source_queue_manager, name.number)
            if kind is QueueNameKind.PRIVATE_ON_DESTINATION:
                return PrivateFormatName(queue_manager_address, name.number)
            if isinstance(admin_queue, PrivateFormatName):
                return PrivateFormatName(admin_queue.queue_manager, name.number)
    return None


def direct_text(name: DirectQueueFormatName) -> str:
    """A direct name for display: canonical if it names a queue, otherwise unchanged, with C{DIRECT=}."""
    try:
        return str(DirectFormatName.from_wire_text(name.text))
    except MQError:
        return name.text if name.text[:7].upper() == "DIRECT=" else f"DIRECT={name.text}"
