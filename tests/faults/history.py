"""Record of the operations on a queue manager, and of the states that they allow after its end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import attrs

from tests.faults.naming import BURIED, EXPRESS, TIMED, Name, key_of, main_queue, marks_of
from tests.faults.users import DEAD_LETTERS, JOURNAL

Place: TypeAlias = str | None
"""The identifier of a queue, with the suffix of a journal or subqueue; C{None} is nowhere."""

_NOT_THERE = {"MQ_ERROR_QUEUE_DELETED", "MQ_ERROR_QUEUE_NOT_FOUND", "MQ_ERROR_QUEUE_NOT_AVAILABLE"}
_TAKEN = {
    "MQ_ERROR_MESSAGE_NOT_FOUND",
    "MQ_ERROR_MESSAGE_LOCKED_UNDER_TRANSACTION",
    "MQ_ERROR_MESSAGE_ALREADY_RECEIVED",
    "MQ_ERROR_INVALID_PARAMETER",
}
_EXPECTED_REFUSALS: Mapping[str, set[str]] = {
    "take": {"MQ_ERROR_IO_TIMEOUT", *_NOT_THERE, *_TAKEN},
    "lock": {*_NOT_THERE, *_TAKEN},
    "send": {"MQ_ERROR_INSUFFICIENT_RESOURCES", *_NOT_THERE},
    "create": {"MQ_ERROR_QUEUE_EXISTS"},
    "move": {*_NOT_THERE, *_TAKEN},
    "requeue": {"MQ_ERROR_INSUFFICIENT_RESOURCES", *_NOT_THERE, *_TAKEN},
    "label": _NOT_THERE,
    "purge": _NOT_THERE,
    "confirm": {"MQ_ERROR_QUEUE_DELETED"},
    "commit": {"MQ_ERROR_QUEUE_DELETED"},
}
"""What may be refused without anything being wrong; of other operations, nothing."""


@attrs.define(eq=False)
class Operation:
    """Operation of one user, from its beginning to its end.

    @ivar effects: the new queue of each message, all together or none.
    @ivar leaving: removed messages, each independent.
    @ivar perhaps: possible new queues of messages, each independent.
    @ivar is_overtaken: whether its queue may have changed since it began.
    @ivar is_void: whether it receives messages of a queue that was deleted before it began.
    """

    kind: str
    details: list[Any]
    effects: dict[str, Place] = attrs.field(factory=dict)
    leaving: set[str] = attrs.field(factory=set)
    perhaps: dict[str, Place] = attrs.field(factory=dict)
    is_overtaken: bool = False
    is_void: bool = False

    def sources(self) -> set[str]:
        """The queues whose messages a confirmation or a commit receives."""
        return {
            main_queue(source)
            for _, source, target in self.details[0]
            if source is not None and (target is None or target.endswith(JOURNAL))
        }

    def brings(self, key: str, places: Iterable[Place]) -> set[Place]:
        """In which other queues a message may be while this is pending."""
        brought = {bring[key] for bring in (self.effects, self.perhaps) if key in bring}
        is_deleted = self.kind == "delete" and any(
            place is not None and main_queue(place) == self.details[0] for place in places
        )
        return brought | {None} if key in self.leaving or is_deleted else brought


@attrs.define
class History:
    """Follows the reports of a queue manager's users, through all its lives.

    @ivar faults: what is wrong.
    @ivar queues: the paths of the existing queues.
    @ivar labels: the labels that a queue may have.
    @ivar deleted: queues that are deleted permanently.
    @ivar places: of every message the queues in which it may be.
    @ivar under_way: pending operations.
    @ivar order: of every message of a queue, when it was sent; C{None} if that is not known.
    @ivar identifiers: the last identifier of every message, which changes when a dead letter is sent again.
    @ivar received: messages that were received, or may have been.
    @ivar moved: how often every message was moved at least, and at most.
    @ivar arrived: how often every message came into a queue at least.
    """

    faults: list[str] = attrs.field(factory=list)
    queues: dict[str, str] = attrs.field(factory=dict)
    labels: dict[str, set[str]] = attrs.field(factory=dict)
    deleted: set[str] = attrs.field(factory=set)
    places: dict[str, set[Place]] = attrs.field(factory=dict)
    under_way: dict[int, Operation] = attrs.field(factory=dict)
    order: dict[str, tuple[int, int] | None] = attrs.field(factory=dict)
    identifiers: dict[str, str] = attrs.field(factory=dict)
    received: set[str] = attrs.field(factory=set)
    moved: dict[str, tuple[int, int]] = attrs.field(factory=dict)
    arrived: Counter[tuple[str, str]] = attrs.field(factory=Counter)
    _purged: set[str] = attrs.field(factory=set)
    _taken: dict[int, set[str]] = attrs.field(factory=dict)
    _owners: dict[str, str] = attrs.field(factory=dict)
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
            "sends": self._hear_sends,
            "fault": self.faults.append,
        }
        if what in hears:
            hears[what](*rest)

    def go_on_from(
        self,
        queues: dict[str, str],
        labels: dict[str, set[str]],
        places: dict[str, set[Place]],
        moved: dict[str, tuple[int, int]],
    ) -> None:
        """Another life has begun with this."""
        self.queues, self.labels, self.places, self.moved = queues, labels, places, moved
        self.under_way.clear()
        self.received = {key for key, where in places.items() if any(map(_is_journal, where))}
        self._purged.clear()
        self._taken.clear()

    def identify(self, name: str, identifier: str) -> None:
        """A message has this identifier, as no other one ever has."""
        self.identifiers[name] = identifier
        owner = self._owners.setdefault(identifier, name)
        if owner != name:
            self.faults.append(f"{identifier} is the identifier of {owner} and of {name}")

    def known(self) -> set[str]:
        """The messages that may be somewhere."""
        effects = (operation.effects for operation in self.under_way.values())
        return set(self.places).union(*effects)

    def allowed(self, key: str) -> set[Place]:
        """Where a message may be after the end of a life."""
        if EXPRESS in marks_of(key):
            return {None}
        return {self._unless_deleted(place) for place in self._places_by_now(key)}

    def groups(self) -> Iterator[tuple[Operation, list[str]]]:
        """Pending operations, with those messages whose fate only they decide."""
        for operation in self.under_way.values():
            others = [other for other in self.under_way.values() if other is not operation]
            keys = [key for key in operation.effects if self._is_settled_but_for(key, operation, others)]
            yield operation, keys

    def under_way_with(self, kind: str) -> Iterator[Operation]:
        """Operations of one kind."""
        return (operation for operation in self.under_way.values() if operation.kind == kind)

    def _is_settled_but_for(self, key: str, operation: Operation, others: list[Operation]) -> bool:
        places = self.places.get(key, {None})
        after = {*places, operation.effects[key]}
        return (
            EXPRESS not in marks_of(key)
            and TIMED not in marks_of(key)
            and len(places) == 1
            and after == {self._unless_deleted(place) for place in after}
            and not any(other.brings(key, after) for other in others)
        )

    def _places_by_now(self, key: str) -> set[Place]:
        """In which queues a message may be while operations are pending."""
        places = set(self.places.get(key, {None}))
        for operation in (*self.under_way.values(), *self.under_way_with("delete")):
            places |= operation.brings(key, places)
        return _after_time(key, places)

    def _is_in_deletion(self, place: Place) -> bool:
        return place is not None and self._is_deleting(main_queue(place))

    def _is_deleting(self, identifier: str) -> bool:
        """Whether the deletion of a queue has begun at least."""
        deleting = (operation.details[0] for operation in self.under_way_with("delete"))
        return identifier in self.deleted or identifier in deleting

    def _unless_deleted(self, place: Place) -> Place:
        return None if place is not None and main_queue(place) in self.deleted else place

    # Beginnings

    def _hear_begin(self, number: int, kind: str, *details: Any) -> None:
        operation = Operation(kind, list(details))
        match kind:
            case "send":
                places, names = details
                for place in places:
                    operation.effects |= {key_of(name, place): place for name in names}
                    self._order(names, place)
            case "confirm" | "commit" | "move" | "requeue":
                [effects] = details
                for name, source, target in effects:
                    operation.effects[key_of(name, source)] = target
                    if target is None or target.endswith(JOURNAL):
                        self.received.add(key_of(name, source))
                    self._move(name, source, target, 0, 1)
                if kind in ("confirm", "commit"):
                    operation.is_void = not self.deleted.isdisjoint(operation.sources())
                if kind == "requeue":
                    # It gets its place only when it was found, and others may come in between.
                    self.order.update(dict.fromkeys(operation.effects, None))
                    self.moved |= {key: (0, self.moved.get(key, (0, 0))[1]) for key in operation.effects}
            case "abort":
                self._begin_abort(number, operation)
            case "purge":
                self._begin_purge(operation, details[0])
        # What begins while a queue is purged may come before the purge, or behind it.
        for purge in self.under_way_with("purge"):
            self._overtake(purge, [*operation.effects, *operation.perhaps])
        self.under_way[number] = operation
        for other, commit in self.under_way.items():
            if commit.kind == "commit" and not commit.perhaps and self._is_to_be_refused(commit):
                self._begin_abort(other, commit)

    def _is_to_be_refused(self, operation: Operation) -> bool:
        """Whether a confirmation or a commit may be refused, since the senders got NackQueueDeleted."""
        return any(map(self._is_deleting, operation.sources()))

    def _begin_abort(self, number: int, operation: Operation) -> None:
        # What it has received is there for others before the end is reported to it.
        self._taken.pop(number, None)
        for name, source, _ in operation.details[0]:
            if source is not None:
                operation.perhaps[name] = f"{main_queue(source)};poison"
                self._move(name, "", ";poison", 0, 1)

    def _hear_sends(self, place: str, names: list[str]) -> None:
        """Messages get their positions in a queue by being sent, not by the commit of their transaction."""
        self._order(names, place)

    def _identify(self, names: list[str], identifiers: list[str]) -> None:
        for name, identifier in zip(names, identifiers, strict=True):
            self.identify(name, identifier)

    def _order(self, names: Iterable[str], place: str) -> None:
        for number, name in enumerate(names):
            self.order[key_of(name, place)] = self._lines, number

    def _begin_purge(self, operation: Operation, identifier: str) -> None:
        there = {key for key, places in self.places.items() if identifier in places}
        held = self._held(identifier)
        coming = {key for one in self.under_way.values() for key in (*one.effects, *one.perhaps)}
        if not any(purge.details == [identifier] for purge in self.under_way_with("purge")):
            # Else those that the other one lets go are for the other one to answer for.
            operation.leaving = {
                key for key in there - held - coming if _after_time(key, self.places[key]) == {identifier}
            }
        operation.perhaps = dict.fromkeys((there - operation.leaving) | held | coming)
        for take in self.under_way_with("take"):
            take.is_overtaken = True

    def _overtake(self, purge: Operation, keys: Iterable[str]) -> None:
        for key in keys:
            purge.perhaps.setdefault(key, None)
            purge.leaving.discard(key)

    # Ends

    def _hear_end(self, number: int, result: Any) -> None:
        operation = self.under_way.pop(number)
        self._taken.pop(number, None)
        if operation.is_void:
            self.faults.append(f"{operation.kind} {operation.details} received messages of a deleted queue")
        for key, place in operation.effects.items():
            self.places[key] = {self._unless_deleted(place)}
            if key in self._purged or any(key in purge.perhaps for purge in self.under_way_with("purge")):
                self.places[key].add(None)
            if operation.kind == "commit" and self._is_in_deletion(place):
                # A message that it moves leaves with the queue instead.
                self.places[key].add(None)
        match operation.kind:
            case "send":
                places, names = operation.details
                self._identify(names, result)
                self.arrived.update((place, name) for place in places for name in names)
            case "commit" | "move" | "confirm":
                if result:
                    self._identify(*result)
                for name, source, target in operation.details[0]:
                    self._move(name, source, target, int(len(self.places[key_of(name, source)]) == 1), 0)
                    if source is None:
                        self.arrived[target, name] += 1
            case "requeue":
                [[name, _, target]] = operation.details[0]
                self._identify([name], result)
                self.moved.pop(name, None)
                self.arrived[target, name] += 1
            case "abort":
                self._end_abort(operation)
            case "create":
                self.queues[result] = operation.details[0]
                self.labels[result] = {""}
            case "label":
                identifier, label = operation.details
                self.labels[identifier] = {label}
            case "delete":
                self._end_delete(operation.details[0])
            case "purge":
                self._end_purge(operation)

    def _end_abort(self, operation: Operation) -> None:
        for key, place in operation.perhaps.items():
            self.places[key] = {*self.places.get(key, set()), self._unless_deleted(place)}

    def _end_delete(self, identifier: str) -> None:
        self.queues.pop(identifier, None)
        self.deleted.add(identifier)
        for key, places in self.places.items():
            self.places[key] = set(map(self._unless_deleted, _after_time(key, places)))

    def _end_purge(self, operation: Operation) -> None:
        self._overtake(operation, self._held(operation.details[0]))
        for key in operation.leaving:
            self.places[key] = {None}
        for key in operation.perhaps:
            self._purged.add(key)
            if key in self.places:
                self.places[key].add(None)
        for take in self.under_way_with("take"):
            take.is_overtaken = True

    def _move(self, name: str, source: Place, target: Place, least: int, most: int) -> None:
        is_move = source is not None and target is not None and not _is_journal(target)
        if is_move and source != DEAD_LETTERS:
            before = self.moved.get(name, (0, 0))
            self.moved[name] = before[0] + least, before[1] + most

    def _hear_refused(self, number: int, status: str, detail: str) -> None:
        operation = self.under_way.pop(number)
        self._taken.pop(number, None)
        if operation.kind == "purge":
            # It came to some of them before the queue was deleted.
            for key in {*operation.leaving, *operation.perhaps} & self.places.keys():
                self.places[key].add(None)
        is_expected = status in _EXPECTED_REFUSALS.get(operation.kind, ())
        if is_expected and operation.kind in ("confirm", "commit"):
            is_expected = self._is_to_be_refused(operation)
            self._end_abort(operation)
            for name, source, _ in operation.details[0]:
                if source is not None and not _is_journal(source) and self._is_deleting(main_queue(source)):
                    self.received.discard(key_of(name, source))
        if not is_expected:
            self.faults.append(f"{operation.kind} {operation.details} was refused: {status}: {detail}")

    def _hear_took(self, number: int, taker: int, place: str, names: list[str]) -> None:
        take = self.under_way.pop(number)
        keys = [key_of(name, place) for name in names]
        # What is locked to be moved may have come to a subqueue since it was seen.
        is_there = take.kind == "take" and not self._is_deleting(main_queue(place))
        for key in keys:
            if is_there and place not in self._places_by_now(key):
                self.faults.append(f"{key} was received from {place}, and is in {self.places.get(key)}")
            if any(key in others for others in self._taken.values()):
                self.faults.append(f"{key} was given to two readers at once")
            if is_there and not take.is_overtaken:
                self.places[key] = {place}
                self._purged.discard(key)
        if ";" not in place and not all(map(self.is_in_order, keys, keys[1:])):
            self.faults.append(f"{keys} were received in this order")
        for purge in self.under_way_with("purge"):
            self._overtake(purge, keys)
        self._taken.setdefault(taker, set()).update(keys)

    def is_in_order(self, key: str, other: str) -> bool:
        """Whether the one message may lie before the other in a queue."""
        first, second = (Name.of(one.partition("@")[0]).priority for one in (key, other))
        when, then = self.order.get(key), self.order.get(other)
        return first > second or (first == second and (when is None or then is None or when < then))

    def _hear_released(self, number: int) -> None:
        del self._taken[number]

    def _held(self, identifier: str) -> set[str]:
        """The messages of a queue that readers hold, or may be about to get."""
        held = set().union(*self._taken.values())
        takes = (*self.under_way_with("take"), *self.under_way_with("lock"))
        if any(take.details == [identifier] for take in takes):
            held |= {key for key, places in self.places.items() if identifier in places}
        return held


def _after_time(key: str, places: set[Place]) -> set[Place]:
    """Where a message may be when it may have expired."""
    is_mortal = any(place not in (None, DEAD_LETTERS) and not _is_journal(place) for place in places)
    if TIMED not in marks_of(key) or not is_mortal:
        return places
    return places | {DEAD_LETTERS if BURIED in marks_of(key) else None}


def _is_journal(place: Place) -> bool:
    return place is not None and place.endswith(JOURNAL)
