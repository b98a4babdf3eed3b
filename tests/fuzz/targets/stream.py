"""The byte stream of a session, cut into packets."""

from __future__ import annotations

from msmq.structures.packet.user_message_view import measure_user_message
from msmq.wire.framer import MAXIMUM_PACKET_SIZE, SESSION_HEADER_SIZE, Frame, StreamFramer
from tests.fuzz.finding import expect


def stream(data: bytes) -> None:
    """Any chunks of a stream give the same packets and the same error, and what is held is bounded.

    The first byte says how the rest is cut.
    """
    if not data:
        return
    size, rest = data[0] + 1, data[1:]
    if size < 8:
        # Not more chunks than the larger sizes make.
        rest = rest[:256]
    whole = StreamFramer(measure_user_message)
    frames = whole.feed(rest)
    _check_frames(frames, rest)
    cut = StreamFramer(measure_user_message)
    pieces: list[Frame] = []
    for start in range(0, len(rest), size):
        pieces += cut.feed(rest[start : start + size])
        expect(cut.buffered <= MAXIMUM_PACKET_SIZE + SESSION_HEADER_SIZE + size, "what is held is bounded")
    expect(pieces == frames, "the same packets in any chunks")
    expect(str(cut.error) == str(whole.error), "the same error in any chunks")
    expect(whole.error is not None or cut.buffered == whole.buffered, "the same rest in any chunks")
    held_back = StreamFramer(measure_user_message, internal_only=True)
    internal = held_back.feed(rest)
    expect(internal == frames[: len(internal)], "internal packets come first")
    expect(all(packet[2] & 0x08 for packet, _ in internal), "a user packet is held back")


def _check_frames(frames: list[Frame], data: bytes) -> None:
    total = 0
    for packet, header in frames:
        expect(int.from_bytes(packet[8:12], "little") == len(packet), "PacketSize is what is kept")
        expect(header is None or len(header) == SESSION_HEADER_SIZE, "a SessionHeader has its size")
        total += len(packet) + (0 if header is None else SESSION_HEADER_SIZE)
    expect(total <= len(data), "no byte comes twice")
