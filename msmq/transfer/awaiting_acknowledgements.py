"""Messages that were handed over, and whose journal copy waits for their administration acknowledgement.

The acknowledgement of arrival usually comes before the session acknowledgement, so the table keeps both:
messages that wait, and answers about messages that are still in their outgoing queue. Each is stored with the
change that brought it, a message with its move and an answer with the arrival of the acknowledgement, and
stays until the store has settled its message; so a crash between any two commits loses neither.
"""

from __future__ import annotations

import enum
import heapq
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from itertools import count, islice
from typing import Final, TypeAlias
from uuid import UUID

import attrs

from msmq.persistence.state_records import StateChange, numbered
from msmq.structures.packet.message_class import MessageClass
from msmq.transfer.awaiting_records import read_answers, read_messages, write_answers, write_messages
from msmq.transfer.source_journaling import (
    AwaitedMessage,
    MessageAnswer,
    failed_disposal,
    is_of_destination,
    source_disposal,
)
from msmq.transfer.stream_changes import Disposal

MESSAGES: Final = "source/awaiting/"
"""Names of the values that hold messages begin so; a number follows."""

ANSWERS: Final = "source/answers/"
"""The same for answers."""

AFTER_START: Final = 600.0
"""Seconds after a start in which no wait ends, so that acknowledgements in transit can arrive."""

MOST_ANSWERS: Final = 4
"""Answers about one message that are kept, the latest."""

_SLACK: Final = 64

Key: TypeAlias = tuple[str, int]
"""Destination, in lower case, and MessageID: one message to several queues waits for each by itself."""


class WaitEnd(enum.Enum):
    """Why a message waits no longer."""

    ANSWERED = "an acknowledgement came"
    EXPIRED = "no acknowledgement came in time"
    EVICTED = "more messages wait than may"


@attrs.define(eq=False)
class AwaitingValue:
    """Messages or answers that were added together, and are one value of the store; it is never rewritten.

    @ivar change: what has to be stored together with what brought them; C{None} if none is recoverable.
    @ivar left: how many of them still count.
    @ivar evicted: the oldest messages that wait, where these are more than may; their wait is over.
    @ivar early: what was settled before the value was stored.
    """

    change: StateChange | None
    left: int
    is_stored: bool = False
    answers: Sequence[MessageAnswer] = ()
    evicted: list[SourceSettlement] = attrs.field(factory=list)
    early: list[SourceSettlement] = attrs.field(factory=list)


@attrs.frozen(eq=False)
class SourceSettlement:
    """A message whose wait is over, and where it goes.

    @ivar lookup_id: where it waits; C{None} for one that is still in its outgoing queue.
    @ivar message_class: of the acknowledgement; of the dead letter, if none came.
    @ivar values: those that count it or its answers until this is stored.
    """

    message: AwaitedMessage
    lookup_id: int | None
    disposal: Disposal
    message_class: int
    end: WaitEnd
    values: Sequence[AwaitingValue]


@attrs.define(eq=False)
class _Answered:
    answer: MessageAnswer
    value: AwaitingValue


@attrs.define(eq=False)
class _Waiting:
    message: AwaitedMessage
    lookup_id: int
    value: AwaitingValue
    answers: list[_Answered]


class AwaitingAcknowledgements:
    """Joins messages with the acknowledgements about them, whichever comes first, over restarts.

    The messages themselves are stored in a queue of their own, and are found there by LookupIdentifier.

    @param limit: the most messages; when there are more the oldest wait no longer.
    @param is_answered_for: whether another queue manager may acknowledge for this one, which is of a foreign
        site for example.
    """

    def __init__(self, limit: int, is_answered_for: Callable[[UUID], bool]) -> None:
        self._limit = limit
        self._is_answered_for = is_answered_for
        self._waiting: dict[Key, _Waiting] = {}
        self._early: dict[str, dict[int, list[_Answered]]] = {}
        self._due: dict[int, dict[Key, None]] = {}
        self._seconds: list[int] = []
        self._numbers = {MESSAGES: count(1), ANSWERS: count(1)}
        self._closed: list[StateChange] = []
        self._not_before = 0.0

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def has_early(self) -> bool:
        """Whether there are answers about messages that are still in their outgoing queues."""
        return bool(self._early)

    @property
    def is_untidy(self) -> bool:
        """Whether L{sweep} and L{take_changes} may have something to do."""
        return bool(self._early or self._closed)

    def configure(self, limit: int) -> None:
        """Apply another limit; messages beyond it wait no longer once another one is added."""
        self._limit = limit

    def load(
        self, state: Mapping[str, bytes], kept: Container[int], sending: Mapping[str, int], now: float
    ) -> None:
        """Restore what the store holds; L{take_changes} has the values that are not needed any more.

        @param kept: LookupIdentifiers of the messages in the queue where they wait.
        @param sending: how many messages are in the outgoing queue of each destination, in lower case.
        @param now: seconds since 1970-01-01 UTC.
        @raise StateError: a value is damaged.
        """
        for name, data in self._values(state, MESSAGES):
            messages = [each for each in read_messages(name, data) if each[1] in kept]
            value = AwaitingValue((name, data), len(messages), is_stored=True)
            for message, lookup_id in messages:
                self._put(message, lookup_id, value)
            if not messages:
                self._closed.append((name, None))
        for name, data in self._values(state, ANSWERS):
            answers = read_answers(name, data)
            value = AwaitingValue((name, data), len(answers), is_stored=True)
            for answer in answers:
                self._note(_Answered(answer, value), sending)
        if self._waiting:
            self._not_before = now + AFTER_START

    def answered_before(self) -> list[SourceSettlement]:
        """After L{load}: messages whose answers were stored, and that were not settled before a crash."""
        return [settlement for key in list(self._waiting) for settlement in self._decide(key)]

    # Messages

    def handed_over(self, message: AwaitedMessage) -> SourceSettlement | None:
        """A message was acknowledged on the session; how it ends if the answer came before; else it waits.

        L{add} has to follow for one that waits.
        """
        key = _key(message)
        answers = self._early.get(key[0], {}).get(key[1], ())
        found = self._verdict(message, answers)
        if found is None:
            return None
        self._take_early(key)
        values = [each.value for each in answers]
        return SourceSettlement(message, None, *found, WaitEnd.ANSWERED, values)

    def is_awaited(self, destination: str, message_id: int) -> bool:
        """Whether a message waits already, so that another copy of it cannot."""
        return (destination.casefold(), message_id) in self._waiting

    def add(self, messages: Sequence[AwaitedMessage], lookup_ids: Sequence[int]) -> AwaitingValue:
        """These messages wait from now on; the value is to be stored together with their moves.

        @param lookup_ids: the LookupIdentifiers that they get.
        """
        kept = [pair for pair in zip(messages, lookup_ids, strict=True) if pair[0].is_recoverable]
        change = (self._name(MESSAGES), write_messages(kept)) if kept else None
        value = AwaitingValue(change, len(messages))
        for message, lookup_id in zip(messages, lookup_ids, strict=True):
            waiting = self._put(message, lookup_id, value)
            waiting.answers += self._take_early(_key(message))
        excess = len(self._waiting) - self._limit
        if excess > 0:
            for key in list(islice(self._waiting, excess)):
                value.evicted += self._fail(key, WaitEnd.EVICTED)
        return value

    def stored(self, value: AwaitingValue) -> list[SourceSettlement]:
        """The value of L{add} is stored, with the moves; answers with what is settled by now."""
        value.is_stored = True
        early, value.early = value.early, []
        return [*early, *value.evicted]

    def forget(self, destination: str, message_id: int) -> None:
        """A message has left its outgoing queue without waiting: answers about it count no longer."""
        for answered in self._take_early((destination.casefold(), message_id)):
            self._release(answered.value)

    # Answers

    def concerns(self, answer: MessageAnswer) -> bool:
        """Whether an answer is about a message that waits."""
        return _key(answer) in self._waiting

    def answer(self, answers: Sequence[MessageAnswer]) -> AwaitingValue:
        """These answers came; they count from L{answered} on.

        The value is to be stored together with the acknowledgements in their administration queues.
        """
        kept = [answer for answer in answers if answer.is_recoverable]
        change = (self._name(ANSWERS), write_answers(kept)) if kept else None
        return AwaitingValue(change, len(answers), answers=answers)

    def answered(self, value: AwaitingValue, sending: Mapping[str, int]) -> list[SourceSettlement]:
        """The answers are stored; the messages that are settled by that.

        @param sending: as of L{load}; so many answers are kept of each destination.
        """
        value.is_stored = True
        settlements: list[SourceSettlement] = []
        for answer in value.answers:
            self._note(_Answered(answer, value), sending)
            settlements += self._decide(_key(answer))
        return settlements

    def sweep(self, sending: Mapping[str, int]) -> None:
        """Forget answers about messages that have left their outgoing queues otherwise.

        @param sending: as of L{load}.
        """
        for destination in [*self._early]:
            self._trim(destination, sending)

    # Ends

    @property
    def due(self) -> float | None:
        """When the next wait may end, in seconds since 1970-01-01 UTC; C{None} if nothing waits."""
        while self._seconds and self._seconds[0] not in self._due:
            heapq.heappop(self._seconds)
        return max(self._seconds[0], self._not_before) if self._seconds else None

    def expire(self, now: float, most: int) -> list[SourceSettlement]:
        """The messages whose wait is over by now without an answer.

        @param most: how many at once.
        """
        settlements: list[SourceSettlement] = []
        while len(settlements) < most and (due := self.due) is not None and due <= now:
            for key in list(islice(self._due[self._seconds[0]], most - len(settlements))):
                settlements += self._fail(key, WaitEnd.EXPIRED)
        return settlements

    def settled(self, settlements: Iterable[SourceSettlement]) -> None:
        """The store has what follows from these; only now nothing of them is needed any more."""
        for settlement in settlements:
            for value in settlement.values:
                self._release(value)

    def take_changes(self) -> list[StateChange]:
        """Values that are not needed any more, to be removed with any commit that follows."""
        closed, self._closed = self._closed, []
        return closed

    # Within

    def _put(self, message: AwaitedMessage, lookup_id: int, value: AwaitingValue) -> _Waiting:
        key = _key(message)
        waiting = self._waiting[key] = _Waiting(message, lookup_id, value, [])
        if message.due not in self._due:
            self._due[message.due] = {}
            heapq.heappush(self._seconds, message.due)
            if len(self._seconds) > 2 * len(self._due) + _SLACK:
                # Most that was due was settled before, and its seconds are still there.
                self._seconds = sorted(self._due)
        self._due[message.due][key] = None
        return waiting

    def _note(self, answered: _Answered, sending: Mapping[str, int]) -> None:
        key = destination, message_id = _key(answered.answer)
        waiting = self._waiting.get(key)
        if waiting is not None:
            answers = waiting.answers
        else:
            answers = self._early.setdefault(destination, {}).setdefault(message_id, [])
        answers.append(answered)
        if len(answers) > MOST_ANSWERS:
            self._release(answers.pop(0).value)
        if waiting is None:
            self._trim(destination, sending)

    def _trim(self, destination: str, sending: Mapping[str, int]) -> None:
        """There are no more answers for a destination than messages are in its outgoing queue."""
        messages = self._early[destination]
        for message_id in list(islice(messages, max(0, len(messages) - sending.get(destination, 0)))):
            self.forget(destination, message_id)

    def _take_early(self, key: Key) -> list[_Answered]:
        messages = self._early.get(key[0])
        if messages is None:
            return []
        answers = messages.pop(key[1], [])
        if not messages:
            del self._early[key[0]]
        return answers

    def _verdict(self, message: AwaitedMessage, answers: Iterable[_Answered]) -> tuple[Disposal, int] | None:
        for each in answers:
            if self._is_credible(message, each.answer):
                disposal = source_disposal(each.answer.message_class, message.wanted)
                if disposal is not None:
                    return disposal, each.answer.message_class
        return None

    def _is_credible(self, message: AwaitedMessage, answer: MessageAnswer) -> bool:
        if answer.admin_queue != message.admin_queue:
            return False
        owner = message.owner
        return (
            owner is None
            or answer.source == owner
            or not is_of_destination(answer.message_class)
            or self._is_answered_for(owner)
        )

    def _decide(self, key: Key) -> list[SourceSettlement]:
        waiting = self._waiting.get(key)
        found = None if waiting is None else self._verdict(waiting.message, waiting.answers)
        return [] if found is None else self._settle(key, *found, WaitEnd.ANSWERED)

    def _fail(self, key: Key, end: WaitEnd) -> list[SourceSettlement]:
        waiting = self._waiting[key]
        message = waiting.message
        has_arrived = any(self._is_credible(message, each.answer) for each in waiting.answers)
        # What is left of the answers says only that it arrived.
        message_class = (
            MessageClass.NACK_RECEIVE_TIMEOUT if has_arrived else MessageClass.NACK_REACH_QUEUE_TIMEOUT
        )
        return self._settle(key, failed_disposal(message.wanted), message_class, end)

    def _settle(
        self, key: Key, disposal: Disposal, message_class: int, end: WaitEnd
    ) -> list[SourceSettlement]:
        waiting = self._waiting.pop(key)
        same_second = self._due[waiting.message.due]
        del same_second[key]
        if not same_second:
            del self._due[waiting.message.due]
        values = [waiting.value, *(each.value for each in waiting.answers)]
        settlement = SourceSettlement(
            waiting.message, waiting.lookup_id, disposal, message_class, end, values
        )
        if not waiting.value.is_stored:
            waiting.value.early.append(settlement)
            return []
        return [settlement]

    def _release(self, value: AwaitingValue) -> None:
        value.left -= 1
        if not value.left and value.change is not None:
            self._closed.append((value.change[0], None))

    def _name(self, prefix: str) -> str:
        return f"{prefix}{next(self._numbers[prefix])}"

    def _values(self, state: Mapping[str, bytes], prefix: str) -> list[tuple[str, bytes]]:
        """The values of one kind, oldest first; those that are added follow them."""
        found = numbered(state, prefix)
        self._numbers[prefix] = count(found[-1][0] + 1 if found else 1)
        return [(name, data) for _, name, data in found]


def _key(message: AwaitedMessage | MessageAnswer) -> Key:
    return message.destination.casefold(), message.message_id
