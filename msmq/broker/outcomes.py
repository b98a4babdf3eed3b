"""Outcomes of a message that a broker has processed: accepted, rejected, or to be processed again later."""

from __future__ import annotations

import math
from typing import Final, TypeAlias

import attrs

from msmq.errors import LocalProtocolError
from msmq.quoting import kind_of, quoted
from msmq.structures.packet.message_class import MessageClass

LONGEST_DELAY: Final = 86400.0
"""Seconds after which a message is processed again at the latest: a day."""

_NEGATIVE: Final = 0x8000
"""The bit that every class of a negative acknowledgement has ([MS-MQMQ] 2.2.18.1.6)."""


@attrs.frozen
class Acceptance:
    """The message is removed, as received."""


@attrs.frozen
class Rejection:
    """The message is removed, as rejected.

    @ivar message_class: of the negative acknowledgement and the dead letter.
    @ivar reason: a text for the event log; empty for none.
    """

    message_class: MessageClass
    reason: str


@attrs.frozen
class Deferral:
    """The message is processed again after this many seconds."""

    seconds: float


Outcome: TypeAlias = Acceptance | Rejection | Deferral
"""What becomes of a message: the result of L{accept}, L{reject} or L{later}."""

_ACCEPTANCE: Final = Acceptance()


def accept() -> Outcome:
    """The message has been processed: it is removed, and its sender is sent what it requested.

    Removed means as received by an application ([MS-MQDMPR] 3.1.7.1.10): C{ACK_RECEIVE}, a FinalAck for a
    transactional message, and a copy in the journal of the queue if it keeps one.
    """
    return _ACCEPTANCE


def reject(message_class: MessageClass = MessageClass.NACK_RECEIVE_REJECTED, reason: str = "") -> Outcome:
    """The message will not be processed: it is removed, with the negative acknowledgements and dead letters
    that its sender asked for ([MS-MQDMPR] 3.1.1.12).

    @param message_class: the class of the negative acknowledgement, one of the C{NACK_} classes.
    @param reason: a text for the event log, which C{msmq explain} shows.
    @raise LocalProtocolError: C{message_class} is not such a class, or C{reason} is not a str.
    """
    given: object = message_class
    if not isinstance(given, MessageClass) or not given & _NEGATIVE:
        words = given.name if isinstance(given, MessageClass) else _shown_argument(given)
        raise LocalProtocolError(
            f"reject: message_class is {words}; it has to be a negative MessageClass, such as"
            " MessageClass.NACK_RECEIVE_REJECTED"
        )
    text: object = reason
    if not isinstance(text, str):
        raise LocalProtocolError(f"reject: reason is {_shown_argument(text)}; it has to be a str")
    return Rejection(message_class, reason)


def later(seconds: float) -> Outcome:
    """The message is processed again after this time; messages that have to wait for it wait too.

    @param seconds: 0 to 86400, a day. A restart of the broker ends the wait.
    @raise LocalProtocolError: C{seconds} is not such a number.
    """
    given: object = seconds
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise LocalProtocolError(f"later: seconds is {_shown_argument(given)}; it has to be a number")
    if not 0 <= seconds <= LONGEST_DELAY or math.isnan(seconds):
        raise LocalProtocolError(f"later: seconds is {seconds}; it has to be from 0 to {LONGEST_DELAY:.0f}")
    return Deferral(float(seconds))


def _shown_argument(value: object) -> str:
    return f"{quoted(value)}, a str" if isinstance(value, str) else kind_of(value)
