"""Queue managers of foreign sites, whose connectors acknowledge for them. [MS-MQBR] 3.1.1.2."""

from __future__ import annotations

from uuid import UUID

from msmq.interfaces.routing import IRouter
from msmq.routing.foreign_sites import is_answered_for


class ForeignSites:
    """Decides for which queue managers another one may acknowledge messages.

    @param router: has the sites; without a router there is no foreign site.
    """

    def __init__(self, router: IRouter | None) -> None:
        self._router = router

    def is_answered_for(self, queue_manager: UUID) -> bool:
        """L{msmq.routing.foreign_sites.is_answered_for}, by the topology as it is now."""
        return self._router is not None and is_answered_for(self._router.topology, queue_manager)
