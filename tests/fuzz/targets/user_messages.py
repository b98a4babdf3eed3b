"""UserMessage packets with every header there is."""

from __future__ import annotations

import json

import attrs

from msmq.decoding.message_json import message_json
from msmq.decoding.packet_fields import packet_fields
from msmq.decoding.packets_json import packet_record
from msmq.errors import LocalProtocolError, RemoteProtocolError
from msmq.structures.identifiers import TxSequenceID
from msmq.structures.internal.classification import classify
from msmq.structures.packet.body_encryption import encryption_input, is_encrypted, with_clear_body
from msmq.structures.packet.signature_input import (
    signature_input_1_0,
    signature_input_2_0,
    signature_input_3_0,
)
from msmq.structures.packet.user_message import UserMessage
from msmq.structures.packet.user_message_rewrites import in_transaction, patch_dead_letter
from msmq.structures.packet.user_message_view import (
    UserMessageView,
    measure_user_message,
    patch_hop_count,
    patch_sequence,
    patch_session_header,
    patch_time_to_reach_queue,
)
from msmq.wire.writer import Writer
from tests.fuzz.finding import accepted, expect, judged, named, written
from tests.fuzz.repairing import repaired

QUESTIONS = (
    "priority",
    "is_traced",
    "time_to_reach_queue",
    "time_to_be_received",
    "sent_time",
    "identifier",
    "hop_count",
    "destination_key",
    "connector_type",
    "dead_letter_queue",
    "tx_sequence_id",
    "tx_sequence_number",
    "previous_tx_sequence_number",
    "is_first",
    "is_last",
    "acknowledge",
    "correlation_id",
    "body_type",
    "application_tag",
    "allocation_body_size",
    "privacy_level",
    "hash_algorithm",
    "encryption_algorithm",
    "label",
    "extension",
    "body",
    "sender_id",
)


def user_messages(data: bytes) -> None:
    """The view and the values accept the same packets and answer alike; nothing else is ever raised.

    The first byte says whether the rest gets a BaseHeader that fits, or is taken as it is.
    """
    if not data:
        return
    packet = data[1:] if data[0] & 1 else repaired(int.from_bytes(data[1:3], "little") & 0xFFF7, data[3:])
    message, error = judged(UserMessage.from_bytes, packet)
    view, view_error = judged(UserMessageView, packet)
    accepted(lambda whole: measure_user_message(memoryview(whole)), packet)
    accepted(classify, packet)
    try:
        record = packet_record(packet, 0)
    except RemoteProtocolError:
        pass
    else:
        json.dumps(record).encode("ascii")
        fields = packet_fields(packet)
        expect(sum(field.size for field in fields) == len(packet), "the fields are not the packet")
    if len(packet) > 2 and packet[2] & 0x10:
        expect(view is None, "a view has no SessionHeader")
    elif view is None or message is None:
        # A store keeps more behind a packet, which the values do not know.
        is_kept = view is not None and len(packet) > int.from_bytes(packet[8:12], "little")
        expect(is_kept or view_error == error, "the view and the values refuse the same, with the same error")
    if message is not None:
        _write(message)
    if view is not None:
        _ask(view, message)
        _patch(view)


def _write(message: UserMessage) -> None:
    def as_it_is() -> bytes:
        writer = Writer()
        message.write(writer)
        return writer.getvalue()

    again = written(as_it_is)
    # Nothing that is written says that it came over HTTP.
    user = attrs.evolve(message.user, is_over_http=False)
    expect(
        again is None or UserMessage.from_bytes(again) == attrs.evolve(message, user=user),
        "what is written is what was read",
    )


def _ask(view: UserMessageView, message: UserMessage | None) -> None:
    for question in QUESTIONS:
        getattr(view, question)
    repr(view)
    for name in (view.destination_format_name, view.admin_format_name, view.response_format_name):
        named(name)
    if message is not None:
        expect(view.user_header == message.user, "the same UserHeader")
        expect(view.transaction == message.transaction, "the same TransactionHeader")
        expect(view.security == message.security, "the same SecurityHeader")
        expect(view.debug == message.debug, "the same DebugHeader")
        expect(view.soap == message.soap, "the same SoapHeader")
        expect(view.multi_queue_format == message.multi_queue_format, "the same MultiQueueFormatHeader")
        expect(bytes(view.body) == message.properties.message_body, "the same body")
        expect(view.label == message.properties.label, "the same label")
        expect(view.parse() == message, "the same message")
        if message.multi_queue_format is not None:
            for names in (
                message.multi_queue_format.destination,
                message.multi_queue_format.administration,
                message.multi_queue_format.response,
            ):
                for element in names.elements:
                    named(element.resolve)
    json.dumps(message_json(view)).encode("ascii")
    _secure(view)


def _secure(view: UserMessageView) -> None:
    """The input of a signature, and the result of decryption, exist for every packet."""
    for signature_input in (signature_input_1_0, signature_input_2_0, signature_input_3_0):
        signature_input(view)
    is_encrypted(view)
    if view.size > int.from_bytes(view.packet[8:12], "little"):
        # What a store keeps behind a packet comes when the body is in clear.
        return
    body = encryption_input(view)
    other = (body, body[1:], body + b"more")[view.packet[-1] % 3]
    clear = UserMessageView(with_clear_body(view, other))
    expect(bytes(clear.body) == other, "the body is what decryption gave")
    expect(not is_encrypted(clear), "it is in clear")
    expect((clear.label, clear.identifier) == (view.label, view.identifier), "all else stays")


def _patch(view: UserMessageView) -> None:
    """Every patch of a hop leaves a valid packet; the input selects the patch that is verified."""
    packet = view.packet
    if len(packet) > int.from_bytes(packet[8:12], "little"):
        return
    patched = [
        patch_hop_count(packet, 0x1D),
        patch_time_to_reach_queue(packet, 7),
        patch_session_header(packet, None),
        patch_dead_letter(view, 0x8003),
    ]
    if view.is_transactional:
        patched.append(patch_sequence(packet, TxSequenceID(1, 2), 3, 2))
        patched += [placed.packet for placed in in_transaction([view, view], 1 << 63, 0xFFFFFFF0, 0xFFFFF)]
    else:
        try:
            patch_sequence(packet, TxSequenceID(1, 2), 3, 2)
        except LocalProtocolError:
            pass
    for other in patched:
        expect(len(other) == len(packet), "a patch changes no size")
    UserMessageView(patched[packet[-1] % len(patched)])
