"""[MS-MQDMPR] 3.1.4: subscribers are notified of changes of the queue manager as a whole."""

from __future__ import annotations

from uuid import UUID

from msmq.interfaces.manager.subscription import Occurrence, QueueManagerEvent
from msmq.queues.arriving.message import Message
from tests.manager.support import ManagerTestCase


class SubscriptionTests(ManagerTestCase):
    """L{QueueManagerService.subscribe}."""

    def setUp(self) -> None:
        super().setUp()
        self.reported: list[tuple[QueueManagerEvent, UUID | None]] = []
        self.leave = self.service.subscribe(self.hear)

    def hear(self, occurrence: Occurrence) -> None:
        """A subscriber is notified."""
        self.reported.append((occurrence.event, occurrence.transaction))

    def test_stopped(self) -> None:
        """MQDMPR-3.1.4.2-01: once, when everything has ended and the store is closed.

        By itself nothing else follows from it.
        """
        self.store.is_slow = True
        closed: list[bool] = []
        self.service.subscribe(lambda occurrence: closed.append(self.store.is_slow))
        self.successResultOf(self.service.stopService())
        self.assertEqual(self.reported, [(QueueManagerEvent.STOPPED, None)])
        self.assertEqual(closed, [False])

    def test_started(self) -> None:
        """A subscriber from before the start is notified of it."""
        self.successResultOf(self.service.stopService())
        self.alpha.deaf()
        fresh = self.node("ALPHA", self.service.model.identifier, store=self.store)
        fresh.service.subscribe(self.hear)
        self.reported.clear()
        fresh.start()
        self.assertEqual(self.reported, [(QueueManagerEvent.STARTED, None)])
        self.successResultOf(fresh.service.stopService())

    def test_transactions(self) -> None:
        """Each end of a transaction, with its identifier; a commit when it is stored."""
        committed, aborted = self.service.begin(), self.service.begin()
        sending = self.service.send(self.payments, [Message(transactional=True)], transaction=committed)
        self.run_to_end(sending)
        self.store.is_slow = True
        committing = self.deferred(committed.commit())
        self.assertEqual(self.reported, [])
        self.store.catch_up()
        self.successResultOf(committing)
        self.run_to_end(aborted.abort())
        self.assertEqual(
            self.reported,
            [
                (QueueManagerEvent.TRANSACTION_COMMITTED, committed.identifier),
                (QueueManagerEvent.TRANSACTION_ABORTED, aborted.identifier),
            ],
        )

    def test_offline_and_online(self) -> None:
        """Both, each time."""
        self.service.take_offline()
        self.service.bring_online()
        self.assertEqual(
            [event for event, _ in self.reported],
            [QueueManagerEvent.TAKEN_OFFLINE, QueueManagerEvent.BROUGHT_ONLINE],
        )

    def test_failing_and_leaving_subscribers(self) -> None:
        """A subscriber that fails is logged, and the others are notified; one that leaves is not
        notified again.
        """

        def fail(occurrence: Occurrence) -> None:
            raise RuntimeError("not now")

        stop_failing = self.service.subscribe(fail)
        leave = self.service.subscribe(self.hear)
        self.service.take_offline()
        self.assertEqual(len(self.reported), 2)
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)
        leave()
        leave()
        self.service.bring_online()
        self.assertEqual(len(self.reported), 3)
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)
        stop_failing()
