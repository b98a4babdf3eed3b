"""Recognises an input: a capture, the stream of a session or a datagram, each raw, as text or compressed."""

from __future__ import annotations

import codecs
import gzip
import io
import zlib
from collections.abc import Iterable, Sequence
from enum import Enum, auto
from typing import TypeAlias

import attrs

from msmq.decoding.frames import read_segment
from msmq.decoding.hex_dumps import directions, parse_dumps
from msmq.decoding.hex_text import looks_like_hex, parse_hex
from msmq.decoding.pcap import Frame, is_capture, read_frames
from msmq.errors import RemoteProtocolError

LARGEST_INPUT = 1 << 30
"""Maximum size of a compressed input after decompression, in bytes."""

_GZIP = b"\x1f\x8b"
_ETHERNET, _RAW_IP = 1, 101
_CONTROLS = bytes(code for code in (*range(32), 127) if code not in b"\t\n\v\f\r")


class ContentKind(Enum):
    """What bytes contain."""

    STREAM = auto()
    """One direction of a session, from the beginning of a packet."""
    PING = auto()
    TOPOLOGY = auto()


@attrs.frozen
class CaptureInput:
    """Frames, which are read while they are iterated.

    @ivar frame: the number of the dump that contains the capture; 0 for an input that is one.
    """

    frames: Iterable[Frame] = attrs.field(repr=False)
    frame: int = 0


@attrs.frozen
class BytesInput:
    """The bytes of a stream or of a datagram.

    @ivar direction: 1 or 2 if the input has both directions of a session; 0 if not.
    @ivar frame: the number of the dump, if there are several; 0 if not.
    """

    data: bytes = attrs.field(repr=False)
    kind: ContentKind
    direction: int = 0
    frame: int = 0


Input: TypeAlias = CaptureInput | BytesInput


def read_input(data: bytes, *, is_hex: bool = False) -> Sequence[Input]:
    """What an input of C{msmq decode} contains, in order.

    @param is_hex: it has to be hex text.
    @raise RemoteProtocolError: it cannot be decompressed, or is no hex text.
    """
    if data[:2] == _GZIP:
        try:
            data = _inflated(data)
        except (OSError, EOFError, zlib.error) as error:
            raise RemoteProtocolError("gzip", "CaptureFile", "gzip", 0, str(error)) from error
    data = _unmarked(data)
    text = None if is_capture(data) or _as_text(data[:4096]) is None else _as_text(data)
    dumps = None if text is None else parse_dumps(text)
    both = None if dumps is None else directions(dumps)
    if both is not None:
        return [BytesInput(stream, ContentKind.STREAM, number) for number, stream in enumerate(both, 1)]
    if dumps is not None:
        contents = [dump.data for dump in dumps]
        link_type = _link_type(contents)
        if link_type is not None:
            return [CaptureInput(Frame(at, None, link_type, each) for at, each in enumerate(contents, 1))]
        if len(contents) > 1:
            return [attrs.evolve(_content(each), frame=at) for at, each in enumerate(contents, 1)]
        data = contents[0]
    elif is_hex or looks_like_hex(data):
        data = parse_hex(data.decode("utf-8", "replace"))
    return [_content(data)]


def _content(data: bytes) -> Input:
    if is_capture(data):
        return CaptureInput(read_frames(data))
    if data[2:4] == b"HU" and data[4:8] != b"LIOR":
        return BytesInput(data, ContentKind.PING)
    if data[:1] == b"\0" and data[1:2] in (b"\1", b"\2"):
        return BytesInput(data, ContentKind.TOPOLOGY)
    return BytesInput(data, ContentKind.STREAM)


def _unmarked(data: bytes) -> bytes:
    """An input in UTF-8 without a byte order mark, as Windows writes it; other input unchanged.

    No packet, and no capture, begins with one of the marks.
    """
    if data.startswith(codecs.BOM_UTF8):
        return data.removeprefix(codecs.BOM_UTF8)
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        try:
            return data.decode("utf-16").encode()
        except UnicodeDecodeError:
            return data
    return data


def _as_text(data: bytes) -> str | None:
    """Decode an input as text, in any encoding; C{None} for binary input."""
    if data.translate(None, _CONTROLS) != data:
        return None
    return data.decode("utf-8", "replace")


def _inflated(data: bytes) -> bytes:
    with gzip.open(io.BytesIO(data)) as file:
        found = file.read(LARGEST_INPUT + 1)
    if len(found) > LARGEST_INPUT:
        raise OSError(f"more than {LARGEST_INPUT} bytes")
    return found


def _link_type(frames: Sequence[bytes]) -> int | None:
    """The link type of these frames, among those in dumps; C{None} if they are not frames."""
    for link_type in (_ETHERNET, _RAW_IP):
        if any(read_segment(link_type, frame) is not None for frame in frames):
            return link_type
    return None
