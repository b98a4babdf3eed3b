"""What the session's cores have the store keep, as changes of the store."""

from __future__ import annotations

from collections.abc import Iterable

from msmq.queues.changes import Change, PutState, RemoveState
from msmq.session.ordering.records import StateChange


def as_changes(changes: Iterable[StateChange]) -> list[Change]:
    """Names and bytes, C{None} for nothing any more, in the words of the store."""
    return [RemoveState(name) if value is None else PutState(name, value) for name, value in changes]
