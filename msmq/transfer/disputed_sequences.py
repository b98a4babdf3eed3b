"""Sequences whose receiver has numbers that this process did not send: they are held over restarts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msmq.persistence.state_records import StateChange, numbered, reading
from msmq.wire.writer import Writer

PREFIX: Final = "tx/disputed/"
"""Prefix of the names of stored values; the sequence follows, as a number."""

_VERSION: Final = 1


class DisputedSequences:
    """The sequences of which L{OutgoingStream<msmq.transfer.outgoing_stream.OutgoingStream>} sends no more.

    Without the stored values a restart would send their messages again, and the receiver would drop and
    acknowledge them as duplicates. There is one at most for each outgoing queue with messages.
    """

    def __init__(self) -> None:
        self._sequences: set[int] = set()
        self._changes: list[StateChange] = []

    def __contains__(self, sequence: int) -> bool:
        return sequence in self._sequences

    def load(self, state: Mapping[str, bytes]) -> None:
        """Load the stored state.

        @raise StateError: a value is damaged.
        """
        for sequence, name, value in numbered(state, PREFIX):
            with reading(name, value, _VERSION) as reader:
                reader.u32("Number")
            self._sequences.add(sequence)

    def add(self, sequence: int, number: int) -> None:
        """The receiver has acknowledged this number of a sequence, which was not sent."""
        writer = Writer()
        writer.u8(_VERSION, "Version")
        writer.u32(number, "Number")
        self._sequences.add(sequence)
        self._changes.append((f"{PREFIX}{sequence}", writer.getvalue()))

    def discard(self, sequence: int) -> None:
        """The sequence goes on, or none of its messages is left."""
        if sequence in self._sequences:
            self._sequences.discard(sequence)
            self._changes.append((f"{PREFIX}{sequence}", None))

    def clear(self) -> None:
        """There are no messages of any sequence."""
        for sequence in sorted(self._sequences):
            self.discard(sequence)

    def take_changes(self) -> list[StateChange]:
        """The changes to store."""
        changes, self._changes = self._changes, []
        return changes
