"""Encoding of event text in a segment."""

from __future__ import annotations

from struct import Struct, error
from typing import Final

from msmq.interfaces.storage import StorageError
from msmq.persistence.changes import AppendEvent
from msmq.storage.log.core.format import Malformed

_LENGTHS: Final = Struct("<IIII")
IDENTITY: Final = 20
"""Maximum length of an identity, in bytes."""


def event_packet(event: AppendEvent) -> bytes:
    """Encode class and texts of an event.

    @raise StorageError: its identity is too long.
    """
    if len(event.identity) > IDENTITY:
        raise StorageError(f"the identity of an event has {len(event.identity)} bytes, more than {IDENTITY}")
    texts = [text.encode("utf-8", "surrogatepass") for text in (event.event, event.reason, event.queue)]
    return _LENGTHS.pack(event.message_class, *map(len, texts)) + b"".join(texts)


def read_event(packet: bytes, time: float, identity: bytes) -> AppendEvent:
    """Decode an event.

    @raise Malformed: it is not one.
    """
    try:
        message_class, *lengths = _LENGTHS.unpack_from(packet)
        texts: list[str] = []
        offset = _LENGTHS.size
        for length in lengths:
            texts.append(packet[offset : offset + length].decode("utf-8", "surrogatepass"))
            offset += length
    except (error, UnicodeDecodeError) as problem:
        raise Malformed(f"not an event: {problem}") from None
    return AppendEvent(time, identity, texts[0], texts[1], message_class, texts[2])
