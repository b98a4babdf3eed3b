"""Spans of OpenTelemetry, and their context in messages from a sender to a receiver."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import attrs
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from twisted.internet import reactor
from twisted.internet.interfaces import IReactorFromThreads
from twisted.trial.unittest import SynchronousTestCase

from msmq import Message
from msmq.bridge.native_headers import read_extension
from msmq.client import (
    AsyncioClient,
    Client,
    DeferredClient,
    Delivered,
    MessageProperties,
    MessageTracing,
    message_to,
)
from msmq.decoding.bodies.decoder_choice import extension_headers
from msmq.errors import LocalProtocolError
from msmq.structures.status import MQError
from tests.client.running_server import RunningServerCase
from tests.project.example_files import example

ORDERS = r".\private$\orders"
PAYMENTS = r".\private$\payments"
NSERVICEBUS = (
    b'<?xml version="1.0"?><ArrayOfHeaderInfo xmlns:xsd="http://www.w3.org/2001/XMLSchema"><HeaderInfo>'
    b"<Key>NServiceBus.MessageId</Key><Value>7</Value></HeaderInfo></ArrayOfHeaderInfo>\0\0"
)


@attrs.frozen
class _Message:
    """A received message."""

    extension: bytes = b""
    body: bytes = b"12345"
    identifier: str = "{0}\\7"


class Spans:
    """What a process records."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracing = MessageTracing(self.provider)
        self.tracer = self.provider.get_tracer("test")

    def ended(self) -> dict[str, ReadableSpan]:
        """The ended spans by their names."""
        return {span.name: span for span in self.exporter.get_finished_spans()}


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def parent(span: ReadableSpan) -> int | None:
    return None if span.parent is None else span.parent.span_id


def trace_of(span: Any) -> int:
    return int(span.get_span_context().trace_id)


def number(span: Any) -> int:
    return int(span.get_span_context().span_id)


class SentTests(RunningServerCase):
    """Messages that clients send."""

    async def begin(self) -> None:
        await super().begin()
        self.spans = Spans()
        await self.blocking(lambda: self.client.create_queue(ORDERS))

    async def received(self) -> list[Delivered]:
        return list(await self.blocking(lambda: self.client.peek(ORDERS, count=100)))

    async def test_a_trace_from_sender_to_receiver(self) -> None:
        """The program of the guide: a span where the order is sent, and its child where it is processed."""
        program: Any = example("traced_client")
        sender, receiver = Spans(), Spans()
        await self.blocking(lambda: program.order(str(self.data), sender.tracing))
        await self.blocking(lambda: program.process(str(self.data), receiver.tracing))
        [sent], [processed] = sender.ended().values(), receiver.ended().values()
        queue = program.ORDERS
        self.assertEqual((sent.name, sent.kind), (f"send {queue}", SpanKind.PRODUCER))
        self.assertEqual((processed.name, processed.kind), (f"process {queue}", SpanKind.CONSUMER))
        self.assertEqual(parent(processed), number(sent))
        self.assertEqual(trace_of(processed), trace_of(sent))
        identifier = attributes(sent)["messaging.message.id"]
        self.assertEqual(
            attributes(sent),
            {
                "messaging.system": "msmq",
                "messaging.operation.name": "send",
                "messaging.operation.type": "send",
                "messaging.destination.name": queue,
                "messaging.message.body.size": 9,
                "messaging.message.id": identifier,
            },
        )
        self.assertEqual(
            attributes(processed),
            {
                "messaging.system": "msmq",
                "messaging.operation.name": "process",
                "messaging.operation.type": "process",
                "messaging.destination.name": queue,
                "messaging.message.body.size": 9,
                "messaging.message.id": identifier,
                "order.label": "order 7",
            },
        )

    async def test_several_messages(self) -> None:
        """They are one span with their number, and each message has its context."""
        await self.blocking(lambda: self.client.create_queue(PAYMENTS))
        client = Client(self.data, tracing=self.spans.tracing)
        await self.blocking(
            lambda: client.send_all([message_to(ORDERS, "1"), message_to(ORDERS, "2")]),
        )
        await self.blocking(
            lambda: client.send_all([message_to(ORDERS, "3"), message_to(PAYMENTS, "4")]),
        )
        spans = self.spans.ended()
        self.assertEqual(set(spans), {f"send {ORDERS}", "send"})
        self.assertEqual(attributes(spans["send"])["messaging.batch.message_count"], 2)
        self.assertNotIn("messaging.destination.name", attributes(spans["send"]))
        contexts = [json.loads(message.extension)["traceparent"] for message in await self.received()]
        self.assertEqual(contexts[0], contexts[1])
        self.assertIn(f"{number(spans[f'send {ORDERS}']):016x}", contexts[0])
        self.assertIn(f"{number(spans['send']):016x}", contexts[2])

    async def test_nothing_to_send(self) -> None:
        """No messages are no span."""
        client = Client(self.data, tracing=self.spans.tracing)
        self.assertEqual(await self.blocking(lambda: client.send_all([])), [])
        self.assertEqual(self.spans.ended(), {})

    async def test_refused(self) -> None:
        """The span of a message that the queue manager refuses has the reason."""
        client = Client(self.data, tracing=self.spans.tracing)
        properties: MessageProperties = {"correlation_id": "{00000000-0000-0000-0000-000000000001}\\3"}
        with self.assertRaises(MQError):
            await self.blocking(lambda: client.send(r".\private$\none", "x", **properties))
        [span] = self.spans.ended().values()
        self.assertEqual(attributes(span)["error.type"], "MQ_ERROR_QUEUE_NOT_FOUND")
        self.assertEqual(attributes(span)["messaging.message.conversation_id"], properties["correlation_id"])
        self.assertNotIn("messaging.message.id", attributes(span))
        self.assertEqual(span.status.status_code, StatusCode.ERROR)

    async def test_a_current_span_of_asyncio(self) -> None:
        """A coroutine's span is the parent of what is sent in a worker thread."""

        async def program() -> int:
            async with AsyncioClient(self.data, tracing=self.spans.tracing) as client:
                with self.spans.tracer.start_as_current_span("checkout") as span:
                    await client.send(ORDERS, "x")
                return number(span)

        checkout = await self.blocking(lambda: asyncio.run(program()))
        self.assertEqual(parent(self.spans.ended()[f"send {ORDERS}"]), checkout)

    async def test_a_current_span_of_twisted(self) -> None:
        """The span of a coroutine on Twisted is the parent of what is sent in a worker thread."""
        client = DeferredClient(self.data, tracing=self.spans.tracing, reactor=IReactorFromThreads(reactor))
        self.addCleanup(client.close)
        with self.spans.tracer.start_as_current_span("checkout") as span:
            await client.send(ORDERS, "x")
        self.assertEqual(parent(self.spans.ended()[f"send {ORDERS}"]), number(span))

    async def test_an_embedded_queue_manager(self) -> None:
        """Its messages are sent with the context of the current span, and processed in that trace."""
        manager, tracing = self.server.manager, self.spans.tracing
        with self.spans.tracer.start_as_current_span("checkout") as span:
            await manager.send(ORDERS, [Message(body=b"x", extension=tracing.with_context())])
        reservation = await manager.reserve(ORDERS, timeout=0)
        [message] = reservation.messages
        with tracing.processing(message, queue=ORDERS):
            await reservation.confirm()
        ended = self.spans.ended()[f"process {ORDERS}"]
        self.assertEqual(parent(ended), number(span))
        self.assertEqual(attributes(ended)["messaging.message.id"], str(message.identifier))

    async def test_without_a_recorder(self) -> None:
        """Messages are sent as they are if no spans are recorded."""
        client = Client(self.data, tracing=MessageTracing(trace.NoOpTracerProvider()))
        await self.blocking(lambda: client.send(ORDERS, "x"))
        [message] = await self.received()
        self.assertEqual(message.extension, b"")


class ExtensionTests(SynchronousTestCase):
    """The context in an Extension that has something else."""

    def setUp(self) -> None:
        self.spans = Spans()

    def written(self, extension: bytes) -> bytes:
        with self.spans.tracer.start_as_current_span("sender") as span:
            self.sender = number(span)
            return self.spans.tracing.with_context(extension)

    def assert_carried(self, extension: bytes) -> None:
        with self.spans.tracing.processing(_Message(extension), queue="orders"):
            pass
        self.assertEqual(parent(self.spans.ended()["process orders"]), self.sender)

    def test_headers_of_rebus(self) -> None:
        """They stay, and the context is one more."""
        written = self.written('{"rbs2-msg-id": "7", "name": "Zoë"}'.encode())
        self.assert_carried(written)
        found = json.loads(written)
        self.assertEqual({**found, "traceparent": ""}, {"rbs2-msg-id": "7", "name": "Zoë", "traceparent": ""})

    def test_headers_of_nservicebus(self) -> None:
        """They stay, and the context is one more, with what a writer leaves at the end."""
        written = self.written(NSERVICEBUS)
        self.assert_carried(written)
        head = NSERVICEBUS.index(b"</ArrayOfHeaderInfo>")
        self.assertTrue(written.startswith(NSERVICEBUS[:head]))
        self.assertTrue(written.endswith(NSERVICEBUS[head:]))
        names = [name for name, _ in extension_headers(written) or ()]
        self.assertEqual(names, ["NServiceBus.MessageId", "traceparent"])

    def test_headers_of_the_bridge(self) -> None:
        """The context is a header for brokers."""
        written = self.written(b"")
        self.assert_carried(written)
        headers = read_extension(written) or {}
        self.assertEqual(list(headers), ["traceparent"])
        self.assertRegex(headers["traceparent"], f"^00-[0-9a-f]{{32}}-{self.sender:016x}-0[0-9a-f]$")

    def test_left_alone(self) -> None:
        """What is no headers, has a context, or is large stays to the byte."""
        for extension in (
            b"\x01\x02raw",
            b'{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}',
            b'{"number":7}',
            b"[1]",
            b'<?xml version="1.0"?><Other>text</Other>',
            b'{"long":"' + b"x" * 0x10000 + b'"}',
        ):
            self.assertEqual(self.written(extension), extension)

    def test_markup_in_json(self) -> None:
        """JSON whose text has the end of NServiceBus's headers stays JSON."""
        written = self.written(b'{"text":"</ArrayOfHeaderInfo>"}')
        self.assertEqual(json.loads(written)["text"], "</ArrayOfHeaderInfo>")
        self.assert_carried(written)

    def test_nothing_to_continue(self) -> None:
        """A message without a readable context is processed in the current trace."""
        for extension in (
            b"",
            b"\xff\xfe",
            b'{"traceparent":"00-0-0-01"}',
            b'{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","x":"'
            + b"x" * 0x10000
            + b'"}',
        ):
            with self.spans.tracer.start_as_current_span("worker") as worker:
                with self.spans.tracing.processing(_Message(extension), queue="orders"):
                    pass
            span = self.spans.ended()["process orders"]
            self.assertEqual(parent(span), number(worker))
            self.assertEqual(list(span.links), [])


class ProcessedTests(SynchronousTestCase):
    """Spans of processing."""

    def setUp(self) -> None:
        self.spans = Spans()

    def message(self) -> tuple[int, _Message]:
        with self.spans.tracer.start_as_current_span("sender") as span:
            return number(span), _Message(self.spans.tracing.with_context())

    def test_one_message(self) -> None:
        """It is processed in the trace of its sender, with a link to the span of the receiver."""
        sender, message = self.message()
        with self.spans.tracer.start_as_current_span("worker") as worker:
            with self.spans.tracing.processing(message, queue="orders") as span:
                self.assertIs(trace.get_current_span(), span)
        ended = self.spans.ended()["process orders"]
        self.assertEqual(parent(ended), sender)
        self.assertEqual([link.context.span_id for link in ended.links], [number(worker)])

    def test_several_messages(self) -> None:
        """They are processed in the current trace, with a link to each sender."""
        senders, messages = zip(*(self.message() for _ in range(3)), strict=True)
        with self.spans.tracer.start_as_current_span("worker") as worker:
            with self.spans.tracing.processing(*messages, _Message(), queue="orders"):
                pass
        ended = self.spans.ended()["process orders"]
        self.assertEqual(parent(ended), number(worker))
        self.assertEqual([link.context.span_id for link in ended.links], list(senders))
        self.assertEqual(attributes(ended)["messaging.batch.message_count"], 4)

    def test_failed(self) -> None:
        """An exception of the block is recorded, and leaves it."""
        _, message = self.message()
        with self.assertRaises(ZeroDivisionError):
            with self.spans.tracing.processing(message, queue="orders"):
                _ = 1 / 0
        ended = self.spans.ended()["process orders"]
        self.assertEqual(attributes(ended)["error.type"], "ZeroDivisionError")
        self.assertEqual(ended.status.status_code, StatusCode.ERROR)

    def test_without_the_package(self) -> None:
        """The error says what to install."""
        # What Python's import statement reads; an entry of None is a package that cannot be imported.
        for name in [name for name in sys.modules if name.partition(".")[0] == "opentelemetry"]:
            module = sys.modules.pop(name)
            self.addCleanup(sys.modules.__setitem__, name, module)
        sys.modules["opentelemetry"] = None  # type: ignore[assignment]
        with self.assertRaisesRegex(LocalProtocolError, r"pip install 'msmq\[opentelemetry\]'"):
            MessageTracing()
