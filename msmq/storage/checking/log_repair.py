"""Repair of a damaged record log: rebuilds it from its readable records.

Packets stay where they are.  The readable checkpoints and groups give a state; messages with missing or
damaged packets are removed from it, each with an event. The rest is written as a new checkpoint, and the log
continues in a new segment. Until that checkpoint is in place, a start reads the log as if there had been no
repair, and an interrupted repair is repeated from the same files.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

import attrs

from msmq.durable import make_directory, sync
from msmq.interfaces.storage import StorageError
from msmq.persistence.changes import AppendEvent
from msmq.storage.checking.log_salvage import LogSalvage, SalvagedSegment, lost_groups, salvage
from msmq.storage.checking.lost_packets import MOST_EVENTS, take_lost
from msmq.storage.damage import REPAIRED, keep
from msmq.storage.generation_mark import GenerationMark
from msmq.storage.log.checkpoint_files import NAMES, UNFINISHED, CheckpointWriter
from msmq.storage.log.core.checkpoint import CheckpointHeader, tables
from msmq.storage.log.core.format import BLOCK, FIRST, GROUP_HEADER, Malformed, SegmentHeader, padded
from msmq.storage.log.core.plan import GroupPlan
from msmq.storage.log.core.records import MESSAGE_ROW, OFFSET_MASK
from msmq.storage.log.core.scan import Position
from msmq.storage.log.failures import failure
from msmq.storage.log.files import (
    DSYNC,
    begin_segment,
    is_segment_name,
    lock_directory,
    make_segment,
    read_readable,
    slot_number,
)
from msmq.storage.log.quarantine import DIRECTORY
from msmq.storage.log.store import SEGMENT_BYTES
from msmq.storage.log.writer import GroupWriter, PlannedGroup

_PIECE: Final = 1 << 20


def rebuild_log(directory: Path, mark: Path, now: Callable[[], float]) -> list[str]:
    """Rebuild a log with all readable records, so that a server can open it; the server must not run.

    Damaged packets, and files that do not belong to the log, go to C{quarantine}.

    @param mark: the mark in the data directory.
    @param now: seconds since 1970-01-01 UTC.
    @return: losses and warnings, one line each.
    @raise StorageError: nothing is usable, the log has another version, it is not the log last used, or the
        directory is not that of a log.
    """
    check_directory(directory, mark)
    lock = lock_directory(directory)
    try:
        repair = _Repair(directory, mark, now, [])
        repair.run()
        return repair.said
    except (OSError, Malformed) as error:
        raise failure(directory, "repair", error) from error
    finally:
        os.close(lock)


def check_directory(directory: Path, mark: Path) -> None:
    """Refuse a directory in which there never was a log, instead of taking it for one that lost everything.

    @raise StorageError: it has no file of a log, and the data directory has no mark of one.
    """
    try:
        names = {path.name for path in directory.iterdir()}
    except OSError as error:
        raise failure(directory, "read", error) from error
    if not mark.exists() and names.isdisjoint(NAMES) and not any(map(is_segment_name, names)):
        raise StorageError(
            f"{directory}: is not a store: it has no file of a record log; select another one with "
            "--store, or restore the store from a backup"
        )


@attrs.define
class _Repair:
    directory: Path
    mark_path: Path
    now: Callable[[], float]
    said: list[str]
    _is_mark_damaged: bool = attrs.field(default=False, init=False)

    def run(self) -> None:
        mark = self._mark()
        found = salvage(self.directory, mark)
        self.said += found.said
        if mark is not None and mark.store != found.store:
            raise StorageError(
                f"{self.directory}: not the store that was used last ({self.mark_path}); put that one"
                " back, or start with --accept-loss to use this one"
            )
        if mark is not None and mark.number > found.last:
            self.said.append(f"{self.directory}: {lost_groups(found.last + 1, mark.number, 'missing')}")
            found.last = mark.number
        truncated = [one for one in found.segments.values() if one.file_size < one.header.size]
        for segment in truncated:
            self.said.append(
                f"{segment.path}, offset {segment.file_size}: the file has {segment.file_size} of"
                f" {segment.header.size} bytes; the missing part is filled with zeros"
            )
        try:
            self._keep_orphans(found)
            self._write(found)
            self._exchange(found)
            for segment in truncated:
                _complete(segment)
            if self._is_mark_damaged:
                # The data directory may be on another file system.
                self._put_aside(self.mark_path, stays=True)
                self.mark_path.unlink()
                sync(self.mark_path.parent)
        finally:
            found.descriptors.close()

    def _mark(self) -> GenerationMark | None:
        try:
            return GenerationMark.read(self.mark_path)
        except StorageError as error:
            # It stays until the end, since a start refuses the log because of it.
            self._is_mark_damaged = True
            self.said.append(f"{error}: put aside".replace("; --accept-loss opens the store without it", ""))
            return None

    def _keep_orphans(self, found: LogSalvage) -> None:
        """Quarantine messages of unknown queues, one file each."""
        for number, rows in sorted(found.state.orphans.items()):
            kept = 0
            for lookup_id, row in rows.items():
                location, size, *_ = MESSAGE_ROW.unpack(row)
                packet = found.read(location >> 32, location & OFFSET_MASK, size)
                if len(packet) == size:
                    keep(self._quarantine / f"queue-{number}-{lookup_id:016x}", packet)
                    kept += 1
            self.said.append(
                f"{self.directory}: the definition of queue {number} is lost; {kept} of its {len(rows)}"
                f" messages are in {self._quarantine}"
            )

    def _write(self, found: LogSalvage) -> None:
        """Write a checkpoint of the state, then a group with the events and their packets."""
        state, generation = found.state, found.next_generation
        plan = GroupPlan(state, generation << 32 | FIRST + GROUP_HEADER, 0)
        self.said += take_lost(found, plan, self._quarantine, self.now())
        plan.add([AppendEvent(self.now(), b"", REPAIRED, text) for text in _first(self.said)])
        sizes = Counter(one.header.size for one in found.segments.values()).most_common(1)
        size = max(sizes[0][0] if sizes else SEGMENT_BYTES, FIRST + padded(plan.needed) + BLOCK)
        segment = SegmentHeader(found.store, generation, size, os.urandom(16))
        path = make_segment(self.directory, max(map(slot_number, found.files), default=0) + 1, size)
        begin_segment(path, segment, DSYNC)
        header = CheckpointHeader(
            found.store,
            found.next_checkpoint,
            Position(generation, FIRST, found.last + 1, 0),
            state.next_queue,
            state.last_entry,
            state.last_event,
            0,
            0,
        )
        GroupWriter(time.perf_counter).write(PlannedGroup(plan, segment, path, header.position))
        writer = CheckpointWriter(self.directory / UNFINISHED, 0)
        writer.begin()
        writer.append(list(tables(state)))
        writer.finish(header)
        writer.close()

    def _exchange(self, found: LogSalvage) -> None:
        """Replace all checkpoints by the new one; what is changed before that is not seen by a start.

        What is done after it a start needs, and refuses the log until then.
        """
        for path in found.damaged_checkpoints:
            # It stays until the new one is there: if the repair ends here, the next one needs it.
            self._put_aside(path, stays=True)
        os.replace(self.directory / UNFINISHED, self.directory / NAMES[0])
        (self.directory / NAMES[1]).unlink(missing_ok=True)
        sync(self.directory)
        for path in found.foreign:
            self._put_aside(path)
        for segment in found.segments.values():
            if segment.is_renewed:
                begin_segment(segment.path, segment.header, DSYNC)

    @property
    def _quarantine(self) -> Path:
        return self.directory / DIRECTORY

    def _put_aside(self, path: Path, *, stays: bool = False) -> None:
        """Move a file to the quarantine, or copy it there."""
        make_directory(self._quarantine)
        target, number = self._quarantine / path.name, 1
        while target.exists():
            number += 1
            target = self._quarantine / f"{path.name}-{number}"
        if stays:
            _copy(path, target)
            sync(target)
        else:
            os.replace(path, target)
        sync(self._quarantine)
        sync(path.parent)


def _complete(segment: SalvagedSegment) -> None:
    """Extend a truncated file to its former size, with zeros."""
    descriptor = os.open(segment.path, os.O_RDWR | os.O_CLOEXEC)
    try:
        os.posix_fallocate(descriptor, 0, segment.header.size)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _copy(path: Path, target: Path) -> None:
    """Copy a file, with zeros for what the disk cannot read."""
    with path.open("rb") as source, target.open("wb") as copy:
        for offset in range(0, path.stat().st_size, _PIECE):
            copy.write(read_readable(source.fileno(), offset, _PIECE))


def _first(said: list[str]) -> list[str]:
    """The lines that are logged as events."""
    if len(said) <= MOST_EVENTS:
        return said
    return [*said[:MOST_EVENTS], f"and {len(said) - MOST_EVENTS} more"]
