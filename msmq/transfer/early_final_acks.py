"""Early FinalAcks: they came between a restart and the reading of their messages. [MS-MQQB] 3.1.5.7."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msmq.persistence.state_records import StateChange, numbered, reading
from msmq.wire.writer import Writer

PREFIX: Final = "tx/early/"
"""Prefix of the names of stored values; the sequence and the number in it follow, as one number."""

_VERSION: Final = 1


class EarlyFinalAcks:
    """FinalAcks whose messages are stored, but not read since the start, so that they cannot be found yet.

    A FinalAck is sent once: its receiver acknowledges it only when it is stored here, and it stays until its
    message has been removed from the store.

    @param limit: limit on them; what comes beyond it is not kept.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._waiting: dict[int, tuple[int, int]] = {}
        self._taken: dict[object, int] = {}
        self._settling: set[int] = set()
        self._changes: list[StateChange] = []

    def __len__(self) -> int:
        return len(self._waiting) + len(self._taken)

    def load(self, state: Mapping[str, bytes]) -> None:
        """Load the stored state.

        @raise StateError: a value is damaged.
        """
        for key, name, value in numbered(state, PREFIX):
            with reading(name, value, _VERSION) as reader:
                self._waiting[key] = reader.u32("MessageID"), reader.u32("Class")

    def add(self, sequence: int, number: int, message_id: int, message_class: int) -> bool:
        """Keep a FinalAck; false beyond the limit. Its change is in L{take_changes}."""
        key = sequence << 32 | number
        if key in self._settling:
            # A copy of one that is stored.
            return True
        if key not in self._waiting:
            if len(self) >= self._limit:
                return False
            self._waiting[key] = message_id, message_class
        elif self._waiting[key][0] == message_id:
            # The first one counts, as for a message that was read, and a restart has to find it again.
            message_class = self._waiting[key][1]
        # A repeated one is acknowledged only when it is stored, too.
        writer = Writer()
        writer.u8(_VERSION, "Version")
        writer.u32(message_id, "MessageID")
        writer.u32(message_class, "Class")
        self._changes.append((f"{PREFIX}{key}", writer.getvalue()))
        return True

    def take(self, sequence: int, number: int, message_id: int, message: object) -> int | None:
        """The class of the FinalAck of a message that was read; C{None} if there was none."""
        key = sequence << 32 | number
        found = self._waiting.get(key)
        if found is None or found[0] != message_id:
            return None
        del self._waiting[key]
        self._taken[message] = key
        self._settling.add(key)
        return found[1]

    def removed(self, message: object) -> None:
        """A message is removed from the store: its FinalAck is not needed any more."""
        key = self._taken.pop(message, None)
        if key is not None:
            self._settling.discard(key)
            self._changes.append((f"{PREFIX}{key}", None))

    def clear(self) -> None:
        """All messages have been read: what is left matches none of them."""
        self._changes += [(f"{PREFIX}{key}", None) for key in self._waiting]
        self._waiting.clear()

    def take_changes(self) -> list[StateChange]:
        """The changes to store."""
        changes, self._changes = self._changes, []
        return changes
