"""Damaged rows of a store, and the policy for damage and loss."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Generic, TypeVar
from uuid import UUID

import attrs

from msmq.durable import make_directory, write_durably
from msmq.interfaces.storage import MessageNotStored
from msmq.persistence.changes import AppendEvent, Change, RemoveMessages
from msmq.storage.scrub_policy import ScrubPolicy

DAMAGED: Final = "damaged"
"""Event name of quarantined data."""
EVENT_LOST: Final = "the event that was here is lost"
"""The reason of the event that takes the number of a lost one."""
REPAIRED: Final = "repaired"
"""Event name of a repair."""
LOSS_ACCEPTED: Final = "loss_accepted"
"""Event name of a store that was opened although it is not the one last used."""

Row = TypeVar("Row")


@attrs.frozen
class DamagePolicy:
    """Policy of a store for damage and data loss.

    @ivar mark: the file outside the store that detects a replaced or outdated store.
    @ivar accepts_loss: whether a replaced or outdated store is opened nevertheless, with an event.
    @ivar now: seconds since 1970-01-01 UTC, for events of the store itself.
    @ivar scrubbing: rate and schedule of the background verification.
    """

    mark: Path
    accepts_loss: bool
    now: Callable[[], float]
    scrubbing: ScrubPolicy

    @property
    def quarantine(self) -> Path:
        """Quarantine directory of a store without a directory of its own."""
        return self.mark.with_name(f"{self.mark.name.removesuffix('-mark')}.quarantine")


class RowKind(enum.Enum):
    """Kind of a damaged row."""

    MESSAGE = enum.auto()
    EXPRESS = enum.auto()
    LOG_ENTRY = enum.auto()
    EVENT = enum.auto()


@attrs.frozen
class DamagedRow:
    """A damaged message, message log entry or event.

    @ivar queue: the identifier of its queue, if known.
    @ivar path: the path of its queue; empty if unknown.
    @ivar key: the LookupIdentifier, or the sequence.
    @ivar identity: as of L{msmq.persistence.changes.AppendEvent}; empty if unknown.
    @ivar problem: its location, and what is wrong.
    @ivar is_kept: whether what is left of it is in quarantine; otherwise it must stay where it is.
    """

    kind: RowKind
    queue: UUID | None
    path: str
    key: int
    identity: bytes
    problem: str
    is_kept: bool = True

    @property
    def what(self) -> str:
        """Name of the object in the event."""
        match self.kind:
            case RowKind.LOG_ENTRY:
                return f"entry {self.key} of the message log"
            case RowKind.EVENT:
                return f"event {self.key}"
            case _:
                return f"lookup id {self.key:#018x}"

    def event(self, now: float) -> AppendEvent:
        """The event that reports the damage."""
        return AppendEvent(now, self.identity, DAMAGED, f"{self.what}; {self.problem}", 0, self.path)

    def changes(self, now: float) -> Sequence[Change]:
        """The changes that remove a damaged message; of an entry or event only the content is lost."""
        event = self.event(now)
        if self.queue is None or self.kind in (RowKind.LOG_ENTRY, RowKind.EVENT):
            return [event]
        is_express = self.kind is RowKind.EXPRESS
        return [RemoveMessages(self.queue, (self.key,), is_express=is_express), event]


@attrs.frozen
class VerifiedRows(Generic[Row]):
    """Rows of a read, and damaged rows that it left out."""

    rows: list[Row]
    damaged: Sequence[DamagedRow] = ()


class PacketDamaged(MessageNotStored):
    """A read met damaged packets, which are in quarantine.

    @ivar damaged: the damaged rows; the error names the queue and LookupIdentifier of the first.
    """

    def __init__(self, queue: UUID, damaged: Sequence[DamagedRow]) -> None:
        super().__init__(queue, damaged[0].key)
        self.damaged = damaged


def keep(target: Path, content: bytes) -> None:
    """Write damaged data to a quarantine file, durably.

    @raise OSError: it cannot be written.
    """
    make_directory(target.parent)
    write_durably(target, content)
