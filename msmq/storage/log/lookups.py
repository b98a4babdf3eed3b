"""Reads of the record log: rows from memory, packets through reader threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final, TypeAlias
from uuid import UUID

import attrs
from twisted.internet.defer import Deferred

from msmq.interfaces.storage import DamagedMessageKept, LogEntry, LogExtent, MessageNotStored, StoredEvent
from msmq.storage.log.batches import WriteBatch
from msmq.storage.log.core.events import read_event
from msmq.storage.log.core.packet_owner import OwnerKind, PacketOwner
from msmq.storage.log.core.records import EVENT_ROW, EXPRESS, HAS_IDENTITY, LOG_ROW, MESSAGE_ROW
from msmq.storage.log.engine import Engine
from msmq.storage.log.packet_fetcher import Damage, PacketFetcher, PacketLocation, packet_location
from msmq.storage.log.quarantine import Quarantine
from msmq.storage.log.system import LogWorker
from msmq.storage.log.workers import Call
from msmq.storage.log_answer import LOG_BYTES

STEP_ROWS: Final = 100
"""Rows examined per iteration of the reactor."""
MOST_ROWS: Final = 50_000
"""Entries per page; entries without a packet need memory too."""

Thread: TypeAlias = tuple[LogWorker, PacketFetcher]


@attrs.frozen
class _Wanted:
    """A packet to read, and the location in its row."""

    place: PacketLocation
    location: int


class Lookups:
    """Starts reads; called when the state has nothing that may be rolled back.

    @param packets: the thread for packets of messages.
    @param searches: the thread for reads that may take long.
    """

    def __init__(
        self, engine: Engine, soon: Call, packets: Thread, searches: Thread, quarantine: Quarantine
    ) -> None:
        self._engine = engine
        self._soon = soon
        self._packets = packets
        self._searches = searches
        self._quarantine = quarantine

    def read(self, queue: UUID, lookup_ids: Sequence[int], done: Deferred[Any]) -> None:
        """Return packets."""
        kept = self._engine.state.queues.get(queue)
        wanted: list[_Wanted] = []
        for lookup_id in lookup_ids:
            row = None
            if kept is not None:
                row = kept.messages.get(lookup_id) or kept.express.get(lookup_id)
            if row is None:
                done.errback(MessageNotStored(queue, lookup_id))
                return
            wanted.append(self._wanted(*MESSAGE_ROW.unpack(row)[:3]))
        if not wanted:
            done.callback([])
            return
        self._fetch(self._packets, wanted, partial(self._have_read, queue, lookup_ids, wanted, done))

    def _have_read(
        self,
        queue: UUID,
        lookup_ids: Sequence[int],
        wanted: list[_Wanted],
        done: Deferred[Any],
        found: list[bytes | Damage] | Exception,
    ) -> None:
        if isinstance(found, Exception):
            done.errback(found)
            return
        for lookup_id, one, packet in zip(lookup_ids, wanted, found, strict=True):
            if not isinstance(packet, Damage):
                continue
            kept = self._engine.state.queues.get(queue)
            kind = OwnerKind.EXPRESS if one.location >= EXPRESS else OwnerKind.MESSAGE
            owner = None if kept is None else PacketOwner(kind, kept.number, lookup_id)
            if owner is None or owner.location(self._engine.state) != one.location:
                # The message was moved or removed meanwhile, and its space reused.
                self._retry(done, partial(self.read, queue, lookup_ids, done))
                return
            # Its event has to precede what the caller does then, such as the removal of a lost message.
            self._quarantine.put(
                packet, one.location, owner, partial(_fail, done, queue, lookup_id, packet.where)
            )
            return
        done.callback(found)

    def find(self, identity: bytes, done: Deferred[Any]) -> None:
        """Return the locations of messages."""
        if len(identity) != 20:
            done.callback([])
            return
        self._look(self._rows_of(identity), [], done)

    def _rows_of(self, identity: bytes) -> Iterator[tuple[UUID, int] | None]:
        for kept in list(self._engine.state.by_number.values()):
            # Most queues are empty most of the time.
            yield None
            for rows in (each for each in (kept.messages, kept.express) if len(each)):
                for lookup_id in rows.named(identity):
                    row = None if lookup_id is None else rows.get(lookup_id)
                    if lookup_id is not None and row and MESSAGE_ROW.unpack(row)[1] >= HAS_IDENTITY:
                        yield kept.identifier, lookup_id
                    else:
                        yield None

    def _look(
        self,
        rows: Iterator[tuple[UUID, int] | None],
        found: list[tuple[UUID, int]],
        done: Deferred[Any],
    ) -> None:
        for looked_at, one in enumerate(rows):
            if one is not None:
                found.append(one)
            if looked_at >= STEP_ROWS:
                self._soon(self._look, rows, found, done)
                return
        done.callback(found)

    def read_log(self, queue: UUID, after: int, limit: int, done: Deferred[Any]) -> None:
        """Return entries of a message log."""
        kept = self._engine.state.queues.get(queue)
        rows: list[tuple[int, int, float]] = []
        wanted: list[_Wanted] = []
        total = 0
        if kept is not None:
            first = kept.log.after(after)
            for place in islice(range(first, len(kept.log)), min(max(0, limit), MOST_ROWS)):
                sequence, lookup_id, *where, arrived = LOG_ROW.unpack(kept.log.row(place))
                total += where[1]
                if wanted and total > LOG_BYTES:
                    break
                rows.append((sequence, lookup_id, arrived))
                wanted.append(self._wanted(*where))

        def answer(found: list[bytes | Damage] | Exception) -> None:
            entries: list[LogEntry] = []
            if isinstance(found, Exception):
                done.errback(found)
                return
            for (sequence, lookup_id, arrived), one, packet in zip(rows, wanted, found, strict=True):
                if isinstance(packet, Damage):
                    row_of = None if kept is None else kept.log.index(sequence)
                    if kept is not None and row_of is not None:
                        if LOG_ROW.unpack(kept.log.row(row_of))[2] != one.location:
                            # The packet was copied meanwhile, and its space reused.
                            self._retry(done, partial(self.read_log, queue, after, limit, done))
                            return
                        owner = PacketOwner(OwnerKind.LOG_ENTRY, kept.number, sequence)
                        self._quarantine.put(packet, one.location, owner)
                    continue
                entries.append(LogEntry(sequence, lookup_id, arrived, packet))
            if rows and not entries:
                # An empty page is the end of a log.
                self._retry(done, partial(self.read_log, queue, rows[-1][0], limit, done))
                return
            done.callback(entries)

        self._fetch(self._searches, wanted, answer)

    def log_extent(self, queue: UUID, done: Deferred[Any]) -> None:
        """Return the extent of a message log."""
        kept = self._engine.state.queues.get(queue)
        if kept is None:
            done.callback(LogExtent())
            return
        log = kept.log
        first, last = (log.sequence(0), log.sequence(len(log) - 1)) if len(log) else (0, 0)
        done.callback(LogExtent(first, last, len(log), log.size, log.first - 1))

    def read_events(self, after: int, limit: int, identity: bytes | None, done: Deferred[Any]) -> None:
        """Return events."""
        events = self._engine.state.events
        sequences: Iterator[int] = iter(range(max(events.first, after + 1), events.end))
        if identity is not None:
            sequences = iter(()) if len(identity) > 20 else events.of(identity, after)
        rows: list[tuple[int, float, bytes]] = []
        wanted: list[_Wanted] = []
        for sequence in islice(sequences, max(0, limit)):
            row = events.row(sequence)
            assert row is not None
            *where, time, length, owner = EVENT_ROW.unpack(row)
            rows.append((sequence, time, owner[:length]))
            wanted.append(self._wanted(*where))

        def answer(found: list[bytes | Damage] | Exception) -> None:
            if isinstance(found, Exception):
                done.errback(found)
                return
            stored: list[StoredEvent] = []
            for (sequence, time, owner), one, packet in zip(rows, wanted, found, strict=True):
                if isinstance(packet, Damage):
                    there = events.row(sequence)
                    if there is not None and EVENT_ROW.unpack(there)[0] != one.location:
                        self._retry(done, partial(self.read_events, after, limit, identity, done))
                        return
                    if there is not None:
                        event = PacketOwner(OwnerKind.EVENT, 0, sequence)
                        self._quarantine.put(packet, one.location, event)
                    continue
                stored.append(StoredEvent(sequence, read_event(packet, time, owner)))
            if rows and not stored:
                # An empty page is the end of the log.
                self._retry(done, partial(self.read_events, rows[-1][0], limit, identity, done))
                return
            done.callback(stored)

        self._fetch(self._searches, wanted, answer)

    def _retry(self, done: Deferred[Any], ask: Callable[[], object]) -> None:
        """Read again when no group is being written: the packets of that one are not on disk yet, and would
        be taken for damaged.
        """
        settled: Deferred[None] = Deferred()
        settled.addErrback(done.errback)
        self._engine.put(WriteBatch((), settled, then=ask))

    def _wanted(self, location: int, size: int, checksum: int) -> _Wanted:
        engine = self._engine
        place = packet_location(engine.directory, engine.segments, location, size, checksum)
        return _Wanted(place, location)

    def _fetch(self, thread: Thread, wanted: Sequence[_Wanted], answer: Any) -> None:
        worker, fetcher = thread
        places = [one.place for one in wanted]
        if not places:
            answer([])
            return
        worker.do(lambda: fetcher.fetch(places), answer)


def _fail(done: Deferred[Any], queue: UUID, lookup_id: int, where: str, is_kept: bool) -> None:
    """Answer the read of a damaged message.

    @param is_kept: whether the message is still stored.
    """
    if is_kept:
        done.errback(DamagedMessageKept(queue, lookup_id, where))
    else:
        done.errback(MessageNotStored(queue, lookup_id))
