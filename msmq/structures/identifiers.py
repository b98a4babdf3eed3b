"""Identifiers of messages, queues, sequences and transactions. [MS-MQMQ] 2.2."""

from __future__ import annotations

import re
from functools import total_ordering
from struct import Struct
from typing import ClassVar, Final
from uuid import UUID

import attrs

from msmq.errors import LocalProtocolError
from msmq.quoting import kind_of, quoted
from msmq.structures.status import MQError, Status
from msmq.wire.guid import braced, parse_guid
from msmq.wire.reader import Reader
from msmq.wire.structure import Structure
from msmq.wire.writer import Writer

_MESSAGE_IDENTIFIER: Final = re.compile(r"(?P<guid>[^\\]+)\\(?P<ordinal>[0-9]{1,10})", re.ASCII)


@total_ordering
@attrs.frozen
class TxSequenceID(Structure):
    """TxSequenceID: a sequence of transactional messages between two queue managers. [MS-MQMQ] 2.2.18.1.2.

    Ordered by time stamp, then by ordinal.

    @ivar ordinal: 32 bits.
    @ivar timestamp: 32 bits.
    """

    LAYOUT: ClassVar[Struct] = Struct("<II")
    SIZE: ClassVar[int] = LAYOUT.size

    ordinal: int
    timestamp: int

    @classmethod
    def from_value(cls, value: int) -> TxSequenceID:
        """The identifier that is this unsigned 64-bit number."""
        return cls(value & 0xFFFFFFFF, value >> 32)

    @property
    def value(self) -> int:
        """The identifier as the unsigned 64-bit number that it is compared by."""
        return self.timestamp << 32 | self.ordinal

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, TxSequenceID):
            return NotImplemented
        return self.value < other.value

    @classmethod
    def read(cls, reader: Reader) -> TxSequenceID:
        """Read the eight bytes, as a field of the structure that the reader is in."""
        ordinal, timestamp = reader.unpack(cls.LAYOUT, "TxSequenceID")
        return cls(ordinal, timestamp)

    def write(self, writer: Writer) -> None:
        """Write the eight bytes.

        @raise LocalProtocolError: a half does not fit 32 bits.
        """
        writer.u32(self.ordinal, "TxSequenceID.Ordinal")
        writer.u32(self.timestamp, "TxSequenceID.TimeStamp")


@attrs.frozen
class MessageIdentifier(Structure):
    r"""MessageIdentifier: the unique identifier of a message, printed as C{{GUID}\N}. [MS-MQMQ] 2.2.18.1.3.

    The CorrelationID of an acknowledgement consists of its twenty bytes.

    @ivar queue_manager: the one that sent the message first.
    @ivar ordinal: 32 bits, unique among the messages of that queue manager.
    """

    SIZE: ClassVar[int] = 20

    queue_manager: UUID
    ordinal: int

    def __attrs_post_init__(self) -> None:
        # One for each message: two comparisons in the usual case.
        if type(self.queue_manager) is not UUID and not isinstance(self.queue_manager, UUID):
            raise LocalProtocolError(
                f"MessageIdentifier: queue_manager is {kind_of(self.queue_manager)}; it has to be a UUID"
            )
        if type(self.ordinal) is not int and not isinstance(self.ordinal, int):
            raise LocalProtocolError(
                f"MessageIdentifier: ordinal is {kind_of(self.ordinal)}; it has to be an int"
            )

    @classmethod
    def parse(cls, text: str) -> MessageIdentifier:
        r"""Read C{{GUID}\N}, N decimal; the braces may be missing.

        @raise LocalProtocolError: C{text} is not a text.
        @raise MQError: MQ_ERROR_ILLEGAL_PROPERTY_VALUE.
        """
        if not isinstance(text, str):
            raise LocalProtocolError(f"MessageIdentifier: text is {kind_of(text)}; it has to be a str")
        match = _MESSAGE_IDENTIFIER.fullmatch(text)
        try:
            if match is None or int(match["ordinal"]) > 0xFFFFFFFF:
                raise ValueError(text)
            return cls(parse_guid(match["guid"]), int(match["ordinal"]))
        except ValueError:
            detail = f"{quoted(text)} is not an identifier of the form {{GUID}}\\N"
            raise MQError(Status.MQ_ERROR_ILLEGAL_PROPERTY_VALUE, detail) from None

    @classmethod
    def read(cls, reader: Reader) -> MessageIdentifier:
        """Read the twenty bytes, as a field of the structure that the reader is in."""
        return cls(reader.guid("QueueManagerGuid"), reader.u32("Ordinal"))

    def write(self, writer: Writer) -> None:
        """Write the twenty bytes.

        @raise LocalProtocolError: the ordinal does not fit 32 bits.
        """
        writer.guid(self.queue_manager)
        writer.u32(self.ordinal, "Ordinal")

    def __str__(self) -> str:
        return f"{braced(self.queue_manager)}\\{self.ordinal}"


@attrs.frozen
class ObjectIdentifier(Structure):
    """OBJECTID: of a private queue, its queue manager and its number there. [MS-MQMQ] 2.2.8.

    @ivar uniquifier: 32 bits.
    """

    SIZE: ClassVar[int] = 20

    lineage: UUID
    uniquifier: int

    @classmethod
    def read(cls, reader: Reader) -> ObjectIdentifier:
        """Read the twenty bytes."""
        with reader.header("OBJECTID", "[MS-MQMQ] 2.2.8"):
            return cls(reader.guid("Lineage"), reader.u32("Uniquifier"))

    def write(self, writer: Writer) -> None:
        """Write the twenty bytes.

        @raise LocalProtocolError: the uniquifier does not fit 32 bits.
        """
        writer.guid(self.lineage)
        writer.u32(self.uniquifier, "Uniquifier")


@attrs.frozen
class SequenceInfo(Structure):
    """SEQUENCE_INFO: the position of a message in its sequence. [MS-MQMQ] 2.2.5.

    @ivar seq_id: the sequence, a signed 64-bit number.
    @ivar seq_no: its sequence number, from 1.
    @ivar prev_no: the sequence number of the previous message, 0 for the first.
    """

    SIZE: ClassVar[int] = 16

    seq_id: int
    seq_no: int
    prev_no: int

    @classmethod
    def read(cls, reader: Reader) -> SequenceInfo:
        """Read the sixteen bytes."""
        with reader.header("SEQUENCE_INFO", "[MS-MQMQ] 2.2.5"):
            return cls(reader.i64("SeqID"), reader.u32("SeqNo"), reader.u32("PrevNo"))

    def write(self, writer: Writer) -> None:
        """Write the sixteen bytes.

        @raise LocalProtocolError: a number that does not fit its field.
        """
        writer.i64(self.seq_id, "SeqID")
        writer.u32(self.seq_no, "SeqNo")
        writer.u32(self.prev_no, "PrevNo")


@attrs.frozen
class XactUow(Structure):
    """XACTUOW: the unit of work of a transaction. [MS-MQMQ] 2.2.18.1.8.

    @ivar guid: its sixteen bytes, read as a GUID.
    """

    SIZE: ClassVar[int] = 16

    guid: UUID

    @classmethod
    def read(cls, reader: Reader) -> XactUow:
        """Read the sixteen bytes."""
        with reader.header("XACTUOW", "[MS-MQMQ] 2.2.18.1.8"):
            return cls(reader.guid("rgb"))

    def write(self, writer: Writer) -> None:
        """Write the sixteen bytes."""
        writer.guid(self.guid)


@attrs.frozen
class DistributionListIdentifier(Structure):
    """DL_ID: a distribution list, and the domain that holds it. [MS-MQMQ] 2.2.9.

    Its two members are written one after the other.

    @ivar dl_guid: m_DlGuid.
    @ivar domain: m_pwzDomain without its NUL; C{None} without a domain, which is written as an empty text.
    """

    dl_guid: UUID
    domain: str | None = None

    @classmethod
    def read(cls, reader: Reader) -> DistributionListIdentifier:
        """Read the GUID, and text up to the end."""
        with reader.header("DL_ID", "[MS-MQMQ] 2.2.9"):
            guid = reader.guid("m_DlGuid")
            return cls(guid, reader.utf16(reader.remaining, "m_pwzDomain") or None)

    def write(self, writer: Writer) -> None:
        """Write the GUID and the NUL-terminated text.

        @raise LocalProtocolError: the text holds a NUL.
        """
        writer.guid(self.dl_guid)
        writer.utf16(self.domain or "", "m_pwzDomain")


@attrs.frozen
class MulticastIdentifier(Structure):
    """MULTICAST_ID: an IP multicast address and a port, 32 bits each. [MS-MQMQ] 2.2.10."""

    SIZE: ClassVar[int] = 8

    address: int
    port: int

    @classmethod
    def read(cls, reader: Reader) -> MulticastIdentifier:
        """Read the eight bytes."""
        with reader.header("MULTICAST_ID", "[MS-MQMQ] 2.2.10"):
            return cls(reader.u32("m_address"), reader.u32("m_port"))

    def write(self, writer: Writer) -> None:
        """Write the eight bytes.

        @raise LocalProtocolError: a number that does not fit 32 bits.
        """
        writer.u32(self.address, "m_address")
        writer.u32(self.port, "m_port")
