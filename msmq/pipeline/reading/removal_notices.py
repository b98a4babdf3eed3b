"""The events by which entries of logs are known as removed by a repair."""

from __future__ import annotations

from uuid import UUID

import attrs


@attrs.define
class RemovalNotices:
    """Where the event is that says of an entry that a repair has removed it, so that it is sought once.

    Of each log the latest is kept.
    """

    _found: dict[UUID, tuple[int, int]] = attrs.field(factory=dict, init=False)

    def event(self, queue: UUID, number: int) -> int | None:
        """The number of the event about an entry; C{None} if it was not found before."""
        of, event = self._found.get(queue, (-1, None))
        return event if of == number else None

    def keep(self, queue: UUID, number: int, event: int) -> None:
        """Keep the number of the event about an entry."""
        self._found[queue] = number, event
