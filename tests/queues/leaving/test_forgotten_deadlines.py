"""Messages that have left their queue before they expired."""

from __future__ import annotations

from collections.abc import Callable

from tests.queues.builders import arriving
from tests.queues.leaving.test_moves import MoveCase


class ForgottenDeadlineTests(MoveCase):
    """A message that is gone is due no more, however it left: a queue manager without others sleeps."""

    def gone(self, leave: Callable[[], object]) -> None:
        """Let messages come that will expire, and leave in this way."""
        self.alpha.put(
            self.queue, *(arriving(recoverable=each, time_to_be_received=9) for each in (False, True))
        )
        self.assertIsNotNone(self.alpha.model.deadline(self.alpha.now))
        leave()
        self.assertEqual(self.queue.message_count, 0)
        self.assertIsNone(self.alpha.model.deadline(self.alpha.now))

    def test_received(self) -> None:
        """By a reader that confirms it, or in a transaction."""
        self.gone(lambda: self.alpha.confirm(self.alpha.receive(self.queue, 2)))
        transaction = self.alpha.begin()

        def commit() -> None:
            self.alpha.receive_in(transaction, self.queue, 2)
            self.alpha.commit(transaction)

        self.gone(commit)

    def test_removed_unread(self) -> None:
        """Purged, rejected, or lost by the store."""
        model = self.alpha.model
        self.gone(lambda: self.alpha.purge(self.queue))
        self.gone(lambda: self.alpha.perform(model.reject(self.alpha.receive(self.queue, 2))))
        self.gone(lambda: self.alpha.perform(model.lost(self.queue.peek(2))))

    def test_expired(self) -> None:
        """Expired at last."""
        self.gone(lambda: self.alpha.later(10))

    def test_moved(self) -> None:
        """Moved into a queue in which messages do not expire."""
        self.gone(lambda: self.alpha.transfer(self.queue.peek(2), self.deadletter))

    def test_disposed(self) -> None:
        """Removed together with a change of its keeper."""
        self.gone(
            lambda: [
                self.alpha.model.disposed(each, (), self.alpha.now)
                for each in self.alpha.receive(self.queue, 2)
            ]
        )
        # The store got no change for it.
        self.alpha = self.alpha.restart()

    def test_deleted(self) -> None:
        """Deleted with its queue."""
        self.gone(lambda: self.alpha.delete(self.queue))
