"""Progress of a stream: offsets in the message log, and the range between two of them.

LookupIdentifier is not an offset: its highest byte is the priority, so a new message may get a smaller one
than a message that was already read.
Entries of the message log are numbered over the whole store, so one number is the progress of all queues.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any, Final
from uuid import UUID
from zlib import crc32

import attrs

from msmq.pipeline.reading.errors import DataLost, ReadingError
from msmq.pipeline.reading.kept_store import KeptStore
from msmq.pipeline.reading.log_offset import LogOffset
from msmq.pipeline.reading.options import EARLIEST, LATEST, ReadOptions
from msmq.pipeline.reading.removal_notices import RemovalNotices
from msmq.pipeline.reading.slices import ReadSlice, RowSpan, cut, with_places
from msmq.pipeline.reading.stores import cuts_of
from msmq.pipeline.reading.streams import Topic, find_topic, offsets_of, subscribed, topics_of
from msmq.pipeline.rows import EVENTS_TOPIC
from msmq.storage.readers import RowDamaged, StoreReader
from msmq.wire.guid import NULL_GUID

_MOST_COUNTED: Final = (1 << 31) - 1
"""More entries than a query waits for."""
MOST_DAMAGED: Final = 20
"""Limit on damaged entries in a row that are passed over to find the time of one."""
EVENTS: Final = Topic(NULL_GUID, EVENTS_TOPIC, is_logged=True)


@attrs.frozen
class LogState:
    """How far a query is behind the log.

    @ivar store: the GUID of the queue manager whose store it is.
    @ivar end: the first number that is not assigned yet.
    @ivar unread: how many numbers are after the last batch; C{None} before the first one.
    @ivar oldest: the time of the first entry after it, in seconds since 1970-01-01 UTC, if there is one.
    """

    store: str
    end: int
    unread: int | None
    oldest: float | None

    def record(self, now: float) -> dict[str, Any]:
        """The state for C{latestOffset} in the progress of a query.

        @param now: the present time, in seconds since 1970-01-01 UTC.
        """
        lag = None
        if self.unread is not None:
            lag = 0.0 if self.oldest is None else round(max(now - self.oldest, 0.0), 3)
        return {"store": self.store, "next": self.end, "unread": self.unread, "lag_seconds": lag}


@attrs.frozen
class LogProgress:
    """Streaming progress in message logs or the event log.

    @ivar stream: C{queue}, C{log} or C{events}.
    """

    options: ReadOptions
    stream: str
    _store: KeptStore = attrs.field(init=False, eq=False, repr=False)
    _absent: set[str] = attrs.field(factory=set, init=False, eq=False, repr=False)
    _notices: RemovalNotices = attrs.field(factory=RemovalNotices, init=False, eq=False, repr=False)

    @_store.default
    def _kept(self) -> KeptStore:
        return KeptStore(self.options.location)

    def __attrs_post_init__(self) -> None:
        if self.stream not in ("queue", "log", "events"):
            raise ReadingError(f"the stream {self.stream} can be read as a batch only: it has no log")
        for name, value in (("Offsets", self.options.ending), ("Timestamp", self.options.until)):
            if value is not None:
                raise ReadingError(f"ending{name} is for batches only")
        if self.stream == "events" and self.options.bytes_per_trigger is not None:
            raise ReadingError("maxBytesPerTrigger is for messages; limit events with maxOffsetsPerTrigger")

    def initial(self, until: int | None = None) -> dict[str, Any]:
        """The start offset of a query without a checkpoint.

        @param until: the end of a batch that was returned before, and that this offset is not to exceed.
        @raise ReadingError: the options match no log.
        """
        with self._store.opened() as store:
            topics = self._topics(store)
            wanted = self.options.starting if self.options.since is None else None
            starting = offsets_of(wanted or LATEST, topics, "startingOffsets", store.text)
            end = self._end(store)
            firsts = {
                topic.queue: self._first(store, topic, starting.get(topic.name, LATEST), end)
                for topic in topics
            }
            if until is not None:
                firsts = {queue: min(first, until) for queue, first in firsts.items()}
                end = min(end, until)
            start = min(firsts.values(), default=end)
            return LogOffset(store.identifier(), start, firsts, is_initial=True).record()

    def latest(
        self,
        start: Mapping[str, Any],
        rows: int | None,
        size: int | None = None,
        until: int | None = None,
    ) -> dict[str, Any]:
        """The latest offset, limited to this number of rows after the previous one.

        @param size: the maximum number of bytes of the packets of these rows, if there is more than one.
        @param until: the number of the first entry that no batch is to have, of the store as it is now.
        @raise DataLost: unread entries were removed.
        """
        with self._store.opened() as store:
            begin = self._checked(store, LogOffset.read(start))
            topics = self._topics(store, read=begin.queues)
            bounds = {topic.queue: self._bounds(store, topic.queue) for topic in topics}
            self._look_for_removed(begin, bounds)
            starts = begin.starts({queue: first for queue, (first, _) in bounds.items()})
            newest, where = max(
                ((last, queue) for queue, (_, last) in bounds.items()), default=(0, NULL_GUID)
            )
            # What the store had when the query began: the offset before may be of one that it has replaced.
            end = max(begin.next, newest if until is None else min(newest, until))
            if (rows is not None or size is not None) and starts:
                after = self._after(store, starts, rows, size)
                end = end if after is None else min(end, after)
            if end == begin.next and starts.keys() == begin.queues.keys():
                # Return the identical offset, or Spark would see a new one.
                return begin.record()
            mark = self._mark(store, where, newest - 1) or begin.mark
            return LogOffset(begin.store, end, starts, mark).record()

    def newest(self) -> dict[str, Any]:
        """The latest offset for a version of Spark that does not say which offset is before it.

        Queues that are read already go on from there, others begin with their first entry.
        """
        with self._store.opened() as store:
            queues = [topic.queue for topic in self._topics(store, read=())]
            end = self._end(store)
            last, newest = max(
                ((self._bounds(store, each)[1], each) for each in queues), default=(0, NULL_GUID)
            )
            mark = self._mark(store, newest, last - 1)
            return LogOffset(store.identifier(), end, dict.fromkeys(queues, 0), mark).record()

    def end(self) -> int:
        """The first number that is not assigned yet."""
        with self._store.opened() as store:
            return self._end(store)

    def has_unread(self, start: Mapping[str, Any], rows: int) -> bool:
        """Whether there are at least this number of rows after an offset."""
        with self._store.opened() as store:
            begin = self._checked(store, LogOffset.read(start))
            topics = self._topics(store, read=begin.queues)
            starts = begin.starts({topic.queue: self._bounds(store, topic.queue)[0] for topic in topics})
            if not starts:
                return False
            if self.stream == "events":
                return self._end(store) - min(starts.values()) >= rows
            top = max(starts.values())
            behind = [queue for queue, first in starts.items() if first < top]
            found = sum(store.log_cuts(queue, starts[queue], top, _MOST_COUNTED)[1] for queue in behind)
            return found >= rows or store.log_after(list(starts), top, rows - 1 - found) is not None

    def close(self) -> None:
        """Close the store until the next call."""
        self._store.close()

    def state(self, read: Mapping[str, Any] | None) -> LogState:
        """How far a query is behind the log.

        @param read: the end offset of the last batch, if there was one.
        """
        with self._store.opened() as store:
            end = self._end(store)
            oldest = None if read is None else self._oldest(store, LogOffset.read(read))
            unread = None if read is None else max(end - int(read["next"]), 0)
            return LogState(store.identifier(), end, unread, oldest)

    def _oldest(self, store: StoreReader, begin: LogOffset) -> float | None:
        """The time of the first entry after an offset, in seconds since 1970-01-01 UTC."""
        times = (
            self._first_time(store, queue, max(begin.next, first)) for queue, first in begin.queues.items()
        )
        return min((time for time in times if time is not None), default=None)

    def _first_time(self, store: StoreReader, queue: UUID, begin: int) -> float | None:
        """The time of the first entry of a queue from a number on.

        That of a damaged entry is unknown, so the next one counts.
        """
        for _ in range(MOST_DAMAGED):
            if self.stream == "events":
                found: int | None = max(begin, store.event_bounds()[0])
            else:
                found = store.log_after([queue], begin, 0)
            if found is None:
                return None
            try:
                if self.stream == "events":
                    events, _ = store.events(found, found + 1)
                    return events[0].event.time if events else None
                page = store.log(queue, found, found + 1, since=None, until=None, bodies=False)
                return float(page.rows[0][2]) if page.rows else None
            except RowDamaged:
                begin = found + 1
        return None

    def slices(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[ReadSlice]:
        """The slices between two offsets.

        @raise DataLost: some entries no longer exist.
        """
        begin, last = LogOffset.read(start), LogOffset.read(end)
        with self._store.opened() as store:
            self._check_store(store, last)
            if self._is_replaced(store, last):
                self._lost_store(store, last)
            is_replaced = self._is_replaced(store, begin)
            self._look_for_losses(store, begin, last, is_replaced=is_replaced)
            names = {topic.queue: topic.name for topic in self._every_topic(store)}
            spans = []
            for queue in last.queues:
                first = begin.begin(queue, last, is_replaced=is_replaced)
                if first >= last.next:
                    continue
                if queue not in names:
                    self._lost(f"the queue {queue} was deleted with its message log")
                    continue
                kept, _ = self._bounds(store, queue)
                if kept > max(first, 1):
                    self._lost(
                        f"{names[queue]} is to be read from offset {first}, but the entries before offset "
                        f"{kept} were trimmed"
                    )
                spans.append(RowSpan(queue, names[queue], max(first, kept), last.next))
            kind = "events" if self.stream == "events" else "log"
            spans = [attrs.evolve(span, queue=None) for span in spans] if kind == "events" else spans
            found = cut(
                kind, spans, lambda span, size: cuts_of(store, kind, span, size), self.options.partitions
            )
            found = with_places(found, lambda queue, begin, end: store.places(kind, queue, begin, end))
            return [attrs.evolve(part, is_strict=self.options.fail_on_data_loss) for part in found]

    def _topics(self, store: StoreReader, *, read: Collection[UUID] | None = None) -> list[Topic]:
        """The queues to read; those of C{subscribe} must have a message log.

        With the loss of data accepted, one that is read keeps its position while its log is disabled, so that
        it goes on there when the log is enabled again.

        @param read: the queues that the batch before has read, of which one may have been deleted since;
            C{None} before the first one.
        """
        if self.stream == "events":
            return [EVENTS]
        every, options = topics_of("queue", store.queues()), self.options
        is_lenient = read is not None and not options.fail_on_data_loss
        kept = set(read or ()) if is_lenient else set()
        if is_lenient and options.topics:
            # A name must not pass to another queue with the log of the one that it means.
            meant = {name: find_topic(every, name) for name in options.topics}
            logged = {name for name, topic in meant.items() if topic is not None and topic.is_logged}
            self._name_absent(store, set(options.topics) - logged)
            names = tuple(
                name
                for name, topic in meant.items()
                if name in logged or (topic is not None and topic.queue in kept)
            )
            if not names:
                return []
            options = attrs.evolve(options, topics=names)
        found = subscribed(options, self.stream, every, store.text)
        if is_lenient and not options.topics:
            self._name_absent(
                store, {topic.name for topic in found if topic.queue in kept and not topic.is_logged}
            )
        for topic in found:
            if options.topics and not topic.is_logged and topic.queue not in kept:
                raise ReadingError(
                    f"{topic.name} has no message log, which a stream needs: enable it with msmq queue set "
                    f"--log"
                )
        return [topic for topic in found if topic.is_logged or topic.queue in kept]

    def _name_absent(self, store: StoreReader, names: set[str]) -> None:
        """Name queues that are not there, or have no log, each once."""
        for name in sorted(names - self._absent):
            self._lost(f"{store.text} has no queue {name} with a message log: nothing is read of it")
        self._absent.intersection_update(names)
        self._absent.update(names)

    def _every_topic(self, store: StoreReader) -> list[Topic]:
        return [EVENTS] if self.stream == "events" else topics_of("queue", store.queues())

    def _first(self, store: StoreReader, topic: Topic, wanted: int | str, end: int) -> int:
        first, _ = self._bounds(store, topic.queue)
        if self.options.since is not None:
            since = (
                store.event_since(self.options.since)
                if self.stream == "events"
                else store.log_since(topic.queue, self.options.since)
            )
            return end if since is None else since
        if wanted == EARLIEST:
            return first
        if isinstance(wanted, str):
            return end
        if wanted > end:
            self._lost(f"{topic.name} is to be read from offset {wanted}, but the log ends before {end}")
            return end
        if wanted < first:
            self._lost(
                f"{topic.name} is to be read from offset {wanted},"
                f" but the entries before offset {first} were trimmed"
            )
        return max(wanted, first)

    def _bounds(self, store: StoreReader, queue: UUID) -> tuple[int, int]:
        return store.event_bounds() if self.stream == "events" else store.log_bounds(queue)

    def _end(self, store: StoreReader) -> int:
        return store.event_bounds()[1] if self.stream == "events" else store.log_end()

    def _after(
        self, store: StoreReader, starts: Mapping[UUID, int], rows: int | None, size: int | None
    ) -> int | None:
        """The number after the largest batch within the limits; C{None} if everything fits.

        @param starts: the first unread number of each queue.
        """
        low, top = min(starts.values()), max(starts.values())
        if self.stream == "events":
            return None if rows is None else low + rows
        # What a queue has before its first number was read before, or is not to be read, and does not count.
        begins = {
            queue: low if low < first < top and not _has_entries(store, [queue], low, first) else first
            for queue, first in starts.items()
        }
        for begin, end in pairwise(sorted({*begins.values()})):
            some = [queue for queue, first in begins.items() if first <= begin]
            after = store.log_after(some, begin, rows, size)
            if after is not None and after <= end:
                return after
            if _has_entries(store, some, begin, end):
                return end
        return store.log_after(list(starts), top, rows, size)

    def _checked(self, store: StoreReader, offset: LogOffset) -> LogOffset:
        """The start offset, reset if the numbers of the store start again."""
        self._check_store(store, offset)
        end = self._end(store)
        if offset.next <= end:
            if not self._is_replaced(store, offset):
                return offset
            self._lost_store(store, offset)
            return LogOffset(offset.store, 1)
        self._lost_end(store, offset, end)
        return LogOffset(offset.store, 1)

    def _mark(self, store: StoreReader, queue: UUID, number: int) -> tuple[UUID, int, int] | None:
        """The mark of an entry; C{None} if there is no such entry, or no longer, or it is damaged."""
        if number < 1:
            return None
        facts: list[object] = []
        with suppress(RowDamaged):
            if self.stream == "events":
                events, _ = store.events(number, number + 1)
                facts += [(one.event.time, one.event.identity.hex()) for one in events]
            else:
                page = store.log(queue, number, number + 1, since=None, until=None, bodies=False)
                facts += [row[1:3] for row in page.rows]
        return (queue, number, crc32(repr(facts).encode())) if facts else None

    def _is_replaced(self, store: StoreReader, offset: LogOffset) -> bool:
        """Whether the entry that an offset has marked is another one now, or the store never had it.

        One that was trimmed, damaged or repaired, or deleted with its queue, says nothing.
        """
        if offset.mark is None:
            return False
        queue, number, _ = offset.mark
        if self._mark(store, queue, number) == offset.mark:
            return False
        topic = next((each for each in self._every_topic(store) if each.queue == queue), None)
        if topic is None:
            return False
        # Spark's processes start often, and need this rarely.
        from msmq.pipeline.files.earlier_entries import earlier_entry

        is_events = self.stream == "events"
        return earlier_entry(store, topic, number, is_events=is_events, notices=self._notices) is not None

    def _lost_store(self, store: StoreReader, offset: LogOffset) -> None:
        assert offset.mark is not None
        self._lost(
            f"{store.text} was read up to offset {offset.next}, and its entry {offset.mark[1]} is another one"
            " now, or none: it was restored from a backup"
        )

    def _check_store(self, store: StoreReader, offset: LogOffset) -> None:
        identifier = store.identifier()
        if identifier != offset.store:
            raise ReadingError(
                f"the checkpoint is of the queue manager {offset.store or '(none)'},"
                f" and {store.text} is that of {identifier or '(none)'}"
            )

    def _look_for_losses(
        self, store: StoreReader, begin: LogOffset, last: LogOffset, *, is_replaced: bool
    ) -> None:
        """Report what is lost between two offsets, which older versions of Spark name only together."""
        if begin.next > (end := self._end(store)):
            self._lost_end(store, begin, end)
        elif is_replaced:
            self._lost_store(store, begin)
        # Where a query begins may be looked up again for a batch that was planned before a queue was created.
        if not begin.is_initial:
            self._look_for_removed(begin, last.queues)

    def _lost_end(self, store: StoreReader, offset: LogOffset, end: int) -> None:
        self._lost(f"{store.text} was read up to offset {offset.next}, and now ends before {end}")

    def _look_for_removed(self, begin: LogOffset, queues: Collection[UUID]) -> None:
        for queue in begin.queues:
            if queue not in queues:
                self._lost(f"the queue {queue} is no longer read: it was deleted, or its log was disabled")

    def _lost(self, what: str) -> None:
        """Report lost entries.

        @raise DataLost: C{failOnDataLoss} is on.
        """
        if self.options.fail_on_data_loss:
            raise DataLost(f"{what} (failOnDataLoss is true)")
        # Spark shows the output of its Python processes there.
        print(f"{what} (failOnDataLoss is false)", file=sys.stderr)


def _has_entries(store: StoreReader, queues: Sequence[UUID], begin: int, end: int) -> bool:
    """Whether the logs of some queues have entries from a number up to another."""
    found = store.log_after(queues, begin, 0)
    return found is not None and found < end
