"""The state of the queue manager, and the one that it keeps of its sessions."""

from __future__ import annotations

import enum
from collections.abc import Iterable

from msmq.persistence.changes import Change, PutState, RemoveState
from msmq.persistence.state_records import StateChange


class ServiceState(enum.Enum):
    """[MS-MQDMPR] 3.1.1.1 QueueManagerState; the values are what C{msmq status} shows."""

    STOPPED = "stopped"
    INITIALIZING = "starting"
    READY = "running"
    STOPPING = "stopping"


def as_changes(changes: Iterable[StateChange]) -> list[Change]:
    """Names and bytes, C{None} for nothing any more, in the words of the store."""
    return [RemoveState(name) if value is None else PutState(name, value) for name, value in changes]
