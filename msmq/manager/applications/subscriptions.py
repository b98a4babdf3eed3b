"""Subscriptions to events of the queue manager. [MS-MQDMPR] 3.1.4."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar
from uuid import UUID

from twisted.logger import Logger

from msmq.interfaces.manager.subscription import Occurrence, QueueManagerEvent, Subscriber
from msmq.queues.leaving.transaction import Transaction, TransactionState


class Subscriptions:
    """Subscribers of the events of one queue manager."""

    log: ClassVar[Logger] = Logger()

    def __init__(self) -> None:
        self._subscribers: dict[object, Subscriber] = {}

    def add(self, subscriber: Subscriber) -> Callable[[], None]:
        """Subscribe to all further events, in the order of subscription.

        @return: ends the subscription; calling it again does nothing.
        """
        # A callback that subscribes twice can unsubscribe once.
        key = object()
        self._subscribers[key] = subscriber

        def leave() -> None:
            self._subscribers.pop(key, None)

        return leave

    def transaction_ended(self, transaction: Transaction) -> None:
        """See
        L{TransactionListener.transaction_ended<msmq.manager.applications.transactions.TransactionListener>}.
        """
        ended = QueueManagerEvent.TRANSACTION_ABORTED
        if transaction.state is TransactionState.COMMITTED:
            ended = QueueManagerEvent.TRANSACTION_COMMITTED
        self.notify(ended, transaction.identifier)

    def notify(self, event: QueueManagerEvent, transaction: UUID | None = None) -> None:
        """Notify the subscribers of an event."""
        occurrence = Occurrence(event, transaction)
        for subscriber in list(self._subscribers.values()):
            with self.log.failureHandler("a subscriber failed"):
                subscriber(occurrence)
