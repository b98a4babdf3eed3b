"""A worker at RabbitMQ that knows nothing of MSMQ: it answers questions to their reply-to::

python answering_worker.py amqp://guest:guest@127.0.0.1:5672/
"""

from __future__ import annotations

import sys
from typing import Any

import pika

QUESTIONS, ANSWERS = "questions", "alpha.answers"


def answer(body: bytes) -> bytes:
    """The answer to a question."""
    return b"yes" if body.endswith(b"?") else b"that is no question"


def answered(channel: Any, method: Any, properties: Any, body: bytes) -> None:
    """Answer one question, and acknowledge it."""
    if properties.reply_to:
        channel.basic_publish(
            "",
            properties.reply_to,
            answer(body),
            pika.BasicProperties(correlation_id=properties.correlation_id, delivery_mode=2),
        )
    channel.basic_ack(method.delivery_tag)


def prepare(channel: Any) -> None:
    """Declare the two queues, which have to exist before the bridge uses them."""
    for queue in (QUESTIONS, ANSWERS):
        channel.queue_declare(queue, durable=True)


def main(url: str) -> None:
    """Answer until the process is stopped."""
    channel = pika.BlockingConnection(pika.URLParameters(url)).channel()
    prepare(channel)
    channel.basic_consume(QUESTIONS, answered)
    print("waits for questions", flush=True)
    channel.start_consuming()


if __name__ == "__main__":
    main(*sys.argv[1:])
