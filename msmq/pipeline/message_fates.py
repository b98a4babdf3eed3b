"""Fates of messages, and what an entry of the event log says about one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

DELIVERED: Final = "delivered"
"""It is, or was, once in a queue of the input, or an event says that it was received."""
DUPLICATED: Final = "duplicated"
"""It arrived more than once."""
EXPIRED_UNREAD: Final = "expired_unread"
"""It arrived, and its time was over before a reader received it."""
PURGED: Final = "purged"
"""An operator removed it, alone, with a purge, or with its queue."""
DEAD_LETTER: Final = "dead_letter"
"""It failed, and is in a dead-letter queue."""
REFUSED: Final = "refused"
"""A negative acknowledgement or an event has the reason."""
EXPIRED: Final = "expired"
"""Its time was over before it arrived."""
ACKNOWLEDGED: Final = "acknowledged"
"""It is not in the input, but an acknowledgement reports its arrival."""
EXPLAINED: Final = "explained"
"""It is not in the input, and an event says what was done with it."""
ERASED: Final = "erased"
"""It is not found, and a record of it was erased from an archive."""
LOST: Final = "lost"
"""It is not found, although its queue has a journal or a message log with other messages."""
MISSING: Final = "missing"
"""It is not found, and its queue has neither journal nor message log: it may have been received."""
UNKNOWN: Final = "unknown"
"""The input has no data for its queue, and may lack that queue manager."""

FATES: Final = (
    DELIVERED,
    DUPLICATED,
    EXPIRED_UNREAD,
    PURGED,
    DEAD_LETTER,
    REFUSED,
    EXPIRED,
    ACKNOWLEDGED,
    EXPLAINED,
    ERASED,
    LOST,
    MISSING,
    UNKNOWN,
)
"""All fates; each message has one of them."""


@attrs.frozen
class EventRecord:
    """What an event says about its message.

    @ivar rank: of several events, the one with the highest rank counts, and of these the latest.
    """

    fate: str
    rank: int


ENDED: Final = 3
"""The rank of an event by which a message ended without being received."""
_RECEIVED: Final = 2
_HANDED_OVER: Final = 1
_DONE: Final = 0

EVENT_RECORDS: Final[Mapping[str, EventRecord]] = {
    "refused": EventRecord(REFUSED, ENDED),
    "rejected": EventRecord(REFUSED, ENDED),
    "failed": EventRecord(REFUSED, ENDED),
    "unencrypted": EventRecord(REFUSED, ENDED),
    "purged": EventRecord(PURGED, ENDED),
    "deleted": EventRecord(PURGED, ENDED),
    "expired": EventRecord(EXPIRED, ENDED),
    "received": EventRecord(DELIVERED, _RECEIVED),
    "handed_over": EventRecord(ACKNOWLEDGED, _HANDED_OVER),
    "order_acknowledged": EventRecord(ACKNOWLEDGED, _HANDED_OVER),
    "final_acknowledged": EventRecord(ACKNOWLEDGED, _HANDED_OVER),
    "damaged": EventRecord(EXPLAINED, _DONE),
    "express_lost": EventRecord(EXPLAINED, _DONE),
    "moved": EventRecord(EXPLAINED, _DONE),
    "poisoned": EventRecord(EXPLAINED, _DONE),
    "requeued": EventRecord(EXPLAINED, _DONE),
    "unacknowledged": EventRecord(EXPLAINED, _DONE),
}
"""The events that are about one message, but for C{acknowledged}, whose acknowledgement is a message itself,
C{copied}, which leaves the message where it is, and C{administered}, of which another event has the effect.

An event C{expired} whose class is NACK_RECEIVE_TIMEOUT is L{EXPIRED_UNREAD}.
"""
