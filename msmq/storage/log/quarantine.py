"""Quarantine of damaged packets: keeps their bytes in files, and removes their rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import ClassVar, Final

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from msmq.durable import make_directory, write_durably
from msmq.persistence.changes import AppendEvent
from msmq.storage.log.batches import WriteBatch
from msmq.storage.log.core.plan import GroupPlan
from msmq.storage.log.core.records import EVENT_ROW, LOG_ROW, MESSAGE_ROW, PLACE
from msmq.storage.log.engine import Engine
from msmq.storage.log.failures import failure
from msmq.storage.log.packet_fetcher import Damage
from msmq.storage.log.workers import Worker

DIRECTORY: Final = "quarantine"
DAMAGED: Final = "damaged"
"""The event for a packet that was quarantined."""


class Quarantine:
    """Removes damaged packets from the log, and keeps what is left of each in a file.

    @param now: seconds since 1970-01-01 UTC.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(self, engine: Engine, upkeep: Worker, now: Callable[[], float]) -> None:
        self._engine = engine
        self._upkeep = upkeep
        self._now = now
        # Locations that were seen already, and whose rows may still be there for a while.
        self._seen: set[int] = set()

    def put(self, damage: Damage, location: int) -> None:
        """Quarantine a packet; a second time does nothing."""
        if location in self._seen:
            return
        self._seen.add(location)
        self._engine.counters.damaged += 1
        place = damage.place
        target = self._engine.directory / DIRECTORY / f"{place.path.name}-{place.offset}-{location >> 32}"
        where = f"{place.path}, offset {place.offset}: {place.size} bytes are damaged: {damage.problem}"
        self.log.error("{where}; what is left is in {target}", where=where, target=target)
        self._upkeep.do(lambda: _keep(target, damage.found), lambda outcome: self._kept(target, outcome))
        done: Deferred[None] = Deferred()
        done.addErrback(self._failed)
        self._engine.put(
            WriteBatch((), done, work=lambda plan: self._remove(plan, location, where), is_removing=True)
        )

    def _kept(self, target: Path, outcome: object) -> None:
        if isinstance(outcome, Exception):
            self.log.error("{error}", error=failure(target, "write", outcome))

    def _failed(self, problem: object) -> None:
        self.log.error("a damaged packet stays in the log: {problem}", problem=problem)

    def _remove(self, plan: GroupPlan, location: int, where: str) -> None:
        """Remove every message that has the packet; of log entries and events only the content is lost."""
        for kept in list(plan.state.by_number.values()):
            for rows in (kept.messages, kept.express):
                found = [key for key, row in rows.items() if PLACE.unpack_from(row)[0] == location]
                for lookup_id in found:
                    size, identity = MESSAGE_ROW.unpack(rows[lookup_id])[1::6]
                    plan.remove_message(kept, lookup_id, rows is kept.express)
                    reason = f"lookup id {lookup_id:#018x}; {where}"
                    owner = identity if size >= 60 else b""
                    path = kept.definition.path
                    plan.add([AppendEvent(self._now(), owner, DAMAGED, reason, 0, path)])
            for place in range(len(kept.log)):
                sequence, _, there, *_ = LOG_ROW.unpack(kept.log.row(place))
                if there == location:
                    reason = f"entry {sequence} of the message log; {where}"
                    plan.add([AppendEvent(self._now(), b"", DAMAGED, reason, 0, kept.definition.path)])
        events = plan.state.events
        for sequence in range(events.first, events.end):
            row = events.row(sequence)
            if row is not None and EVENT_ROW.unpack(row)[0] == location:
                plan.add([AppendEvent(self._now(), b"", DAMAGED, f"event {sequence}; {where}", 0, "")])


def _keep(target: Path, content: bytes) -> None:
    make_directory(target.parent)
    write_durably(target, content)
