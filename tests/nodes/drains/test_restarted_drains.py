"""A drain goes on after a restart of its queue manager, or the log says why it does not."""

from __future__ import annotations

from twisted.logger import ILogObserver, LogEvent, formatEvent, globalLogPublisher
from zope.interface import implementer

from msmq.manager.manager_settings import CloneCheck
from msmq.persistence.changes import RemoveState
from msmq.queues.arriving.message import Delivery
from tests.nodes.drains.support import AT_ALPHA, ORDERS, DrainTestCase

RECOVERABLE = Delivery.RECOVERABLE


class RestartedDrainTests(DrainTestCase):
    """A queue manager that stops while one of its queues is drained."""

    def test_restart(self) -> None:
        """A drain continues after a restart, with its counts."""
        self.both()
        self.stored_views(b"1", b"2", delivery=RECOVERABLE)
        self.begin()
        self.clock.advance(5)
        self.restart()
        self.send(self.gamma, AT_ALPHA, b"3", delivery=RECOVERABLE)
        self.clock.advance(120)
        self.assertEqual(self.alpha.service.drains.summary(ORDERS).moved, 3)
        self.assert_proven()
        self.assertEqual(self.bodies(self.beta, ORDERS), [b"1", b"2", b"3"])

    def test_damaged_record(self) -> None:
        """A drain whose record cannot be read is named in the log after a restart, moves nothing, and is
        begun again with new counts.
        """
        self.both()
        self.stored_views(b"1", delivery=RECOVERABLE)
        self.begin()
        self.clock.advance(5)
        store = self.stores["ALPHA"]
        [page] = [name for name in store.names() if name.startswith("drain-page.")]
        self.successResultOf(store.commit([RemoveState(page)]))
        lines = self.log_lines()
        self.restart()
        [line] = [line for line in lines if "the drain of" in line]
        self.assertIn(f"{ORDERS} does not go on", line)
        self.assertIn(f"{page} is missing", line)
        self.assertEqual(self.alpha.service.drains.summaries(), [])
        self.stored_views(b"2", delivery=RECOVERABLE)
        self.clock.advance(120)
        self.assertEqual(self.alpha.service.inspection.queue(ORDERS).messages, 1)
        self.begin()
        self.clock.advance(5)
        self.assertEqual(self.alpha.service.drains.summary(ORDERS).moved, 1)
        self.restart()
        self.assertEqual(self.alpha.service.drains.summary(ORDERS).moved, 1)

    def test_damaged_record_of_a_deleted_queue(self) -> None:
        """It leaves the store at the next start, and is in the log no more."""
        self.both()
        self.stored_views(b"1", delivery=RECOVERABLE)
        self.begin()
        self.clock.advance(5)
        store = self.stores["ALPHA"]
        [page] = [name for name in store.names() if name.startswith("drain-page.")]
        self.successResultOf(store.commit([RemoveState(page)]))
        self.restart()
        deleting = self.deferred(self.alpha.service.delete_queue(ORDERS))
        self.clock.advance(1)
        self.successResultOf(deleting)
        lines = self.log_lines()
        self.restart()
        self.assertEqual([line for line in lines if "the drain of" in line], [])
        self.assertEqual([name for name in store.names() if name.startswith("drain")], [])

    def log_lines(self) -> list[str]:
        """The lines of the log from now on."""
        lines: list[str] = []

        @implementer(ILogObserver)
        def observe(event: LogEvent) -> None:
            lines.append(formatEvent(event))

        globalLogPublisher.addObserver(observe)
        self.addCleanup(globalLogPublisher.removeObserver, observe)
        return lines

    def test_clone(self) -> None:
        """What may be a clone moves nothing: its original does; once it is known to be the original, it goes
        on.
        """
        self.both()
        self.begin()
        self.restart(options={"clone": CloneCheck("the data directory was copied", lambda: None)})
        self.flushLoggedErrors()
        self.stored_views(b"1", b"2", delivery=RECOVERABLE)
        self.clock.advance(60)
        summary = self.alpha.service.drains.summary(ORDERS)
        self.assertEqual((summary.remaining, summary.moved, summary.in_transit), (2, 0, 0))
        self.assertIn("may be a clone: the data directory was copied", summary.reason)
        self.alpha.service.keep_identity()
        self.clock.advance(60)
        self.assertEqual(self.bodies(self.beta, ORDERS), [b"1", b"2"])
        self.assertEqual(self.alpha.service.drains.summary(ORDERS).reason, "")
