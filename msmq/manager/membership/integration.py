"""Directory integration of a queue manager: publishes it and its public queues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, TypeVar
from uuid import UUID

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from msmq.background import undivided
from msmq.deadline_timer import DeadlineTimer
from msmq.interfaces.directory import IServedDirectory, IWatchedDirectory
from msmq.interfaces.manager.summaries import PublicQueueSummary
from msmq.manager.administration.local_queues import LocalQueues
from msmq.manager.membership.directory_effects import DirectoryEffects, own_path
from msmq.manager.membership.directory_router import DirectoryRouter
from msmq.manager.membership.divergences import DirectoryDivergences
from msmq.manager.membership.kept_topology import KeptTopology
from msmq.manager.membership.membership import Membership
from msmq.manager.membership.online import OnlineChecks
from msmq.manager.membership.procedure_runner import DirectoryClient
from msmq.manager.membership.public_names import PublicNames
from msmq.manager.membership.published_properties import split_properties
from msmq.manager.performer import Performer
from msmq.manager.public_search import find_public_queues
from msmq.membership.access import DirectoryAccess
from msmq.membership.attributes import DirectoryObject
from msmq.membership.divergence import DirectoryChanges
from msmq.membership.entry import DirectoryEntry
from msmq.membership.enumerations import (
    DirectoryOperationResult,
    OperatingSystemType,
    QueueManagerState,
    refusal,
)
from msmq.membership.initialization import Provisioning, initialize
from msmq.membership.local import QUEUE_MANAGER, HostIdentity, LocalQueueManager
from msmq.membership.names import read_machine_sid
from msmq.membership.objects import QueueManagerObject, QueueObject
from msmq.membership.public_queues import PublicQueues, QueueObjectChanged
from msmq.membership.publication import publish_keys, publish_roles
from msmq.membership.queries import AttributeFilter, equals
from msmq.membership.requests import (
    Outcome,
    Procedure,
)
from msmq.membership.upkeep import ask_again, expire
from msmq.moment import Moment
from msmq.persistence.definition import UNLIMITED
from msmq.queues.model import QueueManagerModel
from msmq.queues.queue import Queue
from msmq.structures.directory.public_keys import MqdsPublicKeys
from msmq.structures.names.path_name import PathName
from msmq.structures.status import MQError, Status

R = TypeVar("R")

_KEYS: Final = "public_encryption_key_list"


class Integration:
    """DirectoryIntegrated: runs the procedures of the directory core. [MS-MQDMPR] 3.1.1.1.

    A directory that assigns another identifier cannot be used, since peers already know ours.

    @ivar access: the directory core.
    @ivar health: whether the directory is reachable.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(
        self,
        performer: Performer,
        local: LocalQueues,
        client: DirectoryClient,
        reactor: IReactorTime,
        host: HostIdentity,
        effects: DirectoryEffects,
        public_names: PublicNames,
        router: DirectoryRouter | None,
        kept: KeptTopology | None,
        divergences: DirectoryDivergences,
        *,
        routing_server: bool,
        site: UUID | None,
    ) -> None:
        """Create the integration with a directory that is not open yet.

        @param effects: performs the effects of procedures.
        @param public_names: looks up public queues again when the directory is back.
        @param router: is notified when the directory has changed; C{None} if routes do not come from it.
        @param kept: the stored topology of that router; restored when the directory is opened.
        @param divergences: where changes that others make to our objects in the directory are reported.
        """
        self.access = client.access
        self._divergences = divergences
        self._performer = performer
        self._local = local
        self._directory = client.directory
        self.health = client.health
        self._served: IServedDirectory | None = IServedDirectory(client.directory, None)
        self._host = host
        self._site = site
        self._routing_server = routing_server
        self._effects = effects
        self._queues = PublicQueues(self.access)
        self._runner = client.runner
        self._reactor = reactor
        self._timer = DeadlineTimer(reactor, performer.clock, self._expire)
        self._router = router
        self._public_names = public_names
        self._kept_topology = kept
        watched = IWatchedDirectory(client.directory, None)
        if watched is not None:
            watched.watch(self._changed)
        self._online = OnlineChecks(
            self.access,
            self._run,
            performer.clock,
            reactor,
            is_needed=self._is_needed,
            returned=self._returned,
        )

    # Lifecycle

    async def open(self, state: Mapping[str, bytes]) -> None:
        """Find the queue manager's own object; at the first start, create it. [MS-MQDMPR] 3.1.3.

        @param state: the stored state.
        @raise MQError: the directory does not know this queue manager, or refuses it.
        """
        await self._directory.open()
        self.access.local.restore(state)
        if self._kept_topology is not None:
            self._kept_topology.restore(state)
        if self._served is not None:
            self._served.add_servers(self.access.local.directory_server_list)
        if QUEUE_MANAGER in state:
            # The last known values hold if the directory is unreachable or unchanged.
            self._effects.limit(self.access.local.object)
        provisioning = None if QUEUE_MANAGER in state else Provisioning(self._site)
        await self._run(initialize(self.access, self._host, self._performer.clock.now(), provisioning))
        if self.access.publication_refusal:
            self.log.warn(
                "the directory refuses to write the object of this queue manager, so its keys and site are"
                " used as the directory has them; peers cannot encrypt for it unless its keys are there:"
                " {reason}",
                reason=self.access.publication_refusal,
            )
        elif self._effects.has_keys:
            written = await self._run(publish_keys(self.access, self._effects.keys()))
            if not written.succeeded:
                self.log.warn(
                    "the public keys of this queue manager were not published; peers cannot encrypt for it;"
                    " the next start tries again: {detail}",
                    detail=written.detail or written.result.value,
                )
        await self._publish_roles()

    async def _publish_roles(self) -> None:
        """Publish the roles of this queue manager, or log why that fails."""
        own = self.access.local.object
        if self._routing_server and not own.routing_server:
            self.log.warn(
                "routing_server is true in the configuration and not in the directory, so other queue "
                "managers do not route messages through this one; an administrator sets it with msmq "
                "enterprise role {name}"
                " --routing",
                name=own.computer_name,
            )
        written = await self._run(publish_roles(self.access))
        if not written.succeeded:
            self.log.warn(
                "the roles of this queue manager were not published in its sites; the next start tries again,"
                " and an administrator can with msmq enterprise role {name} --routing: {detail}",
                name=own.computer_name,
                detail=written.detail or written.result.value,
            )

    async def encryption_keys(self, queue_manager: UUID) -> MqdsPublicKeys:
        """RemoteQMPublicKey of a queue manager. [MS-MQQB] 3.1.7.1.5.

        The directory is queried even if it was unreachable a moment ago, since a message would be lost
        without an answer.

        @raise MQError: the directory does not know it, or cannot be reached.
        """
        procedure = self.access.read_directory(
            QueueManagerObject, [equals("identifier", queue_manager)], (_KEYS,), force_directory_read=True
        )
        outcome = await self._runner.run(procedure)
        if not outcome.succeeded:
            raise refusal(outcome.result, outcome.detail or "the directory refuses", of_queue_manager=True)
        keys: MqdsPublicKeys = outcome.value[_KEYS]
        return keys

    def _changed(self) -> None:
        """The directory has changed, or is reachable again; cached data is outdated."""
        if self.access.local.directory_offline:
            self._start([ask_again(self.access, self._performer.clock.now())])
        else:
            self._refresh()

    def _refresh(self) -> None:
        if self._router is not None:
            self._router.refresh_later()

    def stop(self) -> Deferred[None]:
        """Stop querying the directory."""
        self._timer.stop()
        self._online.stop()
        return self._directory.close()

    @property
    def membership(self) -> Membership:
        """The membership as last read from the directory."""
        local = self.access.local
        enterprise = local.enterprise_reference
        return Membership(
            None if enterprise is None else enterprise.identifier,
            local.object.site_identifier_list,
            local.object.connected_network_identifier_list,
            () if self._served is None else self._served.servers,
        )

    async def read(
        self,
        of: type[DirectoryObject],
        filters: Sequence[AttributeFilter],
        attributes: tuple[str, ...] | None = None,
    ) -> Outcome:
        """Read Directory: read from the directory, or from cached data. [MS-MQDMPR] 3.1.7.1.20."""
        return await self.ask(self.access.read_directory(of, filters, attributes))

    async def find_queues(
        self, label: str | None, application_type: UUID | None, path: str | None
    ) -> list[PublicQueueSummary]:
        """Public queues of the enterprise; see L{find_public_queues}. [MS-MQDMPR] 3.1.7.1.21."""
        return await find_public_queues(
            self.access,
            self.ask,
            self._reactor,
            label=label,
            application_type=application_type,
            path=path,
        )

    # Public queues

    async def create(self, name: PathName, properties: Mapping[str, Any], security: bytes = b"") -> Queue:
        """Create Queue, for a public queue: in the directory, then here. [MS-MQDMPR] 3.1.7.1.3.

        @param properties: attributes of L{msmq.persistence.definition.QueueDefinition}.
        @param security: its Security in the directory; empty to let the directory choose.
        @raise MQError: as L{PublicQueues.create}.
        """
        published, own = split_properties(properties)
        if security:
            published["security"] = security
        self._performer.model.names.check_free(name.queue_path)
        return self._effects.found(await undivided(self._create(name, published, own)))

    async def _create(
        self, name: PathName, published: Mapping[str, Any], own: Mapping[str, Any]
    ) -> QueueObject:
        with self._effects.creating(name.queue_path, own):
            return await self.ask(self._queues.create(name, self._performer.clock.now(), **published))

    async def read_security(self, identifier: UUID) -> bytes:
        """The Security of a queue in the directory; empty if it has none. [MS-MQQB] 3.1.5.8.3.

        While the directory is unreachable the last answer holds, across restarts too: otherwise an attacker
        who blocks the directory could open a queue that it has closed. The same holds for an object that is
        deleted, or whose Security is not set or not readable.
        """
        before = self.access.local.public_queues.get(identifier)
        outcome = await self.read(QueueObject, [equals("identifier", identifier)])
        held = self.access.local.public_queues.get(identifier)
        last: bytes = b"" if held is None else held.security
        if outcome.result is DirectoryOperationResult.OBJECT_NOT_FOUND:
            security = last
        elif outcome.succeeded:
            security = outcome.value.values.get("security") or last
        else:
            return last
        if not self.access.local.directory_offline:
            await self._run(self.access.take_over_queue(before, outcome))
        return security

    async def read_for_change(self, queue: Queue) -> tuple[bytes, DirectoryEntry[QueueObject]]:
        """The Security of a local public queue, as L{read_security}, and its object as the directory has it.

        @raise MQError: the directory cannot be reached, or does not have the object.
        """
        held = self._object(queue)
        procedure = self.access.read_directory(
            QueueObject, [equals("identifier", held.identifier)], force_directory_read=True
        )
        outcome = await self.ask(procedure)
        if not outcome.succeeded:
            raise refusal(outcome.result, f"{held.pathname}: {outcome.detail or 'the directory refuses'}")
        return outcome.value.values.get("security") or held.security, outcome.value

    async def write_security(
        self, queue: Queue, security: bytes, former: DirectoryEntry[QueueObject]
    ) -> bool:
        """Write the Security of a local public queue to the directory, unless it has changed there.

        @param former: the object as it was read.
        @return: false if another client has changed the Security since.
        @raise MQError: the directory refuses it.
        """
        now = self._performer.clock.now()
        altering = self._queues.alter(self._object(queue), now, former=former, security=security)
        try:
            await undivided(self.ask(altering))
        except QueueObjectChanged:
            return False
        return True

    async def machine_sid(self) -> bytes:
        """[MS-MQDMPR] 3.1.7.1.3.1 MachineSid: the SID of this computer in the directory; empty without
        one.
        """
        return await self._run(read_machine_sid(self.access, self._host.computer_name))

    async def alter(self, queue: Queue, properties: Mapping[str, Any]) -> None:
        """Change the properties of a public queue: in the directory, then here. [MS-MQDMPR] 3.1.7.1.24.

        @raise MQError: as L{PublicQueues.alter}.
        """
        await undivided(self._alter(queue, properties))

    async def _alter(self, queue: Queue, properties: Mapping[str, Any]) -> None:
        published, own = split_properties(properties)
        if published:
            await self.ask(self._queues.alter(self._object(queue), self._performer.clock.now(), **published))
        if own:
            await self._local.alter(queue, own)

    async def delete(self, queue: Queue) -> None:
        """Delete Queue, for a public queue: here, then in the directory. [MS-MQDMPR] 3.1.7.1.4.

        @raise MQError: as L{PublicQueues.delete}.
        """
        held = self._object(queue)
        try:
            await undivided(self.ask(self._queues.delete(held)))
        finally:
            if held.identifier not in self.access.local.public_queues:
                self._divergences.forget(own_path(held.pathname))

    def _object(self, queue: Queue) -> QueueObject:
        held = self.access.local.public_queues.get(queue.definition.identifier)
        if held is None:
            raise MQError(
                Status.MQ_ERROR_QUEUE_NOT_FOUND, f"{queue.definition.path} is not a public queue here"
            )
        return held

    # Procedures

    async def ask(self, procedure: Procedure[R]) -> R:
        """Run a procedure that needs the directory, after a check if that was unreachable."""
        await self._online.check()
        return await self._run(procedure)

    def _is_needed(self) -> bool:
        return self._public_names.is_waiting

    def _returned(self) -> None:
        self._public_names.look_again()
        self._refresh()

    async def _run(self, procedure: Procedure[R]) -> R:
        try:
            return await self._runner.run(procedure)
        finally:
            self._performer.model.time_to_reach_queue = self.access.local.default_time_to_reach_queue
            self.health.asked(not self.access.local.directory_offline)
            self._note_servers()
            self._online.note()
            self._timer.set(self.access.timers.deadline())

    def _expire(self, now: Moment) -> None:
        procedures = expire(self.access, self._host, now)
        self._timer.set(self.access.timers.deadline())
        self._start(procedures)

    def _start(self, procedures: Sequence[Procedure[None]]) -> None:
        Deferred.fromCoroutine(self._run_all(procedures)).addErrback(
            lambda failure: self.log.failure("the periodic updates from the directory have stopped", failure)
        )

    async def _run_all(self, procedures: Sequence[Procedure[None]]) -> None:
        for procedure in procedures:
            try:
                await self._run(procedure)
            except MQError as error:
                self.log.error("the directory is not used: {error}; it is checked again", error=error)

    def _note_servers(self) -> None:
        """Store the servers that were found, for a start without discovery."""
        local = self.access.local
        known = dict.fromkeys(local.directory_server_list)
        servers = known if self._served is None else known | dict.fromkeys(self._served.servers)
        if len(servers) > len(known) and local.queue_manager_state is QueueManagerState.READY:
            local.directory_server_list = tuple(servers)
            self._performer.commit_later([local.settings_change()], "the names of directory servers")


def directory_access(
    model: QueueManagerModel, host: HostIdentity, changes: DirectoryChanges, *, routing_server: bool
) -> DirectoryAccess:
    """The directory core before the directory is opened: this queue manager, from the configuration."""
    own = QueueManagerObject(
        identifier=model.identifier,
        computer_name=host.computer_name,
        qualified_computer_name=host.qualified_computer_name,
        operating_system_type=OperatingSystemType.FOREIGN,
        routing_server=routing_server,
        queue_manager_quota=_kilobytes(model.storage.limit),
        journal_quota=_kilobytes(model.storage.journal_limit),
    )
    return DirectoryAccess(LocalQueueManager(own, directory_integrated=True), changes)


def _kilobytes(limit: int | None) -> int:
    return UNLIMITED if limit is None else limit // 1024
