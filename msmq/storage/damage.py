"""Damage of a store: findings of verification, and their handling."""

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
"""The event for something that was quarantined."""
LOSS_ACCEPTED: Final = "loss_accepted"
"""The event for a store that was opened although it is not the one that was used last."""

Row = TypeVar("Row")


@attrs.frozen
class DamagePolicy:
    """What a store does about damage and loss.

    @ivar mark: a file outside the store, by which a store that is not the one last used is noticed.
    @ivar accepts_loss: whether such a store is opened nevertheless, with an event.
    @ivar now: seconds since 1970-01-01 UTC, for events of the store itself.
    @ivar scrubbing: how fast and how often what is stored is verified.
    """

    mark: Path
    accepts_loss: bool
    now: Callable[[], float]
    scrubbing: ScrubPolicy

    @property
    def quarantine(self) -> Path:
        """The directory for what is left of damaged rows of a store that is in no directory itself."""
        return self.mark.with_name(f"{self.mark.name.removesuffix('-mark')}.quarantine")


class RowKind(enum.Enum):
    """What is damaged."""

    MESSAGE = enum.auto()
    EXPRESS = enum.auto()
    LOG_ENTRY = enum.auto()
    EVENT = enum.auto()


@attrs.frozen
class DamagedRow:
    """A message, an entry of a message log or an event that is not as it was written.

    @ivar queue: the identifier of its queue, if it has one that is known.
    @ivar path: the path of its queue; empty if it is not known.
    @ivar key: the LookupIdentifier, or the sequence.
    @ivar identity: as of L{msmq.persistence.changes.AppendEvent}; empty if it is not known.
    @ivar problem: where it is and what is wrong.
    """

    kind: RowKind
    queue: UUID | None
    path: str
    key: int
    identity: bytes
    problem: str

    @property
    def what(self) -> str:
        """How the event names it."""
        match self.kind:
            case RowKind.LOG_ENTRY:
                return f"entry {self.key} of the message log"
            case RowKind.EVENT:
                return f"event {self.key}"
            case _:
                return f"lookup id {self.key:#018x}"

    def event(self, now: float) -> AppendEvent:
        """The event that says so."""
        return AppendEvent(now, self.identity, DAMAGED, f"{self.what}; {self.problem}", 0, self.path)

    def changes(self, now: float) -> Sequence[Change]:
        """What takes it out of its queue; of an entry or an event only the content is lost."""
        event = self.event(now)
        if self.queue is None or self.kind in (RowKind.LOG_ENTRY, RowKind.EVENT):
            return [event]
        is_express = self.kind is RowKind.EXPRESS
        return [RemoveMessages(self.queue, (self.key,), is_express=is_express), event]


@attrs.frozen
class VerifiedRows(Generic[Row]):
    """What was read, and what was left out since it is damaged."""

    rows: list[Row]
    damaged: Sequence[DamagedRow] = ()


class PacketDamaged(MessageNotStored):
    """Packets that were to be read are damaged; they are in quarantine.

    @ivar damaged: what was found; the first one gives the error its queue and LookupIdentifier.
    """

    def __init__(self, queue: UUID, damaged: Sequence[DamagedRow]) -> None:
        super().__init__(queue, damaged[0].key)
        self.damaged = damaged


def keep(target: Path, content: bytes) -> None:
    """Have what is left of something damaged on disk.

    @raise OSError: it cannot be written.
    """
    make_directory(target.parent)
    write_durably(target, content)
