"""Statistics of one session: counts of messages, unacknowledged ones, window."""

from __future__ import annotations

import attrs


@attrs.frozen
class SessionStatistics:
    """Counts of user messages of one session.

    @ivar sent: messages of this side.
    @ivar received: messages of the peer.
    @ivar recoverable_sent: those of C{sent} that the peer has to store.
    @ivar recoverable_received: those of C{received} that this side has to store.
    @ivar unacknowledged: sent messages that the peer has not acknowledged.
    @ivar window: the smaller of both windows, in messages.
    """

    sent: int
    received: int
    recoverable_sent: int
    recoverable_received: int
    unacknowledged: int
    window: int
