"""Migration mark: a store is the incomplete target, or the retired source, of a migration.

A migration fills the target under a mark, with which no server starts.
When the target is verified, the source is marked, then the mark of the target is removed. So servers can
never start on both, and the mark of the source names the store that has the messages.
"""

from __future__ import annotations

import enum
import json
from typing import Final
from uuid import UUID

import attrs

MARK: Final = "migration"
"""Name of the mark among the state values of a store."""


class MigrationRole(enum.Enum):
    """Role of a store in a migration."""

    TARGET = "target"
    """The target, not yet complete."""
    MOVED = "moved"
    """The source, whose whole content is in the other store."""


class CopyPhase(enum.IntEnum):
    """Phases of a copy, in order."""

    QUEUES = 0
    MESSAGES = 1
    LOGS = 2
    EVENTS = 3
    VALUES = 4
    COPIED = 5


@attrs.frozen
class CopyPosition:
    """Progress of a copy.

    @ivar index: index of the next queue, among the queues of the source, from 0.
    @ivar begin: LookupIdentifier, sequence or index from which the copy continues there.
    """

    phase: CopyPhase = CopyPhase.QUEUES
    index: int = 0
    begin: int = 0


@attrs.frozen
class MigrationMark:
    """Migration mark of a store.

    @ivar identifier: GUID of the migration.
    @ivar other: the other store, as readable text.
    @ivar position: progress of the copy, in the mark of a target.
    @ivar is_finished: whether the mark of the target is removed, in the mark of a source.
    """

    role: MigrationRole
    identifier: UUID
    other: str
    position: CopyPosition = CopyPosition()
    is_finished: bool = False

    def to_bytes(self) -> bytes:
        """Encode the mark for the store."""
        position = self.position
        return json.dumps(
            {
                "role": self.role.value,
                "migration": str(self.identifier),
                "other": self.other,
                "position": [int(position.phase), position.index, position.begin],
                "finished": self.is_finished,
            }
        ).encode()


def read_mark(value: bytes | None) -> MigrationMark | None:
    """Decode the mark of a store; C{None} if it has none.

    @raise ValueError: this version does not know such a mark.
    """
    if value is None:
        return None
    try:
        found = json.loads(value)
        phase, index, begin = found["position"]
        return MigrationMark(
            MigrationRole(found["role"]),
            UUID(found["migration"]),
            str(found["other"]),
            CopyPosition(CopyPhase(phase), int(index), int(begin)),
            bool(found["finished"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"the mark of a migration cannot be read: {error}") from error
