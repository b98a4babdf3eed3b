"""Hex dump of a stored packet with its fields."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import attrs

from msmq.decoding.packet_fields import PacketField, packet_fields
from msmq.structures.packet.kept_packet import packet_of
from msmq.structures.packet.user_message_view import UserMessageView

DUMPED: Final = 0x1000
"""Bytes of a packet in its dump."""

_ROW: Final = 16


@attrs.frozen
class DumpSegment:
    """The bytes of one field in one row.

    @ivar number: of the field.
    @ivar is_first: whether the field begins here.
    @ivar is_odd: alternates from header to header.
    """

    number: int
    is_first: bool
    is_odd: bool
    digits: str


@attrs.frozen
class DumpRow:
    """Sixteen bytes of a packet.

    @ivar padding: spaces behind a row with fewer bytes.
    """

    offset: str
    segments: Sequence[DumpSegment]
    padding: str
    characters: str


@attrs.frozen
class PacketDump:
    """A packet.

    @ivar fields: those that begin within the dump.
    @ivar is_cut: there are more bytes than the dump has.
    """

    fields: Sequence[PacketField]
    rows: Sequence[DumpRow]
    size: int
    is_cut: bool


def dump_packet(view: UserMessageView) -> PacketDump:
    """The dump of a message's packet, without the local headers with which it is stored."""
    packet = packet_of(view.packet)
    fields = [field for field in packet_fields(packet) if field.offset < DUMPED]
    rows = list(_rows(packet[:DUMPED], fields))
    return PacketDump(fields, rows, len(packet), len(packet) > DUMPED)


def _rows(data: bytes, fields: Sequence[PacketField]) -> Iterator[DumpRow]:
    odd: list[bool] = []
    header, is_odd = "", True
    for field in fields:
        if field.header != header:
            header, is_odd = field.header, not is_odd
        odd.append(is_odd)
    number = 0
    for start in range(0, len(data), _ROW):
        row = data[start : start + _ROW]
        segments: list[DumpSegment] = []
        position, end = start, start + len(row)
        while position < end:
            field = fields[number]
            stop = min(field.offset + field.size, end)
            digits = data[position:stop].hex(" ")
            segments.append(DumpSegment(number, position == field.offset, odd[number], digits))
            number += stop == field.offset + field.size
            position = stop
        characters = "".join(chr(each) if 0x20 <= each < 0x7F else "." for each in row)
        yield DumpRow(f"{start:08x}", segments, "   " * (_ROW - len(row)), characters)
