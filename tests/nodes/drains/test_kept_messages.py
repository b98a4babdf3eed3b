"""A drain keeps each message until its arrival is acknowledged."""

from __future__ import annotations

from typing import Any

from msmq.interfaces.drains import DrainSummary
from msmq.queues.arriving.message import Acknowledge, Delivery
from msmq.structures.names.path_name import parse_path_name
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.structures.status import MQError
from msmq.transfer.kept_arrivals import USED
from tests.nodes.drains.support import AT_ALPHA, AT_BETA, ORDERS, DrainTestCase

ACKS = "DIRECT=OS:ALPHA\\private$\\acks"
ROOM = 1 << 20
"""A quota that is not reached, in the unit of C{quota}."""

WAIT = 4 * 86400.0
"""The default of C{acknowledgement_wait}, in seconds."""


class KeptTestCase(DrainTestCase):
    """GAMMA has sent messages to ALPHA, which drains to BETA and gets acknowledgements in a queue."""

    def setUp(self) -> None:
        super().setUp()
        self.queue(self.alpha, "acks")

    def begin(self, destination: str = AT_BETA, **kwargs: Any) -> DrainSummary:
        kwargs.setdefault("acknowledge_to", ACKS)
        return self.run_to_end(self.alpha.service.drains.begin(ORDERS, destination, **kwargs))

    def stored(self, *bodies: bytes, **kwargs: Any) -> None:
        self.send(self.gamma, AT_ALPHA, *bodies, **{"delivery": Delivery.RECOVERABLE, **kwargs})
        self.clock.advance(5)

    @property
    def summary(self) -> DrainSummary:
        return self.alpha.service.drains.summary(ORDERS)

    @property
    def dead_letters(self) -> list[tuple[bytes, int]]:
        """Bodies and classes of the dead letters of ALPHA."""
        found = self.run_to_end(self.alpha.service.inspection.dead_letters())
        return [(bytes(place.message.view.body), place.message.view.message_class) for place in found]

    @property
    def waiting(self) -> int:
        """How many messages ALPHA keeps after the hand-over."""
        return self.alpha.model.collection.unproven.message_count

    def quota(self, size: int) -> None:
        """The queue of BETA takes so many bytes."""
        self.run_to_end(self.beta.service.set_queue(ORDERS, {"quota": size}))


class KeptTests(KeptTestCase):
    """What arrives, what is refused, and what is never acknowledged."""

    def test_arrival(self) -> None:
        """All arrive in order, nothing is kept after that, and there is no copy in the journal."""
        self.both()
        self.stored(*[b"%d" % number for number in range(600)])
        self.begin()
        self.clock.advance(20)
        self.assert_proven()
        self.assertEqual(self.bodies(self.beta, ORDERS), [b"%d" % number for number in range(600)])
        summary = self.summary
        self.assertEqual((summary.moved, summary.in_transit, summary.refused), (600, 0, 0))
        self.assertEqual((summary.condition, summary.acknowledge_to, self.waiting), ("running", ACKS, 0))
        self.assertEqual((self.dead_letters, self.bodies(self.alpha, ".\\system$;journal")), ([], []))

    def test_one_message_twice(self) -> None:
        """A message that a sender has sent twice, long after each other, is acknowledged once, and the drain
        does not wait for another acknowledgement.
        """
        self.both()
        self.stored(b"0", b"1", b"1")
        queue = self.alpha.model.find(parse_path_name(ORDERS))
        assert queue is not None, "it was created"
        [_, first, again] = queue.peek(3)
        assert first.view is not None and again.view is not None, "they are in memory"
        packet = again.view.packet
        again.view = UserMessageView(packet[:56] + first.view.packet[56:60] + packet[60:])
        # A private name has no address; a session that BETA has opened leads there.
        self.send(self.beta, "DIRECT=OS:ALPHA\\private$\\nowhere", b"x")
        self.clock.advance(1)
        self.begin(self.beta.service.inspection.queue(ORDERS).format_name)
        self.clock.advance(60)
        self.assertEqual(self.bodies(self.beta, ORDERS), [b"0", b"1"])
        self.assertEqual((self.summary.moved, self.summary.in_transit, self.waiting), (3, 0, 0))

    def test_refused_by_a_quota(self) -> None:
        """A message that the destination refuses is a dead letter here, and the others stay in the queue;
        they follow when the destination has room.
        """
        self.both()
        self.quota(0)
        self.stored(b"1", b"2", b"3")
        self.begin()
        self.clock.advance(20)
        self.assertEqual(self.dead_letters, [(b"1", MessageClass.NACK_Q_EXCEED_QUOTA)])
        summary = self.summary
        self.assertEqual((summary.remaining, summary.in_transit, summary.refused), (2, 0, 1))
        self.assertEqual(summary.condition, "waiting")
        self.assertIn("the last one with MQMSG_CLASS_NACK_Q_EXCEED_QUOTA", summary.reason)
        self.quota(ROOM)
        self.clock.advance(120)
        self.assertEqual(self.bodies(self.beta, ORDERS), [b"2", b"3"])
        self.assertEqual((self.summary.condition, self.summary.refused), ("running", 1))

    def test_last_message(self) -> None:
        """A drain does not wait any more when the message after a refusal has arrived, though it is the last
        one.
        """
        self.both()
        self.quota(0)
        self.stored(b"1", b"2")
        self.begin()
        self.clock.advance(20)
        self.assertEqual(self.summary.condition, "waiting")
        self.quota(ROOM)
        self.clock.advance(120)
        self.assertEqual(self.bodies(self.beta, ORDERS), [b"2"])
        self.assertEqual((self.summary.condition, self.summary.reason), ("running", ""))

    def test_no_such_queue(self) -> None:
        """A destination that does not say that the queue is missing gets one message, which stays here."""
        self.queue(self.alpha)
        self.stored(b"1", b"2", b"3")
        self.begin()
        self.clock.advance(20)
        summary = self.summary
        self.assertEqual((summary.remaining, summary.in_transit, self.waiting), (2, 1, 1))
        self.assertIn("has not acknowledged the arrival", summary.reason)
        self.queue(self.beta, log=True)
        self.clock.advance(601)
        self.clock.advance(20)
        self.assertEqual(self.bodies(self.beta, ORDERS), [b"2", b"3"])
        self.assertEqual((self.dead_letters, self.waiting, self.summary.condition), ([], 1, "running"))
        self.clock.advance(WAIT + 60)
        self.assertEqual(self.dead_letters, [(b"1", MessageClass.NACK_REACH_QUEUE_TIMEOUT)])
        self.assertEqual((self.summary.refused, self.summary.in_transit), (1, 0))

    def test_express_messages(self) -> None:
        """Express messages are kept like others, as long as the process lives."""
        self.both()
        self.quota(0)
        self.stored(b"1", delivery=Delivery.EXPRESS)
        self.begin()
        self.clock.advance(20)
        self.assertEqual(self.dead_letters, [(b"1", MessageClass.NACK_Q_EXCEED_QUOTA)])

    def test_identifiers_of_others(self) -> None:
        """A message that keeps the identifier of its sender is kept likewise, arrived or refused."""
        self.both()
        # A private name has no address; a session that BETA has opened leads there.
        self.send(self.beta, "DIRECT=OS:ALPHA\\private$\\nowhere", b"x")
        self.clock.advance(1)
        self.stored(b"1", b"2")
        [first, second] = self.run_to_end(self.alpha.service.inspection.browse(ORDERS)).messages
        name = self.beta.service.inspection.queue(ORDERS).format_name
        self.quota(0)
        self.begin(name)
        self.clock.advance(20)
        [place] = self.run_to_end(self.alpha.service.inspection.dead_letters())
        self.assertEqual(place.message.view.identifier, first.view.identifier)
        explained = self.run_to_end(self.alpha.service.inspection.explain(first.view.identifier))
        self.assertIn("failed", [event.event for event in explained.events])
        self.quota(ROOM)
        self.clock.advance(120)
        [taken] = self.take(self.beta, ORDERS)
        self.assertEqual(taken.identifier, second.view.identifier)
        self.assertEqual((self.waiting, self.summary.in_transit), (0, 0))

    def test_receipts(self) -> None:
        """A message whose sender requests the acknowledgement of receipt keeps its administration queue; it
        does not hold back others, and is not kept.
        """
        self.both()
        answers = self.queue(self.gamma, "acks")
        self.stored(
            *[b"%d" % number for number in range(300)],
            acknowledge=Acknowledge.POSITIVE_RECEIVE,
            admin_queue="DIRECT=OS:GAMMA\\private$\\acks",
        )
        self.begin()
        self.clock.advance(5)
        self.assertEqual(len(self.take(self.beta, ORDERS)), 300)
        self.clock.advance(5)
        self.assertEqual({view.message_class for view in self.take(self.gamma, answers)}, {0x4000})
        self.assertEqual(self.waiting, 0)

    def test_no_queue_for_acknowledgements(self) -> None:
        """When the queue for acknowledgements is deleted, nothing leaves, and what has left is not lost."""
        self.both()
        self.begin()
        self.stored(b"1")
        self.assertEqual(self.bodies(self.beta, ORDERS), [b"1"])
        self.run_to_end(self.alpha.service.delete_queue(".\\private$\\acks"))
        self.stored(b"2")
        self.assertEqual(self.summary.remaining, 1)
        self.assertIn(
            f"{ACKS} gets the acknowledgements of this drain, and does not exist", self.summary.reason
        )
        self.queue(self.alpha, "acks")
        self.clock.advance(20)
        self.assertEqual(self.bodies(self.beta, ORDERS), [b"2"])

    def test_deleted_meanwhile(self) -> None:
        """When that queue is deleted while a message is in transit, the message is kept to the end."""
        self.both()
        self.beta.deaf()
        self.stored(b"1")
        self.begin()
        self.clock.advance(5)
        self.run_to_end(self.alpha.service.delete_queue(".\\private$\\acks"))
        self.beta.listen()
        self.clock.advance(120)
        self.assertEqual((self.bodies(self.beta, ORDERS), self.waiting), ([b"1"], 1))
        self.clock.advance(WAIT + 60)
        self.assertEqual(self.dead_letters, [(b"1", MessageClass.NACK_REACH_QUEUE_TIMEOUT)])

    def test_kept_after_the_end(self) -> None:
        """What is in transit at the end of a drain is kept all the same, also after a restart."""
        self.both()
        self.quota(0)
        self.beta.deaf()
        self.stored(b"1")
        self.begin()
        self.clock.advance(5)
        self.run_to_end(self.alpha.service.drains.end(ORDERS))
        self.restart()
        self.beta.listen()
        self.clock.advance(120)
        self.assertEqual(self.dead_letters, [(b"1", MessageClass.NACK_Q_EXCEED_QUOTA)])
        self.assertIn(USED, self.stores["ALPHA"].names())
        self.restart()
        self.clock.advance(1)
        self.assertNotIn(USED, self.stores["ALPHA"].names())

    def test_begun_after_a_failure(self) -> None:
        """A drain that could not be stored at first keeps messages as any other, also after a restart."""
        self.both()
        self.quota(0)
        self.stores["ALPHA"].fail_commit(1)
        beginning = self.alpha.service.drains.begin(ORDERS, AT_BETA, acknowledge_to=ACKS)
        self.failureResultOf(self.deferred(beginning), MQError)
        self.stores["ALPHA"].recover()
        self.begin()
        self.beta.deaf()
        self.stored(b"1")
        self.restart()
        self.beta.listen()
        self.clock.advance(120)
        self.assertEqual(self.dead_letters, [(b"1", MessageClass.NACK_Q_EXCEED_QUOTA)])


class RefusedOptionTests(KeptTestCase):
    """Queues that cannot get the acknowledgements."""

    def refusal(self, acknowledge_to: str) -> str:
        drains = self.alpha.service.drains
        failed = self.failureResultOf(
            self.deferred(drains.begin(ORDERS, AT_BETA, acknowledge_to=acknowledge_to)), MQError
        )
        return str(failed.value)

    def test_refusals(self) -> None:
        """It has to be another queue of this queue manager, not transactional; and options do not change."""
        self.both()
        self.queue(self.alpha, "tx", transactional=True)
        self.assertIn("no queue of this queue manager", self.refusal("DIRECT=OS:BETA\\private$\\acks"))
        self.assertIn("no queue of this queue manager", self.refusal("DIRECT=OS:ALPHA\\private$\\none"))
        self.assertIn("MQ_ERROR", self.refusal(".\\private$\\acks"))
        for name in (AT_ALPHA, "DIRECT=OS:ALPHA\\private$\\tx", "DIRECT=OS:ALPHA\\system$;deadletter"):
            self.assertIn("MQ_ERROR_INVALID_PARAMETER", self.refusal(name))
        self.begin(acknowledge_to=None)
        self.assertIn("with other options; end that first", self.refusal(ACKS))

    def test_transactional_queues(self) -> None:
        """A transactional queue needs none."""
        self.both(transactional=True)
        self.assertIn("FinalAcks", self.refusal(ACKS))
