"""Opening of a record log: reads a checkpoint, then replays every later group."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import attrs

from msmq.interfaces.storage import StorageError, StorageFull, StoreIncomplete
from msmq.storage.log.checkpoint_files import (
    NAMES,
    UNFINISHED,
    CheckpointWriter,
    FoundCheckpoint,
    find_checkpoints,
    other_file,
)
from msmq.storage.log.core.checkpoint import BODY, CheckpointHeader, tables
from msmq.storage.log.core.format import Malformed, SegmentHeader
from msmq.storage.log.core.recovery import LastGroup, RecoveredSegment, missing, recover
from msmq.storage.log.core.scan import Position, later_group
from msmq.storage.log.core.segments import AHEAD, RESERVED, Segment, Segments
from msmq.storage.log.core.state import LivePackets, State
from msmq.storage.log.failures import REMEDY, StoreDamaged, failure
from msmq.storage.log.files import (
    DSYNC,
    UNREADABLE,
    FileDescriptors,
    FoundSegment,
    begin_segment,
    damage_read,
    find_segments,
    make_segment,
    read_exactly,
    slot_number,
    write_unsynced,
)
from msmq.storage.log.system import LOCAL, LogSystem
from msmq.storage.loss_check import LossCheck

_OTHER: Final = f"use the version of msmq that has written it, move it away, or {REMEDY}"
_PIECE: Final = 1 << 20
"""Bytes of a group that are read at once."""
NEW_SEGMENTS: Final = 1 + RESERVED + AHEAD + 1
"""Segments for which the disk has to have space when a log is created; the last is for two checkpoints."""
EXPRESS_PREFIX: Final = "express-"


@attrs.define
class OpenedLog:
    """A log that was read from disk.

    @ivar position: position of the next group.
    @ivar checkpoint: the newest; C{checkpoint_path} is its file.
    @ivar has_older: whether the other file has a checkpoint too.
    @ivar is_cut: whether an unconfirmed write was cut off.
    @ivar last: the last group, unless it is known to be on stable storage.
    @ivar system: of its files.
    """

    directory: Path
    state: State
    segments: Segments
    position: Position
    checkpoint: CheckpointHeader
    checkpoint_path: Path
    has_older: bool
    is_cut: bool
    last: LastGroup | None
    system: LogSystem


def open_log(directory: Path, loss: LossCheck, segment_size: int, system: LogSystem = LOCAL) -> OpenedLog:
    """Read a log, or create a new one; its directory exists and is locked.

    @param loss: detects that it is not the log last used.
    @raise StorageError: it cannot be used; names the file.
    """
    try:
        for path in system.list(directory):
            if path.name.startswith(EXPRESS_PREFIX) or path.name == UNFINISHED:
                system.unlink(path)
        found, checkpoints = _find(directory, system)
        if not any(one.header for one in checkpoints):
            _check_new(directory, found, checkpoints, loss, system)
            _check_space(directory, found, segment_size, system)
            _make(directory, found, segment_size, system)
            found, checkpoints = _find(directory, system)
        opened, extra = _read(directory, found, checkpoints, loss, segment_size, system)
        _make_durable(opened, system)
        for path in extra:
            system.unlink(path)
        _reserve_checkpoint(opened, system)
        return opened
    except (OSError, Malformed) as error:
        raise failure(directory, "open", error) from error


def _find(directory: Path, system: LogSystem) -> tuple[list[FoundSegment], list[FoundCheckpoint]]:
    return find_segments(directory, system), find_checkpoints(directory, is_complete=False, system=system)


def check_start(directory: Path, loss: LossCheck, segment_size: int) -> None:
    """Check, without changes, that a start would accept a log.

    @raise StorageError: it would not; names the file.
    """
    try:
        found = find_segments(directory)
        checkpoints = find_checkpoints(directory, is_complete=False)
        if any(one.header for one in checkpoints):
            _read(directory, found, checkpoints, loss, segment_size, LOCAL)
        else:
            _check_new(directory, found, checkpoints, loss, LOCAL)
            _check_space(directory, found, segment_size, LOCAL)
    except (OSError, Malformed) as error:
        raise failure(directory, "open", error) from error


def _check_new(
    directory: Path,
    found: list[FoundSegment],
    checkpoints: list[FoundCheckpoint],
    loss: LossCheck,
    system: LogSystem,
) -> None:
    """Check that there is no log, or only the remains of an interrupted first start.

    @raise StorageError: there is a log, or there was one.
    """
    for one in checkpoints:
        raise StoreDamaged(one.path, 0, one.problem or "damaged")
    for segment in found:
        if segment.problem is not None:
            raise StoreDamaged(segment.path, 0, segment.problem)
        if segment.header is not None and (segment.header.generation > 1 or _has_group(segment, system)):
            raise StoreIncomplete(f"{directory}: {' and '.join(NAMES)} are missing; restore them, {REMEDY}")
    loss.check_empty()


def _check_space(directory: Path, found: list[FoundSegment], size: int, system: LogSystem) -> None:
    """Check that a new log has space to work: its first segment, the files ahead of it and two checkpoints.

    With less it would start, and refuse the first message.

    @raise StorageFull: it does not; nothing was created.
    """
    needed = NEW_SEGMENTS * size
    free = system.free_space(directory)
    # Some file systems report nothing; what they lack shows when the files are filled.
    if 0 < free and free + sum(one.size for one in found) < needed:
        raise StorageFull(
            f"{directory}: a new store needs {-(-needed >> 20)} MiB, and its file system has {free >> 20} MiB"
            " free; free space, or put the data directory on a larger one"
        )


def _has_group(segment: FoundSegment, system: LogSystem) -> bool:
    assert segment.header is not None
    descriptors = FileDescriptors(system=system)
    try:
        read = damage_read(descriptors, segment.path, system)
        return later_group(read, segment.header, Position(offset=0)) is not None
    finally:
        descriptors.close()


def _make(directory: Path, found: list[FoundSegment], size: int, system: LogSystem) -> None:
    """Create an empty log."""
    store = system.random_bytes(16)
    for one in found:
        system.unlink(one.path)
    path = make_segment(directory, 1, size, system)
    make_segment(directory, 2, size, system)
    begin_segment(path, SegmentHeader(store, 1, size, system.random_bytes(16)), DSYNC, system)
    # Both, so that a disk that is full before the first checkpoint has space for that one.
    for number, name in ((1, NAMES[0]), (0, NAMES[1])):
        writer = CheckpointWriter(directory / name, size // 2, system)
        writer.begin()
        try:
            writer.append(list(tables(State())))
            writer.finish(CheckpointHeader(store, number, Position(), 1, 0, 0, 0, 0))
        finally:
            writer.close()
    system.sync(directory)


def _read(
    directory: Path,
    found: list[FoundSegment],
    checkpoints: list[FoundCheckpoint],
    loss: LossCheck,
    segment_size: int,
    system: LogSystem,
) -> tuple[OpenedLog, list[Path]]:
    """Read the log; also returns unneeded files.

    @raise StorageError: it cannot be used.
    """
    newest = next((one for one in checkpoints if one.state is not None), None)
    if newest is None or newest.header is None or newest.state is None:
        raise StoreDamaged(checkpoints[0].path, 0, checkpoints[0].problem or "damaged")
    checkpoint, state = newest.header, newest.state
    by_generation = _check_segments(found, _expected_store(checkpoint, checkpoints, loss), checkpoints)
    loss.check_store(checkpoint.store)
    descriptors = FileDescriptors(system=system)
    try:
        sources = {
            generation: RecoveredSegment(
                one.path, one.header, one.size, damage_read(descriptors, one.path, system)
            )
            for generation, one in by_generation.items()
            if one.header is not None
        }
        recovered = recover(directory, sources, checkpoint.position, state)
        position = recovered.position
        horizon = min(one.header.position.generation for one in checkpoints if one.header is not None)
        segments, extra = _live(directory, found, by_generation, position, state, horizon, segment_size)
    except StoreIncomplete as error:
        for one in found:
            if one.problem is not None:
                # Its generation is unreadable, so it may be the missing segment.
                raise StoreDamaged(one.path, 0, one.problem) from error
        raise
    finally:
        descriptors.close()
    loss.check(checkpoint.store, position.sequence - 1, "its segments")
    opened = OpenedLog(
        directory,
        state,
        segments,
        position,
        checkpoint,
        newest.path,
        any(one.header is not None and one.problem is None for one in checkpoints if one is not newest),
        recovered.is_cut,
        recovered.last,
        system,
    )
    return opened, extra


def _make_durable(opened: OpenedLog, system: LogSystem) -> None:
    """Have on stable storage what was read, before anything is written that depends on it.

    The process before may have been killed, or its disk may have failed, when something was in the page cache
    and not synchronised. That can be the last group and the header of the checkpoint, which is written when
    its body is synchronised.

    @raise OSError: the disk fails.
    """
    _write_again(opened.checkpoint_path, 0, BODY, system)
    if opened.last is not None:
        _write_again(opened.last.path, opened.last.offset, opened.last.size, system)
    system.sync(opened.directory)


def _reserve_checkpoint(opened: OpenedLog, system: LogSystem) -> None:
    """Create the other file for checkpoints, if it is missing, as after a repair.

    If the disk is full already, the first checkpoint, or the next start, tries again.
    """
    path = other_file(opened.checkpoint_path)
    with suppress(OSError):
        CheckpointWriter(path, opened.segments.size // 2, system).reserve(opened.checkpoint.size)


def _write_again(path: Path, start: int, size: int, system: LogSystem) -> None:
    """Write a part of a file once more as it is, synchronised.

    Synchronising the file is not enough: after a failed write the system takes its pages for written.
    """
    descriptor = system.open(path, os.O_RDWR)
    try:
        for offset in range(start, start + size, _PIECE):
            piece = read_exactly(descriptor, offset, min(_PIECE, start + size - offset), system)
            write_unsynced(descriptor, [piece], offset, system)
        system.sync_content(descriptor)
    finally:
        system.close(descriptor)


def _expected_store(newest: CheckpointHeader, checkpoints: list[FoundCheckpoint], loss: LossCheck) -> bytes:
    """The store of the log: of two, the one that was used last, whichever checkpoint is the newest."""
    stores = {one.header.store for one in checkpoints if one.header is not None}
    return loss.mark.store if loss.mark is not None and loss.mark.store in stores else newest.store


def _check_segments(
    found: list[FoundSegment], store: bytes, checkpoints: list[FoundCheckpoint]
) -> dict[int, FoundSegment]:
    """The segments by their generation.

    @raise StorageError: one of them is of another store.
    """
    for one in checkpoints:
        if one.header is not None and one.header.store != store:
            raise StorageError(
                f"{one.path}, offset 12: the checkpoint of another store; remove it, or {REMEDY}"
            )
    by_generation: dict[int, FoundSegment] = {}
    for segment in found:
        if segment.header is None:
            if segment.problem is not None and not _is_damage(segment.problem):
                raise StorageError(f"{segment.path}, offset 0: {segment.problem}; {_OTHER}")
            continue
        if segment.header.store != store:
            raise StorageError(
                f"{segment.path}, offset 12: a segment of another store; remove it, or {REMEDY}"
            )
        other = by_generation.setdefault(segment.header.generation, segment)
        if other is not segment:
            raise StorageError(
                f"{segment.path}, offset 28: a copy of {other.path}; remove the one that does not belong here"
            )
    return by_generation


def _is_damage(problem: str) -> bool:
    """Whether a header is damaged, and not of another version or of something else."""
    return problem == UNREADABLE or "checksum" in problem


def _live(
    directory: Path,
    found: list[FoundSegment],
    by_generation: Mapping[int, FoundSegment],
    position: Position,
    state: State,
    horizon: int,
    segment_size: int,
) -> tuple[Segments, list[Path]]:
    """Live packets of each segment, and unneeded files.

    @raise StorageError: a packet is in a segment that is not there.
    """
    segments = Segments(segment_size, horizon=horizon)
    live = state.live()
    for generation in {*live, position.generation}:
        if generation not in by_generation:
            raise missing(directory, [one.path for one in found], generation)
    for generation, one in by_generation.items():
        assert one.header is not None
        packets = live.get(generation, LivePackets())
        is_needed = min(horizon, position.generation) <= generation <= position.generation
        if not packets.rows and not is_needed:
            continue
        if one.size < one.header.size:
            raise StoreDamaged(one.path, one.size, f"the file has {one.size} of {one.header.size} bytes")
        segments.used[generation] = Segment(one.path, one.header, packets.rows, packets.size)
    kept = {segment.path for segment in segments.used.values()}
    segments.free = [one.path for one in found if one.path not in kept and one.size == segment_size]
    extra = [one.path for one in found if one.path not in kept and one.size != segment_size]
    segments.next_generation = max(by_generation) + 1
    segments.next_slot = max((slot_number(one.path) for one in found), default=0) + 1
    return segments, extra
