"""The process that is killed: a queue manager, and concurrent users that report what they do.

C{python -m tests.faults.life} reads a line of JSON for every life that it is to begin, and begins it in
a child of its own, so that the modules are read only once.
Every output line is a list in JSON; an operation is reported before it begins and when it has
ended, so that the reader knows what a kill has left pending.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any
from uuid import UUID

from twisted.internet.defer import Deferred, DeferredList
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.python.failure import Failure

from msmq.control.server.server_configuration import NoServerConfiguration
from msmq.manager.manager_settings import ORIGINAL
from msmq.manager.service import QueueManagerService
from msmq.service.composition import compose
from msmq.service.configuration import Overrides, load
from msmq.service.data_directory.identity import load_identity
from msmq.storage.factory import make_store
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.structures.status import MQError, Status
from msmq.wire.reader import Reader
from tests.faults.naming import body_of, name_of
from tests.faults.users import DEAD_LETTERS, SUFFIXES, Users, say
from tests.shares import SHARES

WORKERS = 6
PORTION = 10_000
PATIENCE = 500

_KEYS = ("path", "label", "messages", "bytes")

CONFIGURATION = """\
[listen]
session = "off"
ping = "off"

[limits]
packet_memory = 50000
express_memory = 4194304

[queues]
poison_after = 3
"""
"""Most packets have to be read again, and express messages come to lie in the store."""


class Life:
    """A queue manager from its start to its end, and its users."""

    def __init__(
        self, manager: QueueManagerService, users: Users, reactor: IReactorTime, logged: int, noted: int
    ) -> None:
        self._manager = manager
        self._users = users
        self._reactor = reactor
        self._logged = logged
        self._noted = noted

    async def run(self) -> None:
        """Start, tell what is there, and use it until the end."""
        manager, users = self._manager, self._users
        await manager.open()
        manager.startService()
        await self.tell()
        await users.prepare()
        workers = [Deferred.fromCoroutine(users.work()) for _ in range(WORKERS)]
        await DeferredList(workers, fireOnOneErrback=True)
        await manager.stopService()

    async def tell(self) -> None:
        """Say what is there: every queue, every message, and what is new in the logs.

        What expires meanwhile is waited for, so that it is not there for the one and gone for the other.
        """
        before, lines = self._counts(), await self._all_lines()
        for _ in range(PATIENCE):
            if _seen(lines, before["abroad"]) == before == self._counts():
                break
            await deferLater(self._reactor, 0.02)
            before, lines = self._counts(), await self._all_lines()
        else:
            seen = _seen(lines, before["abroad"])
            say("fault", f"{before} messages, and {seen} to be seen: {self._all_queues()}")
        for line in lines:
            say(*line)
        outgoing = [[queue.messages, queue.bytes] for queue in self._manager.inspection.outgoing()]
        say("status", before[""], self._manager.inspection.status().bytes, outgoing)

    async def _all_lines(self) -> list[list[Any]]:
        lines: list[list[Any]] = []
        for queue in self._manager.inspection.queues():
            identifier = str(queue.identifier)
            lines.append(["queue", identifier, *(getattr(queue, key) for key in _KEYS)])
            for suffix in SUFFIXES:
                lines += await self._messages(queue.path + suffix, identifier + suffix)
            lines += await self._log(identifier)
        lines += await self._messages(DEAD_LETTERS, DEAD_LETTERS)
        lines += await self._events()
        return lines

    def _all_queues(self) -> list[str]:
        """The state of all queues, to explain counts that do not match."""
        queues = self._manager.model.collection.all_queues()
        return [f"{queue.definition.path}: {queue.message_count}" for queue in queues]

    def _counts(self) -> dict[str, int]:
        """How many messages there are, here and there, and altogether."""
        manager = self._manager
        status = manager.inspection.status()
        counts = {str(queue.identifier): int(queue.messages) for queue in manager.inspection.queues()}
        abroad = sum(queue.messages for queue in manager.inspection.outgoing())
        return {**counts, DEAD_LETTERS: status.dead_letters, "abroad": abroad, "": status.messages}

    async def _messages(self, path: str, place: str) -> list[list[Any]]:
        try:
            found = await self._manager.reserve(path, count=1 << 30, timeout=0, peek=True)
        except MQError as error:
            if error.status is not Status.MQ_ERROR_IO_TIMEOUT:
                raise
            return []
        lines: list[list[Any]] = []
        for message in found.messages:
            view = message.view
            name = name_of(view.body)
            if bytes(view.body) != body_of(name):
                lines.append(["fault", f"the body of {name} in {path} is damaged"])
            where = [place, message.lookup_id, len(view.packet), message.moves]
            lines.append(["found", name, str(view.identifier), view.priority, *where])
        return lines

    async def _log(self, identifier: str) -> list[list[Any]]:
        after, queue = self._logged, UUID(identifier)
        lines: list[list[Any]] = []
        while entries := await self._manager.store.read_log(queue, after, PORTION):
            for entry in entries:
                after = entry.sequence
                lines.append(["logged", identifier, after, name_of(UserMessageView(entry.packet).body)])
        return lines

    async def _events(self) -> list[list[Any]]:
        after = self._noted
        lines: list[list[Any]] = []
        while events := await self._manager.store.read_events(after, PORTION):
            for stored in events:
                after = stored.sequence
                identity = stored.event.identity
                whose = str(MessageIdentifier.read(Reader(identity))) if identity else ""
                lines.append(["event", after, whose, stored.event.event])
        return lines


def _seen(lines: list[list[Any]], abroad: int) -> dict[str, int]:
    """The same counts, computed from the messages that were found."""
    found = Counter(line[4] for line in lines if line[0] == "found")
    queues = [line[1] for line in lines if line[0] == "queue"]
    counts = {place: found[place] for place in (*queues, DEAD_LETTERS)}
    return {**counts, "abroad": abroad, "": abroad + found.total()}


def live(
    data: str, storage: str, life: int, seed: int, operations: int | None, logged: int, noted: int
) -> None:
    """One life, in a process of its own.

    @param storage: the description of its store.
    @param operations: how many things its users do; C{None} for as many as they can.
    @param logged: what is known of the message logs, as C{noted} is of the event log.
    """
    # The reactor of the parent was made when its modules were read, and is not to be shared.
    import twisted.internet

    del sys.modules["twisted.internet.reactor"], twisted.internet.reactor
    from twisted.internet import epollreactor

    epollreactor.install()
    from twisted.internet import reactor

    def begin() -> None:
        path = Path(data)
        path.mkdir(exist_ok=True)
        configuration = path / "msmq.toml"
        configuration.write_text(CONFIGURATION)
        settings = load(configuration, Overrides(name="ALPHA", data=data, storage=storage))
        store = make_store(settings.storage, path)
        manager = compose(
            settings,
            load_identity(path),
            store,
            _any(reactor),
            shares=SHARES,
            server=NoServerConfiguration(),
            clone=ORIGINAL,
        ).manager
        users = Users(manager, _any(reactor), random.Random(seed), life, operations)
        running = Deferred.fromCoroutine(Life(manager, users, _any(reactor), logged, noted).run())
        running.addCallback(lambda _: os._exit(0))
        running.addErrback(failed)

    def failed(failure: Failure) -> None:
        try:
            say("fault", failure.getTraceback())
        finally:
            os._exit(1)

    _any(reactor).callWhenRunning(begin)
    _any(reactor).run()


def _any(reactor: object) -> Any:
    return reactor


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
