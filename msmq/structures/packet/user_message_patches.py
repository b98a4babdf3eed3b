"""Patches fields in the bytes of a UserMessage packet in transit, as far as a queue manager may.

Each function returns new bytes.
A L{view<msmq.structures.packet.user_message_view>} has validated the packet before; it is not checked again.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from msmq.errors import LocalProtocolError
from msmq.structures.identifiers import TxSequenceID
from msmq.structures.packet.base_header import INFINITE, BaseHeader
from msmq.structures.packet.session_header import SessionHeader
from msmq.structures.packet.user_header import MAXIMUM_HOP_COUNT, UserHeader
from msmq.structures.packet.user_message_walk import NAMES, Unusual, after_name, after_other_names
from msmq.wire.reader import Reader
from msmq.wire.writer import Writer

_U16: Final = Struct("<H")
_U32: Final = Struct("<I")

_BASE_FLAGS: Final = 2
_PACKET_SIZE: Final = 8
_TIME_TO_REACH_QUEUE: Final = 12
_TIME_TO_BE_RECEIVED: Final = 48
_USER_FLAGS: Final = 60
_QUEUE_MANAGER_ADDRESS: Final = 32
_FOREVER: Final = _U32.pack(INFINITE)


def patch_session_header(packet: bytes, header: SessionHeader | None) -> bytes:
    """The packet with this SessionHeader attached, or without one. [MS-MQMQ] 2.2.20.4.

    PacketSize does not count the header; one that the packet had is removed.

    @raise LocalProtocolError: the header cannot be written.
    """
    (flags,) = _U16.unpack_from(packet, _BASE_FLAGS)
    (size,) = _U32.unpack_from(packet, _PACKET_SIZE)
    if header is None:
        tail, flags = b"", flags & ~BaseHeader.SH
    else:
        tail, flags = header.to_bytes(), flags | BaseHeader.SH
    return b"".join((packet[:2], _U16.pack(flags), packet[4:size], tail))


def patch_hop_count(packet: bytes, hop_count: int) -> bytes:
    """The packet with Flags.RC as given, 0 to 0x1D. [MS-MQMQ] 2.2.19.2.

    @raise LocalProtocolError: more hops than a packet can have.
    """
    if not 0 <= hop_count <= MAXIMUM_HOP_COUNT:
        raise LocalProtocolError(f"Flags.RC: {hop_count} is not within 0 to {MAXIMUM_HOP_COUNT}")
    (flags,) = _U32.unpack_from(packet, _USER_FLAGS)
    return replaced(packet, _USER_FLAGS, _U32.pack(flags & ~UserHeader.RC | hop_count))


def patch_queue_manager_address(packet: bytes, owner: bytes) -> bytes:
    """The packet with UserHeader.QueueManagerAddress as given, the 16 bytes of a GUID. [MS-MQMQ] 2.2.20.1."""
    return replaced(packet, _QUEUE_MANAGER_ADDRESS, owner)


def patch_time_to_reach_queue(packet: bytes, seconds: int) -> bytes:
    """The packet with this TimeToReachQueue, in seconds. [MS-MQMQ] 2.2.19.1.

    @raise LocalProtocolError: the number does not fit 32 bits.
    """
    writer = Writer()
    writer.u32(seconds, "TimeToReachQueue")
    return replaced(packet, _TIME_TO_REACH_QUEUE, writer.getvalue())


def patch_sequence(packet: bytes, sequence_id: TxSequenceID, number: int, previous: int) -> bytes:
    """The packet with this position in a sequence. [MS-MQMQ] 2.2.20.5.

    @raise LocalProtocolError: the message is not transactional, or a number does not fit its field.
    """
    (flags,) = _U32.unpack_from(packet, _USER_FLAGS)
    if not flags & UserHeader.TH:
        raise LocalProtocolError("TransactionHeader: the message has none")
    if number == 0:
        raise LocalProtocolError("TxSequenceNumber: 0 is not a sequence number")
    writer = Writer()
    sequence_id.write(writer)
    writer.u32(number, "TxSequenceNumber")
    writer.u32(previous, "PreviousTxSequenceNumber")
    return replaced(packet, _names_end(packet, flags) + 4, writer.getvalue())


def _names_end(packet: bytes, flags: int) -> int:
    """The end of the UserHeader; the full reader of the header finds it if the fast path cannot."""
    try:
        return after_other_names(packet, after_name(packet, NAMES, flags >> UserHeader.DQ_SHIFT & 7), flags)
    except Unusual:
        reader = Reader(memoryview(packet)[BaseHeader.SIZE :], base=BaseHeader.SIZE)
        UserHeader.read(reader)
        return reader.position


def replaced(packet: bytes, position: int, part: bytes) -> bytes:
    """The packet with these bytes at a position, in place of as many."""
    return b"".join((packet[:position], part, packet[position + len(part) :]))
