"""What people and programs are told of a queue manager."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from twisted.internet.defer import Deferred

import msmq.version
from msmq.interfaces.routing import IRouter
from msmq.manager.administration.descriptions import (
    describe_counts,
    describe_holdings,
    describe_losses,
    describe_queue,
    describe_refusals,
    describe_session,
)
from msmq.manager.administration.measurements import Measurements
from msmq.manager.applications.targets import outgoing_queue, own_queue
from msmq.manager.assembly import Parts
from msmq.manager.membership.membership import Membership
from msmq.manager.routes.outgoing_holds import OutgoingHolds
from msmq.manager.states import ServiceState
from msmq.membership.local import HostIdentity
from msmq.persistence.changes import AppendEvent
from msmq.queues.model import QueueManagerModel
from msmq.routing.topology_description import describe_route, describe_topology, find_ends, find_members
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.status import MQError, Status
from msmq.wire.guid import format_guid


class Overview:
    """The part of L{msmq.manager.service.QueueManagerService} that changes no messages and no queues.

    @ivar state: [MS-MQDMPR] 3.1.1.1 QueueManagerState.
    @ivar measurements: its figures, for monitoring.
    """

    def __init__(self, parts: Parts, host: HostIdentity, addresses: Callable[[], Sequence[str]]) -> None:
        """Look at these parts.

        @param addresses: tells where the queue manager listens.
        """
        self._parts = parts
        self._host = host
        self._addresses = addresses
        self.state = ServiceState.STOPPED
        self.measurements = Measurements(parts)

    @property
    def connection_active(self) -> bool:
        """[MS-MQDMPR] 3.1.1.1 ConnectionActive: whether other queue managers can reach this one."""
        return self.state is ServiceState.READY and not self._parts.sessions.is_offline

    @property
    def _running_model(self) -> QueueManagerModel:
        """The queues, as long as it does anything.

        @raise MQError: MQ_ERROR_SERVICE_NOT_AVAILABLE.
        """
        self._parts.performer.check_running()
        return self._parts.model

    def identity(self) -> dict[str, str]:
        """Its identifier, names and version."""
        return {
            "identifier": format_guid(self._parts.model.identifier),
            "name": self._host.computer_name,
            "dns_name": self._host.qualified_computer_name,
            "version": msmq.version.VERSION,
        }

    def status(self) -> dict[str, Any]:
        """What it is and how it does; the keys of C{msmq status}."""
        return {
            **self.identity(),
            "state": self.state.value,
            "addresses": list(self._addresses()),
            **describe_holdings(self._parts.model),
            "sessions": len(self._parts.sessions.connections),
            **describe_refusals(self._parts.sessions),
            "storage": self._parts.store.name,
            "durable": bool(self._parts.store.durable),
            "packets": describe_counts(self._parts.sessions.counts),
            "refused": dict(self._parts.transfer.arrivals.refused),
            "expired": dict(self._parts.departures.expired),
            "poisoned": dict(self._parts.transactions.poisoned),
            "reports": {"sent": self._parts.reports.sent, "discarded": self._parts.reports.discarded},
            "throttled": self._parts.model.storage.throttled,
            "connection_active": self.connection_active,
            **describe_losses(self._parts.model),
            "events_dropped": self._parts.events.dropped,
            "outgoing_paused": self._parts.outgoing_holds.describe(),
            "redirected_names": self._parts.outgoing_redirects.count,
            "directory": None
            if (integration := self._parts.integration) is None
            else integration.health.describe(),
            **self._directory_differences(),
        }

    def _directory_differences(self) -> dict[str, Any]:
        if self._parts.integration is None:
            return {}
        return {"directory_differences": self._parts.divergences.described()}

    @property
    def membership(self) -> Membership | None:
        """Enterprise, sites and directory servers; C{None} without a directory."""
        integration = self._parts.integration
        return None if integration is None else integration.membership

    async def route(self, source: str, destination: str, down: Sequence[str] = ()) -> dict[str, Any]:
        """[MS-MQBR] the way of a message from one queue manager to another, as far as it is known here.

        @param source: its name, its qualified name or its GUID; so is C{destination}.
        @param down: queue managers that are down, named alike.
        @raise MQError: MQ_ERROR_NO_DS without a directory, MQ_ERROR_MACHINE_NOT_FOUND for who is not in it.
        """
        router = self._known_router()
        ends = find_ends(router.topology, source, destination)
        members = find_members(router.topology, down)
        return describe_route(router.topology, await router.route(*ends, members))

    async def topology(self) -> dict[str, Any]:
        """[MS-MQBR] 3.1.1.1 the enterprise, as routing knows it.

        @raise MQError: MQ_ERROR_NO_DS without a directory.
        """
        return describe_topology(self._known_router().topology)

    async def public_queues(
        self, *, label: str | None = None, application_type: UUID | None = None, path: str | None = None
    ) -> list[dict[str, Any]]:
        """See L{IQueueManager.public_queues}.

        @raise MQError: MQ_ERROR_NO_DS without a directory, or while it is away.
        """
        self._parts.performer.check_running()
        integration = self._parts.integration
        if integration is None:
            raise MQError(Status.MQ_ERROR_NO_DS, "this queue manager has no directory")
        return await integration.find_queues(label, application_type, path)

    def _known_router(self) -> IRouter:
        self._parts.performer.check_running()
        if self._parts.router is None:
            raise MQError(Status.MQ_ERROR_NO_DS, "there is no directory, so no enterprise is known")
        return self._parts.router

    def queues(self) -> list[dict[str, Any]]:
        """Every queue of its own, in the order in which they were made."""
        model = self._running_model
        uncommitted = model.transacting.uncommitted()
        return [describe_queue(model, queue, uncommitted) for queue in model.queues()]

    def queue(self, path: str) -> dict[str, Any]:
        """One queue, by its path or format name.

        @raise MQError: MQ_ERROR_QUEUE_NOT_FOUND, or that the name is malformed.
        """
        return describe_queue(self._parts.model, own_queue(self._running_model, path))

    def system_queues(self) -> list[dict[str, Any]]:
        """The machine journal and the dead-letter queues."""
        return [
            describe_queue(self._parts.model, queue) for queue in self._running_model.names.system_queues()
        ]

    def outgoing(self) -> list[dict[str, Any]]:
        """Every outgoing queue."""
        return self._parts.outgoing_holds.describe_queues(self._running_model.outgoing_queues())

    def outgoing_queue(self, name: str) -> dict[str, Any]:
        """One outgoing queue, by its format name.

        @raise MQError: MQ_ERROR_QUEUE_NOT_FOUND, or that the name is malformed.
        """
        return self._parts.outgoing_holds.describe_queue(outgoing_queue(self._running_model, name))

    def pause_outgoing(self, name: str) -> Deferred[dict[str, Any]]:
        """[MS-MQDMPR] 3.1.7.2.3 Pause Queue: send nothing more to a name until it is resumed.

        It is kept over restarts, and needs no outgoing queue of that name yet.

        @raise MQError: MQ_ERROR_ILLEGAL_OPERATION for a queue of its own, or that the name is malformed.
        """
        return Deferred.fromCoroutine(self._holds.pause(name))

    def resume_outgoing(self, name: str) -> Deferred[dict[str, Any]]:
        """[MS-MQDMPR] 3.1.7.2.4 Resume Queue: send again from an outgoing queue that was paused.

        What is paused by its next hop, or with all others, stays so: C{paused_by} says that.

        @raise MQError: as L{pause_outgoing}, and MQ_ERROR_QUEUE_NOT_FOUND.
        """
        return Deferred.fromCoroutine(self._holds.resume(name))

    def pause_all_outgoing(self) -> Deferred[list[dict[str, Any]]]:
        """Send nothing to other queue managers until L{resume_all_outgoing}; answers with every queue."""
        return Deferred.fromCoroutine(self._holds.hold_all(True))

    def resume_all_outgoing(self) -> Deferred[list[dict[str, Any]]]:
        """End what L{pause_all_outgoing} began; what is paused by name or by next hop stays so."""
        return Deferred.fromCoroutine(self._holds.hold_all(False))

    def pause_next_hop(self, host: str) -> Deferred[list[dict[str, Any]]]:
        """Send nothing to one next hop until it is resumed; messages take other gates if there are any.

        @param host: an address, the name of a computer, or the GUID of a queue manager.
        @return: the outgoing queues that go there.
        @raise MQError: MQ_ERROR_INVALID_PARAMETER for what cannot be a host.
        """
        return Deferred.fromCoroutine(self._holds.hold_next_hop(host, True))

    def resume_next_hop(self, host: str) -> Deferred[list[dict[str, Any]]]:
        """End what L{pause_next_hop} began.

        @raise MQError: as L{pause_next_hop}.
        """
        return Deferred.fromCoroutine(self._holds.hold_next_hop(host, False))

    def redirect_outgoing(self, name: str, to: str | None) -> Deferred[dict[str, Any]]:
        """Send what is sent to a direct name to another address, over restarts, or end that.

        @param to: an IP address or the name of a computer; C{None} for the address in the name again.
        @return: the outgoing queue.
        @raise MQError: as L{OutgoingRedirects.redirect}.
        """
        return Deferred.fromCoroutine(self._redirect(name, to))

    async def _redirect(self, name: str, to: str | None) -> dict[str, Any]:
        self._parts.performer.check_running()
        redirects = self._parts.outgoing_redirects
        queue = await (redirects.end(name) if to is None else redirects.redirect(name, to))
        return self._holds.describe_queue(queue)

    @property
    def _holds(self) -> OutgoingHolds:
        self._parts.performer.check_running()
        return self._parts.outgoing_holds

    def sessions(self) -> list[dict[str, Any]]:
        """Every session that has a connection, in both directions."""
        return [
            {**describe_session(connection), **self._parts.peers.describe(connection)}
            for connection in self._parts.sessions.connections
        ]

    def note(
        self, event: str, reason: str, *, queue: str = "", message: MessageIdentifier | None = None
    ) -> None:
        """Append to the event log, which nobody waits for: a word, a text for people, and of what."""
        identity = b"" if message is None else message.to_bytes()
        now = self._parts.performer.clock.now().wall
        self._parts.events.record(AppendEvent(now, identity, event, reason, queue=queue))
