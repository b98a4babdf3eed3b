"""What was done with a queue manager, and what may be there after its end by all that was said."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import attrs

from tests.faults.naming import Name, key_of, marks_of

Place: TypeAlias = str | None
"""The identifier of a queue; C{None} is nowhere."""

_NOT_THERE = {"MQ_ERROR_QUEUE_DELETED", "MQ_ERROR_QUEUE_NOT_FOUND"}
_EXPECTED_REFUSALS = {
    "take": {"MQ_ERROR_IO_TIMEOUT", *_NOT_THERE},
    "send": {"MQ_ERROR_INSUFFICIENT_RESOURCES", *_NOT_THERE},
    "create": {"MQ_ERROR_QUEUE_EXISTS"},
}
"""What may be refused without anything being wrong; of other operations, nothing."""


@attrs.define(eq=False)
class Operation:
    """What one user does, from its beginning to its end.

    @ivar effects: where it brings each message, all together or none.
    @ivar leaving: messages that it lets go one by one; C{perhaps} are those that it may let go.
    """

    kind: str
    details: list[Any]
    effects: dict[str, Place] = attrs.field(factory=dict)
    leaving: set[str] = attrs.field(factory=set)
    perhaps: set[str] = attrs.field(factory=set)

    def moves(self, key: str, places: set[Place]) -> set[Place]:
        """Where else than in these places a message may be while this is under way."""
        moved = {self.effects[key]} if key in self.effects else set()
        if (
            key in self.leaving
            or key in self.perhaps
            or (self.kind == "delete" and self.details[0] in places)
        ):
            moved.add(None)
        return moved


@attrs.define
class History:
    """Follows what is said of the doings of a queue manager's users, through all its lives.

    @ivar faults: what is wrong.
    @ivar queues: the paths of the queues that are there.
    @ivar labels: the labels that a queue may have.
    @ivar deleted: queues that are gone for good.
    @ivar places: of every message the places where it may be.
    @ivar under_way: what has begun and not ended.
    @ivar order: of every message of a queue, when it was sent.
    """

    faults: list[str] = attrs.field(factory=list)
    queues: dict[str, str] = attrs.field(factory=dict)
    labels: dict[str, set[str]] = attrs.field(factory=dict)
    deleted: set[str] = attrs.field(factory=set)
    places: dict[str, set[Place]] = attrs.field(factory=dict)
    under_way: dict[int, Operation] = attrs.field(factory=dict)
    order: dict[str, tuple[int, int]] = attrs.field(factory=dict)
    _taken: dict[int, set[str]] = attrs.field(factory=dict)
    _identifiers: dict[str, str] = attrs.field(factory=dict)
    _lines: int = 0

    def hear(self, line: list[Any]) -> None:
        """Take in one line of L{tests.faults.life}."""
        self._lines += 1
        what, *rest = line
        hears: dict[str, Callable[..., None]] = {
            "begin": self._hear_begin,
            "end": self._hear_end,
            "refused": self._hear_refused,
            "took": self._hear_took,
            "released": self._hear_released,
            "fault": self.faults.append,
        }
        if what in hears:
            hears[what](*rest)

    def go_on_from(
        self, queues: dict[str, str], labels: dict[str, set[str]], places: dict[str, set[Place]]
    ) -> None:
        """Another life has begun with this."""
        self.queues, self.labels, self.places = queues, labels, places
        self.under_way.clear()
        self._taken.clear()

    def identify(self, name: str, identifier: str) -> None:
        """A message has this identifier, as no other one ever has."""
        known = self._identifiers.setdefault(identifier, name)
        if known != name:
            self.faults.append(f"{identifier} is the identifier of {known} and of {name}")

    def known(self) -> set[str]:
        """The messages that may be somewhere."""
        effects = (operation.effects for operation in self.under_way.values())
        return set(self.places).union(*effects)

    def allowed(self, key: str) -> set[Place]:
        """Where a message may be after the end of a life."""
        if "x" in marks_of(key):
            return {None}
        places = self._places_by_now(key)
        return {None if place in self.deleted else place for place in places}

    def groups(self) -> Iterator[tuple[Operation, list[str]]]:
        """What is under way, with those messages where nothing else decides what becomes of them."""
        for operation in self.under_way.values():
            others = [other for other in self.under_way.values() if other is not operation]
            yield (
                operation,
                [
                    key
                    for key in operation.effects
                    if "x" not in marks_of(key) and self._is_settled_but_for(key, operation, others)
                ],
            )

    def under_way_with(self, kind: str) -> Iterator[Operation]:
        """Operations of one kind."""
        return (operation for operation in self.under_way.values() if operation.kind == kind)

    def _is_settled_but_for(self, key: str, operation: Operation, others: list[Operation]) -> bool:
        places = self.places.get(key, {None})
        after = {*places, operation.effects[key]}
        return len(places) == 1 and not after & self.deleted and not any(o.moves(key, after) for o in others)

    def _places_by_now(self, key: str) -> set[Place]:
        """Where a message may be while what is under way goes on."""
        places = set(self.places.get(key, {None}))
        for operation in self.under_way.values():
            places |= operation.moves(key, places)
        for operation in self.under_way_with("delete"):
            places |= operation.moves(key, places)
        return places

    # What is said

    def _hear_begin(self, number: int, kind: str, *details: Any) -> None:
        operation = Operation(kind, list(details))
        match kind:
            case "send":
                places, names = details
                for name in names:
                    for place in places:
                        key = key_of(name, place)
                        operation.effects[key] = place
                        self.order[key] = (self._lines, Name.of(name).number)
            case "confirm":
                identifier, names = details
                operation.effects = {key_of(name, identifier): None for name in names}
            case "purge":
                [identifier] = details
                there = {key for key, places in self.places.items() if identifier in places}
                held = self._held(identifier)
                operation.leaving = {key for key in there - held if self.places[key] == {identifier}}
                operation.perhaps = (there - operation.leaving) | held | self._coming(identifier)
        self.under_way[number] = operation

    def _hear_end(self, number: int, result: Any) -> None:
        operation = self.under_way.pop(number)
        for key, place in operation.effects.items():
            self.places[key] = {None if place in self.deleted else place}
        match operation.kind:
            case "send":
                for name, identifier in zip(operation.details[1], result, strict=True):
                    self.identify(name, identifier)
            case "confirm":
                self._taken.pop(number, None)
            case "create":
                self.queues[result] = operation.details[0]
                self.labels[result] = {""}
            case "label":
                identifier, label = operation.details
                self.labels[identifier] = {label}
            case "delete":
                self._delete(operation.details[0])
            case "purge":
                perhaps = operation.perhaps | self._held(operation.details[0])
                for key in operation.leaving - perhaps:
                    self.places[key] = {None}
                for key in perhaps & set(self.places):
                    self.places[key].add(None)

    def _delete(self, identifier: str) -> None:
        self.queues.pop(identifier, None)
        self.deleted.add(identifier)
        for key, places in self.places.items():
            self.places[key] = {None if place == identifier else place for place in places}

    def _hear_refused(self, number: int, status: str, detail: str) -> None:
        operation = self.under_way.pop(number)
        self._taken.pop(number, None)
        if status not in _EXPECTED_REFUSALS.get(operation.kind, ()):
            self.faults.append(f"{operation.kind} {operation.details} was refused: {status}: {detail}")

    def _hear_took(self, number: int, identifier: str, names: list[str]) -> None:
        del self.under_way[number]
        keys = [key_of(name, identifier) for name in names]
        for key in keys:
            if identifier not in self._places_by_now(key):
                self.faults.append(f"{key} was received where it is not: {self.places.get(key)}")
            if any(key in others for others in self._taken.values()):
                self.faults.append(f"{key} was given to two readers at once")
        if (ordered := sorted(keys, key=self._precedence)) != keys:
            self.faults.append(f"{keys} were received in this order, not as {ordered}")
        taken = set(keys)
        for operation in self.under_way_with("purge"):
            if operation.details == [identifier]:
                operation.perhaps |= taken
                operation.leaving -= taken
        self._taken[number] = taken

    def _precedence(self, key: str) -> tuple[int, tuple[int, int]]:
        return -Name.of(key.partition("@")[0]).priority, self.order[key]

    def _hear_released(self, number: int) -> None:
        del self._taken[number]

    def _held(self, identifier: str) -> set[str]:
        """What readers have of a queue, or may be about to get."""
        held = set().union(*self._taken.values())
        if any(operation.details == [identifier] for operation in self.under_way_with("take")):
            held |= {key for key, places in self.places.items() if identifier in places}
        return held

    def _coming(self, identifier: str) -> set[str]:
        """What is on its way into a queue."""
        return {
            key
            for operation in self.under_way.values()
            for key, place in operation.effects.items()
            if place == identifier
        }
