"""Crash recovery of the record log: replays segments to a state, or reports why that is impossible.

Pure: reads through functions, decides, and changes nothing but the state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs

from msmq.interfaces.storage import StoreIncomplete
from msmq.storage.log.core.format import SegmentHeader
from msmq.storage.log.core.records import RecordTarget, TableRecord, replay
from msmq.storage.log.core.scan import (
    Group,
    Position,
    Read,
    begins_repair,
    begun_group,
    follows_group,
    has_successor,
    later_group,
    next_group,
    sealed_by,
    torn_packet,
)
from msmq.storage.log.failures import REMEDY, StoreDamaged


@attrs.frozen
class RecoveredSegment:
    """A segment found in the directory.

    @ivar size: bytes of its file.
    @ivar read: reads it.
    """

    path: Path
    header: SegmentHeader
    size: int
    read: Read


@attrs.frozen
class LastGroup:
    """The last group of a log, in a segment's file.

    Its writer may have ended before it was on stable storage, and what was read of it came from the cache.
    """

    path: Path
    offset: int
    size: int


@attrs.frozen
class Recovered:
    """What L{recover} found.

    @ivar position: the end of the log.
    @ivar is_cut: whether an unconfirmed write was cut off there.
    @ivar last: the last group; C{None} if it is known to be on stable storage, since another one was begun
        after it, or the checkpoint.
    """

    position: Position
    is_cut: bool
    last: LastGroup | None


def recover(
    directory: Path, sources: Mapping[int, RecoveredSegment], position: Position, state: RecordTarget
) -> Recovered:
    """Replay every group from a position on.

    @param sources: by generation.
    @raise StoreIncomplete: a segment is missing.
    @raise StoreDamaged: a durable group is damaged.
    @raise Malformed: a group is intact and not of this version.
    """
    pending: tuple[RecoveredSegment, Group, list[TableRecord]] | None = None
    begin = position
    while True:
        source = sources.get(position.generation)
        if source is None:
            raise missing(directory, [one.path for one in sources.values()], position.generation)
        group = next_group(source.read, source.header, position)
        if group is None:
            break
        # This proves that the previous group is durable.
        if pending is not None:
            _apply(pending[2], state)
        records = group.records()
        pending = source, group, records
        position = group.next(sealed_by(records))
    check_end(sources, source, begin, position)
    is_begun = begun_group(source.read, source.header, position) is not None
    if pending is None:
        return Recovered(position, is_begun, None)
    is_confirmed = has_successor(source.read, source.header, position)
    source, group, records = pending
    if is_confirmed:
        # The message of a packet that does not match is lost, but nothing else of the group.
        _apply(records, state)
        return Recovered(position, True, None)
    if torn_packet(source.read, group) is not None:
        header = group.header
        before = Position(header.generation, group.offset, header.sequence, header.previous)
        return Recovered(before, True, None)
    _apply(records, state)
    last = LastGroup(source.path, group.offset, group.end - group.offset)
    return Recovered(position, is_begun, last)


def check_end(
    sources: Mapping[int, RecoveredSegment],
    source: RecoveredSegment,
    begin: Position,
    position: Position,
    most: int | None = None,
) -> None:
    """Check that the log ends where no group was found.

    The group of a repair that has not ended counts only with the checkpoint that the repair writes after it.

    @param sources: at least those of later generations.
    @param source: the segment of the apparent end.
    @param begin: position of the checkpoint.
    @param position: the apparent end.
    @param most: bytes of each segment that are searched for groups; C{None} for all.
    @raise StoreDamaged: the rest of the segment is missing, a group follows that was written after one that
        is not intact, or the last group of the checkpoint is missing.
    """
    if source.size < source.header.size:
        problem = f"the file has {source.size} of {source.header.size} bytes"
        raise StoreDamaged(source.path, source.size, problem)
    starts = [(source, position)]
    for generation, after in sources.items():
        if generation > position.generation:
            # A group there was written only after this segment was ended.
            starts.append((after, attrs.evolve(position, offset=0)))
    for one, start in starts:
        later = later_group(one.read, one.header, start, most)
        if later is not None and begins_repair(later):
            later = later_group(one.read, one.header, attrs.evolve(start, offset=later.offset), most)
        if later is not None:
            problem = f"group {position.sequence} is damaged, and group {later.header.sequence} is behind it"
            raise StoreDamaged(source.path, position.offset, f"{problem} in {one.path.name}")
    if position == begin and not follows_group(source.read, source.header, position):
        # No group continues the chain of the checkpoint.
        problem = f"group {position.sequence - 1}, the last one of the checkpoint, is missing: an older copy"
        raise StoreDamaged(source.path, position.offset, problem)


def missing(directory: Path, found: Sequence[Path], generation: int) -> StoreIncomplete:
    """Create the error for a missing segment."""
    names = ", ".join(sorted(path.name for path in found)[:3]) or "no segment"
    return StoreIncomplete(
        f"{directory}: the segment of generation {generation} is missing (there are {names}...);"
        f" restore it, {REMEDY}"
    )


def _apply(records: list[TableRecord], state: RecordTarget) -> None:
    for record in records:
        replay(record, state)
