"""An open record log: its threads, readers and background work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from twisted.internet.interfaces import IReactorTime

from msmq.storage.damage import DamagePolicy
from msmq.storage.log.checkpoints import Checkpointing
from msmq.storage.log.compaction import Compaction
from msmq.storage.log.core.write_policy import WritePolicy
from msmq.storage.log.engine import Engine
from msmq.storage.log.lookups import Lookups
from msmq.storage.log.opened_log import OpenedLog
from msmq.storage.log.packet_fetcher import PacketFetcher
from msmq.storage.log.quarantine import Quarantine
from msmq.storage.log.scrubber import Scrubber
from msmq.storage.log.supply import SegmentSupply
from msmq.storage.log.system import LogSystem, LogWorker
from msmq.storage.log.upkeep import Upkeep
from msmq.storage.log.workers import Call
from msmq.storage.log.writer import GroupWriter, express_path
from msmq.storage.reading_thread import Outcome


class RunningLog:
    """Composition of an open log, and its shutdown.

    @param call: calls a function in the reactor's thread, from any thread.
    @param soon: calls a function in the reactor's next iteration.
    @param upkeep: the thread that opened the log, used for background work.
    @param reactor: for the pauses of the scrubber.
    @param deliver: schedules Deferreds to fire; C{fire} fires them now.
    @raise RuntimeError: (by the constructor) a thread cannot be started; those that were started have ended.
    """

    def __init__(
        self,
        opened: OpenedLog,
        policy: DamagePolicy,
        call: Call,
        soon: Call,
        upkeep: LogWorker,
        clock: Callable[[], float],
        reactor: IReactorTime,
        deliver: Callable[[Sequence[Outcome]], object],
        fire: Callable[[], object],
    ) -> None:
        self._system = system = opened.system
        self._writing, self._reading, self._searching = _start_workers(system, call)
        self._writer = GroupWriter(clock, system)
        self._fetcher = PacketFetcher(system)
        self._searcher = PacketFetcher(system)
        self._upkeep_thread = upkeep
        supply = SegmentSupply(opened.directory, opened.checkpoint.store, opened.segments, upkeep, system)
        self.engine = engine = Engine(
            opened, soon, self._writer, self._writing, WritePolicy(), supply, deliver, fire, self._rest
        )
        quarantine = Quarantine(engine, upkeep, policy.now, system)
        self.lookups = Lookups(
            engine, soon, (self._reading, self._fetcher), (self._searching, self._searcher), quarantine
        )
        self._checkpointing = Checkpointing(engine, opened, upkeep, policy.mark, self._resume)
        compaction = Compaction(engine, self._reading, self._fetcher, quarantine.put, self._resume)
        self._scrubber = Scrubber(
            engine,
            self._reading,
            self._fetcher,
            upkeep,
            self._checkpointing,
            quarantine,
            policy.scrubbing,
            reactor,
            policy.now,
        )
        self._upkeep = Upkeep(
            engine,
            self._checkpointing,
            compaction,
            soon,
            upkeep,
            (
                (self._writing, self._writer),
                (self._reading, self._fetcher),
                (self._searching, self._searcher),
            ),
            system,
            reactor,
        )
        self._checkpointing.write_mark()
        supply.prepare()

    def stop(self, stopped: Callable[[], object]) -> None:
        """Write the mark, wait for the threads, and close the files; C{stopped} is called then."""
        self.engine.stop()
        self._scrubber.stop()
        self._checkpointing.complete()
        self._upkeep.stop()
        self._checkpointing.write_mark()
        waiting = [self._writing, self._reading, self._searching, self._upkeep_thread]
        left = len(waiting)

        def idle(_: object) -> None:
            nonlocal left
            left -= 1
            if not left:
                self._complete(stopped)

        for worker in waiting:
            worker.do(lambda: None, idle)

    def _complete(self, stopped: Callable[[], object]) -> None:
        """Stop, once there are the checkpoints that damage has made necessary."""
        if self._checkpointing.complete():
            self._upkeep_thread.do(lambda: None, lambda _: self._complete(stopped))
        else:
            self._stop(stopped)

    def _rest(self) -> None:
        self._upkeep.rest()

    def _resume(self) -> None:
        self._upkeep.resume()

    def _stop(self, stopped: Callable[[], object]) -> None:
        for worker in (self._writing, self._reading, self._searching):
            worker.stop()
        for closed in (self._writer, self._fetcher, self._searcher):
            closed.close()
        for number in self.engine.express_rows:
            with suppress(OSError):
                self._system.unlink(express_path(self.engine.directory, number))
        stopped()


def _start_workers(system: LogSystem, call: Call) -> tuple[LogWorker, LogWorker, LogWorker]:
    """The threads that write groups, read packets and search.

    @raise RuntimeError: one cannot be started.
    """
    started: list[LogWorker] = []
    try:
        for name in ("msmq log writer", "msmq log packets", "msmq log searches"):
            started.append(system.worker(name, call))
    except RuntimeError:
        for worker in started:
            worker.stop()
        raise
    writing, reading, searching = started
    return writing, reading, searching
