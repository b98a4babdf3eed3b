"""The script of a double: which messages, sessions and pings get which fault. A pure value."""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Sequence
from fnmatch import translate
from typing import Any, Final, TypeVar
from uuid import UUID

import attrs

from msmq.errors import LocalProtocolError
from msmq.quoting import kind_of, quoted
from msmq.structures.packet.message_class import MessageClass

LONGEST_DELAY: Final = 3600.0
"""Limit on the delay of a message, in seconds."""

LARGEST_COUNT: Final = 0xFFFFFFFF
"""Limit on the numbers of a script."""

MOST_FAULTS: Final = 1000
"""Limit on the faults of a script."""

_NEGATIVE: Final = 0x8000
E = TypeVar("E", bound=enum.Enum)


class FaultAction(enum.Enum):
    """What happens to a message that a fault matches."""

    REFUSE = "refuse"
    DELAY = "delay"
    DROP_ACKNOWLEDGEMENTS = "drop-acknowledgements"
    CORRUPT = "corrupt"
    LOSE = "lose"
    CLOSE = "close"


class MessageKind(enum.Enum):
    """The kind of a message. [MS-MQQB] 1.3.2.1."""

    EXPRESS = "express"
    RECOVERABLE = "recoverable"
    TRANSACTIONAL = "transactional"


class PeerAnswer(enum.Enum):
    """The answer to a ping, or to a request to open a session."""

    ACCEPT = "accept"
    REFUSE = "refuse"
    IGNORE = "ignore"


@attrs.frozen
class MessageFacts:
    """The properties of a message by which faults are chosen.

    @ivar queue: the path of its queue, such as C{private$\\orders}.
    """

    queue: str
    label: str
    kind: MessageKind


def _count(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    check_count(attribute.name, value)


def check_count(name: str, value: object) -> None:
    """Check a number of messages, sessions or pings.

    @raise LocalProtocolError: it is not a whole number from 0 to L{LARGEST_COUNT}.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise LocalProtocolError(f"{name} has to be a whole number, not {_shown(value)}")
    if not 0 <= value <= LARGEST_COUNT:
        raise LocalProtocolError(f"{name} is {value}; it has to be from 0 to {LARGEST_COUNT}")


def _maximum(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    if value is not None:
        check_count(attribute.name, value)


def _text(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    if not isinstance(value, str) or not value:
        raise LocalProtocolError(f"{attribute.name} has to be a text that is not empty, not {_shown(value)}")


def member(name: str, kind: type[E], value: object) -> E:
    """A member of an enumeration, from itself or its text.

    @raise LocalProtocolError: it is not one; names those that there are.
    """
    if isinstance(value, kind):
        return value
    for each in kind:
        if each.value == value:
            return each
    choices = ", ".join(quoted(each.value) for each in kind)
    raise LocalProtocolError(f"{name} is {_shown(value)}; it has to be one of {choices}")


def _action(value: FaultAction | str) -> FaultAction:
    return member("action", FaultAction, value)


def _kind(value: MessageKind | str | None) -> MessageKind | None:
    return None if value is None else member("kind", MessageKind, value)


def _answer(value: PeerAnswer | str) -> PeerAnswer:
    return member("answer", PeerAnswer, value)


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return quoted(value) if isinstance(value, str | int | float) else kind_of(value)


@attrs.frozen(kw_only=True)
class Fault:
    """A fault that some messages get.

    A message matches if its queue, its label and its kind do. Of the matching ones the first C{after} get no
    fault, and at most C{count} get it, of these each C{every}th.

    @ivar action: what happens, or its text.
    @ivar queue: the path of the queue, with the wildcards C{*} and C{?}, such as C{private$\\orders*}; case
        does not matter.
    @ivar label: the label, with the same wildcards.
    @ivar kind: the kind of the message, or its text; C{None} for any.
    @ivar after: matching messages before the first fault.
    @ivar count: faults at most; C{None} for no limit.
    @ivar every: 1 for each matching message, 2 for each second one.
    @ivar seconds: the delay of C{DELAY}, above 0 and at most 3600.
    @ivar message_class: of the negative acknowledgement of C{REFUSE}: a class of arrival refuses the message
        as it arrives, and one of receipt (C{NACK_RECEIVE_...}) when it is in its queue.
    @raise LocalProtocolError: a value cannot be used; the error names it.
    """

    action: FaultAction = attrs.field(converter=_action)
    queue: str = attrs.field(default="*", validator=_text)
    label: str = attrs.field(default="*", validator=_text)
    kind: MessageKind | None = attrs.field(default=None, converter=_kind)
    after: int = attrs.field(default=0, validator=_count)
    count: int | None = attrs.field(default=None, validator=_maximum)
    every: int = attrs.field(default=1, validator=_count)
    seconds: float | None = None
    message_class: MessageClass | None = None
    _queue: re.Pattern[str] = attrs.field(init=False, eq=False, repr=False)
    _label: re.Pattern[str] = attrs.field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        if self.every == 0:
            raise LocalProtocolError("every is 0; it has to be from 1")
        self._check_seconds()
        self._check_class()
        object.__setattr__(self, "_queue", _pattern(self.queue.removeprefix(".\\")))
        object.__setattr__(self, "_label", _pattern(self.label))

    def _check_seconds(self) -> None:
        seconds: object = self.seconds
        if self.action is not FaultAction.DELAY:
            if seconds is not None:
                raise LocalProtocolError("seconds is only for the action 'delay'")
            return
        if seconds is None:
            raise LocalProtocolError("the action 'delay' needs its seconds, such as seconds = 5")
        if isinstance(seconds, bool) or not isinstance(seconds, int | float):
            raise LocalProtocolError(f"seconds has to be a number, not {_shown(seconds)}")
        if math.isnan(seconds) or not 0 < seconds <= LONGEST_DELAY:
            raise LocalProtocolError(
                f"seconds is {seconds:g}; it has to be above 0 and at most {LONGEST_DELAY:g}"
            )

    def _check_class(self) -> None:
        given: object = self.message_class
        if given is None:
            return
        if self.action is not FaultAction.REFUSE:
            raise LocalProtocolError("class is only for the action 'refuse'")
        if not isinstance(given, MessageClass) or not given & _NEGATIVE:
            raise LocalProtocolError(
                f"class is {_shown(given)}; it has to be a negative one, such as NACK_BAD_DST_Q"
            )

    @property
    def refusal_class(self) -> MessageClass:
        """The class of the negative acknowledgement of a refusal."""
        return MessageClass.NACK_ACCESS_DENIED if self.message_class is None else self.message_class

    def matches(self, message: MessageFacts) -> bool:
        """Whether the queue, the label and the kind of a message are those of the fault."""
        return (
            (self.kind is None or self.kind is message.kind)
            and self._queue.match(message.queue.casefold()) is not None
            and self._label.match(message.label.casefold()) is not None
        )


def _pattern(text: str) -> re.Pattern[str]:
    # A bracket has no special meaning.
    return re.compile(translate(text.casefold().replace("[", "[[]")))


@attrs.frozen(kw_only=True)
class PeerRule:
    """How pings, or requests to open a session, are answered.

    @ivar answer: or its text. A session is accepted or refused, and not ignored.
    @ivar count: so many get this answer, and the later ones are accepted; C{None} for all.
    """

    answer: PeerAnswer = attrs.field(default=PeerAnswer.ACCEPT, converter=_answer)
    count: int | None = attrs.field(default=None, validator=_maximum)


@attrs.frozen(kw_only=True)
class DoubleScript:
    """What a double does.

    @ivar faults: the first one that applies to a message counts.
    @ivar identifier: the QueueManager.Identifier by which peers know it; C{None} for a new one at each start.
    @raise LocalProtocolError: a value cannot be used; the error names it.
    """

    faults: Sequence[Fault] = ()
    pings: PeerRule = attrs.field(factory=PeerRule)
    sessions: PeerRule = attrs.field(factory=PeerRule)
    identifier: UUID | None = None

    def __attrs_post_init__(self) -> None:
        faults: object = self.faults
        if not isinstance(faults, Sequence) or isinstance(faults, str | bytes):
            raise LocalProtocolError(f"faults is {kind_of(faults)}; it has to be a sequence of Fault")
        for index, fault in enumerate(faults):
            if not isinstance(fault, Fault):
                raise LocalProtocolError(f"faults[{index}] is {kind_of(fault)}; it has to be a Fault")
        if len(self.faults) > MOST_FAULTS:
            raise LocalProtocolError(f"{len(self.faults)} faults; a script has {MOST_FAULTS} at most")
        for name in ("pings", "sessions"):
            rule: object = getattr(self, name)
            if not isinstance(rule, PeerRule):
                raise LocalProtocolError(f"{name} is {kind_of(rule)}; it has to be a PeerRule")
        if self.sessions.answer is PeerAnswer.IGNORE:
            raise LocalProtocolError("sessions: answer is 'ignore'; it has to be one of 'accept', 'refuse'")
        identifier: object = self.identifier
        if identifier is not None and not isinstance(identifier, UUID):
            raise LocalProtocolError(f"identifier is {_shown(identifier)}; it has to be a UUID")
