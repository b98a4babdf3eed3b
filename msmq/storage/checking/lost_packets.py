"""Removal of messages, log entries and events with missing or damaged packets from a record log."""

from __future__ import annotations

from pathlib import Path
from typing import Final
from zlib import crc32

import attrs

from msmq.persistence.changes import AppendEvent
from msmq.storage.checking.log_salvage import LogSalvage
from msmq.storage.damage import DAMAGED, EVENT_LOST, keep
from msmq.storage.log.core.events import event_packet
from msmq.storage.log.core.plan import GroupPlan
from msmq.storage.log.core.records import EVENT_ROW, HAS_IDENTITY, LOG_ROW, MESSAGE_ROW, OFFSET_MASK
from msmq.storage.log.core.state import KeptQueue

MOST_EVENTS: Final = 1000
"""Limit on messages and log entries that are reported singly; further ones are counted."""


def take_lost(found: LogSalvage, plan: GroupPlan, quarantine: Path, now: float) -> list[str]:
    """Verify every packet, and remove unreadable ones; their bytes are quarantined.

    @param plan: a group over the same state, for the events.
    @return: the removed objects, one line each.
    @raise OSError: damaged bytes cannot be written to quarantine.
    """
    lost = _Lost(found, plan, quarantine, now)
    for kept in list(found.state.by_number.values()):
        lost.messages(kept)
        lost.entries(kept)
    lost.events()
    return lost.said + lost.rest()


@attrs.define
class _Lost:
    found: LogSalvage
    plan: GroupPlan
    quarantine: Path
    now: float
    said: list[str] = attrs.field(factory=list)
    _more: int = 0

    def messages(self, kept: KeptQueue) -> None:
        """Remove messages with lost packets from their queues."""
        for lookup_id in sorted(kept.messages):
            location, size, checksum, *_, identity = MESSAGE_ROW.unpack(kept.messages[lookup_id])
            problem = self._problem(location, size, checksum)
            if problem is not None:
                kept.messages.pop(lookup_id)
                owner = identity if size >= HAS_IDENTITY else b""
                self._say(f"lookup id {lookup_id:#018x}; {problem}", owner, kept)

    def entries(self, kept: KeptQueue) -> None:
        """Remove entries with lost packets from their message logs."""
        rest: list[bytes] = []
        for index in range(len(kept.log)):
            row = kept.log.row(index)
            sequence, _, location, size, checksum, _ = LOG_ROW.unpack(row)
            problem = self._problem(location, size, checksum)
            if problem is None:
                rest.append(row)
            else:
                self._say(f"entry {sequence} of the message log; {problem}", b"", kept)
        if len(rest) < len(kept.log):
            kept.log.retain(rest)

    def events(self) -> None:
        """Replace lost events by placeholders, since event numbers have no gaps."""
        events = self.found.state.events
        packet = event_packet(AppendEvent(self.now, b"", DAMAGED, EVENT_LOST))
        count = 0
        for sequence in range(events.first, events.end):
            row = events.row(sequence)
            assert row is not None
            location, size, checksum, time, length, identity = EVENT_ROW.unpack(row)
            if self._problem(location, size, checksum) is not None:
                index, checksum = self.plan.packet(packet)
                events.put(sequence, EVENT_ROW.pack(index, len(packet), checksum, time, length, identity))
                count += 1
        if count:
            self.said.append(f"{self.found.directory}: {count} events of the event log are lost")

    def rest(self) -> list[str]:
        """Summarize the objects that were not reported singly."""
        return [f"{self.found.directory}: {self._more} more messages or log entries"] if self._more else []

    def _problem(self, location: int, size: int, checksum: int) -> str | None:
        """Describe the damage of a packet, and quarantine its remaining bytes."""
        generation, offset = location >> 32, location & OFFSET_MASK
        if generation == self.found.next_generation:
            # Of the group that is being planned.
            return None
        segment = self.found.segments.get(generation)
        if segment is None:
            return f"{self.found.directory}: the segment of generation {generation} is missing"
        packet = self.found.read(generation, offset, size)
        if len(packet) == size and crc32(packet) == checksum:
            return None
        if packet.strip(b"\0"):
            keep(self.quarantine / f"{segment.path.name}-{offset}-{generation}", packet)
        return f"{segment.path}, offset {offset}: {size} bytes are damaged"

    def _say(self, reason: str, identity: bytes, kept: KeptQueue) -> None:
        if len(self.said) >= MOST_EVENTS:
            self._more += 1
            return
        path = kept.definition.path
        self.said.append(f"{path}: {reason}")
        self.plan.add([AppendEvent(self.now, identity, DAMAGED, reason, 0, path)])
