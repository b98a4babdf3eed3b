"""The configuration of clients of librdkafka."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

from confluent_kafka import KafkaError

from msmq.bridge_service.brokers import BrokerError
from msmq.bridge_service.client_endpoints import certificate_problems
from msmq.bridge_service.kafka.settings import KafkaSettings

LARGEST_MESSAGE: Final = 1_000_000_000
"""C{message.max.bytes}: the topic decides how large a message may be, not the client."""

_LOGGER: Final = logging.getLogger("msmq.bridge_service.kafka")
# Errors are reported through the callback; librdkafka would print its log on standard error.
_LOGGER.addHandler(logging.NullHandler())
_LOGGER.propagate = False


def client_configuration(settings: KafkaSettings, failed: Callable[[KafkaError], None]) -> dict[str, Any]:
    """What every client of a route has.

    @param failed: called in the thread of the client with its errors.
    @raise BrokerError: a file of the settings cannot be used.
    """
    found: dict[str, Any] = {
        "bootstrap.servers": settings.bootstrap,
        "client.id": settings.client_name,
        "error_cb": failed,
        "logger": _LOGGER,
        "socket.connection.setup.timeout.ms": int(settings.connect_time * 1000),
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 1000,
        "allow.auto.create.topics": False,
    }
    if settings.is_tls:
        _check(settings)
        if settings.ca_file is not None:
            found["ssl.ca.location"] = settings.ca_file
        if settings.certificate_file is not None:
            found["ssl.certificate.location"] = settings.certificate_file
            found["ssl.key.location"] = settings.certificate_file
    security = "ssl" if settings.is_tls else "plaintext"
    if settings.user:
        security = f"sasl_{security}"
        found["sasl.mechanism"] = settings.mechanism
        found["sasl.username"] = settings.user
        found["sasl.password"] = settings.password
    found["security.protocol"] = security
    return found


def _check(settings: KafkaSettings) -> None:
    """Name a file that cannot be used, which librdkafka does not."""
    for _, problem in certificate_problems(settings):
        raise BrokerError(problem)
