"""Comparison of the content of a queue manager at a start with the operations before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import attrs

from tests.faults.history import History, Place
from tests.faults.naming import AWAY, EXPRESS, PAIRED, Name, key_of, marks_of
from tests.faults.users import DEAD_LETTERS, JOURNAL, POISON, QUEUES


@attrs.frozen
class FoundQueue:
    """A queue, and what it says of its messages."""

    path: str
    label: str
    messages: int
    size: int


@attrs.frozen
class FoundMessage:
    """A message, and its queue."""

    place: str
    lookup_id: int
    size: int
    moves: int


@attrs.define
class Logs:
    """Content of the logs of the store, over all runs.

    @ivar logged: the last number of a message log; C{noted} is that of the event log.
    @ivar arrived: how often each message is in the log of each queue.
    @ivar events: the events of messages, by identifier.
    """

    logged: int = 0
    noted: int = 0
    arrived: Counter[tuple[str, str]] = attrs.field(factory=Counter)
    events: dict[str, list[str]] = attrs.field(factory=dict)


@attrs.define
class Inventory:
    """Follows what is said of what is there; makes sure, at its end, that it may be so.

    @ivar queues: by their identifiers.
    @ivar messages: in the order of their queues.
    @ivar is_complete: whether all was said; before that it says nothing.
    """

    history: History
    logs: Logs
    queues: dict[str, FoundQueue] = attrs.field(factory=dict)
    messages: dict[str, FoundMessage] = attrs.field(factory=dict)
    is_complete: bool = False
    _new_logs: Logs = attrs.field(factory=Logs)
    _faults: list[str] = attrs.field(factory=list)

    def hear(self, line: list[Any]) -> None:
        """Take in one line of L{tests.faults.life}."""
        what, *rest = line
        hears: dict[str, Callable[..., None]] = {
            "queue": self._hear_queue,
            "found": self._hear_found,
            "logged": self._hear_logged,
            "event": self._hear_event,
            "status": self._hear_status,
        }
        if what in hears:
            hears[what](*rest)

    def _hear_queue(self, identifier: str, path: str, label: str, messages: int, size: int) -> None:
        self.queues[identifier] = FoundQueue(path, label, messages, size)

    def _hear_found(
        self, name: str, identifier: str, priority: int, place: str, lookup_id: int, size: int, moves: int
    ) -> None:
        key = key_of(name, place)
        if key in self.messages:
            self._faults.append(f"{key} is in {self.messages[key].place} and in {place}")
        if not priority == Name.of(name).priority == 7 - (lookup_id >> 56):
            self._faults.append(f"{key} has the priority {priority} and the place {lookup_id:#x}")
        self.messages[key] = FoundMessage(place, lookup_id, size, moves)
        self.history.identify(name, identifier)

    def _hear_logged(self, identifier: str, sequence: int, name: str) -> None:
        self._new_logs.arrived[identifier, name] += 1
        self._new_logs.logged = max(self._new_logs.logged, sequence)

    def _hear_event(self, sequence: int, identifier: str, event: str) -> None:
        self._new_logs.events.setdefault(identifier, []).append(event)
        self._new_logs.noted = sequence

    def _hear_status(self, messages: int, size: int, outgoing: list[tuple[int, int]]) -> None:
        """The last line: hold all of it against the history, which goes on from here."""
        self._take_logs()
        self._faults += self._wrong_queues()
        self._faults += self._wrong_places()
        self._faults += self._wrong_order()
        self._faults += self._wrong_counts(messages, size, outgoing)
        self._faults += self._wrong_logs()
        self._faults += self._wrong_events()
        self.is_complete = True
        history = self.history
        history.faults += self._faults
        places: dict[str, set[Place]] = {key: {message.place} for key, message in self.messages.items()}
        for key in self._away():
            places[key] = history.allowed(key)
        history.go_on_from(
            {identifier: queue.path for identifier, queue in self.queues.items()},
            {identifier: {queue.label} for identifier, queue in self.queues.items()},
            places,
            {key: (message.moves, message.moves) for key, message in self.messages.items()},
        )

    def _take_logs(self) -> None:
        logs, new = self.logs, self._new_logs
        logs.logged = max(logs.logged, new.logged)
        logs.noted = max(logs.noted, new.noted)
        logs.arrived.update(new.arrived)
        for identifier, events in new.events.items():
            logs.events.setdefault(identifier, []).extend(events)

    def _wrong_queues(self) -> Iterator[str]:
        history = self.history
        deleting = {operation.details[0] for operation in history.under_way_with("delete")}
        creating = {operation.details[0] for operation in history.under_way_with("create")}
        for identifier, path in history.queues.items():
            if identifier not in self.queues and identifier not in deleting:
                yield f"the queue {path} {identifier} is lost"
        for identifier, queue in self.queues.items():
            if identifier not in history.queues and queue.path not in creating:
                yield f"the queue {queue.path} {identifier} was deleted, or never made"
            labels = history.labels.get(identifier, {""}) | {
                operation.details[1]
                for operation in history.under_way_with("label")
                if operation.details[0] == identifier
            }
            if queue.label not in labels:
                yield f"the queue {queue.path} has the label {queue.label!r}, not one of {labels}"

    def _wrong_places(self) -> Iterator[str]:
        history = self.history
        for key in sorted(history.known().union(self.messages)):
            actual, allowed = self._place(key), history.allowed(key)
            if AWAY not in marks_of(key) and actual not in allowed:
                yield f"{key} is in {actual}, not in one of {allowed}"
        for operation, keys in history.groups():
            outcomes = {
                self._place(key) == operation.effects[key] for key in keys if AWAY not in marks_of(key)
            }
            if len(outcomes) > 1:
                yield f"{operation.kind} {operation.details} was done in part"
        for key, message in self.messages.items():
            least, most = history.moved.get(key, (0, 0))
            if not (least <= message.moves <= most or _is_copy(message.place)):
                yield f"{key} was moved {message.moves} times, not {least} to {most}"

    def _place(self, key: str) -> Place:
        message = self.messages.get(key)
        return None if message is None else message.place

    def _wrong_order(self) -> Iterator[str]:
        last: dict[str, str] = {}
        for key, message in self.messages.items():
            before = last.get(message.place)
            last[message.place] = key
            if before is None:
                continue
            is_in_order = _is_copy(message.place) or self.history.is_in_order(before, key)
            if self.messages[before].lookup_id >= message.lookup_id or not is_in_order:
                yield f"{key} is behind {before} in {message.place}"

    def _wrong_counts(self, messages: int, size: int, outgoing: list[tuple[int, int]]) -> Iterator[str]:
        counted = {identifier: [0, 0] for identifier in self.queues}
        beside = [0, 0]
        for message in self.messages.values():
            count = counted.get(message.place, beside)
            count[0] += 1
            count[1] += message.size
        for identifier, queue in self.queues.items():
            if [queue.messages, queue.size] != counted[identifier]:
                yield f"{queue} has {counted[identifier]} messages and bytes"
        total = [sum(column) for column in zip(beside, *counted.values(), *outgoing, strict=True)]
        if [messages, size] != total:
            yield f"the status tells of {messages} messages and {size} bytes, and {total} are there"
        allowed = [self.history.allowed(key) for key in self._away()]
        least, most = (
            sum(None not in places for places in allowed),
            sum(places != {None} for places in allowed),
        )
        waiting = sum(count for count, _ in outgoing)
        if not least <= waiting <= most:
            yield f"{waiting} messages wait to be sent, not {least} to {most}"

    def _wrong_logs(self) -> Iterator[str]:
        """Violations in the message log, which is written in the transaction of the arrival."""
        for identifier, queue in self.queues.items():
            if not QUEUES[queue.path].get("log"):
                continue
            begun = self._begun(identifier)
            names = {
                name for place, name in (*self.history.arrived, *self.logs.arrived) if place == identifier
            }
            for name in {*names, *begun}:
                least = self.history.arrived[identifier, name]
                logged = self.logs.arrived[identifier, name]
                if EXPRESS not in marks_of(name) and not least <= logged <= least + begun[name]:
                    yield f"{name} is {logged} times in the log of {queue.path}, and arrived {least} times"
            for key, message in self.messages.items():
                if message.place == identifier and not self.logs.arrived[identifier, key]:
                    yield f"{key} is in {queue.path}, and not in its log"
            for name in {*names, *begun}:
                self.history.arrived[identifier, name] = self.logs.arrived[identifier, name]

    def _begun(self, identifier: str) -> Counter[str]:
        """The messages that may or may not have arrived in a queue."""
        return Counter(
            key
            for operation in self.history.under_way.values()
            if operation.kind in ("send", "requeue")
            for key, place in operation.effects.items()
            if place == identifier
        )

    def _wrong_events(self) -> Iterator[str]:
        """Violations in the event log: exactly the messages removed without being received have an event."""
        history = self.history
        for key in history.known().union(self.messages):
            if set(marks_of(key)) & {EXPRESS, AWAY, PAIRED} or key not in history.identifiers:
                continue
            events = self.logs.events.get(history.identifiers[key], [])
            place = self._place(key)
            if place is not None and place.endswith(POISON):
                if set(events) != {"poisoned"}:
                    yield f"{key} is in {place}, and its events are {events}"
                continue
            # It may have been taken out of there since.
            events = [event for event in events if event != "poisoned"]
            has_reason = key in history.received or key not in history.places
            if place is None and not events and not has_reason:
                yield f"{key} is gone without an event"
            elif place == DEAD_LETTERS and events != ["expired"]:
                yield f"{key} is a dead letter, and its events are {events}"
            elif place not in (None, DEAD_LETTERS) and events:
                yield f"{key} is in {place}, and its events are {events}"

    def _away(self) -> list[str]:
        return [key for key in self.history.known() if AWAY in marks_of(key)]


def _is_copy(place: str) -> bool:
    return place == DEAD_LETTERS or place.endswith(JOURNAL)
