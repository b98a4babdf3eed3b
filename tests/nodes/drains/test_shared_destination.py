"""Two queues are drained to one destination: the end of one drain leaves the other as it is."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from msmq.queues.arriving.message import Delivery, Message
from msmq.structures.status import MQError
from tests.nodes.drains.support import AT_ALPHA, AT_BETA, ORDERS, DrainTestCase

OTHER = ".\\private$\\other"
AT_OTHER = "DIRECT=OS:ALPHA\\private$\\other"
ACKS = "DIRECT=OS:ALPHA\\private$\\acks"


class SharedDestinationTests(DrainTestCase):
    """GAMMA sends to two queues of ALPHA, which drains both to one queue of BETA."""

    def queues(self, **kwargs: Any) -> None:
        """Both queues, that of BETA, and one for acknowledgements."""
        self.both(**kwargs)
        self.queue(self.alpha, "other", **kwargs)
        self.queue(self.alpha, "acks")

    def sent(self, name: str, *bodies: bytes, **kwargs: Any) -> None:
        self.send(self.gamma, name, *bodies, **{"delivery": Delivery.RECOVERABLE, **kwargs})
        self.clock.advance(5)

    def drain(self, queue: str, **kwargs: Any) -> None:
        self.run_to_end(self.alpha.service.drains.begin(queue, AT_BETA, **kwargs))

    def end(self, queue: str) -> None:
        self.run_to_end(self.alpha.service.drains.end(queue))

    def left(self, queue: str) -> list[bytes]:
        """The bodies of the messages of a queue of ALPHA."""
        page = self.run_to_end(self.alpha.service.inspection.browse(queue, count=1000))
        return [bytes(message.view.body) for message in page.messages]

    def check_one_ends(
        self, is_transactional: bool = False, is_restarted: bool = False, **kwargs: Any
    ) -> None:
        """End the first drain while messages of both are in transit; the other one continues."""
        tx = {"transactional": True} if is_transactional else {}
        self.queues(**tx)
        self.beta.deaf()
        self.sent(AT_ALPHA, b"a1", b"a2", **tx)
        self.sent(AT_OTHER, b"b1", b"b2", **tx)
        self.drain(ORDERS, **kwargs)
        self.drain(OTHER, **kwargs)
        self.clock.advance(5)
        self.end(ORDERS)
        if is_restarted:
            self.restart()
        self.sent(AT_ALPHA, b"a3", **tx)
        self.sent(AT_OTHER, b"b3", **tx)
        self.beta.listen()
        self.clock.advance(300)
        arrived = self.bodies(self.beta, ORDERS)
        left = self.left(ORDERS)
        self.assertEqual(self.left(OTHER), [])
        self.assertIn(b"a3", left)
        self.assertEqual(sorted([*arrived, *left]), [b"a1", b"a2", b"a3", b"b1", b"b2", b"b3"])
        self.assertEqual([each for each in arrived if each.startswith(b"b")], [b"b1", b"b2", b"b3"])
        summary = self.alpha.service.drains.summary(OTHER)
        self.assertEqual((summary.condition, summary.moved, summary.remaining), ("running", 3, 0))
        self.assertEqual(summary.in_transit, 0)
        self.assertEqual(self.run_to_end(self.alpha.service.inspection.dead_letters()), [])
        # The first one is begun again, and has what is left.
        self.drain(ORDERS, **kwargs)
        self.clock.advance(120)
        self.assertEqual((self.left(ORDERS), sorted(self.bodies(self.beta, ORDERS))), ([], sorted(left)))

    def test_recoverable_messages(self) -> None:
        """Nothing is lost, doubled or stopped."""
        self.check_one_ends()

    def test_kept_messages(self) -> None:
        """The same with messages that are kept until their arrival is acknowledged."""
        self.check_one_ends(acknowledge_to=ACKS)

    def test_transactional_messages(self) -> None:
        """The same with streams of transactions."""
        self.check_one_ends(is_transactional=True)

    def test_restart(self) -> None:
        """The same over a restart of ALPHA."""
        self.check_one_ends(is_restarted=True, acknowledge_to=ACKS)

    def test_queue_of_the_other_is_deleted(self) -> None:
        """A drain whose queue is deleted ends alone."""
        self.queues()
        self.drain(ORDERS, acknowledge_to=ACKS)
        self.drain(OTHER, acknowledge_to=ACKS)
        self.sent(AT_ALPHA, b"a1")
        self.run_to_end(self.alpha.service.delete_queue(ORDERS))
        self.sent(AT_OTHER, b"b1", b"b2")
        self.clock.advance(60)
        self.assertEqual(self.bodies(self.beta, ORDERS), [b"a1", b"b1", b"b2"])
        [summary] = self.alpha.service.drains.summaries()
        self.assertEqual((summary.queue, summary.in_transit), (OTHER, 0))

    def check_deletion(self, message: Message, **kwargs: Any) -> None:
        """Delete a queue while a message of it is moved, and look at the drains meanwhile."""
        self.queues(**kwargs)
        self.drain(ORDERS)
        store = self.stores["ALPHA"]
        store.is_slow = True
        sending = self.deferred(self.alpha.service.send(ORDERS, [message]))
        store.finish(1)
        self.successResultOf(sending)
        self.clock.advance(0)
        self.assertTrue(store.is_busy)
        deleting = self.deferred(self.alpha.service.delete_queue(ORDERS))
        self.assertEqual(self.alpha.service.drains.summaries(), [])
        store.catch_up()
        self.clock.advance(10)
        self.successResultOf(deleting)
        self.assertEqual([name for name in store.names() if name.startswith("drain")], [])

    def test_deletion_while_a_message_is_moved(self) -> None:
        """Nothing of the drain stays in the store."""
        self.check_deletion(Message(body=b"1", delivery=Delivery.RECOVERABLE))

    def test_deletion_while_a_transactional_message_is_moved(self) -> None:
        """Nothing of the drain stays in the store."""
        self.check_deletion(Message(body=b"1", transactional=True), transactional=True)

    def test_end_that_is_not_stored(self) -> None:
        """A drain whose end the store refuses says so, and goes on when begun; the other one goes on."""
        self.queues()
        self.drain(ORDERS)
        self.drain(OTHER)
        self.stores["ALPHA"].fail_commit(1)
        ending = Deferred.fromCoroutine(self.alpha.service.drains.end(ORDERS))
        self.clock.advance(1)
        self.failureResultOf(ending, MQError)
        self.stores["ALPHA"].recover()
        self.sent(AT_ALPHA, b"a1")
        self.sent(AT_OTHER, b"b1")
        self.clock.advance(60)
        self.assertEqual((self.bodies(self.beta, ORDERS), self.left(ORDERS)), ([b"b1"], [b"a1"]))
        summary = self.alpha.service.drains.summary(ORDERS)
        self.assertEqual(summary.condition, "waiting")
        self.assertIn("its end is not stored; end it again, or begin it to go on", summary.reason)
        self.drain(ORDERS)
        self.clock.advance(60)
        self.assertEqual(self.bodies(self.beta, ORDERS), [b"a1"])
        self.assertEqual(self.alpha.service.drains.summary(ORDERS).condition, "running")
        self.end(ORDERS)
        self.assertEqual([each.queue for each in self.alpha.service.drains.summaries()], [OTHER])
