"""Messages between queues and topics, in both directions."""

from __future__ import annotations

from twisted.internet import reactor
from twisted.internet.interfaces import IReactorTime

from msmq.bridge.expressions import MessageExpression
from msmq.bridge.native_headers import read_extension
from msmq.bridge_service.manager_queues import ManagerQueues
from msmq.bridge_service.service import BridgeService
from msmq.control.server.messages.queued_messages_json import properties_of
from msmq.structures.names.format_name import parse_format_name
from msmq.structures.status import MQError
from tests.bridge_service.kafka.support import KafkaTestCase, values
from tests.bridge_service.routes import ORDERS


class OutwardTests(KafkaTestCase):
    """From a queue to a topic."""

    async def test_messages_arrive_in_order(self) -> None:
        """Each message arrives once, in the order of its queue, and leaves the queue."""
        wanted = [b"order %d" % number for number in range(300)]
        identifiers = await self.send(*wanted)
        route = self.route(self.outward(window=100))
        found = await self.records(300)
        self.assertEqual(values(found), wanted)
        self.assertEqual([dict(each.headers())["message-id"].decode() for each in found], identifiers)
        await self.until(lambda: self.count() == 0)
        self.assertEqual((route.counts.forwarded, route.counts.dead_letters), (300, 0))

    async def test_key_and_headers(self) -> None:
        """The key comes from an expression, and properties are headers."""
        rules = {
            "routing_expression": MessageExpression.parse("label"),
            "properties": {"header.tenant": MessageExpression.parse("`x`")},
        }
        self.route(self.outward(rules=rules))
        await self.send(b"one", label="customer 7", application_tag=9)
        (record,) = await self.records(1)
        headers = dict(record.headers())
        self.assertEqual(record.key(), b"customer 7")
        self.assertEqual(
            (headers["msmq-label"], headers["msmq-application-tag"], headers["tenant"], headers["priority"]),
            (b"customer 7", b"9", b"x", b"3"),
        )

    async def test_what_was_committed_is_not_published_again(self) -> None:
        """A message that was committed, and is received again, is removed and not published."""
        await self.send(b"one", b"two")
        first = self.bridge(self.outward())
        await self.until(lambda: self.count() == 0)
        await first.stop()
        # A queue manager that lost its last removals has the messages again, with the same identifiers.
        (record, _) = await self.records(2)
        state = (await self.records(1, f"msmq-bridge.{self.prefix}"))[0].value()
        identifier = dict(record.headers())["message-id"].decode()
        (lost,) = await self.send(b"lost")
        found = (await self.manager.inspection.browse(ORDERS)).messages[0]
        await self.assert_recognised(state, identifier, lost, found.lookup_id)

    async def assert_recognised(self, state: bytes, committed: str, lost: str, lookup: int) -> None:
        """A record of the state that names a message of the queue keeps that from being published."""
        from msmq.bridge.committed_messages import CommittedMessages

        self.assertIn(committed, CommittedMessages.read(state).held)
        record = CommittedMessages().record({lost: lookup})
        name = f"msmq-bridge.{self.prefix}"
        await self.produce(record, topic=name, key=name)
        route = self.route(self.outward())
        await self.until(lambda: self.count() == 0)
        await self.send(b"three")
        self.assertEqual(values(await self.records(3)), [b"one", b"two", b"three"])
        await self.until(lambda: route.counts.forwarded == 2)

    async def test_state_forgets_what_left_the_queue(self) -> None:
        """Messages that are not in the queue any more are not in the next record of the state."""
        from msmq.bridge.committed_messages import CommittedMessages

        bridge = self.bridge(self.outward())
        await self.send(b"one")
        await self.until(lambda: self.count() == 0)
        await bridge.stop()
        self.bridge(self.outward())
        (identifier,) = await self.send(b"two")
        await self.until(lambda: self.count() == 0)
        found = await self.records(2, f"msmq-bridge.{self.prefix}")
        self.assertEqual(list(CommittedMessages.read(found[-1].value()).held), [identifier])

    async def test_pause(self) -> None:
        """A paused route forwards nothing, and forwards what has come meanwhile when it is resumed."""
        route = self.route(self.outward())
        await self.send(b"before")
        await self.until(lambda: self.count() == 0)
        route.pause()
        await self.send(b"while")
        self.assertEqual(route.condition.value, "paused")
        route.resume()
        self.assertEqual(values(await self.records(2)), [b"before", b"while"])


class InwardTests(KafkaTestCase):
    """From a topic to a queue."""

    async def test_records_arrive_in_order(self) -> None:
        """Each record arrives once, in the order of its partition, and its offset is committed afterwards."""
        wanted = [b"order %d" % number for number in range(300)]
        await self.produce(*wanted, key=b"k", headers={"tenant": b"x"})
        route = self.route(self.inward(window=100))
        found = await self.receive(300)
        self.assertEqual([each.body for each in found], wanted)
        headers = read_extension(bytes(found[7].view.extension))
        assert headers is not None
        self.assertEqual(
            (headers["tenant"], headers["kafka-topic"], headers["kafka-offset"], headers["kafka-key"]),
            ("x", self.topic, "7", "k"),
        )
        await self.until(lambda: route.in_flight == 0)
        offset = -1
        while offset != 300:
            offset = await self.committed()

    async def test_record_that_is_consumed_again_arrives_once(self) -> None:
        """A record whose offset was not committed is consumed again, and its message is sent once."""
        first = self.bridge(self.inward())
        await self.produce(b"one", b"two")
        await self.receive(2)
        await self.until(lambda: first.routes["in"].in_flight == 0)
        await first.stop()
        # Another group has no offset: it begins at the beginning.
        again = self.route(self.inward(broker=self.broker_settings(group=f"{self.prefix}.other")))
        await self.produce(b"three")
        await self.until(lambda: again.counts.forwarded == 3)
        self.assertEqual([each.body for each in await self.receive(1)], [b"three"])
        await self.until(lambda: self.count() == 0)

    async def test_restart_goes_on(self) -> None:
        """A route that is started again goes on behind what it has acknowledged, at a stop at once."""
        first = self.bridge(self.inward())
        await self.produce(b"one")
        await self.receive(1)
        await self.until(lambda: first.routes["in"].in_flight == 0)
        await first.stop()
        self.assertEqual(await self.committed(), 1)
        again = self.route(self.inward())
        await self.produce(b"two")
        self.assertEqual([each.body for each in await self.receive(1)], [b"two"])
        self.assertLessEqual(again.counts.forwarded, 1)


class RequestTests(KafkaTestCase):
    """Requests and replies across the bridge."""

    async def test_request_of_a_client_of_kafka(self) -> None:
        """A request with the headers of Spring is answered to its reply topic, with its correlation."""
        answers, back = self.new_topic(), ".\\private$\\to-kafka"
        name = "DIRECT=OS:ALPHA\\private$\\to-kafka"
        await self.manager.create_queue(back)
        service = self.bridge(
            self.inward(rules={"reply_queue": name}),
            self.outward("replies", {"answers": True, "exchange": ""}, queue=back, answers="in"),
        )
        correlation = bytes(range(240, 256))
        await self.produce(
            b"6 * 7", headers={"kafka_replyTopic": answers.encode(), "kafka_correlationId": correlation}
        )
        (request,) = await self.receive(1)
        await self.until(lambda: service.routes["in"].in_flight == 0)
        self.assertEqual(properties_of(request)["response_queue"], name)
        await self.send(b"42", queue=name, correlation_id=request.identifier.to_bytes())
        (answer,) = await self.records(1, answers)
        self.assertEqual(
            (answer.value(), dict(answer.headers())["kafka_correlationId"]), (b"42", correlation)
        )

    async def test_request_of_an_application_of_a_queue(self) -> None:
        """A request from a queue is answered through the topic that stands for its response queue."""
        answers = self.new_topic()
        await self.manager.create_queue(".\\private$\\answers")
        name = "DIRECT=OS:ALPHA\\private$\\answers"
        self.bridge(
            self.outward(rules={"replies": {name: answers}}),
            self.inward(queue=".\\private$\\answers", broker_queue=answers),
        )
        (identifier,) = await self.send(b"6 * 7", response_queue=parse_format_name(name))
        (question,) = await self.records(1)
        asked = dict(question.headers())
        self.assertEqual(asked["reply-to"].decode(), answers)
        await self.produce(b"42", topic=answers, headers={"correlation-id": asked["correlation-id"]})
        (answer,) = await self.receive(1, ".\\private$\\answers")
        self.assertEqual((answer.body, properties_of(answer)["correlation_id"]), (b"42", identifier))


class OperatorTests(KafkaTestCase):
    """What an operator sees and does."""

    async def test_dry_run_to_a_cluster(self) -> None:
        """A test connects, and shows what would be produced and what would become a dead letter."""
        bridge = self.bridge(self.outward(rules={"limit": 5}))
        bridge.pause("out")
        await self.send(b"small", b"too large")
        small, large = await bridge.test("out", 10)
        self.assertEqual((small["destination"], small["reason"]), (f"topic {self.topic}", ""))
        self.assertEqual(large["reason"], "limit: the body has 9 bytes, and limit is 5")
        self.assertEqual(self.count(), 2)

    async def test_dry_run_from_a_cluster(self) -> None:
        """A test consumes the first records, and does not change the position of the group."""
        await self.produce(b"one", b"two", b"three")
        bridge = BridgeService(
            [self.inward()], lambda _: ManagerQueues(self.manager), IReactorTime(reactor), None
        )
        found = await bridge.test("in", 2)
        self.assertEqual([(each["body_size"], each["destination"]) for each in found], [(3, ORDERS)] * 2)
        self.assertEqual(len(await bridge.test("in", 10)), 3)
        self.assertLess(await self.committed(), 0)

    async def test_dry_run_without_a_topic(self) -> None:
        """A test fails with the reason of the cluster."""
        bridge = self.bridge(self.outward(rules={"exchange": "missing"}))
        with self.assertRaisesRegex(MQError, "no topic 'missing'"):
            await bridge.test("out", 1)

    async def test_summary(self) -> None:
        """The summary of a route has its ends, the nodes and its counts."""
        bridge = self.bridge(self.outward())
        await self.send(b"one")
        await self.until(lambda: self.count() == 0)
        found = bridge.summary("out")
        self.assertEqual((found.source, found.destination), (ORDERS, f"topic {self.topic}"))
        self.assertEqual((found.condition, found.forwarded), ("running", 1))
        self.assertEqual(found.node, self.cluster.bootstrap)
