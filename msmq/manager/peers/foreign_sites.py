"""[MS-MQBR] 3.1.1.2: queue managers of foreign sites, whose connectors acknowledge for them."""

from __future__ import annotations

from uuid import UUID

from msmq.interfaces.routing import IRouter


class ForeignSites:
    """Decides for which queue managers another one may acknowledge messages.

    @param router: knows the sites; without one there is no foreign site.
    """

    def __init__(self, router: IRouter | None) -> None:
        self._router = router

    def is_answered_for(self, queue_manager: UUID) -> bool:
        """Whether another queue manager may acknowledge what was sent to this one.

        That is the connector of a foreign site. It cannot be ruled out of a queue manager that the directory
        does not list, because the directory is away for example.
        """
        if self._router is None:
            return False
        topology = self._router.topology
        machine = topology.queue_manager(queue_manager)
        if machine is None:
            return True
        sites = map(topology.site, machine.sites)
        return any(site is None or site.is_foreign for site in sites)
