"""OpenTelemetry: spans of messages that a client sends and an application processes, with their contexts.

The context of a span is a header in the Extension of the message (PROPID_M_EXTENSION), by default
C{traceparent} of W3C Trace Context: in the JSON object of Rebus, which is also that of the bridge, or in the
XML of NServiceBus, which reads and writes the same header.
So a trace goes on through queue managers that know nothing of it, and through the bridge.
Names and attributes are those of the semantic conventions of OpenTelemetry for messaging.

The package opentelemetry-api is optional: the extra C{msmq[opentelemetry]}.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Protocol
from xml.sax.saxutils import escape

import attrs

from msmq.decoding.bodies.decoder_choice import extension_headers
from msmq.decoding.bodies.envelopes import rebus_headers
from msmq.errors import LocalProtocolError
from msmq.interfaces.decoding import BodyNotDecoded, Limits
from msmq.structures.status import MQError
from msmq.version import __version__

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.propagators.textmap import TextMapPropagator
    from opentelemetry.trace import Link, Span, SpanKind, TracerProvider

    from msmq.client.outgoing import MessageToSend

LONGEST_EXTENSION: Final = 0x10000
"""The largest Extension, in bytes, that is parsed for headers; a larger one is sent as it is, and starts a
trace of its own at the receiver."""

_END_OF_HEADERS: Final = b"</ArrayOfHeaderInfo>"


class TracedMessage(Protocol):
    """What L{MessageTracing} reads of a received message: one of a client or of a broker."""

    @property
    def identifier(self) -> object:
        """The identifier of the message."""

    @property
    def body(self) -> bytes:
        """The body."""

    @property
    def extension(self) -> bytes:
        """PROPID_M_EXTENSION."""


class MessageTracing:
    """Makes spans, and carries their context in messages.

    Without an SDK of OpenTelemetry in the process nothing is recorded, and messages are sent as they are.
    Its methods may be called in several threads; a span is that of the thread or coroutine that opened it.
    """

    def __init__(
        self,
        tracer_provider: TracerProvider | None = None,
        *,
        propagator: TextMapPropagator | None = None,
    ) -> None:
        """See the class.

        @param tracer_provider: by default the one of the process.
        @param propagator: how contexts are written as headers; by default as C{$OTEL_PROPAGATORS} says.
        @raise LocalProtocolError: the package opentelemetry-api is not installed.
        """
        try:
            from opentelemetry import propagate, trace
        except ImportError:
            raise LocalProtocolError(
                "tracing needs opentelemetry-api: pip install 'msmq[opentelemetry]'"
            ) from None
        self._trace = trace
        self._tracer = trace.get_tracer("msmq", __version__, tracer_provider)
        self._propagator = propagator if propagator is not None else propagate.get_global_textmap()

    def with_context(self, extension: bytes = b"") -> bytes:
        """An Extension with the context of the current span, for a message that no client sends.

        It stays as it is if it has a context already, is neither JSON with texts nor headers of NServiceBus,
        or is larger than L{LONGEST_EXTENSION}; and if no span is recorded.
        """
        headers: dict[str, str] = {}
        self._propagator.inject(headers)
        if not headers or len(extension) > LONGEST_EXTENSION:
            return extension
        if not extension:
            return _json(headers)
        found = _headers_of(extension)
        if found is None or not found.keys().isdisjoint(headers):
            return extension
        return _with_headers(extension, headers)

    def send(
        self, messages: Sequence[MessageToSend], send: Callable[[Sequence[MessageToSend]], list[str]]
    ) -> list[str]:
        """Send messages in a span C{send DESTINATION}, whose context each of them gets; L{Client} calls it.

        @param send: sends messages, and returns their identifiers.
        @return: the same identifiers.
        """
        destinations = {message.destination for message in messages}
        one = destinations.pop() if len(destinations) == 1 else None
        attributes = _attributes("send", one, [message.body for message in messages])
        if len(messages) == 1 and "correlation_id" in messages[0].properties:
            attributes["messaging.message.conversation_id"] = str(messages[0].properties["correlation_id"])
        name = "send" if one is None else f"send {one}"
        with self._span(name, self._trace.SpanKind.PRODUCER, attributes) as span:
            identifiers = send(
                [
                    attrs.evolve(message, extension=self.with_context(message.extension))
                    for message in messages
                ]
            )
            if len(identifiers) == 1:
                span.set_attribute("messaging.message.id", identifiers[0])
            return identifiers

    @contextmanager
    def processing(self, *messages: TracedMessage, queue: str) -> Iterator[Span]:
        """Process received messages in a span C{process QUEUE}, which is the current one in the block.

        The span of one message belongs to the trace of its sender, with a link to the span that was current;
        the span of several ones belongs to the current trace, with a link to each sender.
        An exception of the block is recorded, and leaves it.

        @param queue: the queue from which they were received, as it is to be reported.
        """
        parents = [self._context_of(message) for message in messages]
        attributes = _attributes("process", queue, [message.body for message in messages])
        kind = self._trace.SpanKind.CONSUMER
        if len(messages) == 1:
            attributes["messaging.message.id"] = str(messages[0].identifier)
            current = self._trace.get_current_span()
            has_sender = self._trace.get_current_span(parents[0]).get_span_context().is_valid
            parent = parents[0] if has_sender else None
            links = self._links([current]) if has_sender else []
        else:
            parent = None
            links = self._links([self._trace.get_current_span(found) for found in parents])
        with self._span(f"process {queue}", kind, attributes, parent, links) as span:
            yield span

    @contextmanager
    def _span(
        self,
        name: str,
        kind: SpanKind,
        attributes: Mapping[str, str | int],
        parent: Context | None = None,
        links: Sequence[Link] = (),
    ) -> Iterator[Span]:
        with self._tracer.start_as_current_span(
            name, context=parent, kind=kind, attributes=attributes, links=links
        ) as span:
            try:
                yield span
            except MQError as error:
                span.set_attribute("error.type", error.status.name)
                raise
            except Exception as error:
                span.set_attribute("error.type", type(error).__qualname__)
                raise

    def _links(self, spans: Sequence[Span]) -> list[Link]:
        contexts = [span.get_span_context() for span in spans]
        return [self._trace.Link(context) for context in contexts if context.is_valid]

    def _context_of(self, message: TracedMessage) -> Context:
        """The context in a message; an empty one without it."""
        from opentelemetry.context import Context

        extension = message.extension
        headers = (_headers_of(extension) or {}) if len(extension) <= LONGEST_EXTENSION else {}
        return self._propagator.extract(headers, Context())


def _attributes(operation: str, destination: str | None, bodies: Sequence[bytes]) -> dict[str, str | int]:
    found: dict[str, str | int] = {
        "messaging.system": "msmq",
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
    }
    if destination is not None:
        found["messaging.destination.name"] = destination
    if len(bodies) == 1:
        found["messaging.message.body.size"] = len(bodies[0])
    else:
        found["messaging.batch.message_count"] = len(bodies)
    return found


def _headers_of(extension: bytes) -> dict[str, str] | None:
    """The headers in an Extension; C{None} for another format."""
    found = extension_headers(extension) if extension else []
    return None if found is None else {name: value.decode() for name, value in found}


def _with_headers(extension: bytes, headers: Mapping[str, str]) -> bytes:
    """An Extension with more headers; as it was if these have no place in its format."""
    try:
        found, _ = rebus_headers(extension, Limits())
    except BodyNotDecoded:
        head, end, tail = extension.rpartition(_END_OF_HEADERS)
        return head + "".join(map(_header_info, headers.items())).encode() + end + tail if end else extension
    return _json({**found, **headers}) if all(isinstance(text, str) for text in found.values()) else extension


def _header_info(header: tuple[str, str]) -> str:
    name, value = header
    return f"<HeaderInfo><Key>{escape(name)}</Key><Value>{escape(value)}</Value></HeaderInfo>"


def _json(headers: Mapping[str, str]) -> bytes:
    return json.dumps(headers, separators=(",", ":")).encode("ascii")
