"""Limits of the control API on concurrent and large requests."""

from __future__ import annotations

import attrs

from msmq.control.protocol.records import RecordLimits


@attrs.frozen(kw_only=True)
class ControlLimits:
    """Limits of the control API; sizes are bytes. A request over a limit is refused, not truncated.

    The sizes of slices are not part of the API: they bound the time of one reactor iteration.
    """

    connections: int = 128
    """Connections to the control socket; beyond it the one that is idle longest is closed, or the new one
    refused. As many to the endpoint of remote control, with tokens.
    """

    records: RecordLimits = attrs.field(factory=RecordLimits)
    """Parts of one record in a stream; the stream itself has no limit."""

    request_body: int = 0x400000
    """The body of any request that is not a stream of records."""

    request_memory: int = 0x4000000
    """The bodies of all unanswered requests together, after which only the oldest of them is read."""

    reader_memory: int = 0x1000000
    """The same for callers that may only read, apart from all others."""

    document: int = 0x10000
    """A request body in JSON."""

    store_call: int = 0x80000
    """That of a call about the store, which may name 10,000 queues."""

    receives: int = 1000
    """Concurrent receives that wait or hold messages."""

    receive_batch: int = 128
    """Messages under one receipt."""

    receive_bytes: int = 0x400000
    """The packets of messages that one read of a queue takes together; one message alone may have more."""

    answer_memory: int = 0x4000000
    """The packets in all answers that are not read yet, after which no further ones are loaded."""

    answer_patience: float = 10.0
    """Seconds for which a reader may read nothing while other answers wait for memory."""

    open_receipts: int = 2
    """Unconfirmed receipts of one stream, after which the stream pauses."""

    unread_answers: int = 64
    """Unread answers to confirmations after which no further confirmations are read."""

    peek: int = 10000
    """Messages in the response of one peek."""

    send_backlog: int = 0x100000
    """Bytes of a stream of records that the queue manager has not accepted yet, after which reading pauses.
    """

    slice_messages: int = 128
    """Messages after which a slice takes no further record; a run has up to 256."""

    slice_bytes: int = 0x100000
    """Bytes processed in one iteration of the reactor, for large messages."""
