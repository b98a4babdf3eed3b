"""States of the queue manager, and stored values as changes."""

from __future__ import annotations

import enum
from collections.abc import Iterable

from msmq.persistence.changes import Change, PutState, RemoveState
from msmq.persistence.state_records import StateChange


class ServiceState(enum.Enum):
    """QueueManagerState; the values are what C{msmq status} shows. [MS-MQDMPR] 3.1.1.1."""

    STOPPED = "stopped"
    INITIALIZING = "starting"
    READY = "running"
    STOPPING = "stopping"


def as_changes(changes: Iterable[StateChange]) -> list[Change]:
    """Named values as changes of the store; C{None} removes a value."""
    return [RemoveState(name) if value is None else PutState(name, value) for name, value in changes]
