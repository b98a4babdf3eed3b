"""The time limits that a UserMessage packet carries, and whether the first of them has passed.

[MS-MQQB] 3.1.7.1.2 and 3.1.5.8. Both limits count from SentTime, which the wall clock of the sender stamped,
and are compared with the wall clock here. The arithmetic is signed and of any width: SentTime may lie in the
future, and such a message is fresh (reading 64).
"""

from __future__ import annotations

from typing import Final

from msmq.structures.packet.base_header import INFINITE
from msmq.structures.packet.user_message_view import UserMessageView

FOREVER: Final = INFINITE.to_bytes(4, "little")
"""What a packet holds in place of a time if its message never expires."""

TIME_TO_REACH_QUEUE: Final = slice(12, 16)
"""Where a packet holds BaseHeader.TimeToReachQueue."""

TIME_TO_BE_RECEIVED: Final = slice(48, 52)
"""Where a packet holds UserHeader.TimeToBeReceived."""

SENT_TIME: Final = slice(52, 56)
"""Where a packet holds UserHeader.SentTime."""


def reach_limit(view: UserMessageView) -> int:
    """The second from which on a message is too late for its queue.

    Whole seconds are compared, and at the limit itself a message is still in time.
    """
    return view.sent_time + view.time_to_reach_queue + 1


def is_late(view: UserMessageView, now: float) -> bool:
    """Whether a message that arrives now has exceeded its TimeToReachQueue. [MS-MQQB] 3.1.5.8.

    @param now: seconds since 1970-01-01 UTC.
    """
    return view.packet[TIME_TO_REACH_QUEUE] != FOREVER and now >= reach_limit(view)


class Lateness:
    """L{is_late} of messages that arrive together: most were sent in the same second, with the same limit."""

    def __init__(self, now: float) -> None:
        self._now = now
        self._stamp = FOREVER
        self._is_late = False

    def of(self, view: UserMessageView) -> bool:
        """Whether this one is late."""
        packet = view.packet
        stamp = packet[TIME_TO_REACH_QUEUE]
        if stamp == FOREVER:
            return False
        stamp += packet[SENT_TIME]
        if stamp != self._stamp:
            self._stamp, self._is_late = stamp, is_late(view, self._now)
        return self._is_late
