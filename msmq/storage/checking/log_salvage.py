"""Salvage: reads the intact records of a damaged record log, without changing it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import attrs

from msmq.interfaces.storage import StorageError
from msmq.storage.generation_mark import GenerationMark
from msmq.storage.log.checkpoint_files import NAMES, FoundCheckpoint, find_checkpoints
from msmq.storage.log.core.checkpoint import BODY, CheckpointHeader, read_checkpoint_header
from msmq.storage.log.core.format import SEGMENT_HEADER, Malformed, SegmentHeader, read_segment_header
from msmq.storage.log.core.records import read_records, replay
from msmq.storage.log.core.salvage import (
    SalvagedState,
    first_group,
    intact_group,
    intact_groups,
    intact_tables,
    is_whole,
    one_bit_changed,
)
from msmq.storage.log.core.scan import Position, Read, begins_repair, has_successor, sealed_by, torn_packet
from msmq.storage.log.files import FileDescriptors, FoundSegment, find_segments, read_readable

_CHECKPOINT_HEAD: Final = 100
_Header = TypeVar("_Header")


@attrs.frozen
class SalvagedSegment:
    """A segment of the log.

    @ivar header: the header, or a new one if it is damaged.
    @ivar seed: start value of the checksums of its groups.
    @ivar is_renewed: whether the header is new and has to be written.
    """

    path: Path
    header: SegmentHeader
    seed: int
    file_size: int
    is_renewed: bool = False


@attrs.define
class LogSalvage:
    """Readable content of a damaged record log.

    @ivar store: the identifier of the store.
    @ivar segments: by generation.
    @ivar files: every segment file; C{foreign} are those that do not belong to the log.
    @ivar last: sequence of the last group.
    @ivar next_generation: an unused generation; C{next_checkpoint}: an unused checkpoint number.
    @ivar said: what is damaged or missing, one line each.
    """

    directory: Path
    store: bytes
    state: SalvagedState = attrs.field(factory=SalvagedState)
    segments: dict[int, SalvagedSegment] = attrs.field(factory=dict)
    files: list[Path] = attrs.field(factory=list)
    foreign: list[Path] = attrs.field(factory=list)
    damaged_checkpoints: list[Path] = attrs.field(factory=list)
    last: int = 0
    next_generation: int = 1
    next_checkpoint: int = 1
    said: list[str] = attrs.field(factory=list)
    descriptors: FileDescriptors = attrs.field(factory=FileDescriptors)

    def read(self, generation: int, offset: int, size: int) -> bytes:
        """Read bytes of a segment; fewer, or none, where they are missing.

        Zeros stand for what the disk cannot read.
        """
        segment = self.segments.get(generation)
        if segment is None:
            return b""
        try:
            return read_readable(self.descriptors.of(segment.path), offset, size)
        except OSError:
            return b""


def salvage(directory: Path, mark: GenerationMark | None) -> LogSalvage:
    """Read a log.

    @param mark: the mark in the data directory, if it can be read.
    @raise StorageError: there is nothing to read, or the log has another version.
    """
    checkpoints = find_checkpoints(directory)
    found = find_segments(directory)
    headers = [_checkpoint_header(one) for one in checkpoints]
    stores = [one.store for one in headers if one is not None]
    if mark is not None:
        # Of two checkpoints the mark says which is meant. Segments alone may be left of a store that was
        # replaced by another one.
        stores.insert(0 if mark.store in stores else len(stores), mark.store)
    stores += [one.header.store for one in found if one.header is not None]
    if not stores:
        raise StorageError(
            f"{directory}: {' and '.join(NAMES)} and the segments are missing or damaged; restore the store"
            " from a backup"
        )
    result = LogSalvage(directory, stores[0])
    for segment in found:
        _take_segment(result, segment)
    result.next_generation = max(result.segments, default=0) + 1
    _take_records(result, checkpoints, headers, 0 if mark is None else mark.number)
    # A checkpoint has rows that are newer than its position, and their segments may be missing.
    named = max(result.state.live(), default=0)
    result.next_generation = max(result.next_generation, named + 1)
    return result


def _checkpoint_header(found: FoundCheckpoint) -> CheckpointHeader | None:
    """Read the header of a checkpoint, and correct a single wrong bit.

    @raise StorageError: it is of another version.
    """
    if found.header is not None:
        return found.header
    with _reading(found.path) as read:
        head = read(0, _CHECKPOINT_HEAD)
    _check_version(found, head)
    return _corrected(head, read_checkpoint_header)


def _check_version(found: FoundCheckpoint | FoundSegment, head: bytes) -> None:
    """Check that an unreadable header is damaged, and not of another version.

    @raise StorageError: it is of another version.
    """
    if found.problem is not None and is_whole(head):
        raise StorageError(f"{found.path}, offset 8: {found.problem}; use that version of msmq")


def _corrected(head: bytes, read: Callable[[bytes], _Header]) -> _Header | None:
    for candidate in one_bit_changed(head):
        try:
            return read(candidate)
        except Malformed:
            continue
    return None


def _take_segment(result: LogSalvage, found: FoundSegment) -> None:
    result.files.append(found.path)
    header, seed = found.header, 0
    is_renewed = False
    if header is not None:
        seed = header.seed
    else:
        renewed = _renewed(result, found)
        if renewed is None:
            return
        header, seed = renewed
        is_renewed = True
    if header.store != result.store:
        result.foreign.append(found.path)
        result.said.append(f"{found.path}, offset 12: a segment of another store; put aside")
        return
    segment = SalvagedSegment(found.path, header, seed, found.size, is_renewed)
    other = result.segments.get(header.generation)
    if other is None:
        result.segments[header.generation] = segment
        return
    kept, copy = (segment, other) if _extent(segment) > _extent(other) else (other, segment)
    result.segments[header.generation] = kept
    result.foreign.append(copy.path)
    result.said.append(f"{copy.path}, offset 28: a copy of {kept.path}; put aside")


def _renewed(result: LogSalvage, found: FoundSegment) -> tuple[SegmentHeader, int] | None:
    """Reconstruct a damaged header, and the checksum seed of its groups.

    @raise StorageError: the file is of another version.
    """
    with _reading(found.path) as read:
        head = read(0, SEGMENT_HEADER)
        _check_version(found, head)
        corrected = _corrected(head, read_segment_header)
        if corrected is not None and corrected.store == result.store:
            result.said.append(f"{found.path}, offset 0: one bit of the header was wrong, and is corrected")
            return corrected, corrected.seed
        first = first_group(read)
    if first is None:
        if found.problem is None:
            # It was never used.
            return None
        result.foreign.append(found.path)
        result.said.append(
            f"{found.path}, offset 0: {found.problem}, and no group behind it is intact; put aside"
        )
        return None
    group, seed = first
    result.said.append(f"{found.path}, offset 0: the header of generation {group.generation} is written anew")
    return SegmentHeader(result.store, group.generation, found.size, os.urandom(16)), seed


def _extent(segment: SalvagedSegment) -> int:
    """Last sequence of a segment, to choose between two copies."""
    last = 0
    with _reading(segment.path) as read:
        header = segment.header
        for group in intact_groups(read, header.generation, segment.seed, header.size):
            last = max(last, group.header.sequence)
    return last


def _take_records(
    result: LogSalvage,
    checkpoints: Sequence[FoundCheckpoint],
    headers: Sequence[CheckpointHeader | None],
    confirmed: int,
) -> None:
    """Replay the checkpoints and the groups after them.

    @param confirmed: sequence of the last group that is known to be durable.
    """
    known: list[tuple[CheckpointHeader, FoundCheckpoint]] = []
    for one, header in zip(checkpoints, headers, strict=True):
        if header is None or header.store != result.store:
            result.damaged_checkpoints.append(one.path)
            result.said.append(f"{one.path}, offset 0: {one.problem or 'of another store'}; put aside")
            continue
        if one.header is None:
            result.said.append(f"{one.path}, offset 0: one bit of the header was wrong, and is corrected")
        known.append((header, one))
        result.next_checkpoint = max(result.next_checkpoint, header.number + 1)
        result.next_generation = max(result.next_generation, header.position.generation + 1)
    newest = next((index for index, (_, one) in enumerate(known) if one.state is not None), None)
    if newest is not None:
        known = known[: newest + 1]
    if not known:
        result.said.append(
            f"{result.directory}: no checkpoint can be read; some messages that were removed may be "
            f"delivered again, and some that were stored are lost"
        )
    # Start with the oldest needed checkpoint; a newer one may fill its gaps.
    known.reverse()
    begins = [header.position.sequence for header, _ in known] or [1]
    result.last = begins[0] - 1
    groups = _groups(result, known[0][0].position if known else Position(0, 0))
    if groups and groups[-1][0] > confirmed and _is_torn(result, *groups[-1][1:]):
        # An unconfirmed write, as in recovery.
        groups.pop()
    for index, begin in enumerate(begins):
        end = begins[index + 1] if index + 1 < len(begins) else 1 << 64
        if known:
            _take_checkpoint(result, *known[index])
        _take_groups(result, [one for one in groups if begin <= one[0] < end], begin)


def _take_checkpoint(result: LogSalvage, header: CheckpointHeader, found: FoundCheckpoint) -> None:
    state = result.state
    state.next_queue = max(state.next_queue, header.next_queue)
    state.last_entry = max(state.last_entry, header.last_entry)
    state.last_event = max(state.last_event, header.last_event)
    with _reading(found.path) as read:
        body = read(BODY, header.size)
    if found.state is None:
        result.damaged_checkpoints.append(found.path)
    for offset, table in intact_tables(body):
        if table is None:
            result.said.append(f"{found.path}, offset {BODY + offset}: rows of the checkpoint are damaged")
            continue
        for record in read_records(table):
            replay(record, state)


def _groups(result: LogSalvage, begin: Position) -> list[tuple[int, int, int]]:
    """Sequence, generation and offset of every intact group from a position on, in order.

    The segment before may have one of the same number, which an earlier repair has left out. The only group
    of a later one is left out if it is of a repair that has not ended: the state of that one was not written,
    and its events are written again.
    """
    found: list[tuple[int, int, int]] = []
    for generation, segment in result.segments.items():
        read = _reader(result, generation)
        here: list[tuple[int, int, int]] = []
        count, is_of_repair = 0, False
        for group in intact_groups(read, generation, segment.seed, segment.header.size):
            count, is_of_repair = count + 1, begins_repair(group)
            is_behind = (generation, group.offset) >= (begin.generation, begin.offset)
            if group.header.sequence >= begin.sequence and is_behind:
                here.append((group.header.sequence, generation, group.offset))
        if count > 1 or not is_of_repair or not 0 < begin.generation < generation:
            found += here
    return sorted(found)


def lost_groups(first: int, last: int, how: str) -> str:
    """What the loss of groups means to the messages.

    @param how: what is wrong with them, such as C{"missing"}.
    """
    are, they = (f"group {first} is", "it") if first == last else (f"groups {first} to {last} are", "they")
    return (
        f"{are} {how}; the messages that {they} stored are lost, and those that {they} removed may be "
        "delivered again"
    )


@contextmanager
def _reading(path: Path) -> Iterator[Read]:
    """Reads a file, with zeros for what the disk cannot read."""
    with path.open("rb") as file:
        yield partial(read_readable, file.fileno())


def _reader(result: LogSalvage, generation: int) -> Read:
    return lambda offset, size: result.read(generation, offset, size)


def _is_torn(result: LogSalvage, generation: int, offset: int) -> bool:
    """Whether the last group is a write that was cut off: it has a damaged packet, and no successor."""
    segment, read = result.segments[generation], _reader(result, generation)
    group = intact_group(read, generation, segment.seed, segment.header.size, offset)
    if group is None or torn_packet(read, group) is None:
        return False
    end = group.next(sealed_by(group.records()))
    following = result.segments.get(end.generation)
    return following is None or not has_successor(_reader(result, end.generation), following.header, end)


def _take_groups(result: LogSalvage, groups: Sequence[tuple[int, int, int]], begin: int) -> None:
    expected = begin
    for sequence, generation, offset in groups:
        segment, read = result.segments[generation], _reader(result, generation)
        group = intact_group(read, generation, segment.seed, segment.header.size, offset)
        if group is None:
            # The disk cannot read it.
            continue
        if sequence > expected:
            lost = lost_groups(expected, sequence - 1, "damaged or missing")
            result.said.append(f"{segment.path}, offset {offset}: before it {lost}")
        for record in group.records():
            replay(record, result.state)
        expected = sequence + 1
        result.last = sequence
