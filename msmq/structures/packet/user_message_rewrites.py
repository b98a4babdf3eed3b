"""Rewrites headers of a UserMessage: transaction flags, SecurityHeader, AdminQueue, class of dead letters.

Each function takes a view, which has the offsets of the headers, and returns new bytes or a new view.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct
from typing import Final, TypeAlias
from uuid import UUID

import attrs

from msmq.errors import LocalProtocolError
from msmq.structures.algorithms import AuthenticationLevel
from msmq.structures.names.format_name import FormatName, PrivateFormatName, PublicFormatName
from msmq.structures.names.queue_names import (
    PrivateQueueFormatName,
    PublicQueueFormatName,
    QueueName,
    QueueNameKind,
)
from msmq.structures.packet.base_header import INFINITE, BaseHeader
from msmq.structures.packet.kept_packet import packet_of
from msmq.structures.packet.multi_queue_format_header import MQFSignatureHeader
from msmq.structures.packet.security_header import SecurityHeader
from msmq.structures.packet.transaction_header import TransactionHeader
from msmq.structures.packet.user_header import UserHeader
from msmq.structures.packet.user_message_patches import replaced
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.structures.status import MQError

_U16: Final = Struct("<H")
_U32: Final = Struct("<I")

_TRANSACTION: Final = Struct("<IQII")
"""Flags, TxSequenceID as a number, TxSequenceNumber, PreviousTxSequenceNumber."""
_KEPT_FLAGS: Final = 0xFFFFFFFF & ~(TransactionHeader.FM | TransactionHeader.LM | TransactionHeader.ID)

_PACKET_SIZE: Final = 8
_TIME_TO_REACH_QUEUE: Final = 12
_TIME_TO_BE_RECEIVED: Final = 48
_USER_FLAGS: Final = 60
_FOREVER: Final = _U32.pack(INFINITE)

_NamedQueue: TypeAlias = tuple[QueueNameKind, QueueName | None]


def in_transaction(
    views: Sequence[UserMessageView],
    sequence: int,
    first: int,
    transaction_id: int,
    *,
    has_first: bool = True,
    has_last: bool = True,
) -> list[UserMessageView]:
    """Messages of one transaction, with their positions in a sequence. [MS-MQMQ] 2.2.20.5.

    @param sequence: TxSequenceID, as a number; C{first} is the TxSequenceNumber of the first message.
    @param transaction_id: Flags.ID (20 bits); all flags but this, FM and LM stay.
    @param has_first: whether the first of them is the first of the transaction in its sequence; so with
        C{has_last}.
    @raise LocalProtocolError: one is not transactional.
    """
    placed: list[UserMessageView] = []
    common = transaction_id << TransactionHeader.ID_SHIFT & TransactionHeader.ID
    last = first + len(views) - 1
    for number, view in enumerate(views, first):
        shape, packet = view.shape, view.packet
        if not shape.is_transactional:
            raise LocalProtocolError("TransactionHeader: the message has none")
        start = shape.names_end
        flags = _U32.unpack_from(packet, start)[0] & _KEPT_FLAGS | common
        if number == first and has_first:
            flags |= TransactionHeader.FM
        if number == last and has_last:
            flags |= TransactionHeader.LM
        header = _TRANSACTION.pack(flags, sequence, number, number - 1)
        packet = b"".join((packet[:start], header, packet[start + _TRANSACTION.size :]))
        placed.append(UserMessageView.shaped(packet, shape))
    return placed


def patch_security_header(
    view: UserMessageView, header: SecurityHeader, multi_queue_signature: bytes = b""
) -> UserMessageView:
    """The message with this SecurityHeader added. [MS-MQQB] 3.1.7.1.4.

    @param multi_queue_signature: for the MultiQueueFormatHeader, which then is the last part of the packet.
    @raise LocalProtocolError: the header cannot be written, or the packet would be too large.
    """
    if view.flags & UserHeader.SH:
        raise LocalProtocolError("SecurityHeader: the message has one")
    packet = packet_of(view.packet)
    kept = view.packet[len(packet) :]
    if multi_queue_signature:
        multi_queue = view.multi_queue_format
        if multi_queue is None:
            raise LocalProtocolError("MultiQueueFormatHeader: the message has none")
        signed = attrs.evolve(multi_queue, signature=MQFSignatureHeader(multi_queue_signature))
        packet = packet[: -len(multi_queue.to_bytes())] + signed.to_bytes()
    offset = view.security_offset
    packet = b"".join((packet[:offset], header.to_bytes(), packet[offset:]))
    if len(packet) > BaseHeader.MAXIMUM_PACKET_SIZE:
        raise LocalProtocolError(f"PacketSize: {len(packet)} is more than {BaseHeader.MAXIMUM_PACKET_SIZE}")
    packet = replaced(packet, _PACKET_SIZE, _U32.pack(len(packet)))
    packet = replaced(packet, _USER_FLAGS, _U32.pack(view.flags | UserHeader.SH))
    return UserMessageView(packet + kept)


def patch_authentication_level(view: UserMessageView, level: AuthenticationLevel) -> UserMessageView:
    """The message with this Flags.AS, and AU clear, for a stored packet. [MS-MQMQ] 2.2.20.6.

    A value from a peer is not trusted (reading 60), and both flags are sent as 0.

    @param view: of a message with a SecurityHeader; returned itself if it has these flags already.
    """
    offset = view.security_offset
    (flags,) = _U16.unpack_from(view.packet, offset)
    changed = flags & ~(SecurityHeader.AU | SecurityHeader.AS) | level << SecurityHeader.AS_SHIFT
    if changed == flags:
        return view
    return UserMessageView(replaced(view.packet, offset, _U16.pack(changed)))


def without_acknowledgements(view: UserMessageView) -> UserMessageView:
    """The message with Flags.PA, PR, NA and NR clear: no acknowledgements. [MS-MQMQ] 2.2.19.3."""
    offset = view.properties_offset
    return UserMessageView(replaced(view.packet, offset, bytes((view.packet[offset] & 0xF0,))))


def patch_message_class(view: UserMessageView, message_class: int) -> bytes:
    """The packet with this MessageClass, which is the reason in a dead letter. [MS-MQMQ] 2.2.19.3."""
    return replaced(view.packet, view.properties_offset + 2, _U16.pack(message_class))


def patch_dead_letter(view: UserMessageView, message_class: int) -> bytes:
    """The same, for a dead letter in an application's queue. [MS-MQMQ] 2.2.19.3.

    It never expires, causes no acknowledgements, and does not become a dead letter again.
    """
    packet = packet_of(patch_message_class(view, message_class))
    packet = replaced(packet, _TIME_TO_REACH_QUEUE, _FOREVER)
    packet = replaced(packet, _TIME_TO_BE_RECEIVED, _FOREVER)
    flags = view.flags & ~(UserHeader.JN | UserHeader.JP)
    packet = replaced(packet, _USER_FLAGS, _U32.pack(flags))
    return replaced(packet, view.properties_offset, bytes(1))


def with_admin_queue(view: UserMessageView, name: PrivateFormatName | PublicFormatName) -> UserMessageView:
    """The message with this AdminQueue in place of another one. [MS-MQMQ] 2.2.19.2.

    ResponseQueue stays the same queue: where it refers to the former AdminQueue, it is written out.
    A signature over the former name does not verify any more.

    @raise LocalProtocolError: the packet would be too large.
    """
    return _with_names(view, _admin_queue(name), _response_queue(view.user_header))


def with_other_queue_manager(view: UserMessageView, former: UUID, identifier: UUID) -> UserMessageView:
    """The message with the private queues of a queue manager that has another identifier now.

    Those in AdminQueue and ResponseQueue; a signature over the former names does not verify any more.

    @raise LocalProtocolError: the packet would be too large.
    """
    if not view.flags & (UserHeader.AQ | UserHeader.RQ):
        return view
    header = view.user_header
    admin = _moved(header.resolve_admin_queue, former, identifier)
    response = _moved(header.resolve_response_queue, former, identifier)
    if admin is None and response is None:
        return view
    return _with_names(
        view,
        (header.admin_kind, header.admin_queue) if admin is None else admin,
        (header.response_kind, header.response_queue) if response is None else response,
    )


def _moved(resolve: Callable[[], FormatName | None], former: UUID, identifier: UUID) -> _NamedQueue | None:
    """The name of a private queue of the former identifier with the new one; C{None} for another queue."""
    try:
        name = resolve()
    except MQError:
        # It is invalid.
        return None
    if not isinstance(name, PrivateFormatName) or name.queue_manager != former:
        return None
    return QueueNameKind.PRIVATE, PrivateQueueFormatName(identifier, name.number)


def _with_names(view: UserMessageView, admin: _NamedQueue, response: _NamedQueue) -> UserMessageView:
    """The message with this AdminQueue and ResponseQueue.

    @raise LocalProtocolError: the packet would be too large.
    """
    (admin_kind, admin_queue), (response_kind, response_queue) = admin, response
    header = attrs.evolve(
        view.user_header,
        admin_kind=admin_kind,
        admin_queue=admin_queue,
        response_kind=response_kind,
        response_queue=response_queue,
    ).to_bytes()
    former = packet_of(view.packet)
    packet = b"".join((former[: BaseHeader.SIZE], header, former[view.transaction_offset :]))
    if len(packet) > BaseHeader.MAXIMUM_PACKET_SIZE:
        raise LocalProtocolError(f"PacketSize: {len(packet)} is more than {BaseHeader.MAXIMUM_PACKET_SIZE}")
    kinds = admin_kind << UserHeader.AQ_SHIFT | response_kind << UserHeader.RQ_SHIFT
    flags = view.flags & ~(UserHeader.AQ | UserHeader.RQ) | kinds
    packet = replaced(packet, _USER_FLAGS, _U32.pack(flags))
    packet = replaced(packet, _PACKET_SIZE, _U32.pack(len(packet)))
    return UserMessageView(packet + view.packet[len(former) :])


def _response_queue(header: UserHeader) -> _NamedQueue:
    """ResponseQueue without a reference to AdminQueue."""
    match header.response_kind:
        case QueueNameKind.SAME_AS_ADMIN_QUEUE:
            return header.admin_kind, header.admin_queue
        case QueueNameKind.PRIVATE_ON_ADMIN_QUEUE_HOST:
            try:
                name = header.resolve_response_queue()
            except MQError:
                # The name of the administration queue is invalid.
                name = None
            if isinstance(name, PrivateFormatName):
                return QueueNameKind.PRIVATE, PrivateQueueFormatName(name.queue_manager, name.number)
            return QueueNameKind.NONE, None
    return header.response_kind, header.response_queue


def _admin_queue(name: PrivateFormatName | PublicFormatName) -> _NamedQueue:
    if isinstance(name, PublicFormatName):
        return QueueNameKind.PUBLIC, PublicQueueFormatName(name.queue)
    return QueueNameKind.PRIVATE, PrivateQueueFormatName(name.queue_manager, name.number)
