"""All parts of a queue manager, and the events between them."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any, TypeVar

from msmq.interfaces.sessions import ISessions
from msmq.interfaces.storage import IMessageStore, StorageError
from msmq.manager.applications.send_keys import SendKeys
from msmq.manager.applications.transactions import TransactionListener
from msmq.manager.assembly.application_parts import make_application_parts
from msmq.manager.assembly.core import make_core
from msmq.manager.assembly.directory_parts import (
    MembershipParts,
    make_directory_parts,
    make_membership_parts,
)
from msmq.manager.assembly.outgoing_parts import make_outgoing_parts
from msmq.manager.assembly.security_parts import make_security_parts, make_signing_parts
from msmq.manager.assembly.transfer_parts import make_transfer_parts
from msmq.manager.flow_control import FlowControl
from msmq.manager.manager_settings import EnterpriseSettings, ManagerRuntime, ManagerSecurity, TransferPolicy
from msmq.manager.membership.integration import Integration
from msmq.membership.requests import DirectoryEffect, Procedure
from msmq.queues.leaving.departure_kinds import Departure
from msmq.queues.model import QueueManagerModel
from msmq.queues.outgoing import OutgoingQueue
from msmq.queues.queue import MessagePosition

R = TypeVar("R")


class Parts:
    """The parts of one queue manager, in groups of which each is made with those before it.

    L{msmq.manager.service.QueueManagerService} describes the arguments.
    """

    def __init__(
        self,
        *,
        model: QueueManagerModel,
        store: IMessageStore,
        sessions: ISessions,
        runtime: ManagerRuntime,
        policy: TransferPolicy,
        enterprise: EnterpriseSettings,
        security: ManagerSecurity,
        send_keys: SendKeys,
        transactions: TransactionListener,
    ) -> None:
        core = self.core = make_core(model, store, sessions, runtime, policy.events, self)
        self.flow = FlowControl(core.performer, runtime.reactor, core.note)
        directory = self.directory = make_directory_parts(core, enterprise, self)
        signing = make_signing_parts(core, security)
        outgoing = self.outgoing = make_outgoing_parts(
            core, directory, signing.signer, security, policy, self
        )
        self.membership: MembershipParts | None = make_membership_parts(
            core, directory, outgoing.local, enterprise, security.ciphers
        )
        self.security = make_security_parts(
            core, directory, self.membership, outgoing.local, signing, security, enterprise.changes
        )
        self.transfer = make_transfer_parts(
            core,
            directory,
            outgoing,
            self.security,
            policy,
            self,
            routing_server=enterprise.routing_server,
        )
        self.applications = make_application_parts(
            core,
            self.membership,
            outgoing,
            signing.signer,
            self.security.descriptors,
            self.transfer,
            send_keys,
            transactions,
        )

    @property
    def integration(self) -> Integration | None:
        """The objects of this queue manager in its directory; C{None} in workgroup mode."""
        return None if self.membership is None else self.membership.integration

    # Events from parts to parts that are created later, or that depend on them

    def outgoing_ready(self, queue: OutgoingQueue) -> None:
        """See L{PerformerListener.outgoing_ready}."""
        self.transfer.messages.ready(queue)

    def outgoing_left(self, queue: OutgoingQueue, positions: Sequence[MessagePosition]) -> None:
        """See L{PerformerListener.outgoing_left}."""
        self.outgoing.sequences.left(queue, positions)

    def departing(self, departure: Departure) -> None:
        """See L{PerformerListener.departing}."""
        self.outgoing.departures.begin(departure)

    def store_failed(self, error: StorageError) -> None:
        """See L{PerformerListener.store_failed}."""
        self.flow.failed(error)

    def is_awaiting(self, queue: OutgoingQueue) -> bool:
        """See L{ForgottenQueueListener.is_awaiting}."""
        return self.outgoing.sequences.is_awaiting(queue)

    def outgoing_forgotten(self, queue: OutgoingQueue) -> None:
        """See L{ForgottenQueueListener.outgoing_forgotten}."""
        self.transfer.messages.forget(queue)

    def owner_found(self, identifier: uuid.UUID) -> None:
        """See L{PublicQueueListener.owner_found}."""
        self.transfer.messages.owner_found(identifier)

    def route_changed(self, destination: uuid.UUID) -> None:
        """See L{RouteListener.route_changed}."""
        self.transfer.messages.route_changed(destination)

    def topology_changed(self) -> None:
        """The router has read a changed enterprise."""
        self.transfer.route_table.changed()

    async def ask_directory(self, procedure: Procedure[R]) -> R:
        """See L{Integration.ask}."""
        return await self._with_directory.integration.ask(procedure)

    async def perform_in_directory(self, effect: DirectoryEffect) -> Any:
        """See L{DirectoryEffects.perform}."""
        return await self._with_directory.effects.perform(effect)

    @property
    def _with_directory(self) -> MembershipParts:
        assert self.membership is not None, "only parts of an integration ask the directory"
        return self.membership
