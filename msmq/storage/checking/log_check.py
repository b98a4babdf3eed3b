"""Read-only verification of a record log, with or without a running server."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final
from zlib import crc32

import attrs

from msmq.interfaces.storage import StorageError
from msmq.storage.checking.log_repair import check_directory
from msmq.storage.checking.report import StoreReport, check_at_rest
from msmq.storage.damage import DamagePolicy
from msmq.storage.log.checkpoint_files import find_checkpoints, is_overwritten, newest_header
from msmq.storage.log.compaction import Live, live_packets
from msmq.storage.log.core.format import Malformed
from msmq.storage.log.core.records import OFFSET_MASK
from msmq.storage.log.failures import StoreDamaged, failure
from msmq.storage.log.files import find_segments
from msmq.storage.log.follower import Follower, SegmentGone
from msmq.storage.log.opened_log import check_start
from msmq.storage.log.store import SEGMENT_BYTES
from msmq.storage.loss_check import LossCheck
from msmq.storage.scrub_policy import SCRUBBING

TRIES: Final = 5
"""Limit on restarts of the check, and on reads of one packet, because the server reused a segment."""
STEP_BYTES: Final = 1024 * 1024
"""Bytes of packets after which the check follows the log."""


def check_log(directory: Path, mark: Path) -> StoreReport:
    """Verify the whole content of a record log.

    @param mark: the mark in the data directory.
    @raise StorageError: there is no log, or its server writes faster than it is verified, and no damage was
        found so far.
    """
    if not directory.is_dir():
        raise StorageError(f"{directory}: there is no such store")
    check_directory(directory, mark)
    report = StoreReport(str(directory))
    try:
        for one in find_checkpoints(directory):
            if one.problem is not None and not is_overwritten(one):
                report.add(f"{one.path}, offset 0: {one.problem}")
        check_at_rest(directory / "lock", report, partial(_check_at_rest, directory, mark))
        newest = newest_header(directory)
        for _ in range(TRIES):
            report.rows = report.size = 0
            try:
                for _ in check_packets(directory, report):
                    pass
                return report
            except SegmentGone:
                continue
        if newest_header(directory) == newest:
            # A server reuses what its checkpoint needs only after it has written others.
            report.add(f"{directory}: a segment is missing")
            return report
    except (StorageError, OSError, Malformed) as error:
        report.add(str(failure(directory, "read", error)))
        return report
    problem = f"{directory}: cannot be verified: the server is faster than the check, try again"
    if not report.problems:
        raise StorageError(problem)
    # The damage that was found is reported all the same.
    report.add(problem)
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


def check_packets(directory: Path, report: StoreReport, step_bytes: int = STEP_BYTES) -> Iterator[None]:
    """Verify every packet in steps; what a server removes meanwhile is left out.

    @param step_bytes: bytes of packets of a step, at least; it has one packet more at most.
    @raise SegmentGone: the server has written more than the log keeps since the last step.
    """
    follower = Follower(directory)
    try:
        _follow(follower, report)
        size = 0
        for live in live_packets(follower.state, None):
            if not isinstance(live, Live):
                continue
            problem = _packet_problem(follower, live, report)
            if problem is not None:
                report.add(problem)
            report.rows += 1
            report.size += live.size
            size += live.size
            if size >= step_bytes:
                size = 0
                # A server reuses the groups behind its checkpoints: a reader that stays behind loses them.
                _follow(follower, report)
                yield
    finally:
        follower.close()


def _follow(follower: Follower, report: StoreReport) -> None:
    """Follow the log as far as it can be read: the packets before a damaged group are verified too."""
    try:
        follower.follow()
    except StoreDamaged as damage:
        # That a server does not start because of it may be reported already.
        if not any(str(damage) in problem for problem in report.problems):
            report.add(str(damage))


def _packet_problem(follower: Follower, live: Live, report: StoreReport) -> str | None:
    """The damage of a packet; C{None} if it is intact, or was removed meanwhile."""
    for _ in range(TRIES):
        generation, offset = live.location >> 32, live.location & OFFSET_MASK
        problem, is_gone = "", False
        try:
            packet = follower.read(generation, offset, live.size)
            if len(packet) == live.size and crc32(packet) == live.checksum:
                return None
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            problem = f" ({error.strerror})"
        except SegmentGone:
            is_gone = True
        _follow(follower, report)
        location = live.owner.location(follower.state)
        if location == live.location:
            if is_gone:
                return f"{follower.directory}: the segment of generation {generation} is missing"
            follower.check(generation)
            what = f"{live.owner.kind.name.lower().replace('_', ' ')} {live.owner.key:#x}"
            where = f"{follower.path(generation)}, offset {offset}"
            return f"{where}: {live.size} bytes are damaged{problem}: {what} of queue {live.owner.number}"
        if location is None:
            return None
        # It was copied to another segment.
        live = attrs.evolve(live, location=location)
    return None
