"""What has failed at a broker, in one line."""

from __future__ import annotations

import re
from typing import Final

from pika.exceptions import (
    AMQPConnectionError,
    ChannelClosed,
    ConnectionClosed,
    ProbableAccessDeniedError,
    ProbableAuthenticationError,
)

from msmq.bridge_service.brokers import BrokerError

_IN_TEXT: Final = re.compile(r"\((\d+)\) ['\"]?([^'\"]*)")
_OF_A_MESSAGE: Final = frozenset({311, 406})
"""Reply codes for which one message is to blame: CONTENT_TOO_LARGE, PRECONDITION_FAILED."""


def broker_error(error: BaseException) -> BrokerError:
    """The error of pika, of the transport or of TLS, with a text for people."""
    if isinstance(error, BrokerError):
        return error
    if isinstance(error, ConnectionClosed | ChannelClosed):
        return BrokerError(
            f"{error.reply_text} ({error.reply_code})",
            isinstance(error, ChannelClosed) and error.reply_code in _OF_A_MESSAGE,
        )
    if isinstance(error, ProbableAuthenticationError | ProbableAccessDeniedError):
        found = _IN_TEXT.search(str(error.args))
        if found is not None:
            return BrokerError(f"{found[2]} ({found[1]})")
        what = "login" if isinstance(error, ProbableAuthenticationError) else "virtual host"
        return BrokerError(f"the broker has closed the connection; it may not accept the {what}")
    text = str(error) or type(error).__name__
    if isinstance(error, AMQPConnectionError):
        text = str(error.args[0]) if error.args else type(error).__name__
    return BrokerError(text)
