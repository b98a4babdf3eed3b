"""Batches: which are large, and which may use the space that is kept for removing."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final, TypeAlias

import attrs
from twisted.internet.defer import Deferred

from msmq.persistence.changes import (
    AppendEvent,
    Change,
    MoveMessage,
    PutAborts,
    PutMessages,
    PutState,
    RemoveMessages,
    RemoveQueue,
    RemoveState,
    TrimEvents,
    TrimLog,
)
from msmq.storage.log.core.plan import GroupPlan

PIECE: Final = 500
"""Changes, or messages that are removed, of one step of a large batch."""
LARGE_STATE: Final = 512 * 1024
"""Bytes of a value that is not written into what is left for removing, such as that which asks for space."""
_REMOVING: Final = (
    RemoveMessages,
    RemoveQueue,
    MoveMessage,
    PutAborts,
    TrimLog,
    TrimEvents,
    RemoveState,
)


Work: TypeAlias = Callable[[GroupPlan], None]
"""Work of the store's own that is put into a group, such as copies of live packets."""


@attrs.frozen(eq=False)
class WriteBatch:
    """What is to be done whole or not at all.

    @ivar work: instead of changes; C{is_removing} says whether it frees space.
    @ivar then: called when its group is done, while the state holds nothing that may be taken back.
    """

    changes: Sequence[Change]
    done: Deferred[None]
    work: Work | None = None
    is_removing: bool = False
    then: Callable[[], object] | None = None

    @property
    def uses_reserve(self) -> bool:
        """Whether it may use the space that is reserved for removing."""
        return self.is_removing or is_removing(self.changes)

    @property
    def is_large(self) -> bool:
        """Whether it is planned in pieces."""
        size = len(self.changes)
        for change in self.changes:
            if isinstance(change, PutMessages):
                size += len(change.packets)
            elif isinstance(change, RemoveMessages) and len(change.lookup_ids) > PIECE:
                return True
        return size > PIECE


def is_removing(changes: Sequence[Change]) -> bool:
    """Whether a batch removes, moves or counts, with the events and values that go with that."""
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


def pieces_of(changes: Sequence[Change]) -> deque[Sequence[Change]]:
    """The changes of a batch in pieces that are planned quickly."""
    pieces: deque[Sequence[Change]] = deque()
    simple: list[Change] = []
    size = 0
    for change in changes:
        if isinstance(change, RemoveMessages) and len(change.lookup_ids) > PIECE:
            if simple:
                pieces.append(simple)
                simple, size = [], 0
            ids = iter(change.lookup_ids)
            while some := tuple(islice(ids, PIECE)):
                pieces.append([RemoveMessages(change.queue, some, change.is_express)])
            continue
        simple.append(change)
        size += len(change.packets) if isinstance(change, PutMessages) else 1
        if size >= PIECE:
            pieces.append(simple)
            simple, size = [], 0
    if simple:
        pieces.append(simple)
    return pieces
