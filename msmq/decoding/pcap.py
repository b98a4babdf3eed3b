"""Reader of pcap and pcapng files: frames with their times and link types.

The framing is parsed here, to detect truncated files; the content of a frame is parsed with dpkt in
L{msmq.decoding.frames}.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct, unpack_from

import attrs

from msmq.errors import RemoteProtocolError

_PCAP_MAGICS: dict[bytes, tuple[str, int]] = {
    b"\xd4\xc3\xb2\xa1": ("<", 1_000_000),
    b"\xa1\xb2\xc3\xd4": (">", 1_000_000),
    b"\x4d\x3c\xb2\xa1": ("<", 1_000_000_000),
    b"\xa1\xb2\x3c\x4d": (">", 1_000_000_000),
}
"""The byte order and the parts of a second, by the first four bytes."""

_SECTION_HEADER = 0x0A0D0D0A
_INTERFACE_DESCRIPTION = 1
_OBSOLETE_PACKET = 2
_SIMPLE_PACKET = 3
_ENHANCED_PACKET = 6
_TIME_RESOLUTION = 9
_TIME_OFFSET = 14
_BYTE_ORDERS = {b"\x4d\x3c\x2b\x1a": "<", b"\x1a\x2b\x3c\x4d": ">"}

LARGEST_FRAME = 0x01000000
"""Maximum size of a captured frame in bytes; a larger size means that the file is damaged."""


@attrs.frozen
class Frame:
    """One captured frame.

    @ivar number: counted from 1, as capture tools count.
    @ivar time: seconds since 1970-01-01 UTC, or C{None} where the file has none.
    @ivar link_type: a number of the LINKTYPE_ list of tcpdump.org.
    """

    number: int
    time: float | None
    link_type: int
    data: bytes = attrs.field(repr=False)


@attrs.frozen
class _Interface:
    """An interface that was captured on.

    @ivar largest: bytes of a frame that were captured at most.
    """

    link_type: int
    parts_of_second: int
    first_second: int
    largest: int


def is_capture(data: bytes) -> bool:
    """Whether the bytes begin like a pcap or pcapng file."""
    return data[:4] in _PCAP_MAGICS or (data[:4] == b"\n\r\r\n" and data[8:12] in _BYTE_ORDERS)


def read_frames(data: bytes) -> Iterator[Frame]:
    """The frames of a pcap or pcapng file, in the order of the file.

    @raise RemoteProtocolError: the file is damaged or truncated; the frames before that position were
        yielded.
    """
    if data[:4] in _PCAP_MAGICS:
        return _read_pcap(data)
    return _read_pcapng(data)


def _read_pcap(data: bytes) -> Iterator[Frame]:
    order, parts = _PCAP_MAGICS[data[:4]]
    if len(data) < 24:
        raise _malformed("file header", len(data), "24 bytes are needed")
    link_type = unpack_from(order + "I", data, 20)[0] & 0x0FFFFFFF
    header = Struct(order + "IIII")
    position = 24
    number = 0
    while position < len(data):
        number += 1
        if len(data) - position < header.size:
            raise _malformed("record header", position, f"the file ends inside the header of frame {number}")
        seconds, fraction, size, _original = header.unpack_from(data, position)
        position += header.size
        _check(size, position, len(data), number)
        yield Frame(number, seconds + fraction / parts, link_type, data[position : position + size])
        position += size


def _read_pcapng(data: bytes) -> Iterator[Frame]:
    order = "<"
    interfaces: list[_Interface] = []
    number = 0
    position = 0
    while position < len(data):
        if len(data) - position < 12:
            raise _malformed("block", position, "the file ends inside a block header")
        if unpack_from("<I", data, position)[0] == _SECTION_HEADER:
            found = _BYTE_ORDERS.get(data[position + 8 : position + 12])
            if found is None:
                raise _malformed("Byte-Order Magic", position + 8, "is unknown")
            order = found
            interfaces = []
        kind, length = unpack_from(order + "II", data, position)
        if length < 12 or length % 4:
            raise _malformed("Block Total Length", position + 4, f"{length} is not a block length")
        if length > len(data) - position:
            raise _malformed(
                "Block Total Length", position + 4, f"{length} bytes where {len(data) - position} remain"
            )
        body = data[position + 8 : position + length - 4]
        if kind == _INTERFACE_DESCRIPTION:
            interfaces.append(_read_interface(body, order, position))
        elif kind in (_ENHANCED_PACKET, _OBSOLETE_PACKET, _SIMPLE_PACKET):
            number += 1
            yield _read_packet(kind, body, order, interfaces, number, position)
        position += length


def _read_interface(body: bytes, order: str, position: int) -> _Interface:
    if len(body) < 8:
        raise _malformed("Interface Description Block", position, "is shorter than 20 bytes")
    link_type, largest = unpack_from(order + "H2xI", body)
    parts, first = 1_000_000, 0
    at = 8
    while at + 4 <= len(body):
        code, size = unpack_from(order + "HH", body, at)
        value = body[at + 4 : at + 4 + size]
        if code == 0:
            break
        if code == _TIME_RESOLUTION and len(value) == 1:
            exponent = value[0] & 0x7F
            parts = 2**exponent if value[0] & 0x80 else 10**exponent
        elif code == _TIME_OFFSET and len(value) == 8:
            (first,) = unpack_from(order + "q", value)
        at += 4 + size + -size % 4
    return _Interface(link_type, parts, first, largest or LARGEST_FRAME)


def _read_packet(
    kind: int, body: bytes, order: str, interfaces: list[_Interface], number: int, position: int
) -> Frame:
    if kind == _SIMPLE_PACKET:
        if len(body) < 4 or not interfaces:
            raise _malformed("Simple Packet Block", position, "has no length or no interface")
        (original,) = unpack_from(order + "I", body)
        # The block does not say how much was captured, and padding follows that.
        size = min(original, interfaces[0].largest)
        return Frame(number, None, interfaces[0].link_type, body[4 : 4 + size])
    if len(body) < 20:
        raise _malformed("Enhanced Packet Block", position, "is shorter than 32 bytes")
    layout = order + ("HHIIII" if kind == _OBSOLETE_PACKET else "IIIII")
    fields = unpack_from(layout, body)
    index, (high, low, size, _original) = fields[0], fields[-4:]
    if index >= len(interfaces):
        raise _malformed("Interface ID", position + 8, f"{index} is described by no block")
    _check(size, position + 28, position + 8 + len(body), number)
    interface = interfaces[index]
    time = interface.first_second + (high << 32 | low) / interface.parts_of_second
    return Frame(number, time, interface.link_type, body[20 : 20 + size])


def _check(size: int, position: int, end: int, number: int) -> None:
    if size > LARGEST_FRAME:
        raise _malformed("Captured Packet Length", position, f"frame {number} has {size} bytes")
    if size > end - position:
        raise _malformed(
            "Captured Packet Length", position, f"frame {number}: {size} bytes where {end - position} remain"
        )


def _malformed(field: str, offset: int, rule: str) -> RemoteProtocolError:
    return RemoteProtocolError("pcap", "CaptureFile", field, offset, rule)
