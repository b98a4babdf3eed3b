"""The process that is killed: a queue manager, and many who use it at once and say what they do.

C{python -m tests.faults.life} reads a line of JSON for every life that it is to begin, and begins it in
a child of its own, so that the modules are read only once.
Every line that comes out is a list in JSON; what is done is said before it begins and when it has
ended, so that whoever reads it knows what a kill has left open.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred, DeferredList
from twisted.internet.task import deferLater
from twisted.python.failure import Failure

from msmq.interfaces.queue_manager import IReservation
from msmq.queues.message import Delivery, Message
from msmq.service.composition import compose
from msmq.service.configuration import Overrides, load
from msmq.service.identity import load_identity
from msmq.storage.factory import make_store
from msmq.structures.status import MQError, Status
from tests.faults.naming import body_of, name_of

QUEUES = tuple(f".\\private$\\q{number}" for number in range(4))
"""Where everything happens."""

PAIR = tuple(f".\\private$\\pair{number}" for number in range(2))
"""Get the same messages, each sent once to both."""

LIMITED = ".\\private$\\limited"
QUOTA = 60
"""Kilobytes for which there is room in L{LIMITED}."""

AWAY = "DIRECT=TCP:127.0.0.77\\private$\\nobody"
"""Messages to here wait in an outgoing queue, since nobody listens there."""

WORKERS = 6
SIZES = (0, 10, 300, 300, 2000, 30_000)
CROWD = 60
"""Messages in a queue above which its workers rather receive."""


def say(*what: object) -> None:
    """Write one line, at once."""
    os.write(1, json.dumps(what).encode("ascii") + b"\n")


class Life:
    """A queue manager from its start to its end, and its users."""

    def __init__(self, reactor: Any, data: Path, life: int, seed: int, operations: int | None) -> None:
        configuration = data.parent / "msmq.toml"
        if not configuration.exists():
            configuration.write_text('[listen]\nsession = "off"\nping = "off"\n')
        settings = load(configuration, Overrides(name="ALPHA", data=os.fspath(data), storage="sqlite"))
        store = make_store(settings.storage, data)
        self.manager = compose(settings, load_identity(data), store, reactor).manager
        self._reactor = reactor
        self._life = life
        self._chance = random.Random(seed)
        self._left = operations
        self._last = 0

    async def run(self) -> None:
        """Start, tell what is there, and use it until the end."""
        await self.manager.open()
        self.manager.startService()
        await self.tell()
        await self.prepare()
        await DeferredList(
            [Deferred.fromCoroutine(self.work()) for _ in range(WORKERS)], fireOnOneErrback=True
        )
        await self.manager.stopService()
        say("stopped")

    # What is there

    async def tell(self) -> None:
        """Say what is there, of every queue and every message."""
        manager = self.manager
        for queue in manager.queues():
            await self._tell_queue(queue)
        status = manager.status()
        outgoing = manager.outgoing()
        say(
            "status",
            status["messages"],
            status["bytes"],
            [[queue["format_name"], queue["messages"], queue["bytes"]] for queue in outgoing],
        )

    async def _tell_queue(self, queue: dict[str, Any]) -> None:
        path = queue["path"]
        say("queue", queue["identifier"], path, queue["label"], queue["messages"], queue["bytes"])
        if not queue["messages"]:
            return
        for message in (await self.manager.reserve(path, count=1 << 30, timeout=0, peek=True)).messages:
            view = message.view
            name = name_of(view.body)
            place = [queue["identifier"], message.lookup_id, len(view.packet)]
            say("found", name, str(view.identifier), view.priority, *place)
            if bytes(view.body) != body_of(name):
                say("fault", f"the body of {name} in {path} is damaged")

    async def prepare(self) -> None:
        """Make the queues that are missing, and see whether the limit of one counts what is in it."""
        for path in (*QUEUES, *PAIR, LIMITED):
            if self._identifier(path) is None:
                await self.create(path)
        queue = self.manager.queue(LIMITED)
        room = QUOTA * 1024 - queue["bytes"]
        if room < 0:
            say("fault", f"{LIMITED} has {-room} bytes more than its quota allows")
        try:
            await self.manager.send(LIMITED, [Message(body=bytes(max(0, room)))])
            say("fault", f"{LIMITED} took a message for which it has no room")
        except MQError as error:
            if error.status is not Status.MQ_ERROR_INSUFFICIENT_RESOURCES:
                raise

    # What is done

    async def work(self) -> None:
        """Do one thing after the other."""
        actions: list[tuple[int, Callable[[], Awaitable[None]]]] = [
            (60, self.send),
            (8, self.send_to_both),
            (8, self.send_away),
            (40, self.receive),
            (2, self.purge),
            (1, self.delete),
            (6, self.create_missing),
            (4, self.label),
        ]
        weights = [weight for weight, _ in actions]
        while self._left is None or self._left > 0:
            if self._left is not None:
                self._left -= 1
            [(_, action)] = self._chance.choices(actions, weights)
            await action()
            await deferLater(self._reactor, 0)

    async def send(self) -> None:
        """Send some messages to one queue."""
        path = self._chance.choice((*QUEUES, LIMITED))
        identifier = self._identifier(path)
        if identifier is not None and self.manager.queue(path)["messages"] < CROWD:
            await self._send(path, [identifier])

    async def send_to_both(self) -> None:
        """Send some messages to two queues at once."""
        identifiers = [self._identifier(path) for path in PAIR]
        crowd = sum(self.manager.queue(path)["messages"] for path in PAIR)
        if crowd < CROWD:
            names = [str(self.manager.queue(path)["format_name"]) for path in PAIR]
            await self._send(",".join(names), identifiers, mark="m")

    async def send_away(self) -> None:
        """Send some messages to another queue manager, which does not answer."""
        if sum(queue["messages"] for queue in self.manager.outgoing()) < 20 * CROWD:
            await self._send(AWAY, [AWAY], mark="a")

    async def _send(self, destination: str, places: list[Any], mark: str = "") -> None:
        operation = self._operation()
        chance = self._chance
        is_express = chance.random() < 0.2
        if is_express:
            mark += "x"
        names: list[str] = []
        messages: list[Message] = []
        for number in range(chance.choice((1, 1, 1, 2, 5))):
            priority = chance.choice((3, 3, 0, 7))
            names.append(f"{mark}{self._life}.{operation}.{number}.{priority}.{chance.choice(SIZES)}")
            delivery = Delivery.EXPRESS if is_express else Delivery.RECOVERABLE
            messages.append(Message(body=body_of(names[-1]), priority=priority, delivery=delivery))
        say("begin", operation, "send", places, names)
        try:
            identifiers = await self.manager.send(destination, messages)
        except MQError as error:
            say("refused", operation, error.status.name, error.detail)
        else:
            say("end", operation, [str(identifier) for identifier in identifiers])

    async def receive(self) -> None:
        """Receive some messages, and decide about them."""
        path = self._chance.choice((*QUEUES, *PAIR, LIMITED))
        identifier = self._identifier(path)
        if identifier is None:
            return
        operation = self._operation()
        say("begin", operation, "take", identifier)
        try:
            reservation = await self.manager.reserve(path, count=self._chance.randrange(1, 6), timeout=0)
        except MQError as error:
            say("refused", operation, error.status.name, error.detail)
            return
        names = [name_of(message.view.body) for message in reservation.messages]
        say("took", operation, identifier, names)
        for _ in range(self._chance.choice((0, 0, 1, 5))):
            await deferLater(self._reactor, 0)
        await self._decide(operation, identifier, names, reservation)

    async def _decide(
        self, operation: int, identifier: str, names: list[str], reservation: IReservation
    ) -> None:
        if self._chance.random() < 0.2:
            say("released", operation)
            reservation.release()
            return
        say("begin", operation, "confirm", identifier, names)
        try:
            await reservation.confirm()
        except MQError as error:
            say("refused", operation, error.status.name, error.detail)
        else:
            say("end", operation, [])

    async def purge(self) -> None:
        """Purge a queue."""
        path = self._chance.choice(QUEUES)
        identifier = self._identifier(path)
        if identifier is not None:
            await self._do("purge", [identifier], self.manager.purge_queue, path)

    async def delete(self) -> None:
        """Delete a queue."""
        path = self._chance.choice(QUEUES)
        identifier = self._identifier(path)
        if identifier is not None:
            await self._do("delete", [identifier], self.manager.delete_queue, path)

    async def create_missing(self) -> None:
        """Make a queue that is not there."""
        missing = [path for path in QUEUES if self._identifier(path) is None]
        if missing:
            await self.create(self._chance.choice(missing))

    async def create(self, path: str) -> None:
        """Make a queue."""
        quota = QUOTA if path == LIMITED else None
        operation = self._operation()
        say("begin", operation, "create", path)
        try:
            queue = await self.manager.create_queue(path, quota=quota)
        except MQError as error:
            say("refused", operation, error.status.name, error.detail)
        else:
            say("end", operation, queue["identifier"])

    async def label(self) -> None:
        """Give a queue another label."""
        path = self._chance.choice(QUEUES)
        identifier = self._identifier(path)
        label = f"{self._life}.{self._last}"
        if identifier is not None:
            await self._do("label", [identifier, label], self.manager.set_queue, path, {"label": label})

    async def _do(
        self, kind: str, details: list[str], action: Callable[..., Awaitable[object]], *arguments: object
    ) -> None:
        operation = self._operation()
        say("begin", operation, kind, *details)
        try:
            await action(*arguments)
        except MQError as error:
            say("refused", operation, error.status.name, error.detail)
        else:
            say("end", operation, [])

    def _operation(self) -> int:
        self._last += 1
        return self._last

    def _identifier(self, path: str) -> str | None:
        """The queue that has this path now."""
        try:
            return str(self.manager.queue(path)["identifier"])
        except MQError as error:
            if error.status is not Status.MQ_ERROR_QUEUE_NOT_FOUND:
                raise
            return None


def live(data: str, life: int, seed: int, operations: int | None) -> None:
    """One life, in a process of its own."""
    # The reactor of the parent was made when its modules were read, and is not to be shared.
    import twisted.internet

    del sys.modules["twisted.internet.reactor"], twisted.internet.reactor
    from twisted.internet import epollreactor

    epollreactor.install()
    from twisted.internet import reactor

    def failed(failure: Failure) -> None:
        try:
            say("fault", failure.getTraceback())
        finally:
            os._exit(1)

    def begin() -> None:
        path = Path(data)
        path.mkdir(exist_ok=True)
        running = Deferred.fromCoroutine(Life(reactor, path, life, seed, operations).run())
        running.addCallbacks(lambda _: os._exit(0), failed)
        running.addErrback(failed)

    reactor.callWhenRunning(begin)
    reactor.run()


def main() -> None:
    """Begin the lives that are asked for, one after the other."""
    for line in sys.stdin:
        arguments = json.loads(line)
        child = os.fork()
        if not child:
            try:
                live(*arguments)
            finally:
                os._exit(1)
        say("process", child)
        _, status = os.waitpid(child, 0)
        # What the child was about to say may have been cut.
        os.write(1, b"\n")
        say("died", os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()
