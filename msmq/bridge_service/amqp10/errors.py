"""What has failed at a broker of AMQP 1.0, in one line."""

from __future__ import annotations

from typing import Any, Final

from msmq.bridge_service.brokers import BrokerError

_OF_A_MESSAGE: Final = frozenset(
    {"amqp:link:message-size-exceeded", "amqp:precondition-failed", "amqp:decode-error"}
)
"""Conditions for which one message is to blame."""


def text_of(condition: Any, otherwise: str) -> str:
    """A condition for people.

    @param condition: proton's; C{None} if the broker gave none.
    """
    if condition is None:
        return otherwise
    return f"{condition.description} ({condition.name})" if condition.description else str(condition.name)


def condition_error(condition: Any, otherwise: str) -> BrokerError:
    """The error of a link, a session or a connection that the broker has closed."""
    is_message_to_blame = condition is not None and condition.name in _OF_A_MESSAGE
    return BrokerError(text_of(condition, otherwise), is_message_to_blame)


def broker_error(error: BaseException) -> BrokerError:
    """The error of Twisted, of TLS or of proton."""
    return error if isinstance(error, BrokerError) else BrokerError(str(error) or type(error).__name__)
