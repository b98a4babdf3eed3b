"""Background work between groups: checkpoints, compaction, file deletion."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final

from twisted.internet.interfaces import IDelayedCall, IReactorTime

from msmq.storage.log.checkpoints import Checkpointing
from msmq.storage.log.compaction import Compaction
from msmq.storage.log.core.records import LOG_ROW, PLACE
from msmq.storage.log.core.state import KeptQueue
from msmq.storage.log.engine import Engine
from msmq.storage.log.packet_fetcher import PacketFetcher
from msmq.storage.log.system import LogSystem, LogWorker
from msmq.storage.log.workers import Call
from msmq.storage.log.writer import GroupWriter, express_path

STEP_ROWS: Final = 1000
"""Rows of a removed queue processed per step."""
QUIET_SECONDS: Final = 5.0
"""Seconds without a group after which a log is quiet."""


class Upkeep:
    """Does one background step after each group, and continues while the log is idle.

    @param reactor: for the time after which a log is quiet.
    """

    def __init__(
        self,
        engine: Engine,
        checkpointing: Checkpointing,
        compaction: Compaction,
        soon: Call,
        upkeep: LogWorker,
        users: Sequence[tuple[LogWorker, GroupWriter | PacketFetcher]],
        system: LogSystem,
        reactor: IReactorTime,
    ) -> None:
        self._system = system
        self._reactor = reactor
        self._engine = engine
        self._checkpointing = checkpointing
        self._compaction = compaction
        self._soon = soon
        self._upkeep = upkeep
        self._users = users
        self._places: Iterator[tuple[int, int]] | None = None
        self._is_scheduled = False
        self._quiet: IDelayedCall | None = None
        self.is_stopped = False
        self._await_quiet()

    def stop(self) -> None:
        """Do no further step."""
        self.is_stopped = True
        if self._quiet is not None:
            self._quiet.cancel()
            self._quiet = None

    def rest(self) -> None:
        """Do a step; called when the state has nothing that may be rolled back."""
        if self.is_stopped:
            return
        is_more = (self._places is not None or bool(self._engine.doomed)) and self._forget_queue()
        is_more = self._checkpointing.step() or is_more
        is_more = self._compaction.step() or is_more
        self._reclaim()
        if is_more:
            self.resume()
        if self._quiet is None and self._engine.counters.groups != self._groups:
            self._await_quiet()

    def resume(self) -> None:
        """Do a step in the next iteration of the reactor, unless a group is being written then."""
        if not self._is_scheduled and not self.is_stopped:
            self._is_scheduled = True
            self._soon(self._scheduled)

    def _await_quiet(self) -> None:
        # Groups when the time begins.
        self._groups = self._engine.counters.groups
        self._quiet = self._reactor.callLater(QUIET_SECONDS, self._waited)

    def _waited(self) -> None:
        self._quiet = None
        if self._engine.counters.groups != self._groups or not self._engine.is_idle:
            self._await_quiet()
            return
        self._checkpointing.begin_in_quiet_log()
        self._engine.supply.fill()
        self.rest()

    def _scheduled(self) -> None:
        self._is_scheduled = False
        # While groups are being written, their completion triggers the steps.
        if not self._engine.is_busy:
            self.rest()

    def _forget_queue(self) -> bool:
        """Count the packets of removed queues as garbage; returns whether there are more."""
        if self._places is None:
            self._places = _places(self._engine.doomed.popleft())
        some = list(islice(self._places, STEP_ROWS))
        if not some:
            self._places = None
            return bool(self._engine.doomed)
        self._engine.lost(some)
        return True

    def _reclaim(self) -> None:
        engine = self._engine
        before = len(engine.segments.used)
        for path in engine.segments.reclaim(engine.position.generation):
            self._delete(path)
        engine.counters.reclaimed += before - len(engine.segments.used)
        if len(engine.express_rows) == 1:
            # The one in use.
            return
        for number in [
            number
            for number, rows in engine.express_rows.items()
            if not rows and number < engine.express_number
        ]:
            del engine.express_rows[number]
            self._delete(express_path(engine.directory, number))

    def _delete(self, path: Path) -> None:
        """Delete a file, after the pending work of its users; none keeps it open, and so its space."""
        left = len(self._users)

        def forgotten(_: object) -> None:
            nonlocal left
            left -= 1
            if not left:
                self._upkeep.do(lambda: self._system.unlink(path), lambda _: None)

        for worker, user in self._users:
            worker.do(partial(user.forget, path), forgotten)


def _places(kept: KeptQueue) -> Iterator[tuple[int, int]]:
    for rows in (kept.messages, kept.express):
        while rows:
            location, size = PLACE.unpack_from(rows.popitem()[1])
            yield location, size
    for place in range(len(kept.log)):
        _, _, location, size, *_ = LOG_ROW.unpack(kept.log.row(place))
        yield location, size
