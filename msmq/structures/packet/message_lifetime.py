"""Where a UserMessage packet holds its time limits.

[MS-MQQB] 3.1.7.1.2 and 3.1.5.8. Both limits count from SentTime, which the wall clock of the sender stamped,
and are compared with the wall clock here. The arithmetic is signed and of any width: SentTime may lie in the
future, and such a message is fresh (reading 64). L{UserMessageView.reach_limit} is the first of them.
"""

from __future__ import annotations

from typing import Final

from msmq.structures.packet.base_header import INFINITE

FOREVER: Final = INFINITE.to_bytes(4, "little")
"""What a packet holds in place of a time if its message never expires."""

TIME_TO_REACH_QUEUE: Final = slice(12, 16)
"""Where a packet holds BaseHeader.TimeToReachQueue."""

TIME_TO_BE_RECEIVED: Final = slice(48, 52)
"""Where a packet holds UserHeader.TimeToBeReceived."""

SENT_TIME: Final = slice(52, 56)
"""Where a packet holds UserHeader.SentTime."""
