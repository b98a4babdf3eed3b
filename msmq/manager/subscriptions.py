"""[MS-MQDMPR] 3.1.4: others hear of what happens to the queue manager as a whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar
from uuid import UUID

from twisted.logger import Logger

from msmq.interfaces.subscribing import Occurrence, QueueManagerEvent, Subscriber


class Subscriptions:
    """Who is told of the events of one queue manager."""

    log: ClassVar[Logger] = Logger()

    def __init__(self) -> None:
        self._subscribers: list[Subscriber] = []

    def add(self, subscriber: Subscriber) -> Callable[[], None]:
        """Tell somebody of every event from now on, in the order in which they came.

        @return: ends that; calling it again does nothing.
        """
        # A cell of its own, so that who subscribes twice can leave once.
        cell: Subscriber = lambda occurrence: subscriber(occurrence)  # noqa: E731
        self._subscribers.append(cell)

        def leave() -> None:
            if cell in self._subscribers:
                self._subscribers.remove(cell)

        return leave

    def tell(self, event: QueueManagerEvent, transaction: UUID | None = None) -> None:
        """Something has happened."""
        occurrence = Occurrence(event, transaction)
        for subscriber in list(self._subscribers):
            with self.log.failureHandler("a subscriber failed"):
                subscriber(occurrence)
