"""What a queue manager may change in a UserMessage packet that it passes on, and nothing else.

Each function gives new bytes.
The packet has been judged by L{UserMessageView<msmq.structures.packet.user_message_view.UserMessageView>}
before; nothing of it is checked again.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

import attrs

from msmq.errors import LocalProtocolError
from msmq.structures.algorithms import AuthenticationLevel
from msmq.structures.identifiers import TxSequenceID
from msmq.structures.packet.base_header import INFINITE, BaseHeader
from msmq.structures.packet.kept_packet import packet_of
from msmq.structures.packet.multi_queue_format_header import MQFSignatureHeader
from msmq.structures.packet.security_header import SecurityHeader
from msmq.structures.packet.session_header import SessionHeader
from msmq.structures.packet.transaction_header import TransactionHeader
from msmq.structures.packet.user_header import MAXIMUM_HOP_COUNT, UserHeader
from msmq.structures.packet.user_message_walk import NAMES, Unusual, after_name, after_other_names
from msmq.wire.reader import Reader
from msmq.wire.writer import Writer

if TYPE_CHECKING:
    from msmq.structures.packet.user_message_view import UserMessageView

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
    """[MS-MQMQ] 2.2.20.4 the packet with this SessionHeader riding on it, or with none.

    PacketSize does not count the header; one that the packet had is gone.

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
    """[MS-MQMQ] 2.2.19.2 the packet with Flags.RC as given, 0 to 0x1D.

    @raise LocalProtocolError: more hops than a packet can have.
    """
    if not 0 <= hop_count <= MAXIMUM_HOP_COUNT:
        raise LocalProtocolError(f"Flags.RC: {hop_count} is not within 0 to {MAXIMUM_HOP_COUNT}")
    (flags,) = _U32.unpack_from(packet, _USER_FLAGS)
    return _replaced(packet, _USER_FLAGS, _U32.pack(flags & ~UserHeader.RC | hop_count))


def patch_queue_manager_address(packet: bytes, owner: bytes) -> bytes:
    """[MS-MQMQ] 2.2.20.1 the packet with UserHeader.QueueManagerAddress as given, the 16 bytes of a GUID."""
    return _replaced(packet, _QUEUE_MANAGER_ADDRESS, owner)


def patch_time_to_reach_queue(packet: bytes, seconds: int) -> bytes:
    """[MS-MQMQ] 2.2.19.1 the packet with this TimeToReachQueue, in seconds.

    @raise LocalProtocolError: the number does not fit 32 bits.
    """
    writer = Writer()
    writer.u32(seconds, "TimeToReachQueue")
    return _replaced(packet, _TIME_TO_REACH_QUEUE, writer.getvalue())


def patch_sequence(packet: bytes, sequence_id: TxSequenceID, number: int, previous: int) -> bytes:
    """[MS-MQMQ] 2.2.20.5 the packet at this place of a sequence.

    @raise LocalProtocolError: the message is not transactional, or a number does not fit its field.
    """
    (flags,) = _U32.unpack_from(packet, _USER_FLAGS)
    if not flags & UserHeader.TH:
        raise LocalProtocolError("TransactionHeader: the message has none")
    if number == 0:
        raise LocalProtocolError("TxSequenceNumber: 0 is no place in a sequence")
    writer = Writer()
    sequence_id.write(writer)
    writer.u32(number, "TxSequenceNumber")
    writer.u32(previous, "PreviousTxSequenceNumber")
    return _replaced(packet, _names_end(packet, flags) + 4, writer.getvalue())


def patch_transaction(view: UserMessageView, *, is_first: bool, is_last: bool, transaction_id: int) -> bytes:
    """[MS-MQMQ] 2.2.20.5 the packet with these Flags.FM, LM and ID (20 bits); the other flags stay.

    @raise LocalProtocolError: the message is not transactional.
    """
    if not view.is_transactional:
        raise LocalProtocolError("TransactionHeader: the message has none")
    place = view.transaction_offset
    (flags,) = _U32.unpack_from(view.packet, place)
    flags &= ~(TransactionHeader.FM | TransactionHeader.LM | TransactionHeader.ID)
    flags |= TransactionHeader.FM * is_first | TransactionHeader.LM * is_last
    flags |= transaction_id << TransactionHeader.ID_SHIFT & TransactionHeader.ID
    return _replaced(view.packet, place, _U32.pack(flags))


def patch_security_header(
    view: UserMessageView, header: SecurityHeader, multi_queue_signature: bytes = b""
) -> UserMessageView:
    """[MS-MQQB] 3.1.7.1.4 the message with this SecurityHeader, which a message of ours does not have yet.

    @param multi_queue_signature: for the MultiQueueFormatHeader, which then is the last part of the packet.
    @raise LocalProtocolError: the header cannot be written, or the packet gets larger than any may be.
    """
    if view.flags & UserHeader.SH:
        raise LocalProtocolError("SecurityHeader: the message has one")
    packet = packet_of(view.packet)
    kept = view.packet[len(packet) :]
    if multi_queue_signature:
        multi_queue = view.multi_queue_format()
        if multi_queue is None:
            raise LocalProtocolError("MultiQueueFormatHeader: the message has none")
        signed = attrs.evolve(multi_queue, signature=MQFSignatureHeader(multi_queue_signature))
        packet = packet[: -len(multi_queue.to_bytes())] + signed.to_bytes()
    place = view.security_offset
    packet = b"".join((packet[:place], header.to_bytes(), packet[place:]))
    if len(packet) > BaseHeader.MAXIMUM_PACKET_SIZE:
        raise LocalProtocolError(f"PacketSize: {len(packet)} is more than {BaseHeader.MAXIMUM_PACKET_SIZE}")
    packet = _replaced(packet, _PACKET_SIZE, _U32.pack(len(packet)))
    packet = _replaced(packet, _USER_FLAGS, _U32.pack(view.flags | UserHeader.SH))
    return type(view)(packet + kept)


def patch_authentication_level(view: UserMessageView, level: AuthenticationLevel) -> UserMessageView:
    """[MS-MQMQ] 2.2.20.6 the message with this Flags.AS, and AU clear, for a packet that is kept here.

    What a peer says there is worth nothing (reading 60), and nothing is sent there.

    @param view: of a message with a SecurityHeader; it is given back if it is like that already.
    """
    place = view.security_offset
    (flags,) = _U16.unpack_from(view.packet, place)
    changed = flags & ~(SecurityHeader.AU | SecurityHeader.AS) | level << SecurityHeader.AS_SHIFT
    if changed == flags:
        return view
    return type(view)(_replaced(view.packet, place, _U16.pack(changed)))


def without_acknowledgements(view: UserMessageView) -> UserMessageView:
    """[MS-MQMQ] 2.2.19.3 the message with Flags.PA, PR, NA and NR clear, of which nobody is told anything."""
    place = view.properties_offset
    return type(view)(_replaced(view.packet, place, bytes((view.packet[place] & 0xF0,))))


def patch_message_class(view: UserMessageView, message_class: int) -> bytes:
    """[MS-MQMQ] 2.2.19.3 the packet with this MessageClass, as a dead letter tells why it is one."""
    return _replaced(view.packet, view.properties_offset + 2, _U16.pack(message_class))


def patch_dead_letter(view: UserMessageView, message_class: int) -> bytes:
    """[MS-MQMQ] 2.2.19.3 the same, of one that lies where applications look for messages.

    It asks for nothing any more: it never expires, nobody is told of it, and it is no dead letter again.
    """
    packet = packet_of(patch_message_class(view, message_class))
    packet = _replaced(packet, _TIME_TO_REACH_QUEUE, _FOREVER)
    packet = _replaced(packet, _TIME_TO_BE_RECEIVED, _FOREVER)
    flags = view.flags & ~(UserHeader.JN | UserHeader.JP)
    packet = _replaced(packet, _USER_FLAGS, _U32.pack(flags))
    return _replaced(packet, view.properties_offset, bytes(1))


def _names_end(packet: bytes, flags: int) -> int:
    """Where the UserHeader ends; the reader of the header finds it where the quick walk does not decide."""
    try:
        return after_other_names(packet, after_name(packet, NAMES, flags >> UserHeader.DQ_SHIFT & 7), flags)
    except Unusual:
        reader = Reader(memoryview(packet)[BaseHeader.SIZE :], base=BaseHeader.SIZE)
        UserHeader.read(reader)
        return reader.position


def _replaced(packet: bytes, position: int, part: bytes) -> bytes:
    return b"".join((packet[:position], part, packet[position + len(part) :]))
