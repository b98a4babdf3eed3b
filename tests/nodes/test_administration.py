"""Queues that are purged, and that get other properties, while messages come and go."""

from __future__ import annotations

import attrs

from msmq.queues.arriving.message import Acknowledge, Delivery, Message
from msmq.structures.names.format_name import parse_format_name
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.status import MQError, Status
from tests.control.support import Disk
from tests.nodes.support import Node, NodesTestCase

ADMIN = parse_format_name("DIRECT=TCP:127.0.0.2\\private$\\admin")


class ManagingTestCase(NodesTestCase):
    """ALPHA has a queue C{orders}, an administration queue, and a disk that may fail."""

    def setUp(self) -> None:
        super().setUp()
        self.path = self.queue(self.alpha)
        self.admin = self.queue(self.alpha, "admin")
        assert isinstance(self.alpha.store, Disk)
        self.disk = self.alpha.store

    def node(self, name: str, identifier: object, **kwargs: object) -> Node:
        return super().node(name, identifier, store=Disk(), **kwargs)  # type: ignore[arg-type]

    def put(self, *bodies: bytes, acknowledge: Acknowledge = Acknowledge.NONE) -> None:
        """Have recoverable messages in the queue."""
        messages = [
            Message(
                body=body,
                delivery=Delivery.RECOVERABLE,
                acknowledge=acknowledge,
                admin_queue=ADMIN if acknowledge else None,
            )
            for body in bodies
        ]
        self.run_to_end(self.alpha.service.send(self.path, messages))

    def refusal(self, status: Status, queue: str | None = None, **properties: object) -> None:
        """These properties are refused."""
        setting = self.deferred(self.alpha.service.set_queue(queue or self.path, properties))
        self.assertEqual(self.failureResultOf(setting, MQError).value.status, status)


class PurgeTests(ManagingTestCase):
    """L{QueueManagerService.purge_queue}."""

    def test_purge(self) -> None:
        """The queue is empty, its senders get NACK_Q_PURGED if they asked, and the answer is how many.

        MQMQ-2.2.18.1.6-18, MQDMPR-3.1.1.12-34.
        """
        self.put(b"1", b"2")
        self.put(b"3", acknowledge=Acknowledge.NEGATIVE_RECEIVE)
        self.put(b"4", acknowledge=Acknowledge.POSITIVE_RECEIVE)
        self.assertEqual(self.run_to_end(self.alpha.service.purge_queue(self.path)), 4)
        self.assertEqual(self.alpha.service.inspection.queue(self.path).messages, 0)
        [answer] = self.take(self.alpha, self.admin)
        self.assertEqual((answer.message_class, bytes(answer.body)), (MessageClass.NACK_Q_PURGED, b"3"))
        self.assertEqual(self.run_to_end(self.alpha.service.purge_queue(self.path)), 0)

    def test_messages_that_a_reader_holds(self) -> None:
        """What the reader confirms was received, and its sender need not send it again; what it returns was
        purged (reading 27).
        """
        asked = Acknowledge.NEGATIVE_RECEIVE | Acknowledge.POSITIVE_RECEIVE
        self.put(b"confirmed", b"given back", acknowledge=asked)
        first = self.run_to_end(self.alpha.service.reserve(self.path, timeout=0))
        second = self.run_to_end(self.alpha.service.reserve(self.path, timeout=0))
        self.assertEqual(self.run_to_end(self.alpha.service.purge_queue(self.path)), 0)
        self.assertEqual(self.alpha.service.inspection.queue(self.path).messages, 2)
        self.run_to_end(first.confirm())
        second.release()
        self.assertEqual(self.alpha.service.inspection.queue(self.path).messages, 0)
        answers = self.take(self.alpha, self.admin)
        self.assertEqual(
            [(bytes(view.body), view.message_class) for view in answers],
            [(b"", MessageClass.ACK_RECEIVE), (b"given back", MessageClass.NACK_Q_PURGED)],
        )

    def test_very_many(self) -> None:
        """They leave in slices, between which messages come in, and those stay."""
        self.send(self.alpha, self.path, *[b""] * 1000)
        purging = self.deferred(self.alpha.service.purge_queue(self.path))
        self.assertNoResult(purging)
        self.send(self.alpha, self.path, b"new", priority=7)
        self.clock.advance(0)
        self.assertEqual(self.successResultOf(purging), 1000)
        self.assertEqual(self.bodies(self.alpha, self.path), [b"new"])

    def test_the_store_fails(self) -> None:
        """The purge fails with an error, and the messages are in the queue again."""
        self.put(b"1", b"2")
        self.disk.is_broken = True
        purging = self.deferred(self.alpha.service.purge_queue(self.path))
        failure = self.failureResultOf(purging, MQError)
        self.assertEqual(failure.value.status, Status.MQ_ERROR_MESSAGE_STORAGE_FAILED)
        self.disk.is_broken = False
        self.assertEqual(self.bodies(self.alpha, self.path), [b"1", b"2"])

    def test_a_purge_that_is_given_up(self) -> None:
        """No message is lost by a cancelled purge."""
        self.send(self.alpha, self.path, *[b"x"] * 1000)
        purging = self.deferred(self.alpha.service.purge_queue(self.path))
        purging.cancel()
        self.failureResultOf(purging)
        left = self.alpha.service.inspection.queue(self.path).messages
        self.assertEqual(self.bodies(self.alpha, self.path), [b"x"] * left)
        self.assertTrue(0 < left < 1000, left)


class SetTests(ManagingTestCase):
    """L{QueueManagerService.set_queue}."""

    def test_set(self) -> None:
        """The given properties change, and are returned; the others stay."""
        before = self.alpha.service.inspection.queue(self.path)
        after = self.run_to_end(
            self.alpha.service.set_queue(
                self.path,
                {
                    "label": "Orders",
                    "quota": 10,
                    "journal": True,
                    "log": True,
                    "authenticate": True,
                    "privacy": "body",
                },
            )
        )
        shown, former = attrs.asdict(after), attrs.asdict(before)
        changed = {name: shown[name] for name in shown if shown[name] != former[name]}
        self.assertEqual(
            changed,
            {
                "label": "Orders",
                "quota": 10,
                "journal": True,
                "log": True,
                "authenticate": True,
                "privacy": "body",
            },
        )
        after = self.run_to_end(self.alpha.service.set_queue(self.path, {"quota": None}))
        self.assertEqual((after.quota, after.label), (None, "Orders"))

    def test_it_survives_a_restart(self) -> None:
        """The new properties are stored, those of the messages aside."""
        self.put(b"stays")
        self.run_to_end(self.alpha.service.set_queue(self.path, {"label": "Orders"}))
        self.successResultOf(self.alpha.service.stopService())
        again = Node(self.network, self.clock, "GAMMA", self.alpha.model.identifier, self.settings, self.disk)
        again.start()
        queue = again.service.inspection.queue(self.path)
        self.assertEqual((queue.label, queue.messages), ("Orders", 1))

    def test_two_at_once(self) -> None:
        """Neither undoes the other, also in the store."""
        self.disk.is_slow = True
        first = self.deferred(self.alpha.service.set_queue(self.path, {"label": "Orders"}))
        second = self.deferred(self.alpha.service.set_queue(self.path, {"quota": 7}))
        self.disk.catch_up()
        self.disk.catch_up()
        self.assertEqual(self.successResultOf(first).label, "Orders")
        queue = self.successResultOf(second)
        self.assertEqual((queue.label, queue.quota), ("Orders", 7))

    def test_a_quota_counts_at_once(self) -> None:
        """A quota below what is in the queue takes nothing away and lets nothing in."""
        self.put(b"1")
        self.run_to_end(self.alpha.service.set_queue(self.path, {"quota": 0}))
        sending = self.deferred(self.alpha.service.send(self.path, [Message(body=b"2")]))
        failure = self.failureResultOf(sending, MQError)
        self.assertEqual(failure.value.status, Status.MQ_ERROR_INSUFFICIENT_RESOURCES)
        self.assertEqual(self.bodies(self.alpha, self.path), [b"1"])

    def test_refused(self) -> None:
        """Immutable properties, values out of range, and unknown queues are refused without any change."""
        before = self.alpha.service.inspection.queue(self.path)
        self.refusal(Status.MQ_ERROR_PROPERTY_NOTALLOWED, transactional=True)
        self.refusal(Status.MQ_ERROR_PROPERTY_NOTALLOWED, label="x", path="y")
        self.refusal(Status.MQ_ERROR_ILLEGAL_PROPERTY_VALUE, privacy="full")
        self.refusal(Status.MQ_ERROR_ILLEGAL_PROPERTY_VALUE, quota=1 << 32)
        self.refusal(Status.MQ_ERROR_LABEL_TOO_LONG, label="x" * 125)
        self.refusal(Status.MQ_ERROR_QUEUE_NOT_FOUND, queue=".\\private$\\none", label="x")
        self.assertEqual(self.alpha.service.inspection.queue(self.path), before)

    def test_the_store_fails(self) -> None:
        """The properties are what they were."""
        self.disk.is_broken = True
        self.refusal(Status.MQ_ERROR_MESSAGE_STORAGE_FAILED, label="x")
        self.assertEqual(self.alpha.service.inspection.queue(self.path).label, "")
