"""Fuzzy checkpoints of the record log, written in small steps between groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import ClassVar, Final

import attrs
from twisted.logger import Logger

from msmq.storage.generation_mark import GenerationMark
from msmq.storage.log.checkpoint_files import CheckpointWriter, other_file
from msmq.storage.log.core.checkpoint import CheckpointHeader, tables
from msmq.storage.log.engine import Engine
from msmq.storage.log.failures import failure
from msmq.storage.log.log_check import LogCheck
from msmq.storage.log.opened_log import OpenedLog
from msmq.storage.log.system import LogWorker

STEP_TABLES: Final = 2
"""Minimum number of tables per step, of up to a thousand rows each."""
LARGEST_STEP: Final = 64
"""Maximum number of tables per step: a few milliseconds."""
AHEAD: Final = 4
"""Limit on concurrent writes to the file."""
QUIET_BYTES: Final = 1024 * 1024
"""Minimum bytes of log for a checkpoint in a quiet log."""


class Checkpointing:
    """Schedules checkpoints, and writes them step by step.

    A checkpoint is due when the log after the last one has twice its size, and at least two segments. So
    recovery reads little more than a checkpoint and two segments, and checkpoints write at most half of the
    log's volume.
    In a quiet log one is due when the log after the last one has its size, so that restarts and readers of
    a store, which replay that log, begin quickly.
    A step after a large group writes as much as the group, so that a checkpoint ends under any load.
    A checkpoint overwrites the older one, unless the newer one was found damaged.
    On a full disk one is due as soon as it frees a segment.

    @param mark: the file of the generation mark.
    @param resume: called when L{step} can do more, without a group in between.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(
        self,
        engine: Engine,
        opened: OpenedLog,
        upkeep: LogWorker,
        mark: Path,
        resume: Callable[[], object],
    ) -> None:
        self._engine = engine
        self._upkeep = upkeep
        self._mark = mark
        self._resume = resume
        self._system = opened.system
        self._last = opened.checkpoint
        self._last_path = opened.checkpoint_path
        # Whether the last one was found damaged: a start needs the one in the other file then, if it has one.
        self._is_damaged = False
        self._has_older = opened.has_older
        # The file that is being written.
        self._path = opened.checkpoint_path
        self._next = self._last
        self._tables: Iterator[bytes] | None = None
        self._writer: CheckpointWriter
        self._under_way = 0
        self._is_finishing = False
        # Bytes of the log when the last checkpoint began; negative if it began before the log was opened.
        self._began_at = -_replayed(opened)
        # Bytes of the log at the last step.
        self._stepped_at = 0
        self._marked_segments = 0
        # On a full disk: bytes of log between a failed checkpoint and the next attempt.
        self._retry_after = 0
        # Checkpoints that are due because of damage in the last ones or in later groups.
        self._requested = 0
        self._is_closing = False

    def request(self) -> None:
        """Request two checkpoints, so that neither file depends on earlier log records.

        One that is being written does not count, since it began before.
        """
        self._requested = 2 + self.is_running

    def damaged(self, path: Path) -> None:
        """A check has found the checkpoint in a file damaged.

        The next one overwrites it and not the other file, if a start can use that one until then.
        """
        if path == self._last_path:
            self._is_damaged = True

    def check(self) -> LogCheck:
        """The recovery data to verify at this moment; called while no group is being written."""
        engine = self._engine
        segments = {
            generation: (segment.path, segment.header) for generation, segment in engine.segments.used.items()
        }
        return LogCheck(
            segments,
            list(engine.segments.free),
            # One that is known to be damaged may be overwritten at this moment.
            None if self._is_damaged else self._last_path,
            self._last.position,
            engine.position,
            self._system,
        )

    @property
    def is_running(self) -> bool:
        """Whether a checkpoint is being written."""
        return self._tables is not None or self._is_finishing

    def step(self) -> bool:
        """Do one step; returns whether more work is pending."""
        if self._is_finishing:
            return False
        if self._tables is None:
            if not self._is_due():
                return False
            self._begin()
        assert self._tables is not None
        if self._under_way >= AHEAD:
            return False
        some: list[bytes] = []
        size, pace = 0, self._engine.counters.bytes - self._stepped_at
        for table in self._tables:
            some.append(table)
            size += len(table)
            if len(some) >= STEP_TABLES and (size >= pace or len(some) == LARGEST_STEP):
                self._stepped_at = self._engine.counters.bytes
                self._do(lambda: self._writer.append(some))
                return self._under_way < AHEAD
        if some:
            self._do(lambda: self._writer.append(some))
        self._finish()
        return False

    def begin_in_quiet_log(self) -> None:
        """Begin a checkpoint, if it spares a restart more than it costs; called when no group has been
        written for some time.
        """
        written = self._engine.counters.bytes - self._began_at
        if not self.is_running and written > max(QUIET_BYTES, self._last.size):
            self._begin()

    def complete(self) -> bool:
        """Write requested checkpoints before the log is closed, and abandon any other.

        @return: whether to call it again, when the thread has done what was asked of it.
        """
        self._is_closing = True
        if self._is_finishing:
            return True
        if not self._requested:
            if self._tables is not None:
                self._tables = None
                self._upkeep.do(self._writer.close, lambda _: None)
            return False
        if self._tables is None:
            self._begin()
        assert self._tables is not None
        for table in self._tables:
            self._do(partial(self._writer.append, [table]))
        self._finish()
        return True

    def write_mark(self) -> None:
        """Write the generation mark."""
        mark = GenerationMark(self._engine.store, self._engine.position.sequence - 1)
        self._upkeep.do(lambda: mark.write(self._mark, self._system.write_durably), self._marked)

    def _marked(self, outcome: object) -> None:
        if isinstance(outcome, Exception):
            self.log.error("{error}", error=failure(self._mark, "write", outcome))

    def _is_due(self) -> bool:
        engine = self._engine
        if engine.counters.segments != self._marked_segments:
            self._marked_segments = engine.counters.segments
            self.write_mark()
        if self._requested:
            return True
        written = engine.counters.bytes - self._began_at
        if engine.supply.is_short and written >= self._retry_after:
            # The space of empty segments is needed now.
            return engine.segments.has_pinned(engine.position.generation)
        return written > max(2 * engine.segments.size, 2 * self._last.size)

    def _begin(self) -> None:
        engine = self._engine
        state = engine.state
        # Until this one is complete a start uses the other one, and a repair what is left of a damaged one.
        if self._is_damaged and self._has_older:
            path = self._last_path
        else:
            path, self._has_older = other_file(self._last_path), False
        self._next = CheckpointHeader(
            engine.store,
            self._last.number + 1,
            engine.position,
            state.next_queue,
            state.last_entry,
            state.last_event,
            0,
            0,
        )
        self._path = path
        self._began_at = self._stepped_at = engine.counters.bytes
        self._writer = writer = CheckpointWriter(path, engine.segments.size // 2, self._system)
        self._tables = tables(state)
        self._do(writer.begin)

    def _do(self, task: object) -> None:
        assert callable(task)
        self._under_way += 1
        self._upkeep.do(task, self._done)

    def _done(self, _: object) -> None:
        self._under_way -= 1
        if self._under_way == AHEAD - 1:
            self._resume()

    def _finish(self) -> None:
        self._tables = None
        self._is_finishing = True

        self._upkeep.do(lambda: self._writer.finish(self._next), self._finished)

    def _finished(self, outcome: int | Exception) -> None:
        self._upkeep.do(self._writer.close, lambda _: None)
        self._is_finishing = False
        engine = self._engine
        if isinstance(outcome, Exception):
            self.log.error("{error}", error=failure(self._path, "write", outcome))
            self._retry_after = engine.segments.size // 8
            if self._is_closing:
                # The disk may go on failing.
                self._requested = 0
            return
        self._retry_after = 0
        self._requested = max(0, self._requested - 1)
        engine.counters.checkpoints += 1
        engine.counters.checkpoint_bytes += outcome
        # The previous checkpoint may still be needed if this one is damaged. If that one was damaged itself,
        # and is overwritten, the other file has the one before it.
        if self._path != self._last_path:
            engine.segments.advance_horizon(self._last.position.generation)
            self._has_older = not self._is_damaged
        self._last_path, self._is_damaged = self._path, False
        self._last = attrs.evolve(self._next, size=outcome)
        self.write_mark()
        self._resume()


def _replayed(opened: OpenedLog) -> int:
    """Bytes of the log after the checkpoint, as far as they were read."""
    began, end = opened.checkpoint.position, opened.position
    sealed = sum(
        segment.header.size
        for generation, segment in opened.segments.used.items()
        if began.generation <= generation < end.generation
    )
    return sealed + end.offset - began.offset
