"""What has failed at Kafka, in one line."""

from __future__ import annotations

import re
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException

from msmq.bridge_service.brokers import BrokerError

OF_A_MESSAGE: Final = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.INVALID_MSG,
        KafkaError.INVALID_MSG_SIZE,
        KafkaError.INVALID_RECORD,
    }
)
"""Errors for which a message is to blame."""

OF_THE_CLUSTER: Final = frozenset(
    {KafkaError._ALL_BROKERS_DOWN, KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError._FATAL}
)
"""Errors of a client after which it is of no use: a new one is connected later."""

MISSING: Final = frozenset(
    {KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION, KafkaError.UNKNOWN_TOPIC_OR_PART}
)
"""Errors of a topic that does not exist."""

REFUSED_TOPIC: Final = frozenset({KafkaError.TOPIC_EXCEPTION, KafkaError.TOPIC_AUTHORIZATION_FAILED})
"""Errors of a topic that the user may not use, or that cannot exist."""

_NODE: Final = re.compile(r"^\S+/\S+: ")
_AFTER: Final = re.compile(r" \(after .*", re.DOTALL)


def error_of(error: BaseException) -> KafkaError | None:
    """The error of librdkafka in an exception; C{None} if it has none."""
    found = error.args[0] if isinstance(error, KafkaException) and error.args else None
    return found if isinstance(found, KafkaError) else None


def text_of(error: Any) -> str:
    """An error for people; times and addresses, which change with each attempt, are left out."""
    text = _AFTER.sub("", str(error.str() if isinstance(error, KafkaError) else error))
    return text or (error.name() if isinstance(error, KafkaError) else type(error).__name__)


def cause_of(error: KafkaError) -> str:
    """Why a node cannot be reached, without its name, which changes from attempt to attempt."""
    text = text_of(error)
    return text.rpartition(" failed: ")[2] if " failed: " in text else _NODE.sub("", text)


def broker_error(error: BaseException) -> BrokerError:
    """The failure of a call of librdkafka."""
    if isinstance(error, BrokerError):
        return error
    found = error_of(error)
    return BrokerError(text_of(error if found is None else found))
