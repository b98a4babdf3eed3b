"""Connector queues: messages for foreign sites and their connector programs. [MS-MQQB] 3.1.1.1.1."""

from __future__ import annotations

from msmq.interfaces.routing import IRouter
from msmq.queues.model import QueueManagerModel
from msmq.queues.queue import Queue
from msmq.queues.queue_names import is_connector_path
from msmq.routing.foreign_sites import served_site
from msmq.structures.names.format_name import ConnectorFormatName
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.wire.guid import guid_from_bytes


class Connectors:
    """Finds the connector queue of a message for a queue manager of a foreign site.

    A message for a connector queue is treated like one for a local queue: its arrival, and its receipt by the
    connector program, are acknowledged on behalf of the foreign system.

    @param router: has the sites; without a router there are no foreign sites.
    """

    def __init__(self, model: QueueManagerModel, router: IRouter | None) -> None:
        self._model = model
        self._router = router

    def queue_for(self, message: UserMessageView) -> Queue | None:
        """The connector queue of a message; C{None} if no such queue serves its site here, so that it is in
        transit to another queue manager.
        """
        if self._router is None:
            return None
        destination = guid_from_bytes(message.queue_manager_address)
        site = served_site(self._router.topology, self._model.identifier, destination)
        if site is None:
            return None
        return self._model.find(ConnectorFormatName(site, message.is_transactional))

    def is_undecided(self) -> bool:
        """Whether there are connector queues while the foreign queue managers are still unknown."""
        if self._router is None or self._router.topology.sites:
            return False
        return any(is_connector_path(queue.definition.path) for queue in self._model.queues())
