"""A run: an estate, the steps of its plan, its healing, and what its history must say."""

from __future__ import annotations

import gc
import hashlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from uuid import UUID

import attrs
from twisted.internet.defer import Deferred
from twisted.logger import ILogObserver, LogEvent, LogLevel, globalLogPublisher
from twisted.python.failure import Failure
from zope.interface import implementer

from msmq.directory.memory import MemoryDirectory
from msmq.structures.status import MQError
from msmq.testing.network import Network
from msmq.testing.streams import Conditions
from tests.history_checker.checker import check_history
from tests.history_checker.recorder import Recorder
from tests.simulation.applications import ADMIN, KEPT, QUEUES, Applications, path_of, pause
from tests.simulation.changes import end_changes, queue_properties
from tests.simulation.clock import EventClock, HostClock
from tests.simulation.endings import note_endings
from tests.simulation.enterprise import MEMBERS, make_enterprise
from tests.simulation.handling import SUBQUEUES, HandlingApplications
from tests.simulation.host import Host
from tests.simulation.operators import perform
from tests.simulation.plan import DIRECT, Plan
from tests.simulation.recovery import remove_refused
from tests.simulation.transactions import TransactingApplications

NAMES: Final = ("ALPHA", "BETA", "GAMMA", "DELTA")
STARTED: Final = 30.0
"""Seconds within which everything has started."""
QUIET: Final = 4000.0
"""Seconds after the last fault within which everything has arrived."""
ATTEMPTS: Final = 100
"""Seconds within which a deletion that failed on its disk has been repeated."""
EVENTS: Final = 400_000
"""Calls of a run after which something is taken to go in a circle."""


@attrs.frozen
class Result:
    """What a run showed.

    @ivar digest: of every byte that was sent, stored or recorded; empty unless it was wanted.
    """

    violations: Sequence[str]
    digest: str
    seconds: float
    events: int
    messages: int
    kills: int
    history: Sequence[str] = attrs.field(repr=False)


class World:
    """One run.

    @param plan: what happens.
    @ivar down: by host, for how long it stays down after its next loss of power.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.clock = EventClock()
        self.history: list[str] = []
        self.recorder = Recorder(self.history.append, self.clock.seconds)
        self.applications = Applications(self.recorder)
        self.transactions = TransactingApplications(self.applications, self.recorder)
        self.handling = HandlingApplications(self.applications, self.recorder)
        self.conditions = Conditions(delay=plan.delay, largest_chunk=plan.chunk)
        self.network = Network(self.clock, conditions=self.conditions, seed=plan.seed)
        self.addresses = {name: f"127.0.0.{number + 2}" for number, name in enumerate(NAMES[: plan.hosts])}
        self.down: dict[int, float] = {}
        self.kills = 0
        self.is_healing = False
        self.violations: list[str] = []
        self.directory: MemoryDirectory | None = None
        identifiers = {name: UUID(int=0xA0 + number) for number, name in enumerate(self.addresses)}
        if plan.shape != DIRECT:
            self.directory = make_enterprise(HostClock(self.clock, 1.0, 0.0), identifiers)
        self.hosts: list[Host] = []
        for number, (name, address) in enumerate(self.addresses.items()):
            self.hosts.append(Host(self, number, name, address, identifiers[name]))
        self._names: dict[tuple[str, str], str] = {}
        self._backups: TemporaryDirectory[str] | None = None

    def enterprise_of(self, host: Host) -> dict[str, Any]:
        """The settings of a queue manager that depend on the shape of the estate."""
        return {} if self.directory is None else {"directory": self.directory}

    def ends(self, sender: int, receiver: int) -> tuple[int, int]:
        """The hosts between which a message of a step goes."""
        if self.plan.shape == DIRECT:
            return sender, receiver
        return (MEMBERS[0], MEMBERS[1]) if sender % 2 == 0 else (MEMBERS[1], MEMBERS[0])

    def format_name(self, sender: Host, receiver: Host, queue: str) -> str:
        """The name by which one host reaches a queue of another."""
        known = self._names.get((receiver.name, queue))
        return known or f"DIRECT=TCP:{receiver.address}\\private$\\{queue}"

    def directory_of(self, host: Host) -> Path:
        """Where the backups of a host are, on a disk that is not simulated."""
        if self._backups is None:
            self._backups = TemporaryDirectory()
        directory = Path(self._backups.name, host.name)
        directory.mkdir(exist_ok=True)
        return directory

    @property
    def queues(self) -> Sequence[str]:
        """The queues that each host has."""
        return (*QUEUES, ADMIN, KEPT) if self.plan.has_drains else (*QUEUES, ADMIN)

    @property
    def readable(self) -> Sequence[str]:
        """Where applications receive, with subqueues, which need not exist."""
        return QUEUES if self.plan.handling is None else (*QUEUES, *SUBQUEUES)

    # Time

    def later(self, seconds: float, work: Callable[[], object]) -> None:
        """Do something later, whatever happens to the hosts."""
        self.clock.callLater(seconds, work)

    def after_events(self, count: int, work: Callable[[], object]) -> None:
        """Do something after so many calls."""
        self.clock.watch(count, work)

    def killed(self, host: Host) -> None:
        """A host lost its power."""
        self.kills += 1
        self.recorder.note("kill", node=host.name)
        life = host.life
        self.later(self.down.pop(host.number, 0.0), lambda: self.restart_dead(host, life))

    def restart_dead(self, host: Host, life: int) -> None:
        """Start a host again, unless it has begun another life."""
        if host.life == life:
            if not host.host.is_dead:
                self.network.crash(host.address)
            host.start()

    def operate(self, number: int, work: Callable[[Host], Any]) -> None:
        """Let an operator do something at a host that is up; a refusal is no fault."""
        host = self.hosts[number]
        if not host.is_up:
            return

        async def operate() -> None:
            try:
                result = work(host)
                if result is not None:
                    await result
            except MQError:
                pass

        host.begin(operate())

    # The run

    def run(self, *, with_digest: bool = False) -> Result:
        """Live through the plan."""
        with self.observed():
            self._live()
        for host in self.hosts:
            self.violations += host.errors
        self.violations += [f"exception in a call: {error!r}" for error in self.clock.failures]
        verdict = check_history(self.history)
        return Result(
            [*self.violations, *verdict.violations],
            self._digest() if with_digest else "",
            self.clock.seconds(),
            self.clock.events,
            verdict.summary["messages"],
            self.kills,
            self.history,
        )

    def _live(self) -> None:
        if not self.clock.advance_to(STARTED, lambda: all(host.is_up for host in self.hosts)):
            self.violations.append("the estate does not start")
            return
        self._wait(self._create_queues(), 30.0)
        if self.directory is not None:
            for host in self.hosts:
                for queue in self.queues:
                    summary = host.service.inspection.queue(path_of(queue))
                    self._names[host.name, queue] = summary.format_name
        begun = self.clock.seconds()
        for step in self.plan.steps:
            self.clock.advance_to(begun + step.at)
            perform(self, step.kind, step.arguments)
        self.clock.advance(5.0)
        self._heal()
        if not self.violations and self._settle():
            self._wait(note_endings(self), 300.0)
            self.recorder.note("end")

    async def _create_queues(self) -> None:
        """Have every queue, and none paused, also where a deletion or a creation is still under way."""
        for host in self.hosts:
            for attempt in range(ATTEMPTS):
                try:
                    await self._create_queues_of(host)
                    break
                except MQError:
                    if attempt == ATTEMPTS - 1:
                        raise
                    await pause(host, 1.0)

    async def _create_queues_of(self, host: Host) -> None:
        known = {queue.path.lower() for queue in host.service.inspection.queues()}
        for queue in self.queues:
            path = path_of(queue)
            if not any(path[2:] in each for each in known):
                await host.service.create_queue(path, **queue_properties(host, queue))
            await host.service.resume_queue(path)
        await host.service.resume_all_outgoing()
        if self.is_healing and self.plan.tuning is not None:
            await end_changes(host)

    def _wait(self, work: Any, seconds: float) -> None:
        """Let time pass until something has ended."""
        ended: list[Any] = []
        Deferred.fromCoroutine(work).addBoth(ended.append)
        self.clock.advance_to(self.clock.seconds() + seconds, lambda: bool(ended))
        if not ended:
            self.violations.append("something never ends")
        elif isinstance(ended[0], Failure):
            self.violations.append(ended[0].getTraceback()[-1500:])

    def _heal(self) -> None:
        """End every fault, and start every host that is down."""
        self.is_healing = True
        self.clock.unwatch()
        if self.directory is not None:
            self.directory.is_connected = True
        for host in self.hosts:
            host.disk.is_full = False
            host.system.failing, host.system.cut_after, host.system.cut_after_writes = 0, None, None
            host.system.delay = min(host.system.delay, 0.001)
            host.clock.correct()
            for other in self.hosts[: host.number]:
                self.network.heal(host.address, other.address)
                if self.network.conditions(host.address, other.address) != self.conditions:
                    # A connection keeps the conditions under which it was made. Through a slow one less may
                    # leave than short timers send again.
                    self.network.cut(host.address, other.address)
                self.network.set_conditions(host.address, other.address, self.conditions)
        for link in self.network.links:
            for end in (link.initiator, link.acceptor):
                end.release("half")
        everything = self.clock.seconds() + STARTED
        if not self.clock.advance_to(everything, lambda: all(host.is_up for host in self.hosts)):
            down = [host.name for host in self.hosts if not host.is_up]
            self.violations.append(f"not up again: {', '.join(down)}")
            return
        # A pause that a slow disk has still to store would come after the queues are resumed.
        self.clock.advance_to(
            self.clock.seconds() + 300.0, lambda: not any(each.running for each in self.hosts)
        )
        self._wait(self._create_queues(), 300.0)

    def _settle(self) -> bool:
        """Receive everything until nothing is on its way; whether that was reached."""
        end = self.clock.seconds() + QUIET
        quiet = 0
        # A message that its receiver cannot read has no FinalAck: its packet says for whom that would be.
        unreadable = sum(host.is_rotten for host in self.hosts)
        # Nor has one that a backup of its receiver does not have, or of which the answer came after a backup
        # of its sender.
        has_restores = any(host.restored for host in self.hosts)
        while self.clock.seconds() < end and self.clock.events < EVENTS:
            for host in self.hosts:
                for queue in self.readable:
                    while _is_filled(host, queue) and self.clock.seconds() < end:
                        before = len(self.history)
                        self.applications.receive(host, queue, 200, 0.0, "confirm", 0.0)
                        self.clock.advance(1.0)
                        if "refused" in self.history[-1] or len(self.history) == before:
                            break
            self.clock.advance(20.0)
            is_quiet = not any(
                host.leaving or any(_is_filled(host, queue) for queue in self.readable) for host in self.hosts
            )
            is_quiet = is_quiet and (has_restores or sum(host.awaiting for host in self.hosts) <= unreadable)
            if not is_quiet and has_restores:
                self._wait(self._remove_refused(), 300.0)
            quiet = quiet + 1 if is_quiet else 0
            if quiet == 2:
                return True
            if any(host.errors for host in self.hosts):
                return False
        waiting = {host.name: host.leaving + host.awaiting for host in self.hosts}
        self.violations.append(f"never quiet: waiting {waiting}, after {self.clock.events} events")
        return False

    async def _remove_refused(self) -> None:
        for host in self.hosts:
            if host.restored is not None:
                await remove_refused(host)

    @contextmanager
    def observed(self) -> Iterator[None]:
        """While this lasts, an error that the product logs as unexpected is a violation."""

        @implementer(ILogObserver)
        def observe(event: LogEvent) -> None:
            if event.get("log_level") is LogLevel.critical:
                failure = event.get("log_failure")
                text = failure.getTraceback()[-1500:] if failure is not None else event.get("log_format")
                self.violations.append(f"logged: {text}")

        globalLogPublisher.addObserver(observe)
        try:
            yield
        finally:
            globalLogPublisher.removeObserver(observe)

    def forget(self) -> None:
        """Drop everything that the run made."""
        self.hosts.clear()
        if self._backups is not None:
            self._backups.cleanup()
        self.clock = EventClock()
        self.network = Network(self.clock)

    def _digest(self) -> str:
        found = hashlib.blake2b(digest_size=16)
        for link in self.network.links:
            for end in (link.initiator, link.acceptor):
                for at, data in end.written:
                    found.update(b"%r %d " % (at, len(data)))
                    found.update(data)
        for host in self.hosts:
            for path, file in sorted(host.disk.names.items()):
                found.update(str(path).encode())
                # Segments are made of zeros, most of which stay.
                found.update(b" %d " % len(file.content))
                found.update(memoryview(file.content)[: file.used])
        for line in self.history:
            found.update(line.encode())
        found.update(b"%d" % self.clock.events)
        return found.hexdigest()


def _is_filled(host: Host, queue: str) -> bool:
    """Whether a queue has messages; a subqueue need not exist."""
    try:
        return bool(host.service.inspection.queue(path_of(queue)).messages)
    except MQError:
        if ";" in queue:
            return False
        raise


def run_plan(plan: Plan, *, with_digest: bool = False) -> Result:
    """One run; afterwards nothing of it is left, and what nothing handled is a violation.

    @param with_digest: compute L{Result.digest}, which takes a tenth of the time of a run.
    """
    hook, sys.unraisablehook = sys.unraisablehook, _ignore
    # What was there before the run is not looked at, and the run's own cycles at its end.
    gc.freeze()
    gc.disable()
    try:
        world = World(plan)
        result = world.run(with_digest=with_digest)
        with world.observed():
            world.forget()
            gc.collect()
        late = [each for each in world.violations if each not in result.violations]
        del world
        # What is collected closes coroutines, whose ends make garbage of their own.
        for _ in range(10):
            if not gc.collect():
                break
    finally:
        sys.unraisablehook = hook
        gc.enable()
    return attrs.evolve(result, violations=[*result.violations, *late])


def _ignore(_: object) -> None:
    """What the coroutines of a host that has no power do when they are collected is not part of the run."""
