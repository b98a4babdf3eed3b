"""Changes that the cores request of a store; a batch is atomic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias
from uuid import UUID

import attrs

from msmq.errors import LocalProtocolError
from msmq.persistence.definition import QueueDefinition


@attrs.frozen
class PutQueue:
    """Store the definition of a queue, replacing one with its identifier; its messages stay."""

    definition: QueueDefinition


@attrs.frozen
class RemoveQueue:
    """Delete a queue, all its messages and its message log; an unknown identifier is not an error."""

    identifier: UUID


@attrs.frozen
class PutMessage:
    """Store a message in an existing queue.

    @ivar lookup_id: LookupIdentifier, unsigned 64 bits; messages of a queue are ordered by it.
    @ivar packet: the UserMessage packet, without a SessionHeader.
    @ivar arrived: ArrivalTime, seconds since 1970-01-01 UTC.
    @ivar due: time of removal from the queue, seconds since 1970-01-01 UTC; C{None} for never.
    @ivar aborts: AbortCount, the number of aborted transactions that had received it.
    @ivar moves: MoveCount, the number of moves.
    @ivar is_express: the message may be lost when the process ends; storing it does not wait for the disk.
    @ivar event_only: if it is removed unread, an event is all that follows; a store that keeps this returns
        it in its snapshot (L{MessageColumns.event_only<msmq.persistence.snapshot.MessageColumns>}).
    """

    queue: UUID
    lookup_id: int
    packet: bytes = attrs.field(repr=False)
    arrived: float
    due: int | None = None
    aborts: int = 0
    moves: int = 0
    is_express: bool = False
    event_only: bool = False


@attrs.frozen
class PutMessages:
    """Store several new messages in an existing queue, each as L{PutMessage} does.

    A queue manager passes it only to a store that provides
    L{IMessageRuns<msmq.interfaces.storage.IMessageRuns>}.

    @ivar first: the LookupIdentifier of the first message; the others follow consecutively.
    @ivar packets: the UserMessage packets, at least one.
    @ivar arrived: ArrivalTime of all of them, as of L{PutMessage}; so are C{due} and C{event_only}. None of
        them was moved or received in an aborted transaction, and none is express.
    """

    queue: UUID
    first: int
    packets: Sequence[bytes] = attrs.field(repr=False)
    arrived: float
    due: int | None = None
    event_only: bool = False


@attrs.frozen
class RemoveMessages:
    """Delete these messages of a queue; a missing message is not an error.

    @ivar is_express: they were stored as express messages. A message that was stored with another value
        counts as missing, and stays.
    """

    queue: UUID
    lookup_ids: tuple[int, ...]
    is_express: bool = False


@attrs.frozen
class MoveMessage:
    """Move a message to another existing queue; a missing message is not an error.

    Its packet and its ArrivalTime do not change.

    @ivar lookup_id: its LookupIdentifier before the move.
    @ivar new_lookup_id: its LookupIdentifier in the target.
    @ivar due: the new value, as of L{PutMessage}; so are C{aborts} and C{moves}.
    @ivar is_express: it was stored as an express message, and remains one.
    """

    queue: UUID
    lookup_id: int
    target: UUID
    new_lookup_id: int
    due: int | None = None
    aborts: int = 0
    moves: int = 0
    is_express: bool = False


@attrs.frozen
class PutAborts:
    """Store the AbortCount of a message; a missing message is not an error.

    @ivar is_express: it was stored as an express message.
    """

    queue: UUID
    lookup_id: int
    aborts: int
    is_express: bool = False


@attrs.frozen
class PutState:
    """Store a named value of the queue manager, replacing the previous one."""

    name: str
    value: bytes


@attrs.frozen
class RemoveState:
    """Delete a value; an unknown name is not an error."""

    name: str


@attrs.frozen
class AppendLog:
    """Append to the message log of an existing queue, under the next sequence number of the store.

    The entry stays until L{TrimLog} or L{RemoveQueue}, even when the message is removed.

    @ivar lookup_id: the LookupIdentifier that the message has in the queue.
    """

    queue: UUID
    lookup_id: int
    packet: bytes = attrs.field(repr=False)
    arrived: float


@attrs.frozen
class TrimLog:
    """Delete the oldest entries of the message log of a queue, up to the first one that is retained.

    An entry with a timestamp in the future blocks removal by age of the entries after it, until it is itself
    too old; removal by size is not affected.

    @ivar before: entries that arrived earlier are deleted, seconds since 1970-01-01 UTC; C{None} for no
        limit.
    @ivar keep_bytes: the oldest are deleted until the remaining packets have at most this many bytes; C{None}
        for no limit.
    """

    queue: UUID
    before: float | None = None
    keep_bytes: int | None = None


@attrs.frozen
class AppendEvent:
    """Append to the event log, under the next sequence number of the store.

    @ivar time: seconds since 1970-01-01 UTC.
    @ivar identity: the message concerned: the GUID of its SourceQueueManager as encoded in a packet, and its
        MessageID, 4 bytes little-endian; 20 bytes, or empty for an event of the queue manager itself.
    @ivar event: what happened, a word such as C{expired} or C{refused}.
    @ivar reason: why, as readable text.
    @ivar message_class: the message class that reports it on the wire; 0 if there is none.
    @ivar queue: the path or format name of the queue in which, or in transit to which, it happened.
    """

    time: float
    identity: bytes
    event: str
    reason: str = ""
    message_class: int = 0
    queue: str = ""


ADMINISTERED: Final = "administered"
"""Event name of an administrative change; its message may still be in a queue."""


@attrs.frozen
class TrimEvents:
    """Delete the oldest events until at most C{keep} are left."""

    keep: int


@attrs.frozen
class LoggedPacket:
    """An entry of a message log, with the number that it had in another store.

    @ivar sequence: its number, from 1.
    """

    sequence: int
    lookup_id: int
    packet: bytes = attrs.field(repr=False)
    arrived: float


@attrs.frozen
class RestoreLog:
    """Import entries of a message log from another store, with the numbers that they had there.

    They follow the existing entries of the log, in ascending order.
    Entries that are appended later, to any log, get larger numbers.

    @ivar first: the first number that was not trimmed there; lower numbers count as trimmed here too.
    """

    queue: UUID
    first: int
    entries: tuple[LoggedPacket, ...] = ()


@attrs.frozen
class RestoreNumbers:
    """Import the last assigned numbers of another store, so that no number is assigned again.

    It precedes the first appended event.

    @ivar last_entry: the largest number of an entry in any message log; 0 if there was none.
    @ivar last_event: the number of the last event; the next event gets the number after it; 0 to begin with
        1.
    """

    last_entry: int
    last_event: int


@attrs.frozen
class RemoveUnread:
    """Delete messages of a queue that were not express, and append an event for each that is there.

    A queue manager passes it only to a store that provides
    L{IMessageRuns<msmq.interfaces.storage.IMessageRuns>}; the store has the identity for each event, so that
    no packet has to be read.

    @ivar lookup_ids: each once; the events are in this order.
    @ivar event: the events, but for their identity.
    """

    queue: UUID
    lookup_ids: tuple[int, ...]
    event: AppendEvent


SingleChange: TypeAlias = (
    PutQueue
    | RemoveQueue
    | PutMessage
    | RemoveMessages
    | MoveMessage
    | PutAborts
    | PutState
    | RemoveState
    | AppendLog
    | TrimLog
    | AppendEvent
    | TrimEvents
    | RestoreLog
    | RestoreNumbers
)
"""Changes other than runs of messages."""

Change: TypeAlias = SingleChange | PutMessages | RemoveUnread


def has_runs(changes: Sequence[Change]) -> bool:
    """Whether these changes contain a run of messages."""
    return any(isinstance(change, PutMessages) for change in changes)


def single_changes(changes: Sequence[Change]) -> Iterator[SingleChange]:
    """The same changes with each run expanded, for a store that accepts single messages only."""
    for change in changes:
        if isinstance(change, PutMessages):
            for lookup_id, packet in enumerate(change.packets, change.first):
                yield PutMessage(
                    change.queue,
                    lookup_id,
                    packet,
                    change.arrived,
                    change.due,
                    event_only=change.event_only,
                )
        elif isinstance(change, RemoveUnread):
            raise LocalProtocolError("only a store that accepts runs knows the identities for RemoveUnread")
        else:
            yield change
