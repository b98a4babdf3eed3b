"""Traces orders with OpenTelemetry from the program that sends them to the one that processes them.

Its argument is the data directory of the queue manager, or where its control API is::

    python examples/traced_client.py msmq-data

The spans are printed; a program exports them to its collector.
"""

from __future__ import annotations

import sys

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

from msmq.client import Client, MessageTracing

ORDERS = r".\private$\traced-orders"


def order(server: str, tracing: MessageTracing) -> None:
    """Send an order; its span is a child of the current one, if there is one."""
    client = Client(server, tracing=tracing)
    client.create_queue(ORDERS)
    client.send(ORDERS, "two boxes", label="order 7")


def process(server: str, tracing: MessageTracing) -> None:
    """Process orders until none arrives within a second, each in the trace of its sender."""
    client = Client(server)
    with client.consume(ORDERS, timeout=1) as orders:
        for batch in orders:
            with batch:
                for message in batch:
                    with tracing.processing(message, queue=ORDERS) as span:
                        span.set_attribute("order.label", message.label)


if __name__ == "__main__":
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter()))
    order(sys.argv[1], MessageTracing(provider))
    process(sys.argv[1], MessageTracing(provider))
