"""One host of a simulated estate: a queue manager on its record log, and its disk over all its lives."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import attrs
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from msmq.interfaces.storage import StorageError
from msmq.membership.local import HostIdentity
from msmq.net.dialling_session_factory import DiallingSessionFactory
from msmq.net.resolver import HostNotFound, NextHopAddress
from msmq.persistence.definition import UNLIMITED
from msmq.queues.machine_quota import QuotaKind
from msmq.queues.model import (
    DEFAULT_QUEUE_MANAGER_QUOTA,
    PEER_DEAD_LETTERS,
    ModelLimits,
    QueueManagerModel,
)
from msmq.queues.queue_names import one_of
from msmq.settings import SessionSettings
from msmq.storage.damage import DamagePolicy
from msmq.storage.log import LogMessageStore
from msmq.storage.scrub_policy import ScrubPolicy
from msmq.structures.status import MQError
from msmq.transfer.source_journaling import SourceJournaling
from tests.nodes.services import make_service
from tests.shares import SHARES
from tests.simulation.changes_plan import Tuning
from tests.simulation.clock import HostClock, HostReactor
from tests.simulation.disk import SimulatedDisk
from tests.simulation.recovery import Backup, fill
from tests.simulation.system import SimulatedSystem

if TYPE_CHECKING:
    from tests.simulation.world import World

SEGMENT_BYTES: Final = 64 * 1024
SCRUBBING: Final = ScrubPolicy(1024 * 1024, interval=0.5, delay=60.0, pause=500.0)
AGAIN: Final = 2.0
"""Seconds after which a host that could not start tries again."""


class Host:
    """A queue manager.

    @ivar running: what was begun in its present life and has not ended.
    @ivar life: the number of its present life; what belongs to an earlier one is over.
    @ivar is_up: it is open and accepts sessions.
    @ivar is_rotten: a bit on its disk was changed.
    @ivar quotas: those of its configuration, in kilobytes.
    @ivar backup: its last backup.
    @ivar restoring: the backup from which it begins anew, until that has been done.
    @ivar restored: the backup from which it was restored, though it had gone on since.
    @ivar handled_events: the numbers of the events on which an operator has acted.
    """

    def __init__(self, world: World, number: int, name: str, address: str, guid: UUID) -> None:
        plan = world.plan
        self.world = world
        self.number, self.name, self.address, self.guid = number, name, address, guid
        self.clock = HostClock(world.clock, *plan.skewed[number])
        self.chance = Random(f"{plan.seed} {name}")
        self.disk = SimulatedDisk(Random(f"{plan.seed} {name} disk"))
        self.path = Path("/", name)
        self.life = 0
        self.is_up = False
        self.is_rotten = False
        self.rot: list[tuple[Any, int, int]] = []
        self.errors: list[str] = []
        self.window = plan.window
        self.quotas: dict[QuotaKind, int] = {}
        self.running: set[Deferred[Any]] = set()
        self.backup: Backup | None = None
        self.restoring: Backup | None = None
        self.restored: Backup | None = None
        self.handled_events: set[int] = set()
        self.start()

    # Life

    def start(self) -> None:
        """Begin a life."""
        world = self.world
        plan = world.plan
        self.life += 1
        self.running = set()
        self.host = host = world.network.host(self.address)
        if self.restoring is not None:
            self.disk = SimulatedDisk(Random(f"{plan.seed} {self.name} disk {self.life}"))
            self.rot.clear()
        self.system = SimulatedSystem(self.disk, host, lambda: self.lose_power(self._likelihood))
        self._likelihood = 0.5
        store = self._new_store()
        self.model = QueueManagerModel(
            self.guid,
            computer_names=[self.name],
            is_own_address=one_of([self.address]),
            now=self.clock.now(),
            poison_after=0 if plan.handling is None else plan.handling.poison_after,
            **attrs.asdict(self.limits()),
        )
        settings = self.settings()
        is_proven = plan.handling is not None and plan.handling.is_proven
        self.sessions = DiallingSessionFactory(
            self.guid, reactor=host, clock=self.clock, shares=SHARES, lookup=self._lookup, settings=settings
        )
        self.service = make_service(
            self.model,
            store,
            self.sessions,
            host,
            self.clock,
            HostIdentity(self.name, qualified_computer_name=f"{self.name.lower()}.example.com"),
            new_identifier=self.new_identifier,
            session=settings,
            source_journaling=SourceJournaling.ACKNOWLEDGEMENT if is_proven else SourceJournaling.HANDOVER,
            **world.enterprise_of(self),
        )
        self.begin(self._open())

    def _new_store(self) -> LogMessageStore:
        return LogMessageStore(
            self.path / "log",
            DamagePolicy(self.path / "mark", False, self.clock.wall, SCRUBBING),
            clock=self.system.measured,
            segment_bytes=SEGMENT_BYTES,
            reactor=HostReactor(self.host),
            system=self.system,
        )

    async def _open(self) -> None:
        life = self.life
        try:
            if self.restoring is not None:
                await fill(self._new_store(), self.restoring)
                if life != self.life:
                    return
                # Its directory gets its name now; the power is not cut before that is synchronised.
                self.restoring = None
            await self.service.open()
        except (StorageError, MQError) as error:
            # The latter of what a start stores, when the disk fails after the store was opened.
            if life == self.life:
                self._refused_to_open(str(error))
            return
        if life != self.life:
            return
        self.service.startService()
        self.host.server_endpoint(1801).listen(self.sessions)
        self.is_up = True

    def _refused_to_open(self, error: str) -> None:
        if self.rot:
            # What an operator does: the files of before the damage.
            for file, offset, bit in self.rot:
                file.content[offset] ^= bit
            self.rot.clear()
        elif not self.system.failing and not self.disk.is_full:
            self.errors.append(f"{self.name} does not start: {error}")
            return
        self.host.callLater(AGAIN, self.world.restart_dead, self, self.life)

    def new_identifier(self) -> UUID:
        """An identifier of this host's own chance."""
        return UUID(int=self.chance.getrandbits(128), version=4)

    def settings(self) -> SessionSettings:
        """As the plan has them, and a reload."""
        plan = self.world.plan
        tuning = {} if plan.tuning is None else plan.tuning.session
        wait: dict[str, Any] = {} if plan.handling is None else {"acknowledgement_wait": plan.handling.wait}
        return SessionSettings(
            **tuning,
            **wait,
            window_size=self.window,
            session_retry=plan.retry,
            session_retry_maximum=4 * plan.retry,
            resend_short=plan.resend,
            resend_medium=plan.resend * 2,
            resend_long=plan.resend * 3,
            resend_final=plan.resend * 3,
            trust_identifiers=plan.shape != "direct",
        )

    def limits(self) -> ModelLimits:
        """As the plan has them, and a reload."""
        plan = self.world.plan
        tuning = Tuning() if plan.tuning is None else plan.tuning
        dead_letters = tuning.peer_dead_letters
        return ModelLimits(
            quota=self.quotas.get(QuotaKind.QUEUES, DEFAULT_QUEUE_MANAGER_QUOTA),
            journal_quota=self.quotas.get(QuotaKind.JOURNALS, UNLIMITED),
            peer_dead_letters=PEER_DEAD_LETTERS if dead_letters is None else dead_letters,
            express_memory=tuning.express_memory,
            packet_memory=plan.memory,
        )

    def configure_quota(self, kind: QuotaKind, kilobytes: int | None) -> None:
        """Reload with another quota; C{None} for none."""
        if kilobytes is None:
            self.quotas.pop(kind, None)
        else:
            self.quotas[kind] = kilobytes
        self.model.configure(self.limits())

    def end_quotas(self) -> None:
        """Reload without quotas."""
        self.quotas.clear()
        self.model.configure(self.limits())

    async def _lookup(self, name: str) -> Sequence[NextHopAddress]:
        address = self.world.addresses.get(name.upper().removesuffix(".EXAMPLE.COM"), name)
        if address not in self.world.addresses.values():
            raise HostNotFound(f"{name}: unknown host")
        return [NextHopAddress(address, 1801, self.host.client_endpoint(address, 1801))]

    def arm(self, kind: str, count: int, likelihood: float) -> None:
        """Have the power cut in a call of the system after so many, or right after so many writes."""
        self._likelihood = likelihood
        if kind == "writes":
            self.system.cut_after_writes = count
        else:
            self.system.cut_after = count

    def lose_power(self, likelihood: float) -> None:
        """End this life now; what is not synchronised is lost with this likelihood."""
        if self.host.is_dead:
            return
        self.is_up = False
        self.life += 1
        self.world.killed(self)
        self.world.network.crash(self.address)
        self.disk.lose_power(likelihood)

    def end_life(self, life: int, likelihood: float) -> None:
        """Lose power, unless this life is over already."""
        if life == self.life:
            self.lose_power(likelihood)

    async def stop(self) -> None:
        """Stop in order; then it has to be started again."""
        if self.is_up:
            self.is_up = False
            life = self.life
            await self.service.stopService()
            if life == self.life:
                self.life += 1
                self.world.network.crash(self.address)

    # Work

    def begin(self, work: Coroutine[Deferred[Any], Any, Any]) -> None:
        """Start something and do not wait for its end; errors that are no refusal are violations."""
        running, of_this_life = Deferred.fromCoroutine(work), self.running
        of_this_life.add(running)
        running.addErrback(self._failed, self.life)
        running.addCallback(lambda _: of_this_life.discard(running))

    def _failed(self, failure: Failure, life: int) -> None:
        if life == self.life and not failure.check(MQError):
            self.errors.append(f"{self.name}: {failure.getTraceback()[-1500:]}")

    @property
    def leaving(self) -> int:
        """Messages that have not left."""
        return sum(int(queue.messages) for queue in self.service.inspection.outgoing())

    @property
    def awaiting(self) -> int:
        """Messages that wait for their FinalAcks."""
        return int(self.service.model.collection.awaiting.message_count)

    def rotten_bit(self) -> None:
        """Change one bit of a written part of a segment, but for the last group of the log.

        Without a group after it a damaged one is no different from one that was written in part.
        """
        files = [file for _, file in self.disk.files("segment-0") if any(file.content[:4096])]
        if not files or self.rot:
            return
        file = self.disk.chance.choice(files)
        offset, bit = self.disk.chance.randrange(file.used), 1 << self.disk.chance.randrange(8)
        if self.disk.last_group is not None:
            last, start, end = self.disk.last_group
            if file is last and start <= offset < end:
                return
        file.content[offset] ^= bit
        self.rot.append((file, offset, bit))
        self.is_rotten = True


@attrs.frozen
class Address:
    """Where a queue is: its host and name."""

    host: str
    queue: str

    def __str__(self) -> str:
        return f"{self.host} {self.queue}"
