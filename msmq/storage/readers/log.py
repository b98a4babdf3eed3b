"""External reader of a record log: lock-free access from another process.

A reader replays the log from the newest checkpoint, and continues from its position at each call.
It may see a group a moment before its server knows that it is on stable storage.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import islice
from pathlib import Path
from typing import Final, TypeVar
from uuid import UUID
from zlib import crc32

from msmq.interfaces.storage import StorageError, StoredEvent
from msmq.persistence.definition import QueueDefinition
from msmq.persistence.migration_mark import MARK
from msmq.storage.log.core.events import read_event
from msmq.storage.log.core.format import Malformed
from msmq.storage.log.core.records import EVENT_ONLY, EVENT_ROW, LOG_ROW, MESSAGE_ROW, OFFSET_MASK
from msmq.storage.log.core.state import ALL_LOGS, KeptQueue
from msmq.storage.log.failures import StoreDamaged, failure
from msmq.storage.log.follower import Follower, SegmentGone
from msmq.storage.readers.log_packets import LogPackets
from msmq.storage.readers.shape import (
    HEAD,
    LARGE,
    LAST,
    MESSAGE_PLACE,
    PAGE_ROWS,
    VERIFY,
    MomentGone,
    Row,
    RowDamaged,
    RowPage,
    first_beyond,
    one_page,
    refuse_moved,
    without_body,
)
from msmq.wire.guid import format_guid

TRIES: Final = 5
"""Limit on repetitions of a read because the server has reused a segment meanwhile."""

_Answer = TypeVar("_Answer")
_Place = tuple[int, int, int]


class LogStoreReader:
    """See L{StoreReader<msmq.storage.readers.shape.StoreReader>}.

    @param directory: of the log.
    @param is_looked_up: it was found in a data directory, and not named: if its content was moved to another
        store, that one is meant, and all reads are refused.
    """

    def __init__(self, directory: Path, is_looked_up: bool = False) -> None:
        self.text = str(directory)
        self._is_looked_up = is_looked_up
        self.bytes_read = 0
        self._directory = directory
        self._follower: Follower | None = None
        self._packets = LogPackets(directory)
        self._is_held = False
        self._log_starts: Mapping[UUID, int] = ALL_LOGS

    def __reduce__(self) -> tuple[type[LogStoreReader], tuple[Path, bool]]:
        return LogStoreReader, (self._directory, self._is_looked_up)

    def hold(self) -> None:
        """See L{StoreReader.hold<msmq.storage.readers.shape.StoreReader.hold>}."""
        self._ask(Follower.check_end)
        self._is_held = True

    def skip_logged(self, starts: Mapping[UUID, int]) -> None:
        """See L{StoreReader.skip_logged<msmq.storage.readers.shape.StoreReader.skip_logged>}."""
        self.close()
        self._log_starts = dict(starts)

    def identifier(self) -> str:
        """See L{StoreReader.identifier<msmq.storage.readers.shape.StoreReader.identifier>}."""
        found = self._ask(lambda log: log.state.values.get("queue_manager"))
        return "" if found is None else format_guid(UUID(bytes=found))

    def queues(self) -> list[QueueDefinition]:
        """See L{StoreReader.queues<msmq.storage.readers.shape.StoreReader.queues>}."""
        return self._ask(lambda log: list(log.state.snapshot_queues()))

    def values(self) -> dict[str, bytes]:
        """See L{StoreReader.values<msmq.storage.readers.shape.StoreReader.values>}."""
        return self._ask(lambda log: dict(sorted(log.state.values.items())))

    def messages(
        self, queue: UUID, begin: int, end: int, *, since: float | None, until: float | None, bodies: bool
    ) -> RowPage:
        """See L{StoreReader.messages<msmq.storage.readers.shape.StoreReader.messages>}."""

        def page(log: Follower) -> RowPage:
            kept = log.state.queues.get(queue)
            ids = log.lookup_ids(kept, begin, end)
            rows = [
                (lookup_id, *MESSAGE_ROW.unpack(kept.messages[lookup_id]))
                for lookup_id in islice(ids, PAGE_ROWS + 1)
                if kept is not None
            ]
            count, is_more = one_page([(row[0], row[2]) for row in rows], bodies)
            found: list[Row] = []
            for number, *place, arrived, due, aborts, moves, _ in rows[:count]:
                if _is_within(arrived, since, until):
                    packet = self._packet(log, number, (place[0], place[1], place[2]), bodies)
                    moves &= ~EVENT_ONLY
                    found.append((number, arrived, aborts, moves, None if due < 0 else due, packet))
            return RowPage(found, rows[count][0] if is_more else None)

        return self._ask(page)

    def message_rows(self, queue: UUID, begin: int) -> RowPage:
        """See L{StoreReader.message_rows<msmq.storage.readers.shape.StoreReader.message_rows>}."""

        def page(log: Follower) -> RowPage:
            kept = log.state.queues.get(queue)
            found: list[Row] = []
            for lookup_id in islice(log.lookup_ids(kept, begin, 1 << 64), PAGE_ROWS + 1):
                assert kept is not None
                _, size, _, arrived, due, aborts, moves, _ = MESSAGE_ROW.unpack(kept.messages[lookup_id])
                leaves = None if due < 0 else due
                found.append((lookup_id, arrived, aborts, moves & ~EVENT_ONLY, leaves, size))
            return RowPage(found[:PAGE_ROWS], found[-1][0] if len(found) > PAGE_ROWS else None)

        return self._ask(page)

    def log(
        self, queue: UUID, begin: int, end: int, *, since: float | None, until: float | None, bodies: bool
    ) -> RowPage:
        """See L{StoreReader.log<msmq.storage.readers.shape.StoreReader.log>}."""

        def page(log: Follower) -> RowPage:
            kept = log.state.queues.get(queue)
            rows = [LOG_ROW.unpack(row) for row in islice(_entries(kept, begin, end), PAGE_ROWS + 1)]
            count, is_more = one_page([(row[0], row[3]) for row in rows], bodies)
            found: list[Row] = []
            for number, lookup_id, *place, arrived in rows[:count]:
                if _is_within(arrived, since, until):
                    packet = self._packet(log, number, (place[0], place[1], place[2]), bodies)
                    found.append((number, lookup_id, arrived, packet))
            return RowPage(found, rows[count][0] if is_more else None)

        return self._ask(page)

    def events(self, begin: int, end: int) -> tuple[Sequence[StoredEvent], int | None]:
        """See L{StoreReader.events<msmq.storage.readers.shape.StoreReader.events>}."""

        def page(log: Follower) -> tuple[Sequence[StoredEvent], int | None]:
            events = log.state.events
            first, last = max(begin, events.first), min(end, events.end)
            found: list[StoredEvent] = []
            for sequence in range(first, min(last, first + PAGE_ROWS)):
                row = events.row(sequence)
                assert row is not None
                location, size, checksum, time, length, identity = EVENT_ROW.unpack(row)
                packet = self._packet(log, sequence, (location, size, checksum), True)
                found.append(StoredEvent(sequence, read_event(packet, time, identity[:length])))
            return found, first + PAGE_ROWS if last > first + PAGE_ROWS else None

        return self._ask(page)

    def message_cuts(self, queue: UUID, begin: int, end: int, rows: int) -> tuple[list[int], int]:
        """See L{StoreReader.message_cuts<msmq.storage.readers.shape.StoreReader.message_cuts>}."""
        return self._ask(
            lambda log: _cuts(list(log.lookup_ids(log.state.queues.get(queue), begin, end)), rows)
        )

    def log_cuts(self, queue: UUID, begin: int, end: int, rows: int) -> tuple[list[int], int]:
        """See L{StoreReader.log_cuts<msmq.storage.readers.shape.StoreReader.log_cuts>}."""

        def cuts(log: Follower) -> tuple[list[int], int]:
            if (kept := log.state.queues.get(queue)) is None:
                return [], 0
            first, last = kept.log.after(begin - 1), kept.log.after(end - 1)
            found = range(first, last)[rows::rows]
            return list(map(kept.log.sequence, found)), last - first - rows * len(found)

        return self._ask(cuts)

    def log_bounds(self, queue: UUID) -> tuple[int, int]:
        """See L{StoreReader.log_bounds<msmq.storage.readers.shape.StoreReader.log_bounds>}."""

        def bounds(log: Follower) -> tuple[int, int]:
            kept = log.state.queues.get(queue)
            if kept is None:
                return 1, 1
            count = len(kept.log)
            return kept.log.first, kept.log.sequence(count - 1) + 1 if count else kept.log.first

        return self._ask(bounds)

    def event_bounds(self) -> tuple[int, int]:
        """See L{StoreReader.event_bounds<msmq.storage.readers.shape.StoreReader.event_bounds>}."""
        return self._ask(lambda log: (log.state.events.first, log.state.events.end))

    def log_end(self) -> int:
        """See L{StoreReader.log_end<msmq.storage.readers.shape.StoreReader.log_end>}."""
        return self._ask(lambda log: log.state.last_entry) + 1

    def log_since(self, queue: UUID, time: float) -> int | None:
        """See L{StoreReader.log_since<msmq.storage.readers.shape.StoreReader.log_since>}."""

        def since(log: Follower) -> int | None:
            entries = map(LOG_ROW.unpack, _entries(log.state.queues.get(queue), 0, 1 << 64))
            return next((entry[0] for entry in entries if entry[5] >= time), None)

        return self._ask(since)

    def event_since(self, time: float) -> int | None:
        """See L{StoreReader.event_since<msmq.storage.readers.shape.StoreReader.event_since>}."""

        def since(log: Follower) -> int | None:
            events = log.state.events
            for sequence in range(events.first, events.end):
                row = events.row(sequence)
                if row is not None and EVENT_ROW.unpack(row)[3] >= time:
                    return sequence
            return None

        return self._ask(since)

    def log_after(
        self, queues: Sequence[UUID], begin: int, rows: int | None, size: int | None = None
    ) -> int | None:
        """See L{StoreReader.log_after<msmq.storage.readers.shape.StoreReader.log_after>}."""

        def after(log: Follower) -> int | None:
            if size is not None or rows is None:
                logs = [_entries(log.state.queues.get(queue), begin, 1 << 64) for queue in queues]
                merged = merge(*(((row[0], row[3]) for row in map(LOG_ROW.unpack, one)) for one in logs))
                return first_beyond(merged, rows, LAST if size is None else size)
            found: list[int] = []
            for queue in queues:
                entries = _entries(log.state.queues.get(queue), begin, 1 << 64)
                found += [LOG_ROW.unpack(row)[0] for row in islice(entries, rows + 1)]
            found.sort()
            return found[rows] if len(found) > rows else None

        return self._ask(after)

    def places(self, kind: str, queue: UUID, begin: int, end: int) -> bytes:
        """See L{StoreReader.places<msmq.storage.readers.shape.StoreReader.places>}."""

        def places(log: Follower) -> bytes:
            kept = log.state.queues.get(queue)
            if kept is None:
                return b""
            if kind == "log":
                first = kept.log.after(begin - 1)
                return kept.log.chunk(first, kept.log.after(end - 1) - first)
            found = []
            for lookup_id in log.lookup_ids(kept, begin, end):
                *place, arrived, _, aborts, moves, _ = MESSAGE_ROW.unpack(kept.messages[lookup_id])
                found.append(MESSAGE_PLACE.pack(lookup_id, *place, arrived, aborts, moves & ~EVENT_ONLY))
            return b"".join(found)

        return self._ask(places)

    def packets(self, places: Sequence[tuple[int, int, int]], bodies: bool) -> list[bytes]:
        """See L{StoreReader.packets<msmq.storage.readers.shape.StoreReader.packets>}."""
        found = self._packets.read(places, bodies)
        self.bytes_read += sum(map(len, found))
        return found

    def is_reusable(self) -> bool:
        """See L{StoreReader.is_reusable<msmq.storage.readers.shape.StoreReader.is_reusable>}."""
        try:
            return self._follower is not None and self._follower.is_current()
        except (OSError, Malformed, SegmentGone):
            return False

    def close(self) -> None:
        """See L{StoreReader.close<msmq.storage.readers.shape.StoreReader.close>}."""
        self._is_held = False
        self._packets.close()
        if self._follower is not None:
            self._follower.close()
            self._follower = None

    def _ask(self, ask: Callable[[Follower], _Answer]) -> _Answer:
        """Answer from the current state of the log; repeat if the server has reused a segment meanwhile."""
        try:
            for _ in range(TRIES):
                before, is_new = self.bytes_read, self._follower is None
                try:
                    if self._follower is None:
                        self._follower = Follower(self._directory, self._log_starts)
                    if not self._is_held:
                        self._follower.follow()
                    # It may be moved while it is kept open.
                    if self._is_looked_up:
                        refuse_moved(self.text, self._follower.state.values.get(MARK))
                    return ask(self._follower)
                except StoreDamaged:
                    self.bytes_read = before
                    self.close()
                    if is_new:
                        raise
                    # The log may have been repaired or replaced since it was read.
                except SegmentGone as gone:
                    self.bytes_read = before
                    was_held = self._is_held
                    lost = None if self._follower is None else self._follower.missing_segment(gone)
                    self.close()
                    # The log may have been repaired or replaced since it was read, unless that was just now.
                    if lost is not None and (is_new or was_held):
                        raise lost from None
                    if was_held:
                        raise MomentGone(
                            f"{self._directory}: cannot read: the server is faster than the reader, try again"
                        ) from None
        except (OSError, Malformed, ValueError) as error:
            self.close()
            raise failure(self._directory, "read", error) from None
        raise StorageError(f"{self._directory}: cannot read: the server is faster than the reader, try again")

    def _packet(self, log: Follower, number: int, place: _Place, bodies: bool) -> bytes:
        try:
            return self._intact_packet(log, number, place, bodies)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            where = f"{log.path(place[0] >> 32)}, offset {place[0] & OFFSET_MASK}"
            problem = f"{place[1]} bytes are damaged: {error.strerror}; {VERIFY}"
            raise RowDamaged(f"{where}: {problem}", number) from None

    def _intact_packet(self, log: Follower, number: int, place: _Place, bodies: bool) -> bytes:
        location, size, checksum = place
        offset = location & OFFSET_MASK
        if not bodies and size >= LARGE:
            packet = without_body(log.read(location >> 32, offset, HEAD), size)
            if packet is not None:
                # Its checksum needs the body: another message may have taken its place meanwhile.
                log.check(location >> 32)
                self.bytes_read += HEAD
                return packet
        packet = log.read(location >> 32, offset, size)
        self.bytes_read += size
        if crc32(packet) != checksum:
            # The packet may have been copied to another segment, and its own reused.
            log.check(location >> 32)
            path = log.path(location >> 32)
            raise RowDamaged(f"{path}, offset {offset}: {size} bytes are damaged; {VERIFY}", number)
        return packet


def _entries(kept: KeptQueue | None, begin: int, end: int) -> Iterator[bytes]:
    if kept is None:
        return iter(())
    log = kept.log
    return (log.row(place) for place in range(log.after(begin - 1), log.after(end - 1)))


def _cuts(numbers: Sequence[int], rows: int) -> tuple[list[int], int]:
    cuts = list(numbers[rows::rows])
    return cuts, len(numbers) - rows * len(cuts)


def _is_within(arrived: float, since: float | None, until: float | None) -> bool:
    return (since is None or arrived >= since) and (until is None or arrived < until)
