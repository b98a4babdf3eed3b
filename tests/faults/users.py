"""Concurrent users of the queue manager that is killed, which report what they do."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater

from msmq.interfaces.manager.queue_manager import IReservation
from msmq.interfaces.manager.summaries import QueueSummary
from msmq.manager.service import QueueManagerService
from msmq.queues.arriving.message import Delivery, Message
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.packet.base_header import INFINITE
from msmq.structures.status import MQError, Status
from tests.faults.naming import AWAY, BURIED, EXPRESS, PAIRED, TIMED, TRANSACTIONAL, body_of, name_of

PLAIN: Final[Mapping[str, Mapping[str, Any]]] = {
    ".\\private$\\journaled": {"journal": True},
    ".\\private$\\logged": {"log": True},
    ".\\private$\\plain": {},
}
"""Queues that come and go, and how they are made."""

SURE: Final[Mapping[str, Mapping[str, Any]]] = {
    ".\\private$\\sure": {"transactional": True},
    ".\\private$\\surer": {"transactional": True, "journal": True},
}
"""The same for transactional messages."""

PAIR: Final = (".\\private$\\pair0", ".\\private$\\pair1")
"""Get the same messages, each sent once to both."""

LIMITED: Final = ".\\private$\\limited"
QUOTA: Final = 60
"""Kilobytes for which there is room in L{LIMITED}."""

FLOODED: Final = ".\\private$\\flooded"
"""Gets more express messages than memory holds, and is purged."""

QUEUES: Final[Mapping[str, Mapping[str, Any]]] = {
    **PLAIN,
    **SURE,
    **{path: {} for path in (*PAIR, FLOODED)},
    LIMITED: {"quota": QUOTA},
}
"""All of them."""

ASIDE: Final = ";aside"
JOURNAL: Final = ";journal"
POISON: Final = ";poison"
SUFFIXES: Final = ("", ASIDE, POISON, JOURNAL)
"""What a queue may have beside it."""

DEAD_LETTERS: Final = ".\\system$;deadletter"

ABROAD: Final = "DIRECT=TCP:127.0.0.77\\private$\\nobody"
"""Messages to here wait in an outgoing queue, since nothing leads there."""

SIZES: Final = (0, 10, 300, 300, 2000, 30_000)
CROWD: Final = 60
"""Messages in a queue above which no user sends to it."""


def say(*what: object) -> None:
    """Write one line, at once."""
    os.write(1, json.dumps(what).encode("ascii") + b"\n")


class Users:
    """All users of one queue manager.

    @param operations: how many operations they do together; C{None} for as many as they can.
    """

    def __init__(
        self,
        manager: QueueManagerService,
        reactor: IReactorTime,
        chance: random.Random,
        life: int,
        operations: int | None,
    ) -> None:
        self._manager = manager
        self._reactor = reactor
        self._chance = chance
        self._life = life
        self._left = operations
        self._last = 0
        self._actions: Sequence[tuple[int, Callable[[], Awaitable[None]]]] = (
            (50, self._send),
            (8, self._send_to_both),
            (6, self._send_abroad),
            (40, self._receive),
            (25, self._in_transaction),
            (12, self._move),
            (6, self._requeue),
            (2, self._purge),
            (1, self._delete),
            (6, self._create_missing),
            (4, self._label),
            (1, self._flood),
        )

    async def prepare(self) -> None:
        """Make the queues that are missing, and see whether the quota of one counts what is in it."""
        for path in QUEUES:
            if self._identifier(path) is None:
                await self._create(path)
        room = QUOTA * 1024 - self._manager.inspection.queue(LIMITED).bytes
        if room < 0:
            say("fault", f"{LIMITED} has {-room} bytes more than its quota allows")
        try:
            await self._manager.send(LIMITED, [Message(body=bytes(max(0, room)))])
            say("fault", f"{LIMITED} took a message for which it has no room")
        except MQError as error:
            if error.status is not Status.MQ_ERROR_INSUFFICIENT_RESOURCES:
                raise

    async def work(self) -> None:
        """Perform the operations of one user, one after the other."""
        weights = [weight for weight, _ in self._actions]
        while self._left is None or self._left > 0:
            if self._left is not None:
                self._left -= 1
            [(_, action)] = self._chance.choices(self._actions, weights)
            await action()
            await deferLater(self._reactor, 0)

    # Sending

    async def _send(self) -> None:
        path = self._chance.choice((*PLAIN, LIMITED))
        identifier = self._identifier(path)
        if identifier is not None and self._has_room(path):
            chance = self._chance.random()
            marks = (
                EXPRESS if chance < 0.2 else TIMED + BURIED if chance < 0.3 else TIMED if chance < 0.4 else ""
            )
            await self._send_some(path, [identifier], marks)

    async def _send_to_both(self) -> None:
        if all(map(self._has_room, PAIR)):
            names = [str(self._manager.inspection.queue(path).format_name) for path in PAIR]
            marks = PAIRED + self._chance.choice(("", "", EXPRESS))
            await self._send_some(",".join(names), [self._identifier(path) for path in PAIR], marks)

    async def _send_abroad(self) -> None:
        if sum(queue.messages for queue in self._manager.inspection.outgoing()) < 10 * CROWD:
            await self._send_some(ABROAD, [ABROAD], AWAY)

    async def _send_some(self, destination: str, places: Sequence[str | None], marks: str) -> None:
        operation = self._operation()
        names, messages = self._messages(operation, marks)
        await self._do(operation, "send", [places, names], lambda: self._manager.send(destination, messages))

    def _messages(self, operation: int, marks: str) -> tuple[list[str], list[Message]]:
        chance = self._chance
        is_transactional = TRANSACTIONAL in marks
        names: list[str] = []
        for number in range(chance.choice((1, 1, 1, 2, 5))):
            priority = 0 if is_transactional else chance.choice((3, 3, 0, 7))
            names.append(f"{marks}{self._life}.{operation}.{number}.{priority}.{chance.choice(SIZES)}")
        return names, [
            Message(
                body=body_of(name),
                priority=int(name.split(".")[3]),
                delivery=Delivery.EXPRESS if EXPRESS in marks else Delivery.RECOVERABLE,
                transactional=is_transactional,
                time_to_be_received=1 if TIMED in marks else INFINITE,
                dead_letter=BURIED in marks,
            )
            for name in names
        ]

    async def _flood(self) -> None:
        """Send this number of express messages, so that some have to be stored, then purge them."""
        message = Message(body=bytes(60_000))
        for _ in range(8):
            await self._manager.send(FLOODED, [message] * 10)
        await self._purge_queue(FLOODED)

    # Receiving

    async def _receive(self) -> None:
        path = self._chance.choice((*_READ, *_READ, *_BESIDE, DEAD_LETTERS))
        place = self._place(path)
        if place is None:
            return
        operation = self._operation()
        reservation = await self._take(operation, path, place)
        if reservation is None:
            return
        names = [name_of(message.view.body) for message in reservation.messages]
        for _ in range(self._chance.choice((0, 0, 1, 5))):
            await deferLater(self._reactor, 0)
        if self._chance.random() < 0.2:
            say("released", operation)
            reservation.release()
        else:
            effects = [[name, place, _after_receiving(path, place)] for name in names]
            await self._do(operation, "confirm", [effects], reservation.confirm)

    async def _take(
        self, operation: int, path: str, place: str, transaction: Any = None
    ) -> IReservation | None:
        number = self._operation()
        say("begin", number, "take", place)
        try:
            reservation = await self._manager.reserve(
                path, count=self._chance.randrange(1, 6), timeout=0, transaction=transaction
            )
        except MQError as error:
            say("refused", number, error.status.name, error.detail)
            return None
        names = [name_of(message.view.body) for message in reservation.messages]
        say("took", number, operation, place, names)
        return reservation

    # Transactions

    async def _in_transaction(self) -> None:
        operation = self._operation()
        transaction = self._manager.begin()
        effects: list[list[str | None]] = []
        identifiers: tuple[list[str], list[str]] = ([], [])
        for _ in range(self._chance.randrange(1, 5)):
            path = self._chance.choice(list(SURE))
            identifier = self._identifier(path)
            if identifier is None:
                continue
            chance = self._chance.random()
            if chance < 0.5 and self._has_room(path):
                effects += await self._send_in(transaction, path, identifier, identifiers)
            elif chance < 0.8:
                taken = await self._take(operation, path, identifier, transaction)
                names = [] if taken is None else [name_of(message.view.body) for message in taken.messages]
                effects += [[name, identifier, _after_receiving(path, identifier)] for name in names]
            else:
                effects += await self._move_in(operation, transaction, path, identifier)
            if self._chance.random() < 0.3:
                await deferLater(self._reactor, 0)
        if self._chance.random() < 0.7:
            await self._do(operation, "commit", [effects], transaction.commit, identifiers)
        else:
            await self._do(operation, "abort", [effects], transaction.abort)

    async def _send_in(
        self, transaction: Any, path: str, identifier: str, identifiers: tuple[list[str], list[str]]
    ) -> list[list[str | None]]:
        names, messages = self._messages(self._operation(), TRANSACTIONAL)
        say("sends", identifier, names)
        try:
            given = await self._manager.send(path, messages, transaction=transaction)
        except MQError as error:
            if error.status not in _NOT_THERE:
                say("fault", f"{names} were refused in a transaction: {error}")
            return []
        identifiers[0].extend(names)
        identifiers[1].extend(map(str, given))
        return [[name, None, identifier] for name in names]

    async def _move_in(
        self, operation: int, transaction: Any, path: str, identifier: str
    ) -> list[list[str | None]]:
        found = await self._look(path)
        if found is None:
            return []
        name, message = found
        number = self._operation()
        say("begin", number, "lock", identifier)
        try:
            await self._manager.move(message, path + ASIDE, transaction=transaction)
        except MQError as error:
            say("refused", number, error.status.name, error.detail)
            return []
        say("took", number, operation, identifier, [name])
        return [[name, identifier, identifier + ASIDE]]

    # Single messages

    async def _move(self) -> None:
        path = self._chance.choice((*PLAIN, *SURE))
        identifier = self._identifier(path)
        source, target = self._chance.choice((("", ASIDE), (ASIDE, "")))
        found = None if identifier is None else await self._look(path + source)
        if found is None or self._identifier(path) != identifier:
            return
        assert identifier is not None
        name, message = found
        effects = [[name, identifier + source, identifier + target]]
        await self._do(
            self._operation(), "move", [effects], lambda: self._manager.move(message, path + target)
        )

    async def _requeue(self) -> None:
        dead_letters = await self._manager.inspection.dead_letters(5)
        if not dead_letters:
            return
        view = self._chance.choice(dead_letters).message.view
        identifier = self._identifier(str(view.destination_format_name()))
        if identifier is not None:
            effects = [[name_of(view.body), DEAD_LETTERS, identifier]]
            await self._do(
                self._operation(), "requeue", [effects], lambda: self._manager.requeue(view.identifier)
            )

    async def _look(self, path: str) -> tuple[str, MessageIdentifier] | None:
        """One message that is there, or was a moment ago."""
        try:
            found = await self._manager.reserve(path, count=5, timeout=0, peek=True)
        except MQError:
            return None
        view = self._chance.choice(found.messages).view
        return name_of(view.body), view.identifier

    # Queues

    async def _purge(self) -> None:
        await self._purge_queue(self._chance.choice((*PLAIN, *SURE)))

    async def _purge_queue(self, path: str) -> None:
        identifier = self._identifier(path)
        if identifier is not None:
            await self._do(self._operation(), "purge", [identifier], lambda: self._manager.purge_queue(path))

    async def _delete(self) -> None:
        path = self._chance.choice((*PLAIN, *SURE))
        identifier = self._identifier(path)
        if identifier is not None:
            await self._do(
                self._operation(), "delete", [identifier], lambda: self._manager.delete_queue(path)
            )

    async def _create_missing(self) -> None:
        missing = [path for path in QUEUES if self._identifier(path) is None]
        if missing:
            await self._create(self._chance.choice(missing))

    async def _create(self, path: str) -> None:
        await self._do(
            self._operation(), "create", [path], lambda: self._manager.create_queue(path, **QUEUES[path])
        )

    async def _label(self) -> None:
        path = self._chance.choice(list(QUEUES))
        identifier = self._identifier(path)
        label = f"{self._life}.{self._last}"
        if identifier is not None:
            await self._do(
                self._operation(),
                "label",
                [identifier, label],
                lambda: self._manager.set_queue(path, {"label": label}),
            )

    # What all of it needs

    async def _do(
        self,
        operation: int,
        kind: str,
        details: Sequence[object],
        action: Callable[[], Awaitable[Any]],
        answer: object = None,
    ) -> None:
        """Do something, and say so before and after.

        @param answer: what to say at the end of what has no answer of its own.
        """
        say("begin", operation, kind, *details)
        try:
            result = await action()
        except MQError as error:
            say("refused", operation, error.status.name, error.detail)
            return
        match result:
            case QueueSummary():
                say("end", operation, str(result.identifier))
            case [*identifiers]:
                say("end", operation, list(map(str, identifiers)))
            case MessageIdentifier():
                say("end", operation, [str(result)])
            case _:
                say("end", operation, answer)

    def _operation(self) -> int:
        self._last += 1
        return self._last

    def _has_room(self, path: str) -> bool:
        return bool(self._manager.inspection.queue(path).messages < CROWD)

    def _place(self, path: str) -> str | None:
        """The name of a queue, or of its journal or subqueue."""
        if path == DEAD_LETTERS:
            return path
        main, semicolon, suffix = path.partition(";")
        identifier = self._identifier(main)
        return None if identifier is None else identifier + semicolon + suffix

    def _identifier(self, name: str) -> str | None:
        """The queue that has this name now."""
        try:
            return str(self._manager.inspection.queue(name).identifier)
        except MQError as error:
            if error.status is not Status.MQ_ERROR_QUEUE_NOT_FOUND:
                raise
            return None


def _after_receiving(path: str, place: str) -> str | None:
    """Where a message is that was received."""
    main, _, suffix = path.partition(";")
    if suffix == "journal" or not QUEUES.get(main, {}).get("journal"):
        return None
    return place.partition(";")[0] + JOURNAL


_READ = (*PLAIN, *SURE, *PAIR, LIMITED)
_BESIDE = tuple(f"{path}{suffix}" for path in (*PLAIN, *SURE) for suffix in SUFFIXES[1:])
_NOT_THERE = (Status.MQ_ERROR_QUEUE_NOT_FOUND, Status.MQ_ERROR_INSUFFICIENT_RESOURCES)
