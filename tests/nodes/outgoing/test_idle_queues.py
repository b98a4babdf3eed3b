"""Outgoing queues that were empty and unused for an hour are removed; what is pending stays."""

from __future__ import annotations

from pathlib import Path

from msmq.interfaces.storage import IMessageStore, StorageError
from msmq.queues.arriving.message import Acknowledge, Delivery, Message
from msmq.queues.reading.descriptor import QueueAccessType
from msmq.service.composition import live_settings
from msmq.service.configuration import load
from msmq.settings import SessionSettings
from msmq.storage.memory import MemoryMessageStore
from msmq.structures.names.format_name import parse_format_name
from msmq.transfer.decisions import peer_queue_decision
from tests.builders import ALPHA, BETA
from tests.nodes.slow_store import SlowStore
from tests.nodes.support import Node, NodesTestCase

HOUR = 3600.0
STEP = 60.0
TO_BETA = "DIRECT=TCP:127.0.0.3\\private$\\orders"
DEAD = "DIRECT=TCP:127.0.0.9\\private$\\orders"
MOVED = "DIRECT=TCP:127.0.0.8\\private$\\orders"


class IdleTestCase(NodesTestCase):
    """ALPHA, whose store survives a restart, sends to BETA."""

    def setUp(self) -> None:
        super().setUp()
        self.disk = MemoryMessageStore(durable=True)
        for node in (self.alpha, self.beta):
            self.stop(node)
        self.begin_alpha(self.disk)
        self.beta = self.node("BETA", BETA, store=MemoryMessageStore(durable=True))
        self.beta.start()
        self.path = self.queue(self.beta)

    def stop(self, node: Node) -> None:
        node.deaf()
        stopped = node.service.stopService()
        self.clock.advance(10)
        self.successResultOf(stopped)

    def begin_alpha(self, store: IMessageStore) -> None:
        self.alpha = self.node("ALPHA", ALPHA, store=store)
        self.alpha.start()
        self.clock.advance(10)

    def restart_alpha(self, store: IMessageStore | None = None) -> None:
        self.stop(self.alpha)
        self.begin_alpha(self.disk if store is None else store)

    def recoverable(self, *bodies: bytes, to: str = TO_BETA) -> None:
        self.send(self.alpha, to, *bodies, delivery=Delivery.RECOVERABLE)

    def names(self) -> list[str]:
        """The outgoing queues that an operator sees."""
        return [queue.format_name for queue in self.alpha.service.inspection.outgoing()]

    def wait(self, seconds: float) -> None:
        """The clock advances in steps, as timers are due."""
        while seconds > 0:
            self.clock.advance(min(seconds, STEP))
            seconds -= STEP

    def arrived(self) -> list[bytes]:
        return self.bodies(self.beta, self.path)


class RemovalTests(IdleTestCase):
    """Which queues are removed, and when."""

    def test_recoverable(self) -> None:
        """A queue leaves memory and the store an hour after its last message; the next one makes it again."""
        self.recoverable(b"1")
        self.wait(HOUR / 2)
        self.recoverable(b"2")
        self.wait(HOUR - STEP)
        self.assertEqual(self.names(), [TO_BETA])
        self.wait(HOUR / 2)
        self.assertEqual(self.names(), [])
        self.restart_alpha()
        self.assertEqual(self.names(), [])
        self.recoverable(b"3")
        self.clock.advance(10)
        self.assertEqual(self.arrived(), [b"1", b"2", b"3"])

    def test_after_restart(self) -> None:
        """Empty queues that a restart finds in the store are removed an hour later."""
        self.recoverable(b"1")
        self.wait(STEP)
        self.restart_alpha()
        self.assertEqual(self.names(), [TO_BETA])
        self.wait(2 * HOUR)
        self.assertEqual(self.names(), [])
        self.restart_alpha()
        self.assertEqual(self.names(), [])

    def test_many(self) -> None:
        """More than one check handles are all removed."""
        names = [f"DIRECT=TCP:127.0.0.3\\private$\\q{number}" for number in range(500)]
        for name in names:
            self.send(self.alpha, name, b"1")
        self.wait(STEP)
        self.assertEqual(len(self.names()), 500)
        self.wait(2 * HOUR)
        self.assertEqual(self.names(), [])

    def test_pending(self) -> None:
        """A message that waits for its receiver is kept, over days."""
        self.recoverable(b"1", to=DEAD)
        self.wait(2 * HOUR)
        shown = self.alpha.service.inspection.outgoing_queue(DEAD)
        self.assertEqual((shown.messages, self.names()), (1, [DEAD]))

    def test_open(self) -> None:
        """A queue that an application has open is kept until it is closed."""
        opened = self.alpha.service.open_queue(TO_BETA, QueueAccessType.SEND)
        self.wait(3 * HOUR)
        self.run_to_end(opened.send([Message(body=b"late")]))
        self.clock.advance(10)
        self.assertEqual(self.arrived(), [b"late"])
        opened.close()
        self.wait(2 * HOUR)
        self.assertEqual(self.names(), [])

    def test_uncommitted(self) -> None:
        """A transaction that is open for hours still sends what it holds."""
        self.queue(self.beta, "paid", transactional=True)
        name = TO_BETA.replace("orders", "paid")
        transaction = self.alpha.service.begin()
        self.run_to_end(
            self.alpha.service.send(name, [Message(b"1", transactional=True)], transaction=transaction)
        )
        self.wait(3 * HOUR)
        self.run_to_end(transaction.commit())
        self.wait(STEP)
        self.assertEqual(self.bodies(self.beta, ".\\private$\\paid"), [b"1"])

    def test_operators(self) -> None:
        """A paused queue and a redirected one are kept until an operator ends that."""
        service = self.alpha.service
        self.successResultOf(service.pause_outgoing(DEAD))
        self.successResultOf(service.redirect_outgoing(MOVED, "127.0.0.3"))
        self.wait(2 * HOUR)
        self.assertEqual(sorted(self.names()), [MOVED, DEAD])
        self.successResultOf(service.resume_outgoing(DEAD))
        self.successResultOf(service.redirect_outgoing(MOVED, None))
        self.wait(2 * HOUR)
        self.assertEqual(self.names(), [])

    def test_transactional(self) -> None:
        """Messages of the sequence that begins after the removal arrive once and in order too."""
        self.queue(self.beta, "paid", transactional=True)
        name = TO_BETA.replace("orders", "paid")
        for body in (b"1", b"2"):
            self.send(self.alpha, name, body, transactional=True, dead_letter=True)
            self.wait(STEP)
        self.wait(2 * HOUR)
        self.assertEqual(self.names(), [name], "it waits for final acknowledgements")
        self.assertEqual(self.bodies(self.beta, ".\\private$\\paid"), [b"1", b"2"])
        self.wait(2 * HOUR)
        self.assertEqual(self.names(), [])
        for body in (b"3", b"4"):
            self.send(self.alpha, name, body, transactional=True)
        self.wait(STEP)
        self.assertEqual(self.bodies(self.beta, ".\\private$\\paid"), [b"3", b"4"])


class LimitTests(IdleTestCase):
    """ALPHA has eight outgoing queues at most; BETA chooses names, which would need more."""

    def setUp(self) -> None:
        super().setUp()
        self.patch(peer_queue_decision, "MOST_OUTGOING_QUEUES", 8)
        self.inbox = self.queue(self.alpha, "inbox")

    def choose(self, first: int, count: int) -> None:
        """Messages of BETA that request acknowledgements, in other queues there."""
        for number in range(first, first + count):
            admin = parse_format_name(f"DIRECT=TCP:127.0.0.3\\private$\\admin{number}")
            message = Message(b"x", acknowledge=Acknowledge.POSITIVE_ARRIVAL, admin_queue=admin)
            self.run_to_end(self.beta.service.send("DIRECT=TCP:127.0.0.2\\private$\\inbox", [message]))
            self.wait(STEP)

    def test_final_acknowledgements(self) -> None:
        """A queue that is empty, but waits for final acknowledgements, is not dropped for another."""
        self.queue(self.beta, "paid", transactional=True)
        name = TO_BETA.replace("orders", "paid")
        self.send(self.alpha, name, b"1", transactional=True, journal=True)
        self.wait(STEP)
        self.assertEqual(self.alpha.service.inspection.outgoing_queue(name).messages, 0)
        self.choose(0, 20)
        self.assertIn(name, self.names())
        self.assertLessEqual(len(self.names()), 8)
        self.assertEqual(len(self.bodies(self.alpha, self.inbox)), 20)
        self.assertEqual(self.bodies(self.beta, ".\\private$\\paid"), [b"1"])
        self.wait(STEP)
        self.choose(20, 20)
        self.assertNotIn(name, self.names())


class SessionTests(IdleTestCase):
    """Sessions that are open for longer than queues are kept."""

    settings = SessionSettings(session_cleanup=86_400)

    def test_last_queue(self) -> None:
        """Of the queues that share a session the last one stays, so that the session is not closed."""
        for number in range(3):
            self.send(self.alpha, f"DIRECT=TCP:127.0.0.3\\private$\\q{number}", b"1")
        self.wait(3 * HOUR)
        [session] = self.alpha.service.inspection.sessions()
        self.assertEqual((len(self.names()), session.state), (1, "OPEN"))


class SettingTests(IdleTestCase):
    """The time is a setting."""

    settings = SessionSettings(outgoing_queue_idle=7200)

    def test_longer(self) -> None:
        """C{outgoing_queue_idle} is how long a queue is kept."""
        self.recoverable(b"1")
        self.wait(2 * HOUR - STEP)
        self.assertEqual(self.names(), [TO_BETA])
        self.wait(HOUR)
        self.assertEqual(self.names(), [])

    def test_changed(self) -> None:
        """Another time holds at once for queues that are idle already."""
        self.recoverable(b"1")
        self.wait(HOUR)
        path = Path(self.mktemp())
        path.write_text("[timers]\noutgoing_queue_idle = 60\n", encoding="utf-8")
        self.alpha.service.configure(live_settings(load(path), self.disk))
        self.clock.advance(1)
        self.assertEqual(self.names(), [])


class StoreTests(IdleTestCase):
    """A message that comes while the store removes the queue."""

    DELAY = 2.0

    def end_of_idle_time(self) -> None:
        """ALPHA on a slow disk, with a queue that is empty and stored, up to the check that removes it."""
        self.recoverable(b"1")
        self.wait(STEP)
        self.store = SlowStore(self.disk, self.alpha.host, self.DELAY)
        self.restart_alpha(self.store)
        self.wait(STEP)
        self.stop(self.beta)
        passed = 0.0
        while self.names():
            self.clock.advance(0.5)
            passed += 0.5
            self.assertLess(passed, 2 * HOUR, "the queue is not removed")

    def send_slowly(self, body: bytes) -> None:
        message = Message(body=body, delivery=Delivery.RECOVERABLE)
        self.sent = self.deferred(self.alpha.service.send(TO_BETA, [message]))

    def test_every_moment(self) -> None:
        """A message that was sent before, during or after the commit of the removal survives a restart."""
        self.end_of_idle_time()
        for number, moment in enumerate((0.0, 0.5, 1.5, 2.0, 2.5, 4.0)):
            if number:
                self.wait(2 * HOUR)
                self.drain()
                while self.names():
                    self.clock.advance(0.5)
            self.clock.advance(moment)
            self.send_slowly(b"%d" % number)
            self.clock.advance(3 * self.DELAY)
            self.successResultOf(self.sent)
            self.restart_alpha(SlowStore(self.disk, self.alpha.host, self.DELAY))
            self.clock.advance(3 * self.DELAY)
            self.assertEqual(self.alpha.service.inspection.outgoing_queue(TO_BETA).messages, 1, moment)

    def drain(self) -> None:
        purged = self.deferred(self.alpha.service.purge_outgoing(TO_BETA))
        self.clock.advance(3 * self.DELAY)
        self.successResultOf(purged)

    def test_failed(self) -> None:
        """A removal that failed is not repeated, since the queue may have messages again."""
        self.end_of_idle_time()
        self.store.trouble = StorageError("a write failed")
        self.clock.advance(self.DELAY)
        self.store.trouble = None
        self.send_slowly(b"2")
        self.wait(HOUR / 2)
        self.successResultOf(self.sent)
        self.restart_alpha(SlowStore(self.disk, self.alpha.host, self.DELAY))
        self.assertEqual(self.alpha.service.inspection.outgoing_queue(TO_BETA).messages, 1)
