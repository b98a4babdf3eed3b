"""Foreign sites and their connector servers. [MS-MQDMPR] 3.1.1.7."""

from __future__ import annotations

from uuid import UUID

from msmq.routing.topology import Topology


def foreign_site(topology: Topology, queue_manager: UUID) -> UUID | None:
    """The foreign site of a queue manager; C{None} if it belongs to any other site too."""
    machine = topology.queue_manager(queue_manager)
    sites = [] if machine is None else [topology.site(site) for site in machine.sites]
    if not sites or not all(site is not None and site.is_foreign for site in sites):
        return None
    return None if machine is None else machine.sites[0]


def served_site(topology: Topology, own: UUID, destination: UUID) -> UUID | None:
    """The foreign site of a destination, if this queue manager is its connector server. [MS-MQMQ] 1.1.

    A connector server is a routing server that belongs to the foreign site; C{None} for any other queue
    manager.
    """
    server, machine = topology.queue_manager(own), topology.queue_manager(destination)
    if server is None or machine is None or not server.routing_server or own == destination:
        return None
    if foreign_site(topology, destination) is None:
        return None
    return next((site for site in machine.sites if site in server.sites), None)


def is_answered_for(topology: Topology, queue_manager: UUID) -> bool:
    """Whether another queue manager may acknowledge messages to this one.

    A connector server acknowledges for its foreign site. True also for a queue manager that the known
    directory does not list, for example because the directory is unavailable.
    """
    machine = topology.queue_manager(queue_manager)
    if machine is None:
        return True
    sites = map(topology.site, machine.sites)
    return any(site is None or site.is_foreign for site in sites)
