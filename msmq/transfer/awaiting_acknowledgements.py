"""Table of messages whose journal copy waits for an administration acknowledgement.

The acknowledgement of arrival usually comes before the session acknowledgement, so the table keeps both:
waiting messages, and answers for messages that are still in their outgoing queue. Each is stored with its
cause, a message with its move and an answer with the arrival of the acknowledgement, and stays until its
message is settled durably; so a crash between any two commits loses neither.
"""

from __future__ import annotations

import enum
import heapq
from collections import Counter
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
"""Prefix of the names of stored messages; a number follows."""

ANSWERS: Final = "source/answers/"
"""Prefix of the names of stored answers."""

AFTER_START: Final = 600.0
"""Seconds after a start during which no wait expires, so that acknowledgements in transit can arrive."""

MOST_ANSWERS: Final = 4
"""Limit on stored answers for one message; the latest are kept."""

_SLACK: Final = 64

Key: TypeAlias = tuple[str, int]
"""Destination, in lower case, and number: a message to several queues waits for each separately."""


class WaitEnd(enum.Enum):
    """Why a wait has ended."""

    ANSWERED = "an acknowledgement came"
    EXPIRED = "no acknowledgement came in time"
    EVICTED = "more messages wait than the limit"


@attrs.define(eq=False)
class AwaitingValue:
    """Messages or answers that were added in one batch, as one value of the store, which is never rewritten.

    @ivar change: the change to store with their cause; C{None} if none is recoverable.
    @ivar left: how many of them still count.
    @ivar is_stored: messages: their moves are stored.
    @ivar evicted: the oldest waiting messages beyond the limit, whose wait has ended.
    @ivar early: settlements from before the value was stored.
    """

    change: StateChange | None
    left: int
    is_stored: bool = False
    answers: Sequence[MessageAnswer] = ()
    evicted: list[SourceSettlement] = attrs.field(factory=list)
    early: list[SourceSettlement] = attrs.field(factory=list)


@attrs.frozen(eq=False)
class SourceSettlement:
    """A message whose wait has ended, and its disposal.

    @ivar lookup_id: its LookupIdentifier while it waits; C{None} for one that is still in its outgoing queue.
    @ivar message_class: of the acknowledgement; of the dead letter, if none came.
    @ivar values: the values that contain it or its answers until this is stored.
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
    """Matches messages with their acknowledgements, in either order, across restarts.

    The messages themselves are stored in a queue of their own, and are found there by LookupIdentifier.

    @param limit: limit on messages; beyond it the wait of the oldest ends.
    @param is_answered_for: whether another queue manager may acknowledge for this one, as for one of a
    foreign site.
    """

    def __init__(self, limit: int, is_answered_for: Callable[[UUID], bool]) -> None:
        self._limit = limit
        self._is_answered_for = is_answered_for
        self._waiting: dict[Key, _Waiting] = {}
        self._early: dict[str, dict[int, list[_Answered]]] = {}
        self._counts: Counter[str] = Counter()
        self._due: dict[int, dict[Key, None]] = {}
        self._seconds: list[int] = []
        self._numbers = {MESSAGES: count(1), ANSWERS: count(1)}
        self._closed: list[StateChange] = []
        self._not_before = 0.0

    def __len__(self) -> int:
        return len(self._waiting)

    def waiting_for(self, destination: str) -> int:
        """How many messages for a destination wait."""
        return self._counts[destination.casefold()]

    @property
    def has_early(self) -> bool:
        """Whether there are answers for messages that are still in their outgoing queues."""
        return bool(self._early)

    @property
    def has_pending_work(self) -> bool:
        """Whether L{sweep} and L{take_changes} may have something to do."""
        return bool(self._early or self._closed)

    def configure(self, limit: int) -> None:
        """Apply another limit; it takes effect when the next message is added."""
        self._limit = limit

    def load(
        self, state: Mapping[str, bytes], kept: Container[int], sending: Mapping[str, int], now: float
    ) -> None:
        """Restore the stored state; L{take_changes} returns the removal of obsolete values.

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
            value = AwaitingValue((name, data), len(answers))
            for answer in answers:
                self._note(_Answered(answer, value), sending)
        if self._waiting:
            self._not_before = now + AFTER_START

    def answered_before(self) -> list[SourceSettlement]:
        """After L{load}: messages whose answers were stored, and that were not settled before a crash."""
        return [settlement for key in list(self._waiting) for settlement in self._decide(key)]

    # Messages

    def handed_over(self, message: AwaitedMessage) -> SourceSettlement | None:
        """A message was acknowledged on the session: returns its settlement if the answer came before.

        Otherwise call L{add}, so that it waits.
        """
        key = _key(message)
        answers = self._early.get(key[0], {}).get(key[1], ())
        found = self._verdict(message, answers)
        if found is None:
            return None
        self._take_early(key)
        values = [each.value for each in answers]
        return SourceSettlement(message, None, *found, WaitEnd.ANSWERED, values)

    def is_awaited(self, message: AwaitedMessage) -> bool:
        """Whether a message waits already, so that another copy of it cannot."""
        return _key(message) in self._waiting

    def add(self, messages: Sequence[AwaitedMessage], lookup_ids: Sequence[int]) -> AwaitingValue:
        """Add waiting messages; the value has to be stored with their moves.

        @param lookup_ids: their new LookupIdentifiers.
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
        """The value of L{add} is stored, with the moves; returns messages that are settled by now."""
        value.is_stored = True
        early, value.early = value.early, []
        return [*early, *value.evicted]

    def forget(self, destination: str, number: int) -> None:
        """A message was removed from its outgoing queue without waiting: drop its answers.

        @param number: see L{awaited_number<msmq.transfer.source_journaling.awaited_number>}.
        """
        for answered in self._take_early((destination.casefold(), number)):
            self._release(answered.value)

    # Answers

    def concerns(self, answer: MessageAnswer) -> bool:
        """Whether an answer belongs to a waiting message."""
        return _key(answer) in self._waiting

    def answer(self, answers: Sequence[MessageAnswer]) -> AwaitingValue:
        """Add answers; they take effect with L{answered}.

        The value is to be stored together with the acknowledgements in their administration queues.
        """
        kept = [answer for answer in answers if answer.is_recoverable]
        change = (self._name(ANSWERS), write_answers(kept)) if kept else None
        return AwaitingValue(change, len(answers), answers=answers)

    def answered(self, value: AwaitingValue, sending: Mapping[str, int]) -> list[SourceSettlement]:
        """The answers are stored; returns the messages that they settle.

        @param sending: as of L{load}; the limit on answers for each destination.
        """
        settlements: list[SourceSettlement] = []
        for answer in value.answers:
            self._note(_Answered(answer, value), sending)
            settlements += self._decide(_key(answer))
        return settlements

    def sweep(self, sending: Mapping[str, int]) -> None:
        """Drop answers for messages that were removed from their outgoing queues otherwise.

        @param sending: as of L{load}.
        """
        for destination in [*self._early]:
            self._trim(destination, sending)

    # Ends

    @property
    def due(self) -> float | None:
        """When the next wait may expire, in seconds since 1970-01-01 UTC; C{None} if no message waits."""
        while self._seconds and self._seconds[0] not in self._due:
            heapq.heappop(self._seconds)
        return max(self._seconds[0], self._not_before) if self._seconds else None

    def expire(self, now: float, most: int) -> list[SourceSettlement]:
        """The messages whose wait has expired without an answer.

        @param most: limit on one call.
        """
        settlements: list[SourceSettlement] = []
        while len(settlements) < most and (due := self.due) is not None and due <= now:
            for key in list(islice(self._due[self._seconds[0]], most - len(settlements))):
                settlements += self._fail(key, WaitEnd.EXPIRED)
        return settlements

    def settled(self, settlements: Iterable[SourceSettlement]) -> None:
        """These settlements are stored: drop their entries."""
        for settlement in settlements:
            for value in settlement.values:
                self._release(value)

    def take_changes(self) -> list[StateChange]:
        """The removal of obsolete values, to be stored with any later commit."""
        closed, self._closed = self._closed, []
        return closed

    # Private

    def _put(self, message: AwaitedMessage, lookup_id: int, value: AwaitingValue) -> _Waiting:
        key = _key(message)
        waiting = self._waiting[key] = _Waiting(message, lookup_id, value, [])
        self._counts[key[0]] += 1
        if message.due not in self._due:
            self._due[message.due] = {}
            heapq.heappush(self._seconds, message.due)
            if len(self._seconds) > 2 * len(self._due) + _SLACK:
                # Most due messages were settled before, and their deadlines remain.
                self._seconds = sorted(self._due)
        self._due[message.due][key] = None
        return waiting

    def _note(self, answered: _Answered, sending: Mapping[str, int]) -> None:
        key = destination, number = _key(answered.answer)
        waiting = self._waiting.get(key)
        if waiting is not None:
            answers = waiting.answers
        else:
            answers = self._early.setdefault(destination, {}).setdefault(number, [])
        answers.append(answered)
        if len(answers) > MOST_ANSWERS:
            self._release(answers.pop(0).value)
        if waiting is None:
            self._trim(destination, sending)

    def _trim(self, destination: str, sending: Mapping[str, int]) -> None:
        """Limit the answers for a destination to the number of messages in its outgoing queue."""
        messages = self._early[destination]
        for number in list(islice(messages, max(0, len(messages) - sending.get(destination, 0)))):
            self.forget(destination, number)

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
        # The remaining answers only report the arrival.
        message_class = (
            MessageClass.NACK_RECEIVE_TIMEOUT if has_arrived else MessageClass.NACK_REACH_QUEUE_TIMEOUT
        )
        return self._settle(key, failed_disposal(message.wanted), message_class, end)

    def _settle(
        self, key: Key, disposal: Disposal, message_class: int, end: WaitEnd
    ) -> list[SourceSettlement]:
        waiting = self._waiting.pop(key)
        self._counts[key[0]] -= 1
        if not self._counts[key[0]]:
            del self._counts[key[0]]
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
        """The values of one kind, oldest first."""
        found = numbered(state, prefix)
        self._numbers[prefix] = count(found[-1][0] + 1 if found else 1)
        return [(name, data) for _, name, data in found]


def _key(message: AwaitedMessage | MessageAnswer) -> Key:
    return message.destination.casefold(), message.number
