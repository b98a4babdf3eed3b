"""A disk of blocks with a log on it, and a writer whose every call may fail or be the last."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

import attrs

from msmq.persistence.changes import Change, PutMessage, PutState
from msmq.persistence.definition import QueueDefinition
from msmq.storage.log.core.format import (
    BLOCK,
    FIRST,
    GROUP_HEADER,
    SegmentHeader,
    encode_group,
)
from msmq.storage.log.core.plan import GroupPlan
from msmq.storage.log.core.recovery import RecoveredSegment, recover
from msmq.storage.log.core.scan import Position
from msmq.storage.log.core.state import State

STORE = bytes(range(16))
BLOCKS = 12
SIZE = FIRST + BLOCKS * BLOCK
QUEUE = QueueDefinition(UUID(int=1), "private$\\q")
NOWHERE = Path("log")


@attrs.define
class Blocks:
    """One segment.

    @ivar owners: by block, which write it holds a part of, and which part; C{None} for what was there before.
    """

    header: SegmentHeader
    content: bytearray
    owners: list[tuple[int, int] | None]
    has_header: bool = True

    @classmethod
    def of(cls, generation: int, before: Blocks | None = None) -> Blocks:
        """A segment of zeros, or one in which there is what another use of it has left."""
        header = SegmentHeader(STORE, generation, SIZE, bytes([generation]) * 16)
        content = bytearray(SIZE) if before is None else bytearray(before.content)
        content[:FIRST] = header.to_bytes().ljust(FIRST, b"\0")
        return cls(header, content, [None] * BLOCKS)

    def source(self) -> RecoveredSegment:
        """The files as recovery reads them."""
        content = bytes(self.content)
        path = NOWHERE / f"segment-{self.header.generation:06d}"
        return RecoveredSegment(path, self.header, SIZE, lambda offset, size: content[offset : offset + size])


@attrs.frozen
class Written:
    """A group as it is to be written.

    @ivar number: of this write, never given twice.
    """

    number: int
    generation: int
    offset: int
    data: bytes = attrs.field(repr=False)
    next: Position

    @property
    def blocks(self) -> int:
        """How many it takes."""
        return len(self.data) // BLOCK


class Machine:
    """The writer: the next position of the log, and the segments.

    @ivar confirmed: the numbers of writes that were answered with success.
    """

    def __init__(self, *, is_recycled: bool = False) -> None:
        first = Blocks.of(2, old_segment() if is_recycled else None)
        self.segments = {2: first}
        self.position = Position(generation=2)
        self.confirmed: list[int] = []
        self.number = 0

    def copy(self) -> Machine:
        twin = Machine()
        twin.segments = {
            generation: Blocks(one.header, bytearray(one.content), list(one.owners))
            for generation, one in self.segments.items()
        }
        twin.position, twin.number = self.position, self.number
        twin.confirmed = list(self.confirmed)
        return twin

    def group(self, *, is_large: bool, sealed: int | None = None) -> Written:
        """The next group; it puts the value C{number}, which says which write it was."""
        self.number += 1
        changes: list[Change] = [PutState("number", b"%d" % self.number)]
        if is_large:
            # Its packet ends in the second block, and its table is in the third.
            changes.append(PutMessage(QUEUE.identifier, self.number, bytes([self.number % 256]) * 1000, 1.0))
        return self.encode(changes, sealed)

    def encode(self, changes: Sequence[Change], sealed: int | None = None) -> Written:
        """A group of these changes."""
        position = self.position
        header = self.segments[position.generation].header
        state = State()
        state.put_queue(1, QUEUE.identifier, b"")
        plan = GroupPlan(state, position.generation << 32 | position.offset + GROUP_HEADER, 0)
        plan.add(changes)
        if sealed is not None:
            plan.seal(sealed)
        buffers, checksum = encode_group(
            header.seed,
            header.generation,
            position.sequence,
            position.chain,
            plan.packets,
            plan.size,
            plan.table,
        )
        data = b"".join(buffers)
        after = Position(position.generation, position.offset + len(data), position.sequence + 1, checksum)
        if sealed is not None:
            after = Position(sealed, FIRST, position.sequence + 1, checksum)
        return Written(self.number, position.generation, position.offset, data, after)

    def write(self, group: Written, parts: Sequence[int]) -> None:
        """Have some blocks of a group on the disk."""
        segment = self.segments[group.generation]
        for part in parts:
            at = group.offset + part * BLOCK
            segment.content[at : at + BLOCK] = group.data[part * BLOCK : (part + 1) * BLOCK]
            segment.owners[(at - FIRST) // BLOCK] = group.number, part

    def neutralize(self, group: Written) -> None:
        """Make a group invalid that was answered with an error."""
        segment = self.segments[group.generation]
        segment.content[group.offset : group.offset + BLOCK] = bytes(BLOCK)
        segment.owners[(group.offset - FIRST) // BLOCK] = None

    def confirm(self, group: Written) -> None:
        """A group is on stable storage."""
        self.write(group, range(group.blocks))
        self.confirmed.append(group.number)
        self.position = group.next

    def complete(self, attempts: Sequence[Written]) -> int | None:
        """The pending write, if it is complete on the disk at the end of the log; C{None} otherwise."""
        for group in attempts:
            owners = self.segments[group.generation].owners
            at = (group.offset - FIRST) // BLOCK
            if owners[at : at + group.blocks] == [(group.number, part) for part in range(group.blocks)]:
                return group.number
        return None

    def recovered(self) -> list[int]:
        """The numbers of the writes that a start finds."""
        numbers = Numbers()
        sources = {generation: one.source() for generation, one in self.segments.items() if one.has_header}
        recover(NOWHERE, sources, Position(generation=2), numbers)
        return numbers.found


class Numbers(State):
    """A state that remembers which writes were replayed."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[int] = []

    def put_state(self, name: str, value: bytes | None) -> None:
        self.found.append(int(value or b"0"))


def old_segment() -> Blocks:
    """A segment of an earlier generation that is full of groups."""
    machine = Machine()
    segment = machine.segments[2]
    segment.header = SegmentHeader(STORE, 1, SIZE, b"o" * 16)
    machine.segments = {1: segment}
    machine.position = Position()
    for place in range(BLOCKS):
        machine.number = 1000 + place
        machine.confirm(machine.group(is_large=False))
    return segment
