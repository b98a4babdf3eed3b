"""Statistics of one session: counts of messages, unacknowledged ones, window."""

from __future__ import annotations

import attrs


@attrs.frozen
class SessionStatistics:
    """User messages that passed on one session.

    @ivar sent: messages of ours.
    @ivar received: messages of the peer.
    @ivar recoverable_sent: those of ours that the peer has to store.
    @ivar recoverable_received: those of the peer that we have to store.
    @ivar unacknowledged: messages of ours that the peer has not counted.
    @ivar window: how many messages may be unacknowledged, the smaller of both windows.
    """

    sent: int
    received: int
    recoverable_sent: int
    recoverable_received: int
    unacknowledged: int
    window: int
