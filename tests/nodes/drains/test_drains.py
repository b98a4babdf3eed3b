"""A drain moves what is in a queue and what arrives, and counts exactly what it has moved."""

from __future__ import annotations

import contextlib
from collections.abc import Coroutine
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import capturedLogs, formatEvent

from msmq.interfaces.drains import DrainSummary
from msmq.persistence.changes import AppendEvent
from msmq.queues import available_positions, ordered_positions, packed_positions
from msmq.queues import queue as queue_module
from msmq.queues.arriving.message import Acknowledge, Delivery, Message
from msmq.queues.machine_quota import QuotaKind
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.user_message_rewrites import patch_message_class
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.structures.status import MQError
from tests.manager.support import BROKEN
from tests.nodes.drains.support import AT_ALPHA, AT_BETA, ORDERS, DrainTestCase

RECOVERABLE = Delivery.RECOVERABLE


class DrainTests(DrainTestCase):
    """GAMMA sends to ALPHA, which drains to BETA."""

    def test_present_and_later_messages(self) -> None:
        """What is in the queue is moved, and then what senders go on to send to the old name."""
        self.both()
        self.stored_views(b"1", b"2", delivery=RECOVERABLE)
        self.begin()
        self.clock.advance(5)
        self.send(self.gamma, AT_ALPHA, b"3", delivery=RECOVERABLE)
        self.clock.advance(5)
        self.assertEqual(self.alpha.service.inspection.queue(ORDERS).messages, 0)
        self.assert_proven()
        self.assertEqual(self.bodies(self.beta, ORDERS), [b"1", b"2", b"3"])
        summary = self.alpha.service.drains.summary(ORDERS)
        self.assertEqual((summary.moved, summary.remaining, summary.in_transit), (3, 0, 0))

    def test_begun_twice_at_once(self) -> None:
        """Two operators begin the same drain at the same time, then one ends it while the other begins it:
        each is answered for the one drain there is, and nothing is counted twice or forgotten.
        """
        self.both()
        drains = self.alpha.service.drains
        store = self.stores["ALPHA"]

        def at_once(*steps: Coroutine[Deferred[Any], Any, DrainSummary]) -> list[DrainSummary]:
            store.is_slow = True
            done = [Deferred.fromCoroutine(step) for step in steps]
            while store.is_busy:
                store.finish(1)
            store.is_slow = False
            return [self.successResultOf(each) for each in done]

        first, second = at_once(drains.begin(ORDERS, AT_BETA), drains.begin(ORDERS, AT_BETA))
        self.assertEqual(first, second)
        self.stored_views(b"1", b"2", delivery=RECOVERABLE)
        self.assertEqual(drains.summary(ORDERS).moved, 2)
        self.assert_proven()
        ended, begun = at_once(drains.end(ORDERS), drains.begin(ORDERS, AT_BETA))
        self.assertEqual((ended.moved, begun.moved), (2, 0))
        self.stored_views(b"3", delivery=RECOVERABLE)
        self.assertEqual(drains.summary(ORDERS).moved, 1)
        self.assertEqual(self.bodies(self.beta, ORDERS), [b"1", b"2", b"3"])

    def test_properties(self) -> None:
        """A message arrives with its sent time and its properties; to a direct name it has a new identifier,
        which the event log shows under the old one.
        """
        self.both()
        answers = "DIRECT=OS:GAMMA\\private$\\answers"
        [before] = self.stored_views(
            b"body",
            label="a label",
            delivery=RECOVERABLE,
            response_queue=answers,
            correlation_id=bytes(range(20)),
            application_tag=7,
            extension=b"ext",
            priority=6,
            message_class=0xE123,
        )
        self.begin()
        self.clock.advance(5)
        [view] = self.take(self.beta, ORDERS)
        for name in (
            "sent_time",
            "label",
            "priority",
            "correlation_id",
            "application_tag",
            "message_class",
        ):
            self.assertEqual(getattr(view, name), getattr(before, name), name)
        self.assertEqual((bytes(view.body), bytes(view.extension)), (b"body", b"ext"))
        self.assertEqual(str(view.response_format_name()), answers)
        explained = self.run_to_end(self.alpha.service.inspection.explain(before.identifier))
        reasons = [event.reason for event in explained.events if event.event == "drained"]
        self.assertEqual(reasons, [f"sent to {AT_BETA} as {view.identifier}"])

    def test_a_class_that_no_application_may_send(self) -> None:
        """A message of a peer with any class is moved as it is, and does not stop the drain."""
        self.both()
        self.alpha.deaf()
        self.send(self.gamma, AT_ALPHA, b"1", b"2")
        [queue] = self.gamma.service.model.outgoing_queues()
        for position in queue.peek(1):
            assert position.view is not None, "an express message is in memory"
            position.view = UserMessageView(patch_message_class(position.view, 0x1E00))
        self.alpha.listen()
        self.clock.advance(100)
        self.begin()
        self.clock.advance(10)
        classes = [(bytes(view.body), view.message_class) for view in self.take(self.beta, ORDERS)]
        self.assertEqual(classes, [(b"1", 0x1E00), (b"2", 0)])

    def test_identifiers_are_kept(self) -> None:
        """To a private name, messages that are not transactional are moved with their identifiers, as a
        router would do it: so an answer finds its request.
        """
        self.both()
        # A private name has no address; a session that BETA has opened leads there.
        self.send(self.beta, "DIRECT=OS:ALPHA\\private$\\nowhere", b"x")
        self.clock.advance(1)
        views = self.stored_views(b"1", delivery=RECOVERABLE) + self.stored_views(b"2")[1:]
        name = self.beta.service.inspection.queue(ORDERS).format_name
        self.run_to_end(self.alpha.service.drains.begin(ORDERS, name))
        self.clock.advance(5)
        self.assert_proven()
        taken = self.take(self.beta, ORDERS)
        self.assertEqual([view.identifier for view in taken], [view.identifier for view in views])

    def test_express_messages(self) -> None:
        """Express messages are moved in order of priority."""
        self.both()
        self.stored_views(b"low", priority=0)
        self.stored_views(b"high", priority=7)
        self.begin()
        self.clock.advance(5)
        self.assert_proven()
        taken = self.take(self.beta, ORDERS)
        self.assertEqual([bytes(view.body) for view in taken], [b"high", b"low"])

    def test_transactional_messages(self) -> None:
        """Transactional messages are sent in order in a sequence of the draining queue manager; the event log
        has the new identifier of each.
        """
        self.both(transactional=True)
        bodies = [b"%d" % number for number in range(600)]
        before = self.stored_views(*bodies, transactional=True)
        self.begin()
        self.clock.advance(60)
        self.assert_proven()
        self.assertEqual(self.bodies(self.beta, ORDERS), bodies)
        new = self.alpha.service.drains.identifiers(ORDERS, 599)
        explained = self.run_to_end(self.alpha.service.inspection.explain(before[599].identifier))
        self.assertEqual(
            [(event.event, event.reason) for event in explained.events],
            [("drained", f"sent to {AT_BETA} as {new[0]}")],
        )

    def test_no_receipt_is_claimed(self) -> None:
        """The receipt of a moved message is acknowledged when an application has received it, and not
        before; its arrival is not acknowledged twice, and no journal copy is made.
        """
        self.queue(self.alpha, journal=True)
        self.queue(self.beta, log=True)
        answers = self.queue(self.gamma, "acks")
        self.stored_views(
            b"1",
            delivery=RECOVERABLE,
            acknowledge=Acknowledge.POSITIVE_ARRIVAL | Acknowledge.POSITIVE_RECEIVE,
            admin_queue="DIRECT=OS:GAMMA\\private$\\acks",
        )
        self.begin()
        self.clock.advance(5)
        self.assertEqual(self.alpha.service.inspection.queue(ORDERS).journal_messages, 0)
        [arrival] = self.take(self.gamma, answers)
        self.assertEqual(arrival.message_class, MessageClass.ACK_REACH_QUEUE)
        [moved] = self.take(self.beta, ORDERS)
        self.clock.advance(5)
        [receipt] = self.take(self.gamma, answers)
        self.assertEqual(receipt.message_class, MessageClass.ACK_RECEIVE)
        self.assertEqual(receipt.correlation_id, moved.identity)

    def test_senders_of_transactions_are_answered(self) -> None:
        """A sender that keeps transactional messages until their result is known keeps them no longer."""
        self.both(transactional=True)
        self.stored_views(b"1", transactional=True, dead_letter=True)
        waiting = self.gamma.model.collection.awaiting
        self.assertEqual(waiting.message_count, 1, "the sender waits for the result")
        self.begin()
        self.clock.advance(30)
        self.assertEqual(waiting.message_count, 0)
        self.assertEqual(self.run_to_end(self.gamma.service.inspection.dead_letters()), [])

    def test_end(self) -> None:
        """After the end of a drain messages stay, also after a restart."""
        self.both()
        self.stored_views(b"1", delivery=RECOVERABLE)
        self.begin()
        self.clock.advance(5)
        final = self.run_to_end(self.alpha.service.drains.end(ORDERS))
        self.assertEqual(final.moved, 1)
        self.restart()
        self.send(self.gamma, AT_ALPHA, b"2", delivery=RECOVERABLE)
        self.clock.advance(120)
        self.assertEqual(self.bodies(self.alpha, ORDERS), [b"2"])
        self.assertEqual(self.alpha.service.drains.summaries(), [])
        self.assertRaises(MQError, self.alpha.service.drains.summary, ORDERS)

    def test_nothing_is_received(self) -> None:
        """What a drain moves does not count as received, by which an operator sees a reader that is left."""
        for is_transactional in (False, True):
            name = f"drained{is_transactional}"
            path = self.queue(self.alpha, name, transactional=is_transactional)
            self.queue(self.beta, name, transactional=is_transactional)
            self.send(self.alpha, path, b"1", b"2", delivery=RECOVERABLE, transactional=is_transactional)
            self.run_to_end(self.alpha.service.receive(path))
            self.run_to_end(self.alpha.service.drains.begin(path, f"DIRECT=OS:BETA\\private$\\{name}"))
            self.clock.advance(5)
            self.assertEqual(self.alpha.service.drains.summary(path).moved, 1)
            self.assertEqual(self.alpha.service.inspection.queue(path).received_total, 1)

    def test_destination_away(self) -> None:
        """While the destination is away, only so many messages leave the queue; all arrive later."""
        self.both()
        self.beta.deaf()
        self.stored_views(*[b"%d" % number for number in range(5000)], delivery=RECOVERABLE)
        self.begin()
        self.clock.advance(5)
        summary = self.alpha.service.drains.summary(ORDERS)
        self.assertLess(summary.moved, 4096 + 256)
        self.assertEqual(summary.remaining, 5000 - summary.moved)
        self.assertEqual(summary.in_transit, summary.moved)
        self.beta.listen()
        for _ in range(30):
            self.clock.advance(10)
        self.assertEqual(self.beta.service.inspection.queue(ORDERS).messages, 5000)
        self.assertEqual(self.alpha.service.drains.summary(ORDERS).in_transit, 0)

    def test_failing_store(self) -> None:
        """The metric of events counts a message that is moved once, however often that is tried."""
        store = self.stores["ALPHA"]
        for is_transactional in (False, True):
            name = f".\\private$\\failing{is_transactional}"
            there = AT_BETA.replace("orders", f"failing{is_transactional}")
            for node in (self.alpha, self.beta):
                self.run_to_end(node.service.create_queue(name, transactional=is_transactional))
            self.run_to_end(self.alpha.service.drains.begin(name, there))
            store.error, store.is_hit = (
                BROKEN,
                lambda changes: any(isinstance(change, AppendEvent) for change in changes),
            )
            message = Message(body=b"1", delivery=RECOVERABLE, transactional=is_transactional)
            self.run_to_end(self.alpha.service.send(name, [message]))
            self.clock.advance(30)
            self.assertEqual(self.alpha.service.drains.summary(name).moved, 0)
            store.recover()
            self.clock.advance(30)
            self.assertEqual(self.alpha.service.drains.summary(name).moved, 1)
        self.assertEqual(self.alpha.service.inspection.measurements.events()["drained"], 2)

    def test_full_queue_manager(self) -> None:
        """A queue manager whose quota is used up, or was lowered since, can be drained: a message replaces
        the one that leaves.
        """
        for is_transactional in (False, True):
            self.restart(quota=64)
            self.run_to_end(self.alpha.service.set_quotas({QuotaKind.QUEUES: None}))
            name = f".\\private$\\full{is_transactional}"
            there = AT_BETA.replace("orders", f"full{is_transactional}")
            self.run_to_end(self.beta.service.create_queue(name, transactional=is_transactional))
            self.run_to_end(self.alpha.service.create_queue(name, transactional=is_transactional))
            number = 0
            message = Message(body=bytes(1000), delivery=RECOVERABLE, transactional=is_transactional)
            with contextlib.suppress(self.failureException):
                while True:
                    self.run_to_end(self.alpha.service.send(name, [message]))
                    number += 1
            self.assertGreater(number, 40)
            self.run_to_end(self.alpha.service.set_quotas({QuotaKind.QUEUES: 16}))
            self.run_to_end(self.alpha.service.drains.begin(name, there))
            self.clock.advance(60)
            self.assertEqual(self.alpha.service.drains.summary(name).moved, number)
            self.assertEqual(len(self.bodies(self.beta, name)), number)

    def test_dead_letters(self) -> None:
        """A message that cannot be delivered from here becomes a dead letter here."""
        self.both()
        self.beta.deaf()
        self.stored_views(b"1", delivery=RECOVERABLE)
        self.begin()
        self.clock.advance(5)
        self.run_to_end(self.alpha.service.purge_outgoing(AT_BETA))
        [place] = self.run_to_end(self.alpha.service.inspection.dead_letters())
        self.assertEqual(bytes(place.message.view.body), b"1")

    def test_dead_letters_of_others(self) -> None:
        """The same for one that keeps the identifier that its sender gave it."""
        self.both()
        name = self.beta.service.inspection.queue(ORDERS).format_name
        [view] = self.stored_views(b"1", delivery=RECOVERABLE)
        self.run_to_end(self.alpha.service.drains.begin(ORDERS, name))
        self.clock.advance(5)
        self.run_to_end(self.alpha.service.purge_outgoing(name))
        [place] = self.run_to_end(self.alpha.service.inspection.dead_letters())
        self.assertEqual(place.message.view.identifier, view.identifier)

    def test_readers_meanwhile(self) -> None:
        """A reader at the old queue manager and the drain share the messages: each has one of them once."""
        self.both()
        reading = self.deferred(self.alpha.service.reserve(ORDERS, count=2))
        self.begin()
        self.send(self.gamma, AT_ALPHA, *[b"%d" % number for number in range(10)], delivery=RECOVERABLE)
        self.clock.advance(5)
        reservation = self.successResultOf(reading)
        self.run_to_end(reservation.confirm())
        received = [bytes(message.view.body) for message in reservation.messages]
        moved = self.bodies(self.beta, ORDERS)
        self.assertEqual(sorted(received + moved), [b"%d" % number for number in range(10)])

    def test_paused_queue(self) -> None:
        """A queue that is paused for its readers is drained, what is there and what arrives."""
        self.both()
        self.stored_views(b"1", delivery=RECOVERABLE)
        self.run_to_end(self.alpha.service.pause_queue(ORDERS))
        self.begin()
        self.clock.advance(5)
        self.send(self.gamma, AT_ALPHA, b"2", delivery=RECOVERABLE)
        self.clock.advance(5)
        self.assertEqual(self.bodies(self.beta, ORDERS), [b"1", b"2"])

    def test_deleted_queue(self) -> None:
        """The deletion of a queue ends its drain, whose record the store does not keep: the next start logs
        nothing about it.
        """
        self.both()
        self.begin()
        self.run_to_end(self.alpha.service.delete_queue(ORDERS))
        self.clock.advance(10)
        with capturedLogs() as events:
            self.restart()
        self.assertEqual([each for each in map(formatEvent, events) if "drain" in each], [])
        self.assertEqual(self.alpha.service.drains.summaries(), [])


class PackedDrainTests(DrainTestCase):
    """A queue with more messages than memory has packets for."""

    def setUp(self) -> None:
        for module in (ordered_positions, available_positions, queue_module):
            self.patch(module, "CHUNK_LENGTH", 4)
        self.patch(packed_positions, "SHORTEST", 2)
        super().setUp()

    def test_order(self) -> None:
        """Messages that are packed while a batch is read are not passed by others of the batch."""
        store = self.stores["ALPHA"]
        self.restart(packet_memory=700)
        self.both(transactional=True)
        sent = [b"%d" % number for number in range(40)]
        for body in sent[:6]:
            self.send(self.alpha, ORDERS, body, transactional=True)
        # Memory has the packets of four: of the first ones, and then of two after the next two.
        self.assertEqual(self.take_some(2), sent[:2])
        for body in sent[6:]:
            self.send(self.alpha, ORDERS, body, transactional=True)
        store.is_slow = True
        beginning = self.deferred(self.alpha.service.drains.begin(ORDERS, AT_BETA))
        store.finish(1)
        self.successResultOf(beginning)
        browsing = [self.deferred(self.alpha.service.inspection.browse(ORDERS, count=1)) for _ in range(9)]
        store.catch_up()
        for browsed in browsing:
            self.successResultOf(browsed)
        self.clock.advance(9)
        self.assertEqual(self.bodies(self.beta, ORDERS), sent[2:])

    def take_some(self, count: int) -> list[bytes]:
        """Receive the first messages of ALPHA's queue."""
        return [bytes(view.body) for view in self.take(self.alpha, ORDERS, count)]
