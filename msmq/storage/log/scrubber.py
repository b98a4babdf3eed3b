"""Scrubber: background verification of the record log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import ClassVar, Final

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from msmq.interfaces.storage import StorageError, StoreNotOpen
from msmq.persistence.changes import AppendEvent
from msmq.storage.log.batches import WriteBatch
from msmq.storage.log.checkpoints import Checkpointing
from msmq.storage.log.compaction import Live, live_packets
from msmq.storage.log.engine import Engine
from msmq.storage.log.log_check import LogProblem
from msmq.storage.log.packet_fetcher import Damage, PacketFetcher, packet_location
from msmq.storage.log.quarantine import DAMAGED, Quarantine
from msmq.storage.log.system import LogWorker
from msmq.storage.scrub_policy import ScrubPolicy
from msmq.storage.scrub_timer import ScrubTimer

STEP_ROWS: Final = 100
"""Rows examined per step, in one iteration of the reactor."""


class Scrubber:
    """Verifies the whole log repeatedly, at a bounded rate.

    A pass first verifies the recovery data, then each packet.
    Damaged packets are quarantined, damaged segment headers are rewritten, and damaged groups and checkpoints
    are made unnecessary by new checkpoints.

    @param reading: the thread to which C{fetcher} belongs; C{upkeep} is the one that writes checkpoints.
    @param now: seconds since 1970-01-01 UTC, for events.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(
        self,
        engine: Engine,
        reading: LogWorker,
        fetcher: PacketFetcher,
        upkeep: LogWorker,
        checkpointing: Checkpointing,
        quarantine: Quarantine,
        policy: ScrubPolicy,
        reactor: IReactorTime,
        now: Callable[[], float],
    ) -> None:
        self._engine = engine
        self._reading = reading
        self._fetcher = fetcher
        self._upkeep = upkeep
        self._checkpointing = checkpointing
        self._quarantine = quarantine
        self._policy = policy
        self._now = now
        self._rows: Iterator[Live | None] | None = None
        self._timer = ScrubTimer(reactor, self._begin_step)
        self._timer.wait(policy.delay)

    def stop(self) -> None:
        """Start no further step."""
        self._timer.stop()

    def _begin_step(self) -> None:
        # When the state has nothing that may be rolled back.
        if self._engine.is_idle:
            self._step()
        else:
            settled: Deferred[None] = Deferred()
            # The store is being closed.
            settled.addErrback(lambda failure: failure.trap(StoreNotOpen))
            self._engine.put(WriteBatch((), settled, then=self._step))

    def _step(self) -> None:
        if self._timer.is_stopped:
            return
        if self._rows is None:
            self._rows = live_packets(self._engine.state, None)
            check = self._checkpointing.check()
            self._upkeep.do(check.run, self._checked)
            return
        found: list[Live] = []
        size = 0
        for _ in range(STEP_ROWS):
            live = next(self._rows, self)
            if live is self:
                self._rows = None
                break
            if isinstance(live, Live):
                found.append(live)
                size += live.size
                if size >= self._policy.step_bytes:
                    break
        if not found:
            self._go_on(0)
            return
        engine = self._engine
        locations = [
            packet_location(engine.directory, engine.segments, live.location, live.size, live.checksum)
            for live in found
        ]
        active = engine.active.path
        self._reading.do(
            lambda: self._fetcher.fetch_from_disk(locations, active), partial(self._read, found, size)
        )

    def _read(self, found: list[Live], size: int, packets: list[bytes | Damage] | Exception) -> None:
        if isinstance(packets, Exception):
            self.log.error("{error}", error=packets)
        else:
            for live, packet in zip(found, packets, strict=True):
                if isinstance(packet, Damage):
                    self._quarantine.put(packet, live.location, live.owner)
            self._engine.counters.scrubbed += len(found)
            self._engine.counters.scrubbed_bytes += size
        self._go_on(size)

    def _go_on(self, size: int) -> None:
        if self._rows is None:
            self._engine.counters.scrubs += 1
            self._timer.wait(self._policy.pause)
        else:
            self._timer.wait(self._policy.wait(size))

    def _checked(self, outcome: list[LogProblem] | Exception) -> None:
        if isinstance(outcome, Exception):
            self.log.error("the log cannot be verified: {error}", error=outcome)
        else:
            for problem in outcome:
                self._engine.counters.damaged += 1
                self.log.error("{problem}", problem=str(problem))
                event = AppendEvent(self._now(), b"", DAMAGED, str(problem))
                done: Deferred[None] = Deferred()
                done.addErrback(lambda failure: failure.trap(StorageError))
                self._engine.put(WriteBatch((event,), done))
                if problem.is_checkpoint:
                    self._checkpointing.damaged(problem.path)
                if problem.needs_checkpoint:
                    self._checkpointing.request()
        self._go_on(0)
