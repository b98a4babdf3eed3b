"""Message identity in stores and in the event log."""

from __future__ import annotations

from typing import Final

_SOURCE: Final = slice(16, 32)
_MESSAGE_ID: Final = slice(56, 60)
_END: Final = 60


def identity_of(packet: bytes) -> bytes:
    """SourceQueueManager and MessageID of a UserMessage packet without a SessionHeader. [MS-MQMQ] 2.2.20.1.

    20 bytes, as of L{msmq.persistence.changes.AppendEvent}; empty for a packet that is too short.
    """
    return packet[_SOURCE] + packet[_MESSAGE_ID] if len(packet) >= _END else b""
