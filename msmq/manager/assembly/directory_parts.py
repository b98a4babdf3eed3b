"""The directory of a queue manager, and its own objects there."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

import attrs

from msmq.interfaces.directory import IServedDirectory
from msmq.interfaces.routing import IRouter
from msmq.interfaces.security.ciphers import ICiphers
from msmq.interfaces.topology import add_objects
from msmq.manager.administration.local_queues import LocalQueues
from msmq.manager.assembly.core import ManagerCore
from msmq.manager.manager_settings import EnterpriseSettings
from msmq.manager.membership.directory_effects import DirectoryEffects
from msmq.manager.membership.directory_health import DirectoryHealth
from msmq.manager.membership.directory_router import DirectoryRouter
from msmq.manager.membership.divergences import DirectoryDivergences
from msmq.manager.membership.integration import Integration, directory_access
from msmq.manager.membership.kept_topology import KeptTopology
from msmq.manager.membership.procedure_runner import DirectoryClient, DirectoryRunner
from msmq.manager.membership.public_names import PublicNames, PublicQueueListener
from msmq.membership.requests import DirectoryEffect, Procedure

R = TypeVar("R")


class DirectoryListener(PublicQueueListener, Protocol):
    """Does for the directory what needs parts that are made later."""

    def topology_changed(self) -> None:
        """The router has read a changed enterprise."""

    async def ask_directory(self, procedure: Procedure[R]) -> R:
        """See L{Integration.ask}."""

    async def perform_in_directory(self, effect: DirectoryEffect) -> Any:
        """See L{DirectoryEffects.perform}."""


@attrs.frozen
class DirectoryReads:
    """What a queue manager reads from its directory.

    @ivar public: the owners of public queues.
    @ivar router: finds routes in the directory; C{None} if another router does.
    @ivar kept_topology: the stored topology of that router.
    """

    client: DirectoryClient
    public: PublicNames
    router: DirectoryRouter | None
    kept_topology: KeptTopology | None


@attrs.frozen(kw_only=True)
class DirectoryParts:
    """The directory, and routes.

    @ivar reads: C{None} in workgroup mode.
    @ivar router: finds the routes of messages to other queue managers; C{None} without one.
    @ivar divergences: changes that others make to the objects of this queue manager.
    """

    reads: DirectoryReads | None
    router: IRouter | None
    divergences: DirectoryDivergences

    @property
    def public(self) -> PublicNames | None:
        """The owners of public queues; C{None} in workgroup mode."""
        return None if self.reads is None else self.reads.public


@attrs.frozen
class MembershipParts:
    """The membership of a queue manager in an enterprise.

    @ivar effects: performs the effects of the procedures of C{integration}.
    """

    integration: Integration
    effects: DirectoryEffects


def make_directory_parts(
    core: ManagerCore, enterprise: EnterpriseSettings, listener: DirectoryListener
) -> DirectoryParts:
    """Make what reads the directory."""
    reads = _reads(core, enterprise, listener)
    router = enterprise.router
    if router is None and reads is not None:
        router = reads.router
    return DirectoryParts(reads=reads, router=router, divergences=DirectoryDivergences(core.note))


def _reads(
    core: ManagerCore, enterprise: EnterpriseSettings, listener: DirectoryListener
) -> DirectoryReads | None:
    directory, model, clock = enterprise.directory, core.model, core.runtime.clock
    if directory is None:
        return None
    access = directory_access(
        model, enterprise.host, enterprise.changes, routing_server=enterprise.routing_server
    )
    client = DirectoryClient(
        directory,
        access,
        DirectoryRunner(directory, clock, listener.perform_in_directory),
        DirectoryHealth(directory, clock, core.note),
    )
    reactor = core.runtime.reactor
    public = PublicNames(access, listener.ask_directory, clock, reactor, listener)
    if enterprise.router is not None:
        return DirectoryReads(client, public, None, None)
    kept = KeptTopology(core.performer.commit_later, core.runtime.in_thread)
    router = DirectoryRouter(
        model.identifier,
        access,
        listener.ask_directory,
        reactor,
        clock,
        kept=kept,
        was_read=client.health.read,
        add_objects=add_objects,
        changed=listener.topology_changed,
        in_thread=core.runtime.in_thread,
    )
    return DirectoryReads(client, public, router, kept)


def make_membership_parts(
    core: ManagerCore,
    directory: DirectoryParts,
    local: LocalQueues,
    enterprise: EnterpriseSettings,
    ciphers: ICiphers | None,
) -> MembershipParts | None:
    """Make what keeps the objects of the queue manager in its directory; C{None} in workgroup mode."""
    reads = directory.reads
    if reads is None:
        return None
    effects = DirectoryEffects(
        core.performer,
        local,
        reads.client.access,
        directory.divergences,
        IServedDirectory(reads.client.directory, None),
        ciphers,
    )
    integration = Integration(
        core.performer,
        local,
        reads.client,
        core.runtime.reactor,
        enterprise.host,
        effects,
        reads.public,
        reads.router,
        reads.kept_topology,
        directory.divergences,
        routing_server=enterprise.routing_server,
        site=enterprise.site,
    )
    return MembershipParts(integration, effects)
