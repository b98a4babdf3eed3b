"""OutgoingTxSequenceID: sequence identifiers, never reused. [MS-MQQB] 3.1.1.3.1."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from msmq.errors import LocalProtocolError
from msmq.moment import Moment
from msmq.persistence.state_records import StateChange, reading
from msmq.wire.writer import Writer

NAME = "tx/timestamp"
"""The name of the stored time stamp."""

_VERSION = 1
_LARGEST = 0xFFFFFFFF
_FRACTIONS = 1 << 31
"""Half the ordinals, so that at least as many are left for sequences."""


@attrs.define
class SequenceIdentifiers:
    """Assigns TxSequenceIDs as numbers, each larger than all before.

    The time stamp is new at each start of the queue manager, and never goes back; the ordinals count
    sequences since then, for all outgoing queues together.
    So storing the time stamp once suffices, and neither a crash nor a restored backup repeats an identifier,
    as long as the clock advances in between.
    If it does not, the time stamp may be one that was used since the backup.  The ordinals then begin after
    the present fraction of a second, since receivers would acknowledge messages with repeated identifiers as
    duplicates.
    """

    timestamp: int
    ordinal: int = 0
    _start: int = attrs.field(init=False)
    _stored: int = attrs.field(default=-1, init=False)

    def __attrs_post_init__(self) -> None:
        self._start = self.timestamp << 32 | self.ordinal

    @classmethod
    def resume(cls, state: Mapping[str, bytes], now: Moment) -> SequenceIdentifiers:
        """Continue after all identifiers that were assigned before.

        @param state: what the store keeps.
        @raise StateError: the value in it is damaged.
        """
        value = state.get(NAME)
        if value is None:
            return cls(now.unix_seconds)
        with reading(NAME, value, _VERSION) as reader:
            last = reader.u32("TimeStamp")
        if last < now.unix_seconds:
            return cls(now.unix_seconds)
        return cls(last + 1, int(now.wall % 1 * _FRACTIONS))

    @property
    def next(self) -> int:
        """The next identifier, without taking it."""
        if self.ordinal == _LARGEST:
            return self.timestamp + 1 << 32 | 1
        return self.timestamp << 32 | self.ordinal + 1

    def take(self) -> int:
        """A new identifier.

        @raise LocalProtocolError: all identifiers are used.
        """
        sequence = self.next
        if sequence >> 32 > _LARGEST:
            raise LocalProtocolError(f"TxSequenceID.TimeStamp: {sequence >> 32} does not fit 32 bits")
        self.timestamp, self.ordinal = sequence >> 32, sequence & _LARGEST
        return sequence

    def is_ours(self, sequence: int) -> bool:
        """Whether an identifier belongs to this start of the queue manager."""
        return sequence > self._start

    def was_given(self, sequence: int) -> bool:
        """Whether an identifier was actually assigned since the start of the queue manager."""
        return self.is_ours(sequence) and sequence < self.next

    def reservation(self) -> StateChange | None:
        """The change to store with messages that have an identifier, until it is stored once."""
        if self._stored == self.timestamp:
            return None
        writer = Writer()
        writer.u8(_VERSION, "Version")
        writer.u32(self.timestamp, "TimeStamp")
        return NAME, writer.getvalue()

    def stored(self, change: StateChange) -> None:
        """The change of L{reservation} is stored."""
        if change == self.reservation():
            self._stored = self.timestamp
