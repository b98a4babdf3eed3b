"""Changes that the cores request of a store; a batch is atomic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias
from uuid import UUID

import attrs

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
    """Keep a message of a queue that is kept.

    @ivar lookup_id: LookupIdentifier, unsigned 64 bits; the messages of a queue lie in its order.
    @ivar packet: the UserMessage packet, without a SessionHeader.
    @ivar arrived: ArrivalTime, seconds since 1970-01-01 UTC.
    @ivar due: when it has to leave its queue, seconds since 1970-01-01 UTC; C{None} for never.
    @ivar aborts: AbortCount, how many transactions that had received it were aborted.
    @ivar moves: MoveCount, how often it was moved.
    @ivar is_express: it need not survive the process, so the disk is not waited for.
    """

    queue: UUID
    lookup_id: int
    packet: bytes = attrs.field(repr=False)
    arrived: float
    due: int | None = None
    aborts: int = 0
    moves: int = 0
    is_express: bool = False


@attrs.frozen
class PutMessages:
    """Keep several messages of a queue that is kept, each as L{PutMessage} does; none of them is there yet.

    Only a store that provides L{IMessageRuns<msmq.interfaces.storage.IMessageRuns>} gets it from a queue
    manager.

    @ivar first: the LookupIdentifier of the first; those of the others are consecutive.
    @ivar packets: the UserMessage packets, at least one.
    @ivar arrived: ArrivalTime of all of them, as of L{PutMessage}; so is C{due}. None of them was moved or
        received in an aborted transaction, and none is express.
    """

    queue: UUID
    first: int
    packets: Sequence[bytes] = attrs.field(repr=False)
    arrived: float
    due: int | None = None


@attrs.frozen
class RemoveMessages:
    """Forget these messages of a queue; what is not kept is not an error.

    @ivar is_express: they were put so.
    """

    queue: UUID
    lookup_ids: tuple[int, ...]
    is_express: bool = False


@attrs.frozen
class MoveMessage:
    """Take a message over into another queue that is kept; one that is not kept is not an error.

    Its packet and its ArrivalTime stay what they are.

    @ivar lookup_id: its LookupIdentifier until now.
    @ivar new_lookup_id: its LookupIdentifier in the target.
    @ivar due: as of L{PutMessage}, from now on; so are C{aborts} and C{moves}.
    @ivar is_express: it was put so, and stays so.
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
    """Keep the AbortCount of a message; a message that is not kept is not an error.

    @ivar is_express: it was put so.
    """

    queue: UUID
    lookup_id: int
    aborts: int
    is_express: bool = False


@attrs.frozen
class PutState:
    """Store a named value of the queue manager, replacing a former one."""

    name: str
    value: bytes


@attrs.frozen
class RemoveState:
    """Forget a value; a name that is not kept is not an error."""

    name: str


@attrs.frozen
class AppendLog:
    """Append to the message log of a queue that is kept, under the next sequence number of the store.

    Whatever becomes of the message, its entry stays until L{TrimLog}, or L{RemoveQueue}.

    @ivar lookup_id: the LookupIdentifier that the message has in the queue.
    """

    queue: UUID
    lookup_id: int
    packet: bytes = attrs.field(repr=False)
    arrived: float


@attrs.frozen
class TrimLog:
    """Forget the oldest entries of the message log of a queue, up to the first that is to be kept.

    An entry that was stamped while the clock was ahead keeps those behind it from going by their age, until
    it is too old itself; their size takes them nevertheless.

    @ivar before: the oldest go as long as they arrived earlier, seconds since 1970-01-01 UTC; C{None} for
        no such limit.
    @ivar keep_bytes: the oldest go until the packets that are left have at most this many bytes; C{None} for
        no such limit.
    """

    queue: UUID
    before: float | None = None
    keep_bytes: int | None = None


@attrs.frozen
class AppendEvent:
    """Append to the event log, under the next sequence number of the store.

    @ivar time: seconds since 1970-01-01 UTC.
    @ivar identity: whose event it is: the GUID of its SourceQueueManager as it stands in a packet, and its
        MessageID, 4 bytes little-endian; 20 bytes, or none for an event of the queue manager itself.
    @ivar event: what happened, a word such as C{expired} or C{refused}.
    @ivar reason: why, for people.
    @ivar message_class: the class that says so on the wire; 0 if none does.
    @ivar queue: the path or format name of the queue in which, or in transit to which, it happened.
    """

    time: float
    identity: bytes
    event: str
    reason: str = ""
    message_class: int = 0
    queue: str = ""


ADMINISTERED: Final = "administered"
"""An event of an administrative change; its message need not have been removed."""


@attrs.frozen
class TrimEvents:
    """Forget the oldest events until at most C{keep} are left."""

    keep: int


@attrs.frozen
class LoggedPacket:
    """An entry of a message log that had its number in another store.

    @ivar sequence: its number, from 1.
    """

    sequence: int
    lookup_id: int
    packet: bytes = attrs.field(repr=False)
    arrived: float


@attrs.frozen
class RestoreLog:
    """Take over entries of a message log from another store, under the numbers that they had there.

    They come behind the entries that the log has, in ascending order.
    Entries that are appended later, to any log, get larger numbers.

    @ivar first: the first number that was not trimmed there; those below it count as trimmed here too.
    """

    queue: UUID
    first: int
    entries: tuple[LoggedPacket, ...] = ()


@attrs.frozen
class RestoreNumbers:
    """Take over from another store which numbers were assigned there, so that none is assigned again.

    It comes before any event is appended.

    @ivar last_entry: the largest number of an entry in any message log; 0 if there was none.
    @ivar last_event: the next event gets the number after this one; 0 to begin with 1.
    """

    last_entry: int
    last_event: int


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
"""The changes without runs."""

Change: TypeAlias = SingleChange | PutMessages


def has_runs(changes: Sequence[Change]) -> bool:
    """Whether there is a run among these changes."""
    return any(isinstance(change, PutMessages) for change in changes)


def single_changes(changes: Sequence[Change]) -> Iterator[SingleChange]:
    """The same changes without runs, for a store that takes messages one by one."""
    for change in changes:
        if isinstance(change, PutMessages):
            for lookup_id, packet in enumerate(change.packets, change.first):
                yield PutMessage(change.queue, lookup_id, packet, change.arrived, change.due)
        else:
            yield change
