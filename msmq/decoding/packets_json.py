"""Converts packets of a session to JSON objects: one for each header, under its document's name."""

from __future__ import annotations

from msmq.decoding.records import Record
from msmq.decoding.session_headers_json import internal_packet_fields
from msmq.decoding.user_headers_json import user_packet_fields
from msmq.structures.packet.base_header import BaseHeader
from msmq.wire.reader import Reader


def packet_record(packet: bytes, offset: int) -> Record:
    """The line for one packet of a session.

    @param packet: the whole packet, with the SessionHeader that a UserMessage's flags announce.
    @param offset: where it begins within its stream or file.
    @raise RemoteProtocolError: it is malformed.
    """
    is_internal = BaseHeader.read(Reader(packet)).is_internal
    name, headers = internal_packet_fields(packet) if is_internal else user_packet_fields(packet)
    return {"offset": offset, "packet": name, "size": len(packet), **headers}
