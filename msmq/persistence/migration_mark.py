"""The mark that says that a store is being filled from another one, or was moved to another one.

A migration fills the target under a mark that no server accepts.
When the target is verified the source gets its own mark, then that of the target is removed: so at no moment
can servers start on both, and the mark of the source says where the messages are.
"""

from __future__ import annotations

import enum
import json
from typing import Final
from uuid import UUID

import attrs

MARK: Final = "migration"
"""Under this name a store keeps its mark, as it keeps the values of a queue manager."""


class MigrationRole(enum.Enum):
    """What a store is in a migration."""

    TARGET = "target"
    """It is being filled, and not complete."""
    MOVED = "moved"
    """All that it holds is in the other store."""


class CopyPhase(enum.IntEnum):
    """What is copied, in this order."""

    QUEUES = 0
    MESSAGES = 1
    LOGS = 2
    EVENTS = 3
    VALUES = 4
    COPIED = 5


@attrs.frozen
class CopyPosition:
    """How far a copy has come.

    @ivar place: of the queue that comes next, among the queues of the source from 0.
    @ivar begin: LookupIdentifier, sequence or place from which it goes on there.
    """

    phase: CopyPhase = CopyPhase.QUEUES
    place: int = 0
    begin: int = 0


@attrs.frozen
class MigrationMark:
    """The mark of a store.

    @ivar identifier: of the migration.
    @ivar other: the other store, as people read it.
    @ivar position: of a target, how far it is filled.
    @ivar is_finished: of a source, whether the target has lost its mark.
    """

    role: MigrationRole
    identifier: UUID
    other: str
    position: CopyPosition = CopyPosition()
    is_finished: bool = False

    def to_bytes(self) -> bytes:
        """The mark as a store keeps it."""
        position = self.position
        return json.dumps(
            {
                "role": self.role.value,
                "migration": str(self.identifier),
                "other": self.other,
                "position": [int(position.phase), position.place, position.begin],
                "finished": self.is_finished,
            }
        ).encode()


def read_mark(value: bytes | None) -> MigrationMark | None:
    """The mark that a store keeps; C{None} if it keeps none.

    @raise ValueError: it is none that this version knows.
    """
    if value is None:
        return None
    try:
        found = json.loads(value)
        phase, place, begin = found["position"]
        return MigrationMark(
            MigrationRole(found["role"]),
            UUID(found["migration"]),
            str(found["other"]),
            CopyPosition(CopyPhase(phase), int(place), int(begin)),
            bool(found["finished"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"the mark of a migration cannot be read: {error}") from error
