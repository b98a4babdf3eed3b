"""Write batches: split of large ones, and use of the space reserved for removals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from typing import Final, TypeAlias

import attrs
from twisted.internet.defer import Deferred

from msmq.persistence.changes import (
    AppendEvent,
    Change,
    MoveMessage,
    PutAborts,
    PutMessage,
    PutMessages,
    PutState,
    RemoveMessages,
    RemoveQueue,
    RemoveState,
    RemoveUnread,
    TrimEvents,
    TrimLog,
)
from msmq.storage.log.core.plan import GroupPlan

PIECE: Final = 500
"""Changes, or removed messages, per step of a large batch."""
RECORD_BYTES: Final = 96
"""Space that the record of a message, of an entry of a log or of an event needs at most."""
ID_BYTES: Final = 8
"""Space of the LookupIdentifier of a removed message."""
LARGE_STATE: Final = 512 * 1024
"""Size of a state value above which a batch may not use the space reserved for removals."""
_REMOVING: Final = (
    RemoveMessages,
    RemoveUnread,
    RemoveQueue,
    MoveMessage,
    PutAborts,
    TrimLog,
    TrimEvents,
    RemoveState,
)


_OF_MANY: Final = (PutMessages, RemoveMessages)
"""Changes of several messages."""

Work: TypeAlias = Callable[[GroupPlan], None]
"""Internal work that joins a group, such as copies of live packets."""


@attrs.frozen(eq=False)
class WriteBatch:
    """Atomic batch of changes.

    @ivar work: instead of changes; C{is_removing} says whether it frees space.
    @ivar then: called when its group is done, while the state has nothing that may be rolled back.
    """

    changes: Sequence[Change]
    done: Deferred[None]
    work: Work | None = None
    is_removing: bool = False
    then: Callable[[], object] | None = None

    @property
    def uses_reserve(self) -> bool:
        """Whether it may use the space reserved for removals."""
        return self.is_removing or is_removing(self.changes)

    @property
    def is_large(self) -> bool:
        """Whether it is planned in several steps."""
        size = len(self.changes)
        if size > PIECE:
            return True
        for change in self.changes:
            size += _weight(change) if isinstance(change, _OF_MANY) else 1
            if size > PIECE:
                return True
        return False

    def space(self) -> int:
        """The bytes of log that it needs; at least that of its messages, their records, and removals.

        Exact enough that a plan of a large batch seldom has to be rolled back, since that takes one iteration
        of the reactor.
        """
        # By kind, since this looks at each of maybe a hundred thousand changes in one iteration.
        changes = self.changes
        packets = [
            change.packet for change in changes if type(change) is PutMessage and not change.is_express
        ]
        runs = [change.packets for change in changes if type(change) is PutMessages]
        values = [len(change.value) for change in changes if type(change) is PutState]
        events = [change for change in changes if type(change) is AppendEvent]
        removed = sum([len(change.lookup_ids) for change in changes if type(change) is RemoveMessages])
        records = len(changes) + sum(map(len, runs)) + len(events)
        size = (
            sum(map(len, packets))
            + sum(map(len, chain.from_iterable(runs)))
            + sum(values)
            + ID_BYTES * removed
        )
        return size + RECORD_BYTES * records + sum(len(event.reason) + len(event.queue) for event in events)


def is_removing(changes: Sequence[Change]) -> bool:
    """Whether a batch only removes, moves or counts messages, with its events and state values."""
    is_any = False
    for change in changes:
        if isinstance(change, _REMOVING):
            is_any = True
        elif isinstance(change, PutState):
            if len(change.value) >= LARGE_STATE:
                return False
        elif not isinstance(change, AppendEvent):
            return False
    return is_any


def pieces_of(changes: Sequence[Change]) -> Iterator[Sequence[Change]]:
    """Split the changes of a batch into steps of bounded size; none is looked at before its step."""
    simple: list[Change] = []
    size = 0
    for change in changes:
        if isinstance(change, RemoveMessages) and len(change.lookup_ids) > PIECE:
            if simple:
                yield simple
                simple, size = [], 0
            ids = iter(change.lookup_ids)
            while some := tuple(islice(ids, PIECE)):
                yield [RemoveMessages(change.queue, some, change.is_express)]
            continue
        simple.append(change)
        size += _weight(change)
        if size >= PIECE:
            yield simple
            simple, size = [], 0
    if simple:
        yield simple


def _weight(change: Change) -> int:
    if isinstance(change, PutMessages):
        return len(change.packets)
    return len(change.lookup_ids) if isinstance(change, RemoveMessages) else 1
