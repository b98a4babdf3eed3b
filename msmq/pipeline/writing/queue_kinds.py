"""Transactional property of destinations, queried once each from the sending queue manager."""

from __future__ import annotations

from msmq.control.client.client import ControlClient
from msmq.structures.names.name_text import is_format_name


class QueueKinds:
    """Cache of the destinations of one job: whether their queues are transactional."""

    def __init__(self, client: ControlClient) -> None:
        """Query this queue manager.

        @param client: a client without concurrent use.
        """
        self._client = client
        self._transactional: dict[str, bool | None] = {}

    def is_transactional(self, destination: str) -> bool | None:
        """Whether a queue is transactional; C{None} for a queue of another queue manager.

        @param destination: the path name of a local queue, or a format name.
        @raise MQError: there is no such queue, or no answer.
        """
        if destination not in self._transactional:
            found = None
            if not is_format_name(destination):
                found = bool(self._client.queue(destination)["transactional"])
            self._transactional[destination] = found
        return self._transactional[destination]
