"""Offsets of the time limits in a UserMessage packet: TimeToReachQueue, TimeToBeReceived, SentTime.

[MS-MQQB] 3.1.7.1.2 and 3.1.5.8. Both limits are relative to SentTime, by the wall clock of the sender, and
are compared with the wall clock of this computer. The arithmetic is signed and does not overflow: SentTime
may be in the future, and such a message has not expired (reading 64). L{UserMessageView.reach_limit} is the
first of the two.
"""

from __future__ import annotations

from typing import Final

from msmq.structures.packet.base_header import INFINITE

FOREVER: Final = INFINITE.to_bytes(4, "little")
"""The value of a time limit that never expires."""

TIME_TO_REACH_QUEUE: Final = slice(12, 16)
"""Offset of BaseHeader.TimeToReachQueue."""

TIME_TO_BE_RECEIVED: Final = slice(48, 52)
"""Offset of UserHeader.TimeToBeReceived."""

SENT_TIME: Final = slice(52, 56)
"""Offset of UserHeader.SentTime."""
