"""ImportDestinations of imported messages, by the queues from which they were exported."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import attrs

from msmq.pipeline.files.errors import FilesError
from msmq.pipeline.reading.streams import is_called
from msmq.pipeline.writing.queue_kinds import QueueKinds
from msmq.quoting import shown
from msmq.structures.status import MQError, Status

_NAMED: Final = 20
"""Limit on the queues that one line names."""


@attrs.frozen
class ImportDestinations:
    """Where the messages of each queue go.

    @ivar of: the destination of each queue whose messages are sent, by its name in the files.
    @ivar left_out: queues to which no message can be sent, such as a dead-letter queue, each with the number
        of its rows.
    """

    of: Mapping[str, str]
    left_out: Mapping[str, int]

    @classmethod
    def find(cls, rows: Mapping[str, int], into: str | None, only: str) -> ImportDestinations:
        """Decide for all queues of the files.

        @param rows: the number of rows of each queue.
        @param into: the destination of all; C{None}: each goes to its own queue.
        @param only: the name of the one queue whose rows are sent; empty for all.
        @raise FilesError: there are rows, and none of them has a destination.
        """
        found: dict[str, str] = {}
        left_out: dict[str, int] = {}
        for topic, count in rows.items():
            if only and not is_called(topic, only):
                continue
            destination = into or _home(topic)
            if destination is None:
                left_out[topic] = count
            else:
                found[topic] = destination
        if left_out and not found:
            raise FilesError(f"messages cannot be sent to {_names(left_out)}; choose a queue with --into")
        return cls(found, left_out)

    def require(self, kinds: QueueKinds) -> None:
        """Check that all destinations exist.

        @raise MQError: one does not, the text names all of them; or the server cannot be reached.
        """
        missing: list[tuple[str, MQError]] = []
        for destination in sorted({*self.of.values()}):
            try:
                kinds.is_transactional(destination)
            except MQError as error:
                if error.status != Status.MQ_ERROR_QUEUE_NOT_FOUND:
                    raise
                missing.append((destination, error))
        if len(missing) == 1:
            raise missing[0][1]
        if missing:
            names = _names(destination for destination, _ in missing)
            raise MQError(
                Status.MQ_ERROR_QUEUE_NOT_FOUND,
                f"no such queues: {names}; nothing was sent; create them, or choose a queue with --into",
            )


def queue_name(topic: str) -> str:
    """A queue of a file, for people."""
    return shown(topic) or "a queue without a name"


def _home(topic: str) -> str | None:
    """The queue that rows were read from, or whose journal; C{None} if messages cannot be sent there."""
    path, _, suffix = topic.partition(";")
    if not path.startswith(".\\") or path.lower() == ".\\system$" or suffix not in ("", "journal"):
        return None
    return path


def _names(queues: Iterable[str]) -> str:
    every = list(queues)
    more = f", and {len(every) - _NAMED} more" if len(every) > _NAMED else ""
    return ", ".join(map(queue_name, every[:_NAMED])) + more
