"""What operators see of messages that have arrived and wait for their FinalAck. [MS-MQQB] 3.1.1.3.1."""

from __future__ import annotations

from msmq.interfaces.manager.summaries import OutgoingQueueSummary
from tests.nodes.arrivals.test_transactional import TO_BETA, TransferTestCase, transactional

TO_OTHERS = "DIRECT=TCP:127.0.0.3\\private$\\others"


class AwaitedFinalAckTests(TransferTestCase):
    """ALPHA sends transactional messages to BETA, whose reader is slow."""

    def setUp(self) -> None:
        super().setUp()
        self.path = self.queue(self.beta, transactional=True)
        self.sent = self.clock.now().wall
        self.begin(b"1", b"2", journal=True)
        self.clock.advance(100)

    def restart(self) -> None:
        """ALPHA starts again on its store."""
        self.alpha.deaf()
        stopped = self.alpha.service.stopService()
        self.clock.advance(10)
        self.successResultOf(stopped)
        self.alpha = self.node("ALPHA", self.alpha.model.identifier, store=self.alpha.store)
        self.alpha.start()
        self.clock.advance(1)

    def outgoing(self, name: str = TO_BETA) -> OutgoingQueueSummary:
        return self.alpha.service.inspection.outgoing_queue(name)

    def seen(self, name: str = TO_BETA) -> tuple[int, float | None]:
        """The number in an outgoing queue, and since when, in seconds after the first was sent."""
        queue = self.outgoing(name)
        since = queue.awaiting_final_acks_since
        return queue.awaiting_final_acks, None if since is None else round(since - self.sent)

    def all_seen(self) -> tuple[int, float | None]:
        """The same, as the status has it."""
        status = self.alpha.service.inspection.status()
        since = status.awaiting_final_acks_since
        return status.awaiting_final_acks, None if since is None else round(since - self.sent)

    def wait_two_hours(self) -> None:
        for _ in range(120):
            self.clock.advance(60)

    def receive_one(self) -> None:
        reservation = self.run_to_end(self.beta.service.reserve(self.path, count=1, timeout=0))
        self.run_to_end(reservation.confirm())
        self.clock.advance(5)

    def test_counts(self) -> None:
        """The outgoing queue and the status have their number, and when the oldest was sent."""
        self.begin(b"3", journal=True)
        self.clock.advance(5)
        self.assertEqual(self.outgoing().messages, 0)
        self.assertEqual((self.seen(), self.all_seen()), ((3, 0), (3, 0)))
        self.receive_one()
        self.assertEqual((self.seen(), self.all_seen()), ((2, 0), (2, 0)))
        self.receive_one()
        self.assertEqual((self.seen(), self.all_seen()), ((1, 100), (1, 100)))
        self.receive_one()
        self.assertEqual((self.seen(), self.all_seen()), ((0, None), (0, None)))

    def test_several_queues(self) -> None:
        """Each has its own."""
        self.queue(self.beta, "others", transactional=True)
        self.run_to_end(
            self.alpha.service.send(TO_OTHERS, transactional(b"o", journal=True)),
        )
        self.clock.advance(5)
        self.assertEqual((self.seen(), self.seen(TO_OTHERS), self.all_seen()), ((2, 0), (1, 100), (3, 0)))
        self.receive_one()
        self.receive_one()
        self.assertEqual((self.seen(), self.seen(TO_OTHERS)), ((0, None), (1, 100)))

    def test_restart(self) -> None:
        """They are counted in their queues after a restart, with those of a later sequence."""
        self.restart()
        self.assertEqual((self.seen(), self.all_seen()), ((2, 0), (2, 0)))
        self.begin(b"3", journal=True)
        self.clock.advance(60)
        self.assertEqual((self.seen(), self.all_seen()), ((3, 0), (3, 0)))
        for _ in range(3):
            self.receive_one()
        self.assertEqual((self.seen(), self.all_seen()), ((0, None), (0, None)))

    def test_kept_queue(self) -> None:
        """Their outgoing queue is not removed as idle while they wait, also after a restart."""
        self.restart()
        self.wait_two_hours()
        self.assertEqual(self.seen(), (2, 0))
        self.receive_one()
        self.receive_one()
        self.wait_two_hours()
        self.assertEqual(self.alpha.service.inspection.outgoing(), [])

    def test_metrics(self) -> None:
        """Metrics have both, by queue as well."""
        measurements = self.alpha.service.inspection.measurements
        [queue] = [each for each in measurements.outgoing() if each.queue == TO_BETA]
        self.assertEqual(queue.awaiting_final_acks, 2)
        found = measurements.awaiting_final_acks()
        self.assertEqual((found.count, found.since), (2, self.sent))
