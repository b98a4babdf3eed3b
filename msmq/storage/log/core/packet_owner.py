"""Owner of a packet in the record log: the row that refers to it."""

from __future__ import annotations

import enum

import attrs

from msmq.storage.log.core.records import EVENT_ROW, LOG_ROW, MESSAGE_ROW
from msmq.storage.log.core.state import State


class OwnerKind(enum.Enum):
    """Kind of the owner of a packet."""

    MESSAGE = enum.auto()
    EXPRESS = enum.auto()
    LOG_ENTRY = enum.auto()
    EVENT = enum.auto()


@attrs.frozen
class PacketOwner:
    """Owner of a packet: a message, a log entry or an event.

    @ivar number: of the queue; 0 for an event.
    @ivar key: the LookupIdentifier, or the sequence.
    """

    kind: OwnerKind
    number: int
    key: int

    def location(self, state: State) -> int | None:
        """Current location of its packet; C{None} if it was removed."""
        if self.kind is OwnerKind.EVENT:
            row = state.events.row(self.key)
            return None if row is None else int(EVENT_ROW.unpack(row)[0])
        kept = state.by_number.get(self.number)
        if kept is None:
            return None
        if self.kind is OwnerKind.LOG_ENTRY:
            entry = kept.log.index(self.key)
            return None if entry is None else int(LOG_ROW.unpack(kept.log.row(entry))[2])
        rows = kept.express if self.kind is OwnerKind.EXPRESS else kept.messages
        row = rows.get(self.key)
        return None if row is None else int(MESSAGE_ROW.unpack(row)[0])
