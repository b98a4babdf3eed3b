"""Transactional property of destinations, queried once each from the sending queue manager."""

from __future__ import annotations

from msmq.control.client.client import ControlClient
from msmq.structures.names.name_text import is_format_name


class QueueKinds:
    """The destinations of one job, with what their queues ask of a message."""

    def __init__(self, client: ControlClient) -> None:
        """Ask this queue manager.

        @param client: one that is not used for anything else at the same time.
        """
        self._client = client
        self._transactional: dict[str, bool | None] = {}

    def is_transactional(self, destination: str) -> bool | None:
        """Whether a queue takes transactional messages only; C{None} for the name of a queue elsewhere.

        @param destination: the path name of a local queue, or a format name.
        @raise MQError: there is no such queue, or no answer.
        """
        if destination not in self._transactional:
            found = None
            if not is_format_name(destination):
                found = bool(self._client.queue(destination)["transactional"])
            self._transactional[destination] = found
        return self._transactional[destination]
