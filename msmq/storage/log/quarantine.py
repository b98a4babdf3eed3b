"""Quarantine of damaged packets: saves their bytes to files, and removes their rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import ClassVar, Final, TypeAlias

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from msmq.persistence.changes import AppendEvent
from msmq.storage.log.batches import WriteBatch
from msmq.storage.log.core.packet_owner import OwnerKind, PacketOwner
from msmq.storage.log.core.plan import GroupPlan
from msmq.storage.log.core.records import HAS_IDENTITY, MESSAGE_ROW
from msmq.storage.log.engine import Engine
from msmq.storage.log.failures import failure
from msmq.storage.log.packet_fetcher import Damage
from msmq.storage.log.system import LogSystem, LogWorker

DIRECTORY: Final = "quarantine"
DAMAGED: Final = "damaged"
"""The event for a packet that was quarantined."""
REMEMBERED: Final = 1000
"""Damaged packets that are remembered before those that were removed meanwhile are forgotten."""

_Packet: TypeAlias = tuple[PacketOwner, int]
"""A packet: the row that refers to it, and its location."""


class Quarantine:
    """Removes damaged messages from the log, and saves the remaining bytes of each packet to a file.

    @param now: seconds since 1970-01-01 UTC.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(
        self, engine: Engine, upkeep: LogWorker, now: Callable[[], float], system: LogSystem
    ) -> None:
        self._system = system
        self._engine = engine
        self._upkeep = upkeep
        self._now = now
        self._remembered = REMEMBERED
        # Packets whose bytes are being written, with what waits for that.
        self._keeping: dict[_Packet, list[Callable[[bool], object]]] = {}
        # Packets already handled: the row may still exist, or exist permanently.
        self._seen: set[_Packet] = set()
        # Those that could not be removed, on a disk that failed: the next read of them tries again.
        self._failed: set[_Packet] = set()

    def put(
        self,
        damage: Damage,
        location: int,
        owner: PacketOwner,
        then: Callable[[bool], object] = lambda _: None,
    ) -> None:
        """Quarantine a packet, unless it was already quarantined or has moved meanwhile.

        If the disk does not take its bytes or the event, the packet stays, and the next read of it tries
        again. So it does in a store that is being closed.

        @param location: the location that was read.
        @param then: called with false when the removal of the message precedes all later batches, and with
            true if it stays.
        """
        found = owner, location
        if (waiting := self._keeping.get(found)) is not None:
            waiting.append(then)
            return
        is_there = owner.location(self._engine.state) == location
        if found in self._seen or not is_there or self._engine.is_stopped:
            then(is_there and found not in self._seen)
            return
        packet = damage.location
        target = self._engine.directory / DIRECTORY / f"{packet.path.name}-{packet.offset}-{location >> 32}"
        where = damage.where
        if found not in self._failed:
            self._engine.counters.damaged += 1
            self.log.error("{where}; what is left is in {target}", where=where, target=target)
        self._keeping[found] = [then]

        def kept(outcome: object) -> None:
            stays = isinstance(outcome, Exception) or self._engine.is_stopped
            if isinstance(outcome, Exception):
                self._not_removed(found, failure(target, "write", outcome))
            elif not stays:
                self._put_event(found, where)
            for each in self._keeping.pop(found):
                each(stays)

        self._upkeep.do(lambda: _keep(target, damage.found, self._system), kept)

    def _put_event(self, found: _Packet, where: str) -> None:
        """Have the message removed, with an event, by a batch."""
        self._seen.add(found)
        if len(self._seen) + len(self._failed) > self._remembered:
            self._forget()
        done: Deferred[None] = Deferred()

        def removed(_: None) -> None:
            self._failed.discard(found)

        def failed(problem: Failure) -> None:
            self._not_removed(found, problem.value)

        done.addCallbacks(removed, failed)
        work = partial(self._remove, *found, where)
        self._engine.put(WriteBatch((), done, work=work, is_removing=True))

    def _not_removed(self, found: _Packet, problem: object) -> None:
        self._seen.discard(found)
        if found not in self._failed:
            self._failed.add(found)
            self.log.error("a damaged packet stays in the log: {problem}", problem=problem)

    def _forget(self) -> None:
        """Forget packets to which no row refers any more."""
        state = self._engine.state
        self._seen = {one for one in self._seen if one[0].location(state) == one[1]}
        self._failed = {one for one in self._failed if one[0].location(state) == one[1]}
        # Looked at again when there are twice as many, so that each packet costs a constant time.
        self._remembered = max(self._remembered, 2 * (len(self._seen) + len(self._failed)))

    def _remove(self, owner: PacketOwner, location: int, where: str, plan: GroupPlan) -> None:
        """Remove a message, with an event; of a log entry or an event only the content is lost."""
        if owner.location(plan.state) != location:
            return
        identity, path, what = b"", "", f"event {owner.key}"
        if owner.kind is not OwnerKind.EVENT:
            kept = plan.state.by_number[owner.number]
            path, what = kept.definition.path, f"entry {owner.key} of the message log"
            if owner.kind is not OwnerKind.LOG_ENTRY:
                is_express = owner.kind is OwnerKind.EXPRESS
                row = (kept.express if is_express else kept.messages)[owner.key]
                size, found = MESSAGE_ROW.unpack(row)[1::6]
                identity = found if size >= HAS_IDENTITY else b""
                what = f"lookup id {owner.key:#018x}"
                plan.remove_message(kept, owner.key, is_express)
        plan.add([AppendEvent(self._now(), identity, DAMAGED, f"{what}; {where}", 0, path)])


def _keep(target: Path, content: bytes, system: LogSystem) -> None:
    system.make_directory(target.parent)
    system.write_durably(target, content)
