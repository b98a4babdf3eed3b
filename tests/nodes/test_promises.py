"""The checker of simulated networks notices each kind of broken promise."""

from __future__ import annotations

from collections.abc import Sequence

from twisted.trial.unittest import SynchronousTestCase

from msmq.queues.arriving.message import Delivery, Message
from msmq.structures.packet.base_header import INFINITE
from msmq.structures.packet.user_message_view import UserMessageView
from tests.nodes.any_network import (
    ADMIN,
    DEADLETTER,
    DEADXACT,
    JOURNAL,
    LETTERS,
    PAYMENTS,
    Host,
    World,
)
from tests.nodes.promises import Broken, PromiseChecker

NEVER = (INFINITE, INFINITE)


class PlantedTests(SynchronousTestCase):
    """ALPHA sends six messages each of several kinds to BETA; then something is taken away or added."""

    def setUp(self) -> None:
        self.world = World(2, 0.0, None)
        self.alpha, self.beta = self.world.hosts
        for step in (
            ("send", 0, "letters", 6, *NEVER),
            ("send", 0, "payments", 6, *NEVER),
            ("send", 0, "missing", 6, *NEVER),
            ("strand", 0, "letters", 6),
            ("send", 0, "payments", 6, INFINITE, 20),
            ("send", 0, "letters", 6, INFINITE, 20),
            ("wait", 10.0),
            ("receive", 1, "letters", 6),
            ("receive", 1, "payments", 6),
            ("wait", 60.0),
        ):
            self.world.step(step)

    def take(self, host: Host, queue: str) -> UserMessageView:
        """Receive a message without a record in the ledger."""
        view: UserMessageView = self.world.wait(host.service.receive(queue, timeout=0))
        return view

    def put(self, host: Host, queue: str, *tags: int, body: bytes | None = None) -> None:
        """Send messages like those of the history without a record in the ledger."""
        messages = [
            Message(
                body=b"%06d" % tag if body is None else body,
                application_tag=tag,
                delivery=Delivery.RECOVERABLE,
                transactional=queue == PAYMENTS,
            )
            for tag in tags
        ]
        self.world.wait(host.service.send(queue, messages))

    def assert_broken(self, what: str) -> None:
        with self.assertRaisesRegex(Broken, what):
            PromiseChecker(self.world).check()

    def test_no_violation_without_faults(self) -> None:
        """Without injected faults every guarantee is kept, and there is a copy of each kind to remove."""
        counts = [
            host.service.inspection.queue(queue).messages
            for host, queue in (
                (self.alpha, ADMIN),
                (self.alpha, JOURNAL),
                (self.alpha, DEADXACT),
                (self.alpha, DEADLETTER),
                (self.beta, DEADLETTER),
            )
        ]
        self.assertTrue(all(counts), counts)
        PromiseChecker(self.world).check()

    def test_lost_message(self) -> None:
        """A message that was accepted and is gone without a trace."""
        self.world.step(("send", 0, "letters", 1, *NEVER))
        self.world.step(("wait", 5.0))
        number = self.take(self.beta, LETTERS).application_tag
        self.assert_broken(f"taken, but lost: \\[{number}\\]")

    def test_missing_copies(self) -> None:
        """No journal copy, dead letter or acknowledgement, at the sender and where a message failed."""
        for number, queue, what in (
            (0, ADMIN, "ALPHA: acknowledgements that are missing"),
            (0, JOURNAL, "ALPHA: journal that are missing"),
            (0, DEADXACT, "ALPHA: deadxact that are missing"),
            (0, DEADLETTER, "ALPHA: deadletter that are missing"),
            (1, DEADLETTER, "BETA: deadletter that are missing"),
        ):
            self.setUp()
            self.take(self.world.hosts[number], queue)
            self.assert_broken(what)

    def test_dead_letters_of_each_class(self) -> None:
        """At the receiver those of no such queue, of an expiry in the queue, and of a late arrival."""
        for kind in range(3):
            self.setUp()
            views = [
                self.take(self.beta, DEADLETTER)
                for _ in range(self.beta.service.inspection.queue(DEADLETTER).messages)
            ]
            classes = sorted({view.message_class for view in views})
            self.assertEqual(len(classes), 3, classes)
            left = [view.application_tag for view in views if view.message_class != classes[kind]]
            self.restore(views, left)
            self.assert_broken("BETA: deadletter that are missing")

    def restore(self, views: Sequence[UserMessageView], tags: Sequence[int]) -> None:
        """Have the checker find these dead letters, which were received."""
        kept = [view for view in views if view.application_tag in tags]
        drain = self.world.drain

        def drained(host: Host, queue: str) -> object:
            yield from drain(host, queue)
            if host is self.beta and queue == DEADLETTER:
                yield from kept

        self.patch(self.world, "drain", drained)

    def test_duplicated(self) -> None:
        """A message that is in its queue twice, whether it was received or not."""
        for tag, queue in ((1, LETTERS), (7, PAYMENTS)):
            self.setUp()
            self.put(self.beta, queue, tag)
            self.assert_broken(f"came twice: \\[{tag}\\]")

    def test_wrong_queue(self) -> None:
        """A message that is in another queue than the one it was sent to."""
        self.world.step(("send", 0, "letters", 1, *NEVER))
        self.world.step(("wait", 5.0))
        number = self.take(self.beta, LETTERS).application_tag
        self.put(self.beta, PAYMENTS, number)
        self.assert_broken(f"messages for another queue: \\[{number}\\]")

    def test_wrong_queue_manager(self) -> None:
        """A message that is in the queue of another queue manager."""
        self.put(self.alpha, LETTERS, 3)
        self.assert_broken("messages for another queue: \\[3\\]")

    def test_wrong_body(self) -> None:
        """A message with the body of another."""
        self.world.step(("send", 0, "letters", 1, *NEVER))
        self.world.step(("wait", 5.0))
        number = self.take(self.beta, LETTERS).application_tag
        self.put(self.beta, LETTERS, number, body=b"000001")
        self.assert_broken(f"{number}: has another body")

    def test_wrong_order(self) -> None:
        """Transactional messages that arrived in another order than they were sent in."""
        look = PromiseChecker._look_at_receipts

        def swapped(check: PromiseChecker, host: Host, queue: str) -> dict[int, int]:
            seen = look(check, host, queue)
            if host is self.beta and queue == PAYMENTS:
                one, other = sorted(seen)[:2]
                seen[one], seen[other] = seen[other], seen[one]
            return seen

        self.patch(PromiseChecker, "_look_at_receipts", swapped)
        self.assert_broken("not in order")

    def test_unsent(self) -> None:
        """A message that was refused when it was sent, and arrived."""
        self.world.batches[0].is_confirmed = False
        self.assert_broken("refused, but there")
