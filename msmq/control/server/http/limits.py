"""Limits of the control API on concurrent and large requests."""

from __future__ import annotations

import attrs

from msmq.control.protocol.records import RecordLimits


@attrs.frozen(kw_only=True)
class ControlLimits:
    """Sizes are bytes; a request over a limit is refused with a status of its own, not truncated.

    The slices are no promise to callers: they bound how long the reactor is held at a time.
    """

    connections: int = 128
    """Connections to the control socket; one more closes the idlest without a request, or is refused."""

    records: RecordLimits = attrs.field(factory=RecordLimits)
    """The parts of one record in a stream; the stream itself has no limit."""

    request_body: int = 0x400000
    """The body of any request that is not a stream of records."""

    document: int = 0x10000
    """A request body in JSON."""

    receives: int = 1000
    """Receives that wait, or hold messages, at one time."""

    receive_batch: int = 128
    """Messages under one receipt."""

    open_receipts: int = 2
    """Receipts of one stream that may wait for their confirmation; the stream pauses before more."""

    unread_answers: int = 64
    """Unread answers to confirmations after which no further confirmations are read."""

    peek: int = 10000
    """Messages that one peek shows."""

    send_backlog: int = 0x100000
    """What a stream of records may have sent ahead of the queue manager before it is paused."""

    slice_messages: int = 128
    """Messages after which a slice takes no further record; a run has up to 256."""

    slice_bytes: int = 0x100000
    """Bytes processed in one iteration of the reactor, for large messages."""
