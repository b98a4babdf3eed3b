"""Divides the byte stream of one direction of a session into packets, and decodes them.

The rules of framing are those of L{msmq.wire.framer}.
Unlike a session, which ends with the first malformed packet, a decoder goes on: at the end of the
packet if another one begins there, otherwise at the next offset that looks like the beginning of one.
"""

from __future__ import annotations

from struct import Struct

from msmq.decoding.packet_fields import packet_fields
from msmq.decoding.packets_json import packet_record
from msmq.decoding.records import Record, malformed_record, note_record
from msmq.errors import RemoteProtocolError
from msmq.structures.packet.base_header import BaseHeader
from msmq.structures.packet.user_message import UserMessage
from msmq.wire.framer import (
    BASE_HEADER_SIZE,
    INTERNAL_PACKET_SIZES,
    MAXIMUM_PACKET_SIZE,
    SESSION_HEADER_SIZE,
    SIGNATURE,
    SMALLEST_USER_PACKET,
    VERSION_NUMBER,
)
from msmq.wire.reader import Reader

_BEGINNING = Struct("<BBHII")
_SIGNATURE = SIGNATURE.to_bytes(4, "little")
_INTERNAL = 0x0008

_PATIENCE = 16
"""How often, on average, a byte is read as part of a packet that turns out to be malformed."""
_GRACE = 64 * 1024 * 1024
"""Bytes of malformed packets before the limit applies."""


class PacketStream:
    """Incremental decoder of a stream, which yields the line of each packet once it is complete.

    @param synchronised: the first byte is the beginning of a packet; otherwise the decoder searches for the
        first offset that looks like one.
    @param is_captured: the stream is from a capture, so that an incomplete last packet is not an error of the
        sender.
    @param with_positions: lines of packets have the positions of their fields.
    """

    def __init__(
        self, *, synchronised: bool = True, is_captured: bool = False, with_positions: bool = False
    ) -> None:
        self._is_captured = is_captured
        self._with_positions = with_positions
        self._searching = not synchronised
        self._search_note = "" if synchronised else "the capture begins inside a packet"
        self._search_from = 0
        self._chunks: list[bytes] = []
        self._buffered = 0
        self._needed = BASE_HEADER_SIZE
        self._offset = 0
        self._in_vain = 0

    def feed(self, data: bytes) -> list[Record]:
        """Process the next bytes; returns the lines of the packets that they complete."""
        self._chunks.append(data)
        self._buffered += len(data)
        return self._decode(final=False) if self._buffered >= self._needed else []

    def skip(self, missing: int) -> list[Record]:
        """Skip C{missing} bytes that were not captured, and abandon the packet that contains them."""
        records = self._decode(final=False)
        if not self._search_note or not self._searching:
            self._search(self._offset, f"{missing} bytes are missing from the capture")
        self._offset += self._buffered + missing
        self._chunks.clear()
        self._buffered = 0
        return records

    def end(self) -> list[Record]:
        """End the stream; returns the lines for incomplete data."""
        return self._decode(final=True)

    def _decode(self, *, final: bool) -> list[Record]:
        """Decode the buffered bytes, and keep incomplete ones."""
        data = b"".join(self._chunks)
        self._needed = BASE_HEADER_SIZE
        records: list[Record] = []
        position = 0
        while position < len(data):
            if self._searching:
                found = find_beginning(data, position)
                if found is None:
                    position = len(data) if final else max(position, len(data) - BASE_HEADER_SIZE + 1)
                    break
                position = found
                self._found(position, records)
            advance = self._decode_packet(data, position, records, final)
            if not advance:
                break
            position += advance
        if final and self._searching:
            self._found(len(data), records)
        self._chunks = [data[position:]]
        self._buffered = len(data) - position
        self._offset += position
        return records

    def _search(self, offset: int, note: str) -> None:
        self._searching = True
        self._search_from = offset
        self._search_note = note

    def _found(self, position: int, records: list[Record]) -> None:
        """The search ended at C{position} of what is buffered: report the skipped bytes and the reason."""
        self._searching = False
        skipped = self._offset + position - self._search_from
        if self._search_note and skipped:
            records.append(note_record(self._search_from, self._search_note, skipped))

    def _decode_packet(self, data: bytes, position: int, records: list[Record], final: bool) -> int:
        """Decode the packet at C{position}; returns its length, or 0 to wait for more bytes."""
        view = memoryview(data)[position:]
        offset = self._offset + position
        if len(view) < BASE_HEADER_SIZE and not final:
            return 0
        try:
            size = length = BaseHeader.read(Reader(view)).packet_size
        except RemoteProtocolError as error:
            if self._is_captured and len(view) < BASE_HEADER_SIZE:
                return self._cut_short(view, offset, BASE_HEADER_SIZE, records)
            return self._malformed(error, offset, records)
        try:
            if size <= len(view):
                size = measure_packet(view[:length])
                if size <= len(view):
                    packet = bytes(view[:size])
                    record = packet_record(packet, offset)
                    if self._with_positions:
                        record["fields"] = [field.to_json() for field in packet_fields(packet)]
                    records.append(record)
                    return size
        except RemoteProtocolError as error:
            behind = length + SESSION_HEADER_SIZE
            if not final and len(view) < behind + BASE_HEADER_SIZE:
                self._needed = behind + BASE_HEADER_SIZE
                return 0
            advance = self._malformed(error, offset, records)
            for end in (length, behind):
                if len(view) == end or begins_packet(data, position + end):
                    self._searching = False
                    return end
            # False beginnings inside malformed packets, each with a large size, would cost quadratic time.
            self._in_vain += length
            if self._in_vain > _GRACE + _PATIENCE * offset:
                records.append(note_record(offset + 1, "too many malformed packets are nested", length - 1))
                return length
            return advance
        if final:
            return self._cut_short(view, offset, size, records)
        self._needed = size
        return 0

    def _malformed(self, error: RemoteProtocolError, offset: int, records: list[Record]) -> int:
        records.append(malformed_record(offset, error))
        self._search(offset + 1, "")
        return 1

    def _cut_short(self, view: memoryview, offset: int, size: int, records: list[Record]) -> int:
        if self._is_captured:
            records.append(note_record(offset, "the capture ends inside a packet", len(view)))
            return len(view)
        rule = f"{size} bytes where the input ends after {len(view)}"
        error = RemoteProtocolError(BaseHeader.SECTION, BaseHeader.NAME, "PacketSize", 8, rule)
        return self._malformed(error, offset, records)


def measure_packet(packet: memoryview) -> int:
    """Bytes of the whole packet: PacketSize, and an attached SessionHeader that it does not count.

    The headers are read in place: a damaged stream may have many false beginnings, and none of them costs a
    copy of the rest.

    @raise RemoteProtocolError: it breaks a rule.
    """
    reader = Reader(packet)
    header = BaseHeader.read(reader)
    if header.is_internal:
        return len(packet)
    if not header.has_session_header:
        UserMessage.from_bytes(packet)
        return len(packet)
    UserMessage.read_headers(reader, header)
    return reader.position + SESSION_HEADER_SIZE


def find_beginning(data: bytes, position: int) -> int | None:
    """The first offset from C{position} on that looks like the beginning of a packet."""
    at = data.find(_SIGNATURE, position + 4)
    while at >= 0:
        if begins_packet(data, at - 4):
            return at - 4
        at = data.find(_SIGNATURE, at + 1)
    return None


def begins_packet(data: bytes, position: int) -> bool:
    """Whether what is there looks like the beginning of a packet."""
    if len(data) - position < _BEGINNING.size:
        return False
    version, _, flags, signature, size = _BEGINNING.unpack_from(data, position)
    if version != VERSION_NUMBER or signature != SIGNATURE:
        return False
    if flags & _INTERNAL:
        return size in INTERNAL_PACKET_SIZES
    return SMALLEST_USER_PACKET <= int(size) <= MAXIMUM_PACKET_SIZE
