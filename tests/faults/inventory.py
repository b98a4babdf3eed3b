"""What a queue manager finds at the beginning of a life, held against what was done before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import attrs

from tests.faults.history import History, Place
from tests.faults.naming import Name, key_of, marks_of


@attrs.frozen
class FoundQueue:
    """A queue, and what it says of its messages."""

    path: str
    label: str
    messages: int
    size: int


@attrs.frozen
class FoundMessage:
    """A message, and the queue in which it is."""

    queue: str
    lookup_id: int
    size: int


@attrs.define
class Inventory:
    """Follows what is said of what is there; makes sure, at its end, that it may be so.

    @ivar queues: by their identifiers.
    @ivar messages: in the order of their queues.
    @ivar is_complete: whether all was said; before that it says nothing.
    """

    history: History
    queues: dict[str, FoundQueue] = attrs.field(factory=dict)
    messages: dict[str, FoundMessage] = attrs.field(factory=dict)
    is_complete: bool = False
    _faults: list[str] = attrs.field(factory=list)

    def hear(self, line: list[Any]) -> None:
        """Take in one line of L{tests.faults.life}."""
        what, *rest = line
        hears: dict[str, Callable[..., None]] = {
            "queue": self._hear_queue,
            "found": self._hear_found,
            "status": self._hear_status,
        }
        if what in hears:
            hears[what](*rest)

    def _hear_queue(self, identifier: str, path: str, label: str, messages: int, size: int) -> None:
        self.queues[identifier] = FoundQueue(path, label, messages, size)

    def _hear_found(
        self, name: str, identifier: str, priority: int, queue: str, lookup_id: int, size: int
    ) -> None:
        key = key_of(name, queue)
        if key in self.messages:
            self._faults.append(f"{key} is there twice")
        if not priority == Name.of(name).priority == 7 - (lookup_id >> 56):
            self._faults.append(f"{key} has the priority {priority} and the place {lookup_id:#x}")
        self.messages[key] = FoundMessage(queue, lookup_id, size)
        self.history.identify(name, identifier)

    def _hear_status(self, messages: int, size: int, outgoing: list[tuple[str, int, int]]) -> None:
        """The last line: hold all of it against the history, which goes on from here."""
        self._faults += self._wrong_queues()
        self._faults += self._wrong_messages()
        self._faults += self._wrong_order()
        self._faults += self._wrong_counts(messages, size, outgoing)
        self.is_complete = True
        history = self.history
        history.faults += self._faults
        places: dict[str, set[Place]] = {key: {message.queue} for key, message in self.messages.items()}
        for key in self._away():
            places[key] = history.allowed(key)
        history.go_on_from(
            {identifier: queue.path for identifier, queue in self.queues.items()},
            {identifier: {queue.label} for identifier, queue in self.queues.items()},
            places,
        )

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

    def _wrong_messages(self) -> Iterator[str]:
        history = self.history
        for key in sorted(history.known().union(self.messages)):
            actual, allowed = self._place(key), history.allowed(key)
            if "a" not in marks_of(key) and actual not in allowed:
                yield f"{key} is in {actual}, not in one of {allowed}"
        for operation, keys in history.groups():
            outcomes = {
                self._place(key) == operation.effects[key] for key in keys if "a" not in marks_of(key)
            }
            if len(outcomes) > 1:
                yield f"{operation.kind} {operation.details} was done in part"

    def _place(self, key: str) -> Place:
        message = self.messages.get(key)
        return None if message is None else message.queue

    def _wrong_order(self) -> Iterator[str]:
        last: dict[tuple[str, int], tuple[tuple[int, int], int, str]] = {}
        for key, message in self.messages.items():
            where = message.queue, message.lookup_id >> 56
            order = self.history.order.get(key, (0, 0))
            if where in last and not (last[where][0] < order and last[where][1] < message.lookup_id):
                yield f"{key} is behind {last[where][2]}"
            last[where] = order, message.lookup_id, key

    def _wrong_counts(self, messages: int, size: int, outgoing: list[tuple[str, int, int]]) -> Iterator[str]:
        counted = {identifier: [0, 0] for identifier in self.queues}
        for message in self.messages.values():
            counted[message.queue][0] += 1
            counted[message.queue][1] += message.size
        for identifier, queue in self.queues.items():
            if [queue.messages, queue.size] != counted[identifier]:
                yield f"{queue} has {counted[identifier]} messages and bytes"
        away = [queue[1:] for queue in outgoing]
        total = [sum(column) for column in zip([0, 0], *counted.values(), *away, strict=True)]
        if [messages, size] != total:
            yield f"the status tells of {messages} messages and {size} bytes, and {total} are there"
        allowed = [self.history.allowed(key) for key in self._away()]
        least, most = (
            sum(None not in places for places in allowed),
            sum(places != {None} for places in allowed),
        )
        waiting = sum(queue[1] for queue in outgoing)
        if not least <= waiting <= most:
            yield f"{waiting} messages wait to be sent, not {least} to {most}"

    def _away(self) -> list[str]:
        return [key for key in self.history.known() if "a" in marks_of(key)]
