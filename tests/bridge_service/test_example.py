"""The example C{rabbitmq_bridge}: an application asks a worker at RabbitMQ."""

from __future__ import annotations

import os
from typing import Any

from twisted.internet import reactor
from twisted.internet.interfaces import IReactorTime

from msmq import Message, Overrides, Server, load
from msmq.bridge_service.mapping_class import MappingClass
from msmq.interfaces import IMessageStore
from msmq.structures.names.format_name import parse_format_name
from msmq.testing import MemoryMessageStore
from tests.bridge_service.support import OFF, BridgeTestCase
from tests.project.example_files import EXAMPLES, example
from tests.servers.rabbitmq import ADDRESS, PASSWORD, USER

QUESTIONS, ANSWERS = ".\\private$\\questions", ".\\private$\\answers"


class ExampleTests(BridgeTestCase):
    """Its configuration and its worker, with the broker of the tests."""

    async def test_question_and_answer(self) -> None:
        """A question is answered by the worker; the answer names the question."""
        worker = example("answering_worker", EXAMPLES / "rabbitmq_bridge")
        await self.on_channel(worker.prepare)
        data = self.data / "asking"
        data.mkdir()
        text = (EXAMPLES / "rabbitmq_bridge" / "alpha.toml").read_text(encoding="utf-8")
        broker = f"amqp://{USER}:{PASSWORD}@{ADDRESS}:{self.broker.port}/"
        (data / "msmq.toml").write_text(OFF + text.replace("amqp://guest:guest@127.0.0.1:5672/", broker))
        store: IMessageStore = MemoryMessageStore(durable=True)
        overrides = Overrides(name="ASKING", data=os.fspath(data))
        server = Server(load(data / "msmq.toml", overrides, {}), IReactorTime(reactor), store=store)
        server.startService()
        self.addCleanup(server.stopService)
        await server.started
        manager = server.manager
        for path in (QUESTIONS, ANSWERS):
            await manager.create_queue(path)
        response = parse_format_name("DIRECT=OS:ALPHA\\private$\\answers")
        question = Message(body=b"is it delivered?", response_queue=response)
        [identifier] = await manager.send(QUESTIONS, [question])
        await self.until_answered(worker)
        message = await manager.receive(ANSWERS, timeout=60)
        self.assertEqual(bytes(message.body), b"yes")
        self.assertEqual(message.correlation_id, identifier.to_bytes())

    async def test_mapping(self) -> None:
        """The class of a user maps orders to JSON and back, and a line that is no order is a dead letter."""
        mapping = example("order_mapping", EXAMPLES / "rabbitmq_bridge").OrderMapping
        queue = await self.queue()
        key = {"exchange": "amq.topic"}
        await self.on_channel(lambda channel: channel.queue_bind(queue, "amq.topic", "orders.#"))
        program = MappingClass("order_mapping:OrderMapping", mapping)
        await self.send(b"anna;box;2", b"two boxes")
        bridge = self.bridge(self.outward(rules=key, mapping=program))
        await self.assert_dead_letter("the order is not CUSTOMER;ITEM;QUANTITY", b"two boxes")
        await bridge.stop()
        self.bridge(self.inward(queue, mapping=program))
        (message,) = await self.receive(1)
        self.assertEqual((bytes(message.body), message.view.label), (b"anna;box;2", "box"))

    async def until_answered(self, worker: Any) -> None:
        """The worker answers the first question that comes."""

        def work(channel: Any) -> None:
            for method, properties, body in channel.consume(worker.QUESTIONS):
                worker.answered(channel, method, properties, body)
                return

        await self.on_channel(work)
