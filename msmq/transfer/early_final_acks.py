"""Early FinalAcks: they came between a restart and the reading of their messages. [MS-MQQB] 3.1.5.7."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from msmq.persistence.state_records import StateChange, numbered, reading
from msmq.wire.writer import Writer

PREFIX: Final = "tx/early/"
"""Prefix of the names of stored values; the sequence and the number in it follow, as one number."""

FURTHER: Final = "tx/early_further/"
"""The same for a further FinalAck of the same number, whose MessageID is the end of that number."""

_VERSION: Final = 1


@attrs.frozen
class _Early:
    """A FinalAck that waits.

    @ivar name: the name under which it is stored.
    """

    name: str
    message_class: int


class EarlyFinalAcks:
    """FinalAcks whose messages are stored, but not read since the start, so that they cannot be found yet.

    A FinalAck is sent once: its receiver acknowledges it only when it is stored here, and it stays until its
    message has been removed from the store.
    Whether the MessageID is that of the message shows only then, so a forged one does not displace another of
    the same number.

    @param limit: limit on them; what comes beyond it is not kept.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        # By sequence and number, and by MessageID.
        self._waiting: dict[int, dict[int, _Early]] = {}
        self._count = 0
        self._taken: dict[object, tuple[int, str]] = {}
        self._settling: set[int] = set()
        self._changes: list[StateChange] = []

    def __len__(self) -> int:
        return self._count + len(self._taken)

    def load(self, state: Mapping[str, bytes]) -> None:
        """Load the stored state.

        @raise StateError: a value is damaged.
        """
        for prefix, shift in ((PREFIX, 0), (FURTHER, 32)):
            for number, name, value in numbered(state, prefix):
                with reading(name, value, _VERSION) as reader:
                    message_id, message_class = reader.u32("MessageID"), reader.u32("Class")
                self._put(number >> shift, message_id, _Early(name, message_class))

    def add(self, sequence: int, number: int, message_id: int, message_class: int) -> bool:
        """Keep a FinalAck; false beyond the limit. Its change is in L{take_changes}."""
        key = sequence << 32 | number
        if key in self._settling:
            # A copy of one that is stored.
            return True
        # The first one of a message counts, as for a message that was read.
        found = self._waiting.get(key, {}).get(message_id)
        if found is None:
            if len(self) >= self._limit:
                return False
            name = f"{PREFIX}{key}"
            if any(each.name == name for each in self._waiting.get(key, {}).values()):
                name = f"{FURTHER}{key << 32 | message_id}"
            found = _Early(name, message_class)
            self._put(key, message_id, found)
        # A repeated one is acknowledged only when it is stored, too.
        writer = Writer()
        writer.u8(_VERSION, "Version")
        writer.u32(message_id, "MessageID")
        writer.u32(found.message_class, "Class")
        self._changes.append((found.name, writer.getvalue()))
        return True

    def take(self, sequence: int, number: int, message_id: int, message: object) -> int | None:
        """The class of the FinalAck of a message that was read; C{None} if there was none."""
        key = sequence << 32 | number
        claims = self._waiting.get(key, {})
        found = claims.pop(message_id, None)
        if found is None:
            return None
        self._count -= 1
        if not claims:
            del self._waiting[key]
        self._taken[message] = key, found.name
        self._settling.add(key)
        return found.message_class

    def removed(self, message: object) -> None:
        """A message is removed from the store: its FinalAck is not needed any more."""
        taken = self._taken.pop(message, None)
        if taken is not None:
            key, name = taken
            self._settling.discard(key)
            self._changes.append((name, None))

    def clear(self) -> None:
        """All messages have been read: what is left matches none of them."""
        for claims in self._waiting.values():
            self._changes += [(each.name, None) for each in claims.values()]
        self._waiting.clear()
        self._count = 0

    def take_changes(self) -> list[StateChange]:
        """The changes to store."""
        changes, self._changes = self._changes, []
        return changes

    def _put(self, key: int, message_id: int, early: _Early) -> None:
        self._waiting.setdefault(key, {})[message_id] = early
        self._count += 1
