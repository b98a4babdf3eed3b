"""Verifies a record log without changing it, whether a server has it open or not."""

from __future__ import annotations

import fcntl
import os
from functools import partial
from pathlib import Path
from typing import Final
from zlib import crc32

from msmq.interfaces.storage import StorageError
from msmq.storage.checking.report import StoreReport
from msmq.storage.generation_mark import GenerationMark
from msmq.storage.log.checkpoint_files import find_checkpoints
from msmq.storage.log.compaction import Live, live_packets
from msmq.storage.log.core.format import Malformed
from msmq.storage.log.core.records import OFFSET_MASK
from msmq.storage.log.core.recovery import RecoveredSegment, missing, recover
from msmq.storage.log.failures import failure
from msmq.storage.log.files import FileDescriptors, find_segments, read_exactly
from msmq.storage.log.follower import Follower, SegmentGone

TRIES: Final = 5
"""How often the check begins anew when the server has used a segment again."""


def check_log(directory: Path, mark: Path) -> StoreReport:
    """Verify everything that the log holds.

    @param mark: the mark in the data directory.
    @raise StorageError: there is no log.
    """
    if not directory.is_dir():
        raise StorageError(f"{directory}: there is no such store")
    report = StoreReport(str(directory))
    try:
        for one in find_checkpoints(directory):
            if one.problem is not None:
                report.add(f"{one.path}, offset 0: {one.problem}")
        if not is_in_use(directory):
            _check_at_rest(directory, mark, report)
        for _ in range(TRIES):
            report.rows = report.size = 0
            try:
                _check_packets(directory, report)
                return report
            except SegmentGone:
                continue
        report.add(f"{directory}: a segment is missing")
    except (StorageError, OSError, Malformed) as error:
        report.add(str(failure(directory, "read", error)))
    return report


def is_in_use(directory: Path) -> bool:
    """Whether a server has the log open."""
    try:
        descriptor = os.open(directory / "lock", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def _check_at_rest(directory: Path, mark_path: Path, report: StoreReport) -> None:
    """What a start would refuse."""
    found = find_segments(directory)
    checkpoints = find_checkpoints(directory)
    newest = next((one for one in checkpoints if one.state is not None), None)
    if newest is None or newest.header is None or newest.state is None:
        report.add(f"{directory}: no checkpoint can be read")
        return
    for one in found:
        if one.problem is not None:
            report.add(f"{one.path}, offset 0: {one.problem}")
        elif one.header is not None and one.size < one.header.size:
            report.add(f"{one.path}, offset {one.size}: the file has {one.size} of {one.header.size} bytes")
    descriptors = FileDescriptors()
    try:
        sources = {
            one.header.generation: RecoveredSegment(
                one.path, one.header, one.size, partial(_read, descriptors, one.path)
            )
            for one in found
            if one.header is not None and one.header.store == newest.header.store
        }
        position, _ = recover(directory, sources, newest.header.position, newest.state)
    finally:
        descriptors.close()
    for generation in {location >> 32 for location, _ in newest.state.places()}:
        if generation not in sources:
            report.add(str(missing(directory, [one.path for one in found], generation)))
    mark = GenerationMark.read(mark_path)
    if mark is not None and mark.store != newest.header.store:
        report.add(f"{directory}: not the store that was used last ({mark_path})")
    elif mark is not None and mark.number >= position.sequence:
        number = position.sequence - 1
        report.add(f"{directory}: an older copy, or incomplete: generation {number}, but had {mark.number}")


def _read(descriptors: FileDescriptors, path: Path, offset: int, size: int) -> bytes:
    return read_exactly(descriptors.of(path), offset, size)


def _check_packets(directory: Path, report: StoreReport) -> None:
    follower = Follower(directory)
    try:
        follower.follow()
        for live in live_packets(follower.state, None):
            if not isinstance(live, Live):
                continue
            generation, offset = live.location >> 32, live.location & OFFSET_MASK
            packet = follower.read(generation, offset, live.size)
            report.rows += 1
            report.size += live.size
            if len(packet) == live.size and crc32(packet) == live.checksum:
                continue
            # It may have been copied to another segment, and its own used again.
            follower.check(generation)
            what = f"{live.owner.kind.name.lower().replace('_', ' ')} {live.owner.key:#x}"
            where = f"{follower.path(generation)}, offset {offset}"
            report.add(f"{where}: {live.size} bytes are damaged: {what} of queue {live.owner.number}")
    finally:
        follower.close()
