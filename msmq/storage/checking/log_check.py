"""Read-only verification of a record log, with or without a running server."""

from __future__ import annotations

from pathlib import Path
from typing import Final
from zlib import crc32

from msmq.interfaces.storage import StorageError
from msmq.storage.checking.log_repair import check_directory
from msmq.storage.checking.report import StoreReport, is_locked
from msmq.storage.damage import DamagePolicy
from msmq.storage.log.checkpoint_files import find_checkpoints
from msmq.storage.log.compaction import Live, live_packets
from msmq.storage.log.core.format import Malformed
from msmq.storage.log.core.records import OFFSET_MASK
from msmq.storage.log.failures import failure
from msmq.storage.log.files import find_segments
from msmq.storage.log.follower import Follower, SegmentGone
from msmq.storage.log.opened_log import check_start
from msmq.storage.log.store import SEGMENT_BYTES
from msmq.storage.loss_check import LossCheck
from msmq.storage.scrub_policy import SCRUBBING

TRIES: Final = 5
"""Limit on restarts of the check because the server reused a segment."""


def check_log(directory: Path, mark: Path) -> StoreReport:
    """Verify the whole content of a record log.

    @param mark: the mark in the data directory.
    @raise StorageError: there is no log.
    """
    if not directory.is_dir():
        raise StorageError(f"{directory}: there is no such store")
    check_directory(directory, mark)
    report = StoreReport(str(directory))
    try:
        for one in find_checkpoints(directory):
            if one.problem is not None:
                report.add(f"{one.path}, offset 0: {one.problem}")
        if not is_locked(directory / "lock"):
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


def _check_at_rest(directory: Path, mark_path: Path, report: StoreReport) -> None:
    """Check a log that is not in use: what recovery would refuse, and damaged headers."""
    policy = DamagePolicy(mark_path, False, lambda: 0.0, SCRUBBING)
    for one in find_segments(directory):
        if one.problem is not None:
            report.add(f"{one.path}, offset 0: {one.problem}")
        elif one.header is not None and one.size < one.header.size:
            report.add(f"{one.path}, offset {one.size}: the file has {one.size} of {one.header.size} bytes")
    try:
        check_start(directory, LossCheck(str(directory), policy), SEGMENT_BYTES)
    except StorageError as error:
        report.add(f"a server does not start: {error}")


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
            # It may have been copied to another segment, and its own segment reused.
            follower.check(generation)
            what = f"{live.owner.kind.name.lower().replace('_', ' ')} {live.owner.key:#x}"
            where = f"{follower.path(generation)}, offset {offset}"
            report.add(f"{where}: {live.size} bytes are damaged: {what} of queue {live.owner.number}")
    finally:
        follower.close()
