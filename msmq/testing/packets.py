"""Builders of UserMessage packets for tests."""

from __future__ import annotations

import itertools
from uuid import UUID

from msmq.errors import LocalProtocolError
from msmq.queues.arriving.message import Message
from msmq.queues.arriving.packet_builder import build_packet
from msmq.quoting import kind_of
from msmq.structures.identifiers import TxSequenceID
from msmq.structures.names.format_name import FormatName, parse_format_name
from msmq.structures.packet.user_message_patches import patch_sequence
from msmq.structures.packet.user_message_view import UserMessageView

PEER = UUID("00000000-0000-4000-8000-00000000beef")
"""Identifier of the queue manager from which built packets come by default."""

SENT_TIME = 1_700_000_000
"""SentTime of built packets by default: that of the start of a L{ManualClock<msmq.testing.ManualClock>}."""

_numbers = itertools.count(1)


def message_packet(
    message: Message | bytes | str = b"",
    destination: FormatName | str = "DIRECT=OS:localhost\\private$\\orders",
    *,
    source: UUID = PEER,
    destination_queue_manager: UUID | None = None,
    message_id: int | None = None,
    sent_time: int = SENT_TIME,
    sequence: tuple[int, int, int] | None = None,
) -> bytes:
    """The UserMessage packet of a message, as a queue manager sends it without its SessionHeader.
    [MS-MQMQ] 2.2.20.

    @param message: a message, or only its body; a text is encoded as UTF-8.
    @param destination: a format name, as an object or as text.
    @param source: identifier of the queue manager that sends it.
    @param destination_queue_manager: identifier of that of the queue; needed for a public format name.
    @param message_id: 1 to 0xFFFFFFFF; by default one that no other packet of this process has.
    @param sent_time: seconds since 1970-01-01 UTC.
    @param sequence: TxSequenceID as one number, TxSequenceNumber and PreviousTxSequenceNumber of a
        transactional message ([MS-MQMQ] 2.2.20.5); by default the first message of sequence 0.
    @raise MQError: no packet can have such a message or destination.
    @raise LocalProtocolError: an argument is of another type, or does not fit its field.
    """
    if isinstance(message, str):
        message = message.encode()
    if isinstance(message, (bytes, bytearray)):
        message = Message(body=bytes(message), transactional=sequence is not None)
    if not isinstance(message, Message):
        raise LocalProtocolError(f"message is {kind_of(message)}, it has to be a Message, bytes or text")
    if sequence is not None and not message.transactional:
        raise LocalProtocolError("sequence is given for a message that is not transactional")
    packet = build_packet(
        message,
        parse_format_name(destination) if isinstance(destination, str) else destination,
        source=source,
        destination_queue_manager=destination_queue_manager,
        message_id=next(_numbers) if message_id is None else message_id,
        sent_time=sent_time,
    )
    if sequence is None:
        return packet
    identifier, number, previous = sequence
    return patch_sequence(packet, TxSequenceID.from_value(identifier), number, previous)


def message_view(packet: bytes) -> UserMessageView:
    """A packet as a hook of a session gets it.

    @raise RemoteProtocolError: the packet is malformed.
    """
    return UserMessageView(packet)
