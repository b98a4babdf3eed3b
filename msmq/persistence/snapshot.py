"""Snapshot: the content that a store returns when it is opened, without the packets."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias, overload
from uuid import UUID

import attrs

from msmq.persistence.definition import QueueDefinition

StoredMessage: TypeAlias = tuple[int, int, float, int | None, int, int]
"""LookupIdentifier, size of the packet in bytes, and of L{msmq.persistence.changes.PutMessage} C{arrived},
C{due}, C{aborts} and C{moves}: plain, since there may be millions."""


def _longs() -> array[int]:
    return array("Q")


def _sizes() -> array[int]:
    return array("I")


@attrs.define(eq=False)
class MessageColumns(Sequence[StoredMessage]):
    """Index of the messages of one queue as columns, 36 bytes a message.

    @ivar due: -1 for C{None}.
    @ivar event_only: of each message a byte that is not 0 if L{PutMessage
        <msmq.persistence.changes.PutMessage>} was C{event_only}; empty if that is unknown. It does not count
        for equality, since few stores keep it.
    """

    lookup_ids: array[int] = attrs.field(factory=_longs, repr=False)
    sizes: array[int] = attrs.field(factory=_sizes, repr=False)
    arrived: array[float] = attrs.field(factory=lambda: array("d"), repr=False)
    due: array[int] = attrs.field(factory=lambda: array("q"), repr=False)
    aborts: array[int] = attrs.field(factory=_sizes, repr=False)
    moves: array[int] = attrs.field(factory=_sizes, repr=False)
    event_only: bytes | bytearray = attrs.field(default=b"", repr=False)

    @classmethod
    def of(cls, messages: Iterable[StoredMessage]) -> MessageColumns:
        """Convert messages to columns."""
        found = cls()
        for lookup_id, size, arrived, due, aborts, moves in messages:
            found.lookup_ids.append(lookup_id)
            found.sizes.append(size)
            found.arrived.append(arrived)
            found.due.append(-1 if due is None else due)
            found.aborts.append(aborts)
            found.moves.append(moves)
        return found

    def __len__(self) -> int:
        return len(self.lookup_ids)

    def __iter__(self) -> Iterator[StoredMessage]:
        due = (None if due < 0 else due for due in self.due)
        return zip(self.lookup_ids, self.sizes, self.arrived, due, self.aborts, self.moves, strict=True)

    @overload
    def __getitem__(self, index: int) -> StoredMessage: ...

    @overload
    def __getitem__(self, index: slice) -> MessageColumns: ...

    def __getitem__(self, index: int | slice) -> StoredMessage | MessageColumns:
        ids, sizes, arrived, due = self.lookup_ids, self.sizes, self.arrived, self.due
        if isinstance(index, slice):
            aborts, moves = self.aborts[index], self.moves[index]
            event_only = self.event_only[index]
            return MessageColumns(
                ids[index], sizes[index], arrived[index], due[index], aborts, moves, event_only
            )
        limit = None if due[index] < 0 else due[index]
        return ids[index], sizes[index], arrived[index], limit, self.aborts[index], self.moves[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]


@attrs.frozen
class Snapshot:
    """The queues, an index of their messages and the state; packets stay in the store until they are read.

    @ivar queues: in the order in which they were first put; a definition that is replaced keeps its position,
        a queue that is removed and put again comes last.
    @ivar messages: by queue identifier, in ascending order of LookupIdentifier, without express messages; a
        queue without messages may be missing.
    @ivar state: the values of L{msmq.persistence.changes.PutState} by their names.
    """

    queues: Sequence[QueueDefinition] = ()
    messages: Mapping[UUID, Sequence[StoredMessage]] = attrs.field(factory=dict, repr=False)
    state: Mapping[str, bytes] = attrs.field(factory=dict)
