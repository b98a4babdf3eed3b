"""Group commit of the record log: batches that arrive during a write form the next group.

Everything runs in the reactor's thread, except that a worker thread may write a group. A step never takes
longer than some hundred changes do.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from msmq.interfaces.storage import StorageError, StoreNotOpen
from msmq.persistence.changes import Change
from msmq.storage.log.batches import WriteBatch, pieces_of
from msmq.storage.log.core.format import FIRST, GROUP_HEADER, LARGEST, VERSION
from msmq.storage.log.core.group import Mark
from msmq.storage.log.core.plan import GroupPlan
from msmq.storage.log.core.records import EXPRESS
from msmq.storage.log.core.scan import Position
from msmq.storage.log.core.segments import Segment
from msmq.storage.log.core.state import KeptQueue
from msmq.storage.log.core.write_policy import WritePolicy
from msmq.storage.log.counters import Counters
from msmq.storage.log.failures import failure
from msmq.storage.log.opened_log import OpenedLog
from msmq.storage.log.supply import Begun, SegmentSupply
from msmq.storage.log.system import LogWorker
from msmq.storage.log.workers import Call
from msmq.storage.log.writer import EXPRESS_BYTES, GroupWriter, PlannedGroup, WrittenGroup, express_path
from msmq.storage.reading_thread import Outcome

GROUP_BYTES: Final = 4 * 1024 * 1024
"""Approximate limit on the bytes of a group of more than one batch."""
GROUP_BATCHES: Final = 1024
"""Limit on the batches of a group."""
STEP: Final = 500
"""Changes of small batches that are planned in one iteration of the reactor, and those of one batch more."""


class Engine:
    """Writes batches in the order of submission.

    @param opened: the log, which the engine owns.
    @param supply: supply of segment files.
    @param deliver: schedules Deferreds to fire, in order; C{fire} fires them now.
    @param rest: called when a group is done; the state then equals what is on disk.
    @ivar active: the segment that is written to.
    @ivar is_busy: whether a group is being written, so that the state has changes that may be rolled back.
    @ivar express_rows: by number of a file for express packets, the rows that name packets in it.
    @ivar doomed: removed queues whose packets are still counted as live.
    """

    def __init__(
        self,
        opened: OpenedLog,
        soon: Call,
        writer: GroupWriter,
        writing: LogWorker,
        policy: WritePolicy,
        supply: SegmentSupply,
        deliver: Callable[[Sequence[Outcome]], object],
        fire: Callable[[], object],
        rest: Callable[[], object],
    ) -> None:
        self.state = opened.state
        self.segments = opened.segments
        self.position = opened.position
        self.active = opened.segments.used[opened.position.generation]
        self.store = opened.checkpoint.store
        self.directory = opened.directory
        self.counters = Counters()
        self.is_busy = False
        self.express_number = 1
        self.express_rows: dict[int, int] = {1: 0}
        self.doomed: deque[KeptQueue] = deque()
        self._express_offset = 0
        self._soon = soon
        self._writer = writer
        self._writing = writing
        self._policy = policy
        self.supply = supply
        self._deliver = deliver
        self._fire = fire
        self._rest = rest
        self._waiting: deque[WriteBatch] = deque()
        # Number of pending batches to retry singly, since their group has failed.
        self._alone = 0
        self._is_alone = False
        self._is_inline = False
        self._is_scheduled = False
        self._is_stopped = False
        self._plan: GroupPlan
        # The batches of the group, each with its error.
        self._group: list[tuple[WriteBatch, StorageError | None]] = []
        self._accepted = 0

    @property
    def is_idle(self) -> bool:
        """Whether no group is being written, and no batch is pending."""
        return not self.is_busy and not self._waiting

    @property
    def is_stopped(self) -> bool:
        """Whether it accepts no more batches."""
        return self._is_stopped

    def put(self, batch: WriteBatch) -> None:
        """Submit a batch, after all earlier ones."""
        if self._is_stopped:
            batch.done.errback(StoreNotOpen(f"the store {self.directory} is not open"))
            return
        self._waiting.append(batch)
        self._schedule()

    def stop(self) -> None:
        """Accept no more batches; pending internal work is dropped."""
        self._is_stopped = True
        while self._waiting:
            batch = self._waiting.popleft()
            self._deliver([(batch.done, StoreNotOpen(f"the store {self.directory} is not open"))])

    def _schedule(self) -> None:
        """Begin a group in the next iteration of the reactor, with what is submitted until then."""
        if not self.is_busy and not self._is_scheduled:
            self._is_scheduled = True
            self._soon(self._scheduled)

    def _scheduled(self) -> None:
        self._is_scheduled = False
        self._pump()

    def _pump(self) -> None:
        """Begin the next group, unless one is being written."""
        if self.is_busy or not self._waiting:
            return
        self.is_busy = True
        self._is_alone = self._alone > 0
        self._begin()
        self._fill()

    def _begin(self) -> None:
        base = self.position.generation << 32 | self.position.offset + GROUP_HEADER
        if self._express_offset > EXPRESS_BYTES:
            self.express_number, self._express_offset = self.express_number + 1, 0
            self.express_rows[self.express_number] = 0
        self._plan = GroupPlan(self.state, base, self.express_number << 32 | self._express_offset)

    def _fill(self) -> None:
        """Add pending batches to the group, one step."""
        plan = self._plan
        planned = 0
        while (
            self._waiting and len(self._group) < GROUP_BATCHES and plan.size + plan.express_size < GROUP_BYTES
        ):
            if self._is_alone and self._group:
                break
            if planned > STEP:
                self._soon(self._fill)
                return
            batch = self._waiting.popleft()
            planned += len(batch.changes)
            mark = plan.mark() if self._group else plan.start
            try:
                space = batch.space() if batch.is_large else None
            except Exception as error:
                # A value of a wrong type; what is waiting behind it goes on.
                self._group.append((batch, failure(self.directory, "write", error)))
                continue
            if space is not None:
                if self._has_space_for(batch, space):
                    self._soon(self._fill_slowly, batch, mark, pieces_of(batch.changes))
                return
            if self._add(batch, batch.changes, mark) and not self._accept(batch, mark):
                return
        self._write()

    def _has_space_for(self, batch: WriteBatch, space: int) -> bool:
        """Whether a large batch may fit into the segment; if not, obtain space before it is planned.

        A plan that does not fit is made in many iterations of the reactor, and rolled back in one.

        @param space: the bytes of log that it needs, at least.
        """
        segment = self.active
        if self.position.offset + self._plan.needed + space <= segment.header.size:
            return True
        needed = FIRST + self._plan.needed + space
        if self._accepted:
            self._waiting.appendleft(batch)
            self._write()
            return False
        if (
            needed > LARGEST
            or segment.header.size >= needed
            or not (self.supply.has_reserve or batch.uses_reserve)
        ):
            # It is refused with its exact size, or waits for the reserve, as any other batch.
            return True
        self._switch(batch, needed)
        return False

    def _fill_slowly(self, batch: WriteBatch, mark: Mark, pieces: Iterator[Sequence[Change]]) -> None:
        """Add one piece of a large batch to the group, and the others in later iterations of the reactor."""
        piece = next(pieces, None)
        if piece is None:
            if self._accept(batch, mark):
                self._fill()
        elif self._add(batch, piece, mark):
            self._soon(self._fill_slowly, batch, mark, pieces)
        else:
            self._fill()

    def _add(self, batch: WriteBatch, changes: Sequence[Change], mark: Mark) -> bool:
        """Plan changes of a batch; an error fails the batch."""
        try:
            if batch.work is not None:
                batch.work(self._plan)
            else:
                self._plan.add(changes)
        except Exception as error:
            self._plan.rollback(mark)
            self._group.append((batch, failure(self.directory, "write", error)))
            return False
        return True

    def _accept(self, batch: WriteBatch, mark: Mark) -> bool:
        """Accept a planned batch into the group, if the segment has space; otherwise obtain space."""
        plan, segment = self._plan, self.active
        is_written = plan.is_written_since(mark)
        # New groups go to a segment of the present version.
        has_space = not is_written or (
            segment.header.version == VERSION and self.position.offset + plan.needed <= segment.header.size
        )
        has_reserve = self.supply.has_reserve or not is_written or batch.uses_reserve
        if has_space and has_reserve:
            self._group.append((batch, None))
            self._accepted += 1
            return True
        needed = FIRST + plan.needed
        plan.rollback(mark)
        if self._accepted:
            self._waiting.appendleft(batch)
            self._write()
        elif needed > LARGEST:
            self._refuse(batch, StorageError(f"a batch of {needed} bytes is larger than {LARGEST}"))
        elif not has_reserve:
            self.supply.reserve(partial(self._reserved, batch))
        else:
            self._switch(batch, needed)
        return False

    def _reserved(self, batch: WriteBatch, outcome: Path | Exception) -> None:
        """Continue after an attempt to make a reserve file: the batch may use other space if it succeeded."""
        if isinstance(outcome, Exception):
            self._refuse(batch, failure(self.directory, "create a segment", outcome))
            return
        self._waiting.appendleft(batch)
        self._fill()

    def _switch(self, batch: WriteBatch, needed: int) -> None:
        """Switch to another segment, then retry a batch that did not fit."""

        def begun(outcome: Begun | Exception) -> None:
            if isinstance(outcome, Exception):
                self._refuse(batch, failure(self.directory, "create a segment", outcome))
            else:
                self._seal(batch, outcome)

        self.supply.begin(needed, uses_reserve=batch.uses_reserve, flags=self._writer.flags, done=begun)

    def _seal(self, batch: WriteBatch, begun: Begun) -> None:
        """Seal the active segment, and make the next one active."""
        plan = self._plan
        header, path = begun
        plan.seal(header.generation)
        group = self._planned()

        def sealed(outcome: WrittenGroup | Exception) -> None:
            if isinstance(outcome, Exception):
                plan.rollback()
                self.supply.keep(begun)
                self._refuse(batch, failure(self.active.path, "write", outcome))
                return
            self.active = self.segments.used[header.generation] = Segment(path, header)
            self.position = Position(header.generation, FIRST, outcome.next.sequence, outcome.next.chain)
            self.counters.segments += 1
            self._waiting.appendleft(batch)
            self.supply.switched()
            self._begin()
            self._fill()

        self._writing.do(lambda: self._writer.write(group), sealed)

    def _refuse(self, batch: WriteBatch, error: StorageError) -> None:
        """Fail a batch; the pending ones are tried in the next group."""
        self._group.append((batch, error))
        self._write()

    def _planned(self) -> PlannedGroup:
        plan, active = self._plan, self.active
        # A path takes longer to make than a small group to encode.
        express = express_path(self.directory, self.express_number) if plan.express else None
        return PlannedGroup(plan, active.header, active.path, self.position, express, self._express_offset)

    def _write(self) -> None:
        """Write the group."""
        if self._plan.is_empty:
            # What removed express messages alone writes nothing, and yet their packets are garbage.
            self.lost(self._plan.dead)
            self._end()
            return
        group = self._planned()
        size = group.size
        self._is_inline = self._policy.is_inline(size, self._accepted) and not self._is_alone
        if self._is_inline:
            try:
                outcome: WrittenGroup | Exception = self._writer.write(group)
            except Exception as error:
                outcome = error
            self.counters.inline += 1
            self._written(group, size, outcome)
        else:
            self._writing.do(
                lambda: self._writer.write(group), lambda outcome: self._written(group, size, outcome)
            )

    def _written(self, group: PlannedGroup, size: int, outcome: WrittenGroup | Exception) -> None:
        if isinstance(outcome, Exception):
            self._take_back(failure(group.path, "write", outcome))
            return
        plan, counters = self._plan, self.counters
        self._policy.measured(outcome.seconds, size, is_inline=self._is_inline)
        counters.groups += 1
        counters.batches += self._accepted
        counters.bytes += size
        counters.seconds += outcome.seconds
        self.segments.gained(self.position.generation, plan.added, plan.added_size)
        self.position = outcome.next
        self._express_offset += plan.express_size
        self.express_rows[self.express_number] += plan.added_express
        if plan.dead:
            self.lost(plan.dead)
        if plan.settled:
            plan.settle()
        self.doomed.extend(plan.removed)
        self._end()

    def _take_back(self, error: StorageError) -> None:
        """Roll back the group; if it has several batches, each is retried singly."""
        self._plan.rollback()
        accepted = [batch for batch, problem in self._group if problem is None]
        if len(accepted) > 1:
            self._group = [(batch, problem) for batch, problem in self._group if problem is not None]
            self._waiting.extendleft(reversed(accepted))
            self._alone = len(accepted)
        else:
            self._group = [(batch, problem or error) for batch, problem in self._group]
        self._end()

    def _end(self) -> None:
        """Complete the group, and begin the next."""
        group, self._group, self._accepted = self._group, [], 0
        if self._is_alone:
            self._alone -= len(group)
        self.is_busy = False
        for batch, _ in group:
            if batch.then is not None:
                batch.then()
        self._rest()
        self._deliver([(batch.done, problem) for batch, problem in group])
        # With many pending, the disk stays busy while the Deferreds of this group fire.
        if self._waiting and not self._policy.is_inline(0, len(self._waiting)):
            self._pump()
        self._fire()
        if self._waiting:
            self._schedule()

    def lost(self, packets: Sequence[tuple[int, int]]) -> None:
        """Count packets that lost their reference."""
        durable = [place for place in packets if place[0] < EXPRESS]
        if len(durable) < len(packets):
            for location, _ in packets:
                if location >= EXPRESS:
                    self.express_rows[location >> 32 & 0x7FFFFFFF] -= 1
        self.segments.lost(durable)
