"""Events that a test observes: the latest, callbacks for each, and a Deferred for the first that fits."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import ClassVar, Generic, TypeVar

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from msmq.errors import LocalProtocolError
from msmq.quoting import kind_of

T = TypeVar("T")


class ObservedEvents(Generic[T]):
    """The events of one part, in order.

    @param most: the limit on events that are kept; the oldest are removed.
    @param most_text: the limit on the characters of their texts together, which peers choose; beyond it too
        the oldest are removed, down to one.
    @param text_of: the part of an event that a peer chooses: texts in any nesting of mappings and lists.
    @ivar latest: the latest events.
    @ivar observers: called with each event. An error of one is logged, which fails a test of trial; what is
        observed goes on, and so do the others.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(self, most: int, most_text: int, text_of: Callable[[T], object]) -> None:
        self.latest: deque[T] = deque()
        self._most = most
        self._most_text = most_text
        self._text_of = text_of
        self._sizes: deque[int] = deque()
        self._text = 0
        self.observers: list[Callable[[T], object]] = []
        self._waiting: list[tuple[Callable[[T], object], Deferred[T]]] = []

    def when(self, condition: Callable[[T], object]) -> Deferred[T]:
        """Fires with the first event, of those kept or of the future, for which C{condition} is true, or with
        what that raises.

        @raise LocalProtocolError: C{condition} is not callable.
        """
        if not callable(condition):
            raise LocalProtocolError(f"when: condition is {kind_of(condition)}; it has to be a callable")
        waiting: Deferred[T] = Deferred(self._forget)
        for event in self.latest:
            if outcome := _outcome(condition, event):
                _fire(waiting, event, outcome)
                return waiting
        self._waiting.append((condition, waiting))
        return waiting

    def add(self, event: T) -> None:
        """Keep an event, and report it."""
        self._keep(event)
        for observer in tuple(self.observers):
            try:
                observer(event)
            except Exception:
                self.log.failure("an observer of the events of a test double failed")
        for condition, waiting in tuple(self._waiting):
            # An earlier one may have cancelled it.
            if (condition, waiting) in self._waiting and (outcome := _outcome(condition, event)):
                self._waiting.remove((condition, waiting))
                _fire(waiting, event, outcome)

    def _keep(self, event: T) -> None:
        size = _text_size(self._text_of(event))
        self.latest.append(event)
        self._sizes.append(size)
        self._text += size
        while len(self.latest) > self._most or (self._text > self._most_text and len(self.latest) > 1):
            self.latest.popleft()
            self._text -= self._sizes.popleft()

    def _forget(self, waiting: Deferred[T]) -> None:
        self._waiting = [each for each in self._waiting if each[1] is not waiting]


def _outcome(condition: Callable[[T], object], event: T) -> bool | Failure:
    """Whether a condition is true, or its error, which is none of the part that is observed."""
    try:
        return bool(condition(event))
    except Exception:
        return Failure()


def _fire(waiting: Deferred[T], event: T, outcome: bool | Failure) -> None:
    if isinstance(outcome, Failure):
        waiting.errback(outcome)
    else:
        waiting.callback(event)


def _text_size(value: object) -> int:
    """Characters of all texts in a value."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, Mapping):
        return sum(map(_text_size, value.values()))
    if isinstance(value, list | tuple):
        return sum(map(_text_size, value))
    return 0
