"""Faults of a cluster and of records: each is one line or one dead letter, and everything else goes on."""

from __future__ import annotations

import json
from typing import Any, Final

import attrs
from confluent_kafka import KafkaError
from twisted.internet.threads import deferToThread

from msmq.bridge.expressions import MessageExpression
from msmq.bridge.mapping_program import MappingProgram
from msmq.bridge_service.broker_settings import BrokerAddress
from msmq.bridge_service.dead_letters import IDENTIFIER, REASON, ROUTE
from msmq.bridge_service.route_state import RouteCondition
from msmq.bridge_service.settings import DEAD_LETTERS
from msmq.interfaces.bridge_messages import AmqpMessage, QueuedMessage
from tests.bridge_service.kafka.support import KafkaTestCase, values
from tests.servers.kafka import KafkaCluster
from tests.servers.rabbitmq import ADDRESS, free_port

PRODUCE: Final = 0
INIT_PRODUCER_ID: Final = 22
END_TXN: Final = 26
"""Requests of Kafka's protocol."""


class ConnectionTests(KafkaTestCase):
    """Clusters that cannot be used."""

    async def assert_waits(self, route: Any, reason: str) -> None:
        """The route waits for a reason, which is logged once."""
        await self.until(lambda: route.condition is RouteCondition.WAITING and route.counts.attempts > 1)
        self.assertIn(reason, route.reason)
        lines = [line for line in self.lines if reason in line]
        self.assertEqual(len(lines), 1, self.lines)

    async def test_cluster_that_is_away(self) -> None:
        """A route waits for a cluster that is away, and its messages stay in the queue."""
        away = self.broker_settings(addresses=(BrokerAddress(ADDRESS, free_port()),))
        await self.send(b"one")
        route = self.route(self.outward(broker=away))
        await self.assert_waits(route, "Connection refused")
        self.assertEqual(self.count(), 1)

    async def test_topic_is_missing(self) -> None:
        """A route waits for its topic, and forwards when that was created."""
        name = f"{self.prefix}.later"
        await self.send(b"one")
        route = self.route(self.outward(rules={"exchange": name}))
        await self.assert_waits(route, f"no topic '{name}'")
        self.cluster.create_topic(name)
        self.assertEqual(values(await self.records(1, name)), [b"one"])

    async def test_topic_to_consume_is_missing(self) -> None:
        """A route waits for the topic that it consumes."""
        name = f"{self.prefix}.later"
        route = self.route(self.inward(broker_queue=name))
        await self.assert_waits(route, f"no topic '{name}'")
        self.cluster.create_topic(name)
        await self.produce(b"one", topic=name)
        self.assertEqual([each.body for each in await self.receive(1)], [b"one"])

    async def test_state_topic_of_another_route(self) -> None:
        """A state topic with the records of another route is refused, since nothing would be recognised."""
        name = f"msmq-bridge.{self.prefix}"
        self.cluster.create_topic(name)
        await self.produce(b"x", topic=name, key="msmq-bridge.other")
        route = self.route(self.outward())
        await self.assert_waits(route, "has the state of 'msmq-bridge.other'")

    async def test_state_topic_is_no_record(self) -> None:
        """A state topic with something else in it is refused, too."""
        name = f"msmq-bridge.{self.prefix}"
        self.cluster.create_topic(name)
        await self.produce(b"x", topic=name, key=name)
        route = self.route(self.outward())
        await self.assert_waits(route, "the record of committed messages is not one of a bridge")

    async def test_user_may_not_use_the_transactional_identifier(self) -> None:
        """The reason of the cluster is shown."""
        self.cluster.fail(INIT_PRODUCER_ID, [KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED] * 3)
        route = self.route(self.outward())
        await self.until(lambda: route.counts.attempts > 0)
        self.assertTrue(
            any("ransactional Id authorization failed" in line for line in self.lines), self.lines
        )

    async def test_login_without_a_mechanism_of_the_cluster(self) -> None:
        """A login that the cluster cannot check is one line, and the password is in none."""
        settings = self.broker_settings(user="bridge", password="mistaken-staple", connect_time=2.0)
        route = self.route(self.outward(broker=settings))
        await self.until(lambda: route.counts.attempts > 0)
        self.assertNotIn("staple", "".join(self.lines) + repr(settings))

    async def test_certificate_file_is_missing(self) -> None:
        """A file that cannot be read is named."""
        settings = self.broker_settings(is_tls=True, ca_file="/no/such.pem")
        route = self.route(self.outward(broker=settings))
        await self.assert_waits(route, "/no/such.pem")


class TopicOfBody:
    """Chooses the topic that the body says."""

    def to_broker(self, message: QueuedMessage, mapped: AmqpMessage) -> AmqpMessage:
        """See L{IOutwardMapping}."""
        return attrs.evolve(mapped, exchange=message.body.decode())


class ReplyTestCase(KafkaTestCase):
    """Has routes for requests from the topic, and for their replies."""

    async def answer(self, *topics: bytes) -> None:
        """Answer requests whose replies go to topics."""
        back = ".\\private$\\to-kafka"
        await self.manager.create_queue(back)
        self.bridge(
            self.inward(rules={"reply_queue": "DIRECT=OS:ALPHA\\private$\\to-kafka"}),
            self.outward("replies", {"answers": True, "exchange": ""}, queue=back, answers="in"),
        )
        for topic in topics:
            await self.produce(b"6 * 7", headers={"reply-to": topic})
            (request,) = await self.receive(1)
            await self.send(b"42", queue=back, correlation_id=request.identifier.to_bytes())


class OwnClusterTests(ReplyTestCase):
    """A cluster that goes away while a route runs, or where one node refuses records."""

    def make_cluster(self) -> KafkaCluster:
        """See L{KafkaTestCase}."""
        return KafkaCluster()

    async def test_cluster_goes_away(self) -> None:
        """Both directions wait for a cluster that went away, and go on when it is back."""
        back = ".\\private$\\back"
        await self.manager.create_queue(back)
        service = self.bridge(self.outward(), self.inward(queue=back))
        await self.send(b"one")
        await self.receive(1, back)
        self.cluster.set_down(True)
        await self.send(b"two")
        routes = list(service.routes.values())
        await self.until(lambda: all(each.condition is RouteCondition.WAITING for each in routes))
        self.cluster.set_down(False)
        self.assertEqual([each.body for each in await self.receive(1, back)], [b"two"])
        await self.until(lambda: self.count() == 0)

    async def test_record_that_the_cluster_refuses(self) -> None:
        """A record that is too large for its topic becomes a dead letter."""
        route = self.route(self.outward())
        self.cluster.fail_at(self.topic, PRODUCE, KafkaError.MSG_SIZE_TOO_LARGE, 20)
        (lost,) = await self.send(b"alone")
        headers = await self.assert_dead_letter("Message size too large", b"alone")
        self.assertEqual((headers[ROUTE], headers[IDENTIFIER]), ("out", lost))
        await self.until(lambda: route.counts.dead_letters == 1)
        self.assertEqual(route.counts.forwarded, 0)

    async def test_reply_that_the_cluster_refuses(self) -> None:
        """A reply to a topic to which the user may not write becomes a dead letter, and others are sent."""
        secret, answers = self.new_topic(), self.new_topic()
        self.cluster.create_topic(f"msmq-bridge.{self.prefix}")
        self.cluster.fail_at(secret, PRODUCE, KafkaError.TOPIC_AUTHORIZATION_FAILED, 20)
        await self.answer(secret.encode(), answers.encode())
        await self.assert_dead_letter(f"unroutable: topic {secret}: ", b"42")
        self.assertEqual(values(await self.records(1, answers)), [b"42"])


class RecordTests(ReplyTestCase):
    """Messages and records that cannot be delivered."""

    async def test_record_that_fails_in_a_batch(self) -> None:
        """A batch that fails is published again, record by record, and those that do not fail arrive."""
        await self.send(b"one", b"large", b"two")
        # The batch fails, in its records or in that of the state; no record fails when it is alone.
        self.cluster.fail(PRODUCE, [KafkaError.MSG_SIZE_TOO_LARGE])
        route = self.route(self.outward())
        await self.until(lambda: route.counts.forwarded == 3)
        # It is counted when it is confirmed, and removed after that.
        await self.until(lambda: self.count() == 0)
        self.assertEqual(route.counts.dead_letters, 0)

    async def test_transaction_that_fails_is_repeated(self) -> None:
        """Messages of a transaction that the cluster aborts are published in another one."""
        self.cluster.fail(END_TXN, [KafkaError.INVALID_PRODUCER_EPOCH])
        route = self.route(self.outward())
        await self.send(b"one")
        await self.until(lambda: route.counts.forwarded == 1)
        await self.until(lambda: self.count() == 0)

    async def test_mapping_fails(self) -> None:
        """A message that cannot be mapped becomes a dead letter; the others arrive."""
        self.route(self.outward(rules={"limit": 5}))
        await self.send(b"one", b"too large", b"two")
        self.assertEqual(values(await self.records(2)), [b"one", b"two"])
        await self.assert_dead_letter("limit: the body has 9 bytes, and limit is 5", b"too large")

    async def test_reply_topic_is_missing(self) -> None:
        """A reply to a topic that does not exist becomes a dead letter."""
        missing = f"{self.prefix}.missing"
        await self.answer(missing.encode())
        await self.assert_dead_letter(f"unroutable: no topic '{missing}'", b"42")

    async def test_reply_topic_is_no_name(self) -> None:
        """A reply to what is no name of a topic becomes a dead letter, and other replies are sent."""
        answers = self.new_topic()
        await self.answer(b"\xff\xfe", b"a\0b", b"../x", b"x" * 250, answers.encode())
        self.assertEqual(values(await self.records(1, answers)), [b"42"])
        self.assertEqual([each.body for each in await self.receive(4, DEAD_LETTERS)], [b"42"] * 4)

    async def test_reply_topic_is_refused(self) -> None:
        """A reply to a topic that the user may not use becomes a dead letter, and others are sent."""
        secret, answers = self.new_topic(), self.new_topic()
        self.cluster.set_topic_error(secret, KafkaError.TOPIC_AUTHORIZATION_FAILED)
        await self.answer(secret.encode(), answers.encode())
        self.assertEqual(values(await self.records(1, answers)), [b"42"])
        await self.assert_dead_letter(f"unroutable: topic {secret}: ", b"42")

    async def test_topic_of_a_program(self) -> None:
        """A topic that a program chooses for a message is used, and a missing one is a dead letter."""
        other = self.new_topic()
        program = MappingProgram("tests:Topics", TopicOfBody())
        self.route(self.outward(rules={"program": program}))
        missing = f"{self.prefix}.missing"
        await self.send(missing.encode(), other.encode(), self.topic.encode())
        self.assertEqual(values(await self.records(1, other)), [other.encode()])
        self.assertEqual(values(await self.records(1)), [self.topic.encode()])
        await self.assert_dead_letter(f"unroutable: no topic '{missing}'", missing.encode())

    async def test_names_of_headers(self) -> None:
        """A message with a header whose name the client cannot take becomes a dead letter."""
        self.route(self.outward())
        for name in ("\ud800", "\udcff", "a\0b"):
            await self.send(name.encode("ascii", "replace"), extension=json.dumps({name: "x"}).encode())
        await self.send(b"after them")
        self.assertEqual(values(await self.records(1)), [b"after them"])
        dead_letters = await self.receive(3, DEAD_LETTERS)
        self.assertEqual([each.body for each in dead_letters], [b"?", b"?", b"a\0b"])

    async def test_record_that_cannot_be_mapped(self) -> None:
        """A record that cannot be sent is stored in the topic for dead letters, with the reason."""
        self.cluster.create_topic(f"{self.topic}.dead")
        await self.produce(b"one", b"too large", b"two")
        route = self.route(self.inward(rules={"limit": 5}))
        self.assertEqual([each.body for each in await self.receive(2)], [b"one", b"two"])
        await self.until(lambda: route.counts.dead_letters == 1)
        (dead_letter,) = await self.records(1, f"{self.topic}.dead")
        headers = dict(dead_letter.headers())
        self.assertEqual(dead_letter.value(), b"too large")
        self.assertEqual(headers[REASON], b"limit: the body has 9 bytes, and limit is 5")
        self.assertEqual(headers["msmq-dead-letter-exchange"].decode(), self.topic)

    async def test_record_that_cannot_be_read(self) -> None:
        """A record with a header whose name is not UTF-8 is a dead letter, and those behind it arrive."""
        self.cluster.create_topic(f"{self.topic}.dead")
        # So many that the interpreter has specialised the code that reads them.
        before = [b"%d" % number for number in range(300)]
        await self.produce(*before)
        await deferToThread(self.cluster.produce, self.topic, b"one", b"\xff\xfe")
        await self.produce(b"two")
        route = self.route(self.inward())
        self.assertEqual([each.body for each in await self.receive(301)], [*before, b"two"])
        await self.until(lambda: route.counts.dead_letters == 1)
        (dead_letter,) = await self.records(1, f"{self.topic}.dead")
        self.assertEqual(dead_letter.value(), b"one")
        self.assertIn(b"'utf-8' codec can't decode byte 0xff", dict(dead_letter.headers())[REASON])

    async def test_topic_for_dead_letters_is_missing(self) -> None:
        """A dead letter waits for its topic, and its record is not acknowledged before."""
        await self.produce(b"too large", b"two")
        route = self.route(self.inward(rules={"limit": 5}))
        self.assertEqual([each.body for each in await self.receive(1)], [b"two"])
        await self.until(lambda: any("cannot store a dead letter" in line for line in self.lines))
        self.assertLess(await self.committed(), 1)
        self.cluster.create_topic(f"{self.topic}.dead")
        await self.until(lambda: route.counts.dead_letters == 1)

    async def test_refused_property(self) -> None:
        """A message that the queue manager refuses becomes a dead letter, and the others arrive."""
        self.cluster.create_topic(f"{self.topic}.dead")
        rules = {"properties": {"response_queue": MessageExpression.parse("headers.answer")}}
        await self.produce(b"one")
        await self.produce(b"two", headers={"answer": b"nonsense"})
        await self.produce(b"three")
        route = self.route(self.inward(rules=rules))
        self.assertEqual([each.body for each in await self.receive(2)], [b"one", b"three"])
        await self.until(lambda: route.counts.dead_letters == 1)
        self.assertEqual(values(await self.records(1, f"{self.topic}.dead")), [b"two"])
