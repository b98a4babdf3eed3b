"""Fields of a packet with their positions, as its readers find them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from struct import Struct, calcsize
from typing import Any, Final

import attrs

from msmq.decoding.records import Record
from msmq.structures.internal.connection_parameters import ConnectionParameters
from msmq.structures.internal.establish_connection import EstablishConnection
from msmq.structures.internal.session_ack import SessionAck
from msmq.structures.packet.base_header import BaseHeader
from msmq.structures.packet.internal_header import InternalHeader, InternalPacketType
from msmq.structures.packet.session_header import SessionHeader
from msmq.structures.packet.user_header import UserHeader
from msmq.structures.packet.user_message import UserMessage
from msmq.wire.reader import Reader


@attrs.frozen
class PacketField:
    """One field.

    @ivar offset: where it begins, from the beginning of the packet.
    @ivar size: its bytes.
    @ivar header: its header, as in the lines of C{msmq decode}.
    @ivar name: as in the document; with the name of a structure in the header and a dot before it.
    """

    offset: int
    size: int
    header: str
    name: str

    def to_json(self) -> Record:
        """The field in a line of C{msmq decode}."""
        return {"offset": self.offset, "size": self.size, "header": self.header, "field": self.name}


def packet_fields(packet: bytes) -> Sequence[PacketField]:
    """The fields of a whole packet, in order and without gaps; those without bytes are left out.

    @param packet: with the SessionHeader that a UserMessage's flags announce.
    @raise RemoteProtocolError: it is malformed.
    """
    beginning = Reader(packet)
    reader = _FieldReader(packet)
    names: list[str] = []
    if BaseHeader.read(beginning).is_internal:
        _INTERNAL[InternalHeader.read(beginning).packet_type].read(reader)
    else:
        user = UserMessage.read(reader).user
        names = [name for name in _QUEUES if getattr(user, _QUEUES[name]) is not None]
    return list(_named(reader.found, names))


@attrs.frozen
class _Span:
    """Bytes that were read, with the structure that they belong to and how many were begun before."""

    offset: int
    size: int
    structure: str
    field: str
    number: int


class _FieldReader(Reader):
    """Records what is read."""

    __slots__ = ("_begun", "found")

    def __init__(self, data: bytes) -> None:
        Reader.__init__(self, data)
        self._begun = 0
        self.found: list[_Span] = []

    def header(self, name: str, section: str) -> Any:
        self._begun += 1
        return Reader.header(self, name, section)

    def unpack(self, layout: Struct, field: str) -> tuple[Any, ...]:
        values = Reader.unpack(self, layout, field)
        whole = self.found.pop()
        offset = whole.offset
        for name, size in zip(_LAYOUTS[whole.structure, field], _sizes(layout.format), strict=True):
            self.found.append(attrs.evolve(whole, offset=offset, size=size, field=name))
            offset += size
        return values

    def _passed(self, size: int, field: str) -> int:
        start = Reader._passed(self, size, field)
        self.found.append(_Span(start, size, self._header, field, self._begun))
        return start


@cache
def _sizes(layout: str) -> Sequence[int]:
    return [calcsize(f"<{item}") for item in re.findall(r"\d*[a-zA-Z]", layout)]


def _named(found: Sequence[_Span], queues: Sequence[str]) -> Iterator[PacketField]:
    """The fields, with the names of the structures in headers.

    @param queues: the fields of the UserHeader that have a name of a queue, in order.
    """
    remaining = {"UserHeader": iter(queues), "MultiQueueFormatHeader": iter(_LISTS)}
    inner, number = "", 0
    for span in found:
        header = _OUTER.get(span.structure)
        if header is not None and span.number != number:
            number = span.number
            inner = next(remaining[header])
        if span.size:
            name = span.field if header is None else f"{inner}.{span.field}"
            yield PacketField(span.offset, span.size, header or span.structure, name)


_INTERNAL: Final[
    Mapping[InternalPacketType, type[EstablishConnection | ConnectionParameters | SessionAck]]
] = {
    InternalPacketType.ESTABLISH_CONNECTION: EstablishConnection,
    InternalPacketType.CONNECTION_PARAMETERS: ConnectionParameters,
    InternalPacketType.SESSION_ACK: SessionAck,
}

_QUEUES: Final = {
    "DestinationQueue": "destination_queue",
    "AdminQueue": "admin_queue",
    "ResponseQueue": "response_queue",
}

_LISTS: Final = ("Destination", "Administration", "Response", "Signature")

_OUTER: Final[Mapping[str, str]] = {
    "PrivateQueueFormatNameId": UserHeader.NAME,
    "PrivateQueueFormatName": UserHeader.NAME,
    "PublicQueueFormatName": UserHeader.NAME,
    "DirectQueueFormatName": UserHeader.NAME,
    "MQFAddressHeader": "MultiQueueFormatHeader",
    "MQFSignatureHeader": "MultiQueueFormatHeader",
}
"""Structures within headers."""

_LAYOUTS: Final[Mapping[tuple[str, str], Sequence[str]]] = {
    (names[0], names[1]): names[1:]
    for names in (
        (BaseHeader.NAME, *BaseHeader.FIELDS),
        (SessionHeader.NAME, *SessionHeader.FIELDS),
        ("InternalHeader", "Reserved", "Flags"),
        (
            *("EstablishConnectionHeader", "ClientGuid", "ServerGuid", "TimeStamp", "OperatingSystem"),
            *("Reserved", "Padding"),
        ),
        ("ConnectionParametersHeader", "RecoverableAckTimeout", "AckTimeout", "Reserved", "WindowSize"),
        (
            *("UserHeader", "SourceQueueManager", "QueueManagerAddress", "TimeToBeReceived", "SentTime"),
            *("MessageID", "Flags"),
        ),
        ("PrivateQueueFormatName", "SourceQueueManager", "PrivateQueueIdentifier"),
        (
            *("TransactionHeader", "Flags", "TxSequenceID.Ordinal", "TxSequenceID.TimeStamp"),
            *("TxSequenceNumber", "PreviousTxSequenceNumber"),
        ),
        (
            *("SecurityHeader", "Flags", "SenderIdSize", "EncryptionKeySize", "SignatureSize"),
            *("SenderCertSize", "ProviderInfoSize"),
        ),
        (
            *("MessagePropertiesHeader", "Flags", "LabelLength", "MessageClass", "CorrelationID", "BodyType"),
            *("ApplicationTag", "MessageSize", "AllocationBodySize", "PrivacyLevel", "HashAlgorithm"),
            *("EncryptionAlgorithm", "ExtensionSize"),
        ),
        ("DebugHeader", "Flags", "Reserved"),
        ("SoapHeader", "HeaderSectionID", "Reserved", "HeaderDataLength"),
        ("SoapHeader", "BodySectionID", "Reserved1", "BodyDataLength"),
        ("MQFAddressHeader", "HeaderSize", "HeaderID", "Reserved", "ElementCount"),
        ("MQFSignatureHeader", "ID", "Reserved", "Size"),
    )
}
"""The fields of each group of numbers that is read at once, by structure and first field."""
