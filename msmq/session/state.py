"""The state of one session, with its message numbers. [MS-MQQB] 3.1.1.3.1 and 3.1.1.4."""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable
from typing import Final
from uuid import UUID

import attrs

from msmq.session.effects import Effect
from msmq.session.packet_counts import TrafficCounts
from msmq.session.timers import Timers
from msmq.settings import SessionSettings
from msmq.structures.packet.outgoing_message import OutgoingMessage
from msmq.structures.packet.packet_shape import PacketShape

MOST_UNNAMED: Final = 0x8000
"""Recoverable messages whose numbers are unambiguous: half the 16-bit range (reading 36)."""

MOST_UNNAMED_BYTES: Final = 64 * 1024 * 1024
"""Limit on the bytes of recoverable messages that wait for their acknowledgement as stored; it may be
slightly exceeded."""


class SessionState(enum.Enum):
    """SessionState. [MS-MQQB] 3.1.1.3.1."""

    CLOSED = "CLOSED"
    WAITING_EC_MSG = "WAITING_EC_MSG"
    WAITING_ECR_MSG = "WAITING_ECR_MSG"
    WAITING_CP_MSG = "WAITING_CP_MSG"
    WAITING_CPR_MSG = "WAITING_CPR_MSG"
    OPEN = "OPEN"
    WAITING_RECONNECT = "WAITING_RECONNECT"


def never() -> bool:
    """The default callback, which returns false."""
    return False


def always() -> bool:
    """The default callback without a limit, which returns true."""
    return True


@attrs.define(kw_only=True)
class SessionCore:
    """The abstract data model elements of one session; the rules are functions over it. [MS-MQQB] 3.1.1.

    Counts are unbounded, and truncated to 16 bits only in packets.
    """

    identifier: UUID
    """QueueManager.Identifier of the local queue manager."""

    settings: SessionSettings
    is_initiator: bool
    """Whether this side opened the connection."""

    accepts: Callable[[], bool]
    """Called when an initiator states its identifier: whether it may open a session."""

    has_backlog: Callable[[], bool]
    """Called when a dialled session ends: whether messages still wait for this next hop."""

    counts: TrafficCounts
    """Where packets are counted; usually shared by all sessions of a queue manager."""

    expected_identifier: UUID | None = None
    """The queue manager that an initiator expects; C{None} for a direct format name."""

    was_pinged: bool = False
    """Whether this attempt began with a Ping Request (EstablishConnectionHeader SE)."""

    retry_time: float | None = None
    """Seconds to wait before dialling again; C{None} for the first wait of the settings."""

    was_open: bool = False
    """Whether its handshake was ever complete."""

    state: SessionState = SessionState.CLOSED
    """The state of the machine, set only by it."""

    timers: Timers = attrs.field(factory=Timers)
    effects: list[Effect] = attrs.field(factory=list)

    remote_identifier: UUID | None = None
    """RemoteQMGuid, once the peer has stated it."""

    is_direct: bool = False
    """Whether the session is for a direct format name: the request's ServerGuid was null."""

    window_size: int = 64
    stated_window_size: int = 64
    """The window in the latest packet to the peer; it keeps to that until the next one."""

    received_window_size: int = 64
    ack_wait_timeout: float = 20.0
    recoverable_ack_send_timeout: float = 120.0
    received_ack: bool = False
    session_active: bool = False

    is_congested: bool = False
    """Whether the connection is congested, because the peer does not read."""

    acknowledges_later: bool = False
    """Whether an acknowledgement became due while the connection was congested."""

    is_processing: bool = False
    """Whether the owner is still working on delivered messages, and reads no others meanwhile."""

    is_paused: bool = False
    """Whether an outgoing queue of the session is paused, so that the peer sends one message at a time."""

    left_messages: bool = False
    """Whether the session ended with messages that the peer had not acknowledged."""

    was_acknowledged: bool = False
    """Whether the peer has acknowledged any message: an express one as received, or a recoverable one as
    stored.
    """

    message_sent_count: int = 0
    recoverable_message_sent_count: int = 0
    acknowledged_count: int = 0
    """Messages sent on this session that the peer has counted."""

    in_flight: deque[OutgoingMessage] = attrs.field(factory=deque)
    """Sent and not yet counted by the peer, oldest first; its length is UnAckedMessageCount."""

    recoverable_in_flight: dict[int, tuple[OutgoingMessage, int]] = attrs.field(factory=dict)
    """Recoverable messages by number, with their sizes, sent and not yet named by the peer as stored."""

    unnamed_bytes: int = 0
    """Bytes of those messages."""

    received_shape: PacketShape | None = None
    """That of the last user message that was received, which the next one is likely to have."""

    message_received_count: int = 0
    recoverable_message_received_count: int = 0
    unacked_received_message_count: int = 0
    persisted_count: int = 0
    """Recoverable messages received on this session that are stored, or permanently refused."""

    last_acked_recoverable_count: int = 0
    """Recoverable messages that were acknowledged as stored."""

    def release_owner(self) -> None:
        """Drop the callbacks into the owner, which would keep the connection and its buffers alive."""
        self.accepts = never

    def __attrs_post_init__(self) -> None:
        self.window_size = self.settings.window_size
        self.stated_window_size = self.settings.window_size
        self.received_window_size = self.settings.window_size
        self.ack_wait_timeout = self.settings.ack_wait_timeout
        self.recoverable_ack_send_timeout = self.settings.recoverable_ack_maximum

    @property
    def reconnect_wait(self) -> float:
        """Seconds of the Session Retry Connect Timer, [MS-MQQB] 3.1.2.3.

        A session on which the peer acknowledged nothing is a failed attempt, also if it was open: a receiver
        that cannot store what it gets would otherwise get the same messages again every few seconds.
        """
        if self.retry_time is None or self.was_acknowledged:
            return self.settings.session_retry
        return self.retry_time

    @property
    def unacked_message_count(self) -> int:
        """UnAckedMessageCount. [MS-MQQB] 3.1.1.3.1."""
        return len(self.in_flight)

    @property
    def room(self) -> int:
        """The number of messages that may be sent now: the free part of the smaller window (3.1.7.1, reading
        42).

        A peer that never acknowledges recoverable messages as stored gets no more messages once the numbers
        would be ambiguous, or the total size is over the limit.
        """
        room = self.effective_window - len(self.in_flight)
        if self.recoverable_in_flight:
            if self.unnamed_bytes > MOST_UNNAMED_BYTES:
                return 0
            oldest = next(iter(self.recoverable_in_flight))
            room = min(room, MOST_UNNAMED - 2 - (self.recoverable_message_sent_count - oldest & 0xFFFF))
        return max(0, room)

    @property
    def effective_window(self) -> int:
        """The smaller of both windows, at least 1 and at most what 16-bit counts can distinguish."""
        window = min(self.window_size, self.received_window_size)
        # Without a call: this is asked many times for each message.
        return 1 if window < 1 else 32767 if window > 32767 else window
