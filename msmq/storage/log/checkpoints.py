"""Writes checkpoints while the log goes on, a little at a time."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import ClassVar, Final

import attrs
from twisted.logger import Logger

from msmq.storage.generation_mark import GenerationMark
from msmq.storage.log.checkpoint_files import NAMES, CheckpointWriter
from msmq.storage.log.core.checkpoint import CheckpointHeader, tables
from msmq.storage.log.engine import Engine
from msmq.storage.log.failures import failure
from msmq.storage.log.log_check import LogCheck
from msmq.storage.log.opened_log import OpenedLog
from msmq.storage.log.workers import Worker

STEP_TABLES: Final = 2
"""Tables of one step; one has up to a thousand rows."""
AHEAD: Final = 4
"""Limit on concurrent writes to the file."""


class Checkpointing:
    """When a checkpoint is due, and its steps.

    One is due when the log after the last one has become twice as large as that, and two segments: so a
    start reads not much more than a checkpoint and two segments, and checkpoints write at most half of
    what the log does.
    On a disk that is full one is due as soon as it lets a segment be used again.

    @param mark: where the mark outside of the log is kept.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(self, engine: Engine, opened: OpenedLog, upkeep: Worker, mark: Path) -> None:
        self._engine = engine
        self._upkeep = upkeep
        self._mark = mark
        self._last = opened.checkpoint
        self._path = opened.checkpoint_path
        self._last_path = opened.checkpoint_path
        self._next = self._last
        self._tables: Iterator[bytes] | None = None
        self._writer: CheckpointWriter
        self._under_way = 0
        self._is_finishing = False
        self._began_at = 0
        self._marked_segments = 0
        # Bytes that are written after one that failed before the next is tried on a disk that is full.
        self._retry_after = 0
        # Checkpoints that are due because the last ones, or groups after them, are damaged.
        self._requested = 0

    def request(self) -> None:
        """Have two checkpoints written soon, so that neither needs what was written before."""
        self._requested = 2

    def check(self) -> LogCheck:
        """The state that a start would need now, while no group is being written."""
        engine = self._engine
        segments = {
            generation: (segment.path, segment.header) for generation, segment in engine.segments.used.items()
        }
        return LogCheck(
            segments, list(engine.segments.free), self._last_path, self._last.position, engine.position
        )

    @property
    def is_running(self) -> bool:
        """Whether one is being written."""
        return self._tables is not None or self._is_finishing

    def step(self) -> bool:
        """Do a little; whether there is more to do at once."""
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
        for table in self._tables:
            some.append(table)
            if len(some) == STEP_TABLES:
                self._do(lambda: self._writer.append(some))
                return self._under_way < AHEAD
        if some:
            self._do(lambda: self._writer.append(some))
        self._finish()
        return False

    def complete(self) -> None:
        """Write what is left of a requested checkpoint, all at once: the log is about to be closed."""
        if not self._requested or self._is_finishing:
            return
        if self._tables is None:
            self._begin()
        assert self._tables is not None
        for table in self._tables:
            self._do(partial(self._writer.append, [table]))
        self._finish()

    def write_mark(self) -> None:
        """Keep outside of the log how far it has come."""
        mark = GenerationMark(self._engine.store, self._engine.position.sequence - 1)
        self._upkeep.do(lambda: mark.write(self._mark), self._marked)

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
            # The space of segments that are empty is needed now.
            return engine.segments.has_pinned(engine.position.generation)
        return written > max(2 * engine.segments.size, 2 * self._last.size)

    def _begin(self) -> None:
        engine = self._engine
        state = engine.state
        path = self._path.with_name(NAMES[self._path.name == NAMES[0]])
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
        self._began_at = engine.counters.bytes
        self._writer = writer = CheckpointWriter(path, engine.segments.size // 2)
        self._tables = tables(state)
        self._do(writer.begin)

    def _do(self, task: object) -> None:
        assert callable(task)
        self._under_way += 1
        self._upkeep.do(task, self._done)

    def _done(self, _: object) -> None:
        self._under_way -= 1

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
            # The other file still has the one before, and the next try overwrites this one again.
            self._path = self._path.with_name(NAMES[self._path.name == NAMES[0]])
            return
        self._retry_after = 0
        self._requested = max(0, self._requested - 1)
        self._last_path = self._path
        engine.counters.checkpoints += 1
        engine.counters.checkpoint_bytes += outcome
        # The one before may still be needed, should this one be damaged.
        engine.segments.advance_horizon(self._last.position.generation)
        self._last = attrs.evolve(self._next, size=outcome)
        self.write_mark()
