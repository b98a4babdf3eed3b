"""Rows from a store: queues, logs and events, in slices and pages."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar
from uuid import UUID

import attrs

from msmq.errors import RemoteProtocolError
from msmq.interfaces.storage import StoredEvent
from msmq.pipeline.reading.damage import until_damage
from msmq.pipeline.reading.errors import DataLost, ReadingError
from msmq.pipeline.reading.opening import open_store
from msmq.pipeline.reading.options import EARLIEST, LATEST, ReadOptions
from msmq.pipeline.reading.row_selection import RowSelection
from msmq.pipeline.reading.slices import LEVEL, ReadSlice, RowSpan, cut, level_spans, with_places
from msmq.pipeline.reading.streams import Topic, offsets_of, subscribed, topics_of
from msmq.pipeline.rows import EVENTS_TOPIC
from msmq.pipeline.stored_packets import StoredPacket
from msmq.storage.readers import RowPage, StoreReader
from msmq.storage.readers.shape import MomentGone, PacketDamage
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.wire.guid import NULL_GUID

LOGS: Final = {"log": "log", "events": "events"}
"""The streams that are logs, with the kinds of their slices."""


@attrs.frozen
class StoreScan:
    """A read of a store in batch mode.

    @ivar stream: the stream to read.
    """

    options: ReadOptions
    wanted: RowSelection
    stream: str

    def slices(self) -> list[ReadSlice]:
        """The slices of the stream.

        @raise ReadingError: the options do not fit the store.
        @raise StorageError: the store cannot be read.
        """
        store = open_store(self.options.location)
        try:
            return self._slices(store)
        finally:
            store.close()

    def _slices(self, store: StoreReader) -> list[ReadSlice]:
        kind = LOGS.get(self.stream, "messages")
        if self.stream == "events":
            spans = self._event_spans(store)
        else:
            topics = subscribed(self.options, self.stream, topics_of(self.stream, store.queues()), store.text)
            starting = offsets_of(self.options.starting, topics, "startingOffsets", store.text)
            ending = offsets_of(self.options.ending, topics, "endingOffsets", store.text)
            check_ends(starting, ending)
            spans = []
            for topic in topics:
                if self.wanted.has_topic(topic.name):
                    begin, end = starting.get(topic.name, EARLIEST), ending.get(topic.name, LATEST)
                    spans += self._spans(store, topic, begin, end)
        parts = cut(kind, spans, lambda span, rows: cuts_of(store, kind, span, rows), self.options.partitions)
        parts = with_places(parts, lambda queue, begin, end: store.places(kind, queue, begin, end))
        # Messages leave a queue when they are received; a log loses entries.
        is_strict = kind != "messages" and self.options.fail_on_data_loss
        return [attrs.evolve(part, is_strict=is_strict) for part in parts]

    def _spans(self, store: StoreReader, topic: Topic, begin: int | str, end: int | str) -> list[RowSpan]:
        if self.stream != "log":
            first, last = self.wanted.within(
                0 if isinstance(begin, str) else begin, LEVEL if isinstance(end, str) else end
            )
            return level_spans(topic.queue, topic.name, first, last)
        bounds = store.log_bounds(topic.queue)
        first, last = self._logged(topic.name, bounds, store.log_end(), begin, end)
        first = self._selected(first, last, partial(store.log_since, topic.queue))
        return [RowSpan(topic.queue, topic.name, first, last)] if first < last else []

    def _event_spans(self, store: StoreReader) -> list[RowSpan]:
        topic = Topic(NULL_GUID, EVENTS_TOPIC)
        [only] = subscribed(attrs.evolve(self.options, pattern=""), "events", [topic], store.text)
        if not self.wanted.has_topic(EVENTS_TOPIC):
            return []
        starting = offsets_of(self.options.starting, [only], "startingOffsets", store.text)
        ending = offsets_of(self.options.ending, [only], "endingOffsets", store.text)
        check_ends(starting, ending)
        bounds = store.event_bounds()
        begin = starting.get(EVENTS_TOPIC, EARLIEST)
        end = ending.get(EVENTS_TOPIC, LATEST)
        if self.options.until is not None:
            until = store.event_since(self.options.until)
            end = bounds[1] if until is None else until
        first, last = self._logged(EVENTS_TOPIC, bounds, bounds[1], begin, end)
        first = self._selected(first, last, store.event_since)
        return [RowSpan(None, EVENTS_TOPIC, first, last)] if first < last else []

    def _selected(self, first: int, last: int, since: Callable[[float], int | None]) -> int:
        """The first entry of a range in the selected time: what came before may be trimmed meanwhile.

        @param since: returns the first entry of the log from a time on.
        """
        moments = [each for each in (self.options.since, self.wanted.since) if each is not None]
        if not moments or first >= last:
            return first
        found = since(max(moments))
        return last if found is None else max(first, found)

    def _logged(
        self, topic: str, bounds: tuple[int, int], log_end: int, begin: int | str, end: int | str
    ) -> tuple[int, int]:
        """The requested range of a log, limited to the existing entries."""
        first, last = bounds
        if not isinstance(begin, str):
            problem = ""
            if begin > log_end:
                problem = f"the log ends before offset {log_end}"
            elif begin < first:
                problem = f"the entries before offset {first} were trimmed"
            if problem and self.options.fail_on_data_loss:
                raise DataLost(
                    f"{topic} is to be read from offset {begin}, but {problem} (failOnDataLoss is true)"
                )
            first = max(first, begin)
        return self.wanted.within(first, last if isinstance(end, str) else min(last, end))

    def pages(self, part: ReadSlice) -> Iterator[Sequence[StoredPacket]]:
        """The messages of a slice.

        @raise StorageError: the store cannot be read.
        @raise DataLost: rows of the slice were removed, and the slice is strict.
        """
        store, skips = open_store(self.options.location), not self.options.fail_on_data_loss
        try:
            for span in part.spans:
                pages = _complete(store, part, span, self.wanted, skips)
                yield from map(_reports, pages) if self.stream == "report" else pages
        finally:
            store.close()

    def event_pages(self, part: ReadSlice) -> Iterator[Sequence[StoredEvent]]:
        """The events of a slice; see L{pages}."""
        store, skips = open_store(self.options.location), not self.options.fail_on_data_loss
        try:
            for span in part.spans:
                expected = span.rows if part.is_strict else 0
                yield from _counted(span, event_pages(store, span, skips), expected)
        finally:
            store.close()


_Page = TypeVar("_Page", bound=Sequence[Any])


def _complete(
    store: StoreReader, part: ReadSlice, span: RowSpan, wanted: RowSelection, skips: bool
) -> Iterator[Sequence[StoredPacket]]:
    """The pages of a span; of a strict slice with an error if rows were removed before they were read."""
    if not part.is_strict:
        return message_pages(store, part.kind, span, wanted, skips)
    if wanted.since is None and wanted.until is None:
        return _counted(span, message_pages(store, part.kind, span, wanted, skips), span.rows)
    if not span.places:
        # How many of the planned rows are of these times is not known.
        return message_pages(store, part.kind, span, wanted, skips, partial(_check_removed, store, span))
    # It needs numpy, which a single row does without.
    from msmq.pipeline.reading.placed_pages import selected_rows

    every, selected = selected_rows(part.kind, span, wanted)
    return _counted(
        span, message_pages(store, part.kind, span, wanted, skips), selected + max(0, span.rows - every)
    )


def _check_removed(store: StoreReader, span: RowSpan, begin: int) -> None:
    """Check, after a page of a log was read from a number on, that none of its rows was removed before.

    @raise DataLost: one may have been.
    """
    assert span.queue is not None
    first, last = store.log_bounds(span.queue)
    if first > begin or last <= begin:
        raise DataLost(
            f"rows of {span.topic} between the offsets {begin} and {span.end} were trimmed while they were"
            " read (failOnDataLoss is true)"
        )


def _counted(span: RowSpan, pages: Iterator[_Page], expected: int) -> Iterator[_Page]:
    """The pages, and an error at the end if they have fewer rows than were planned."""
    count = 0
    for page in pages:
        count += len(page)
        yield page
    if count < expected:
        raise DataLost(
            f"{expected - count} rows of {span.topic} between the offsets {span.begin} and {span.end} were"
            " trimmed before they were read (failOnDataLoss is true)"
        )


def _reports(page: Sequence[StoredPacket]) -> Sequence[StoredPacket]:
    """The trace reports among these messages."""
    return [one for one in page if _class_of(one.packet) == MessageClass.REPORT]


def _class_of(packet: bytes) -> int | None:
    try:
        return UserMessageView(packet).message_class
    except RemoteProtocolError:
        return None


def event_pages(
    store: StoreReader, span: RowSpan, skips_damage: bool = False
) -> Iterator[Sequence[StoredEvent]]:
    """The events of a span, page by page.

    @param skips_damage: whether events that are damaged in the store are left out.
    @raise StorageError: the store cannot be read.
    """
    begin: int | None = span.begin
    is_said = False
    while begin is not None:
        read = partial(store.events, begin)
        (events, begin), damage = until_damage(read, span.end) if skips_damage else (read(span.end), None)
        yield events
        if damage is not None and begin is None:
            if not is_said:
                is_said = True
                # Spark shows the output of its Python processes there.
                print(f"left out of {span.topic}: {damage} (failOnDataLoss is false)", file=sys.stderr)
            begin = damage.number + 1


def check_ends(starting: Mapping[str, int | str], ending: Mapping[str, int | str]) -> None:
    """Check that the start of a batch is before its end.

    @raise ReadingError: it is not.
    """
    if LATEST in starting.values():
        raise ReadingError("startingOffsets of a batch cannot be latest")
    if EARLIEST in ending.values():
        raise ReadingError("endingOffsets cannot be earliest")


def message_pages(
    store: StoreReader,
    kind: str,
    span: RowSpan,
    wanted: RowSelection,
    skips_damage: bool = False,
    on_page: Callable[[int], object] = lambda begin: None,
) -> Iterator[Sequence[StoredPacket]]:
    """The packets of a span, page by page.

    @param skips_damage: whether rows that are damaged in the store are left out.
    @param on_page: called after each page with the number from which it was read; not for a span with places.
    @raise StorageError: the store cannot be read.
    """
    assert span.queue is not None
    if span.places:
        yield from _placed(store, kind, span, wanted, skips_damage)
        return
    begin: int | None = span.begin
    is_said = False
    while begin is not None:
        read = _page_read(store, kind, span.queue, begin, wanted)
        page, damage = until_damage(read, span.end) if skips_damage else (read(span.end), None)
        on_page(begin)
        if kind == "log":
            yield [
                StoredPacket(packet, span.topic, sequence, arrived, lookup_id)
                for sequence, lookup_id, arrived, packet in page.rows
            ]
        else:
            yield [
                StoredPacket(packet, span.topic, lookup_id % LEVEL, arrived, lookup_id, aborts, moves)
                for lookup_id, arrived, aborts, moves, _, packet in page.rows
            ]
        begin = page.next
        if damage is not None and begin is None:
            if not is_said:
                is_said = True
                # Spark shows the output of its Python processes there.
                print(f"left out of {span.topic}: {damage} (failOnDataLoss is false)", file=sys.stderr)
            begin = damage.number + 1


def _page_read(
    store: StoreReader, kind: str, queue: UUID, begin: int, wanted: RowSelection
) -> Callable[[int], RowPage]:
    """Reads a page from a number on, up to another one."""
    ask = store.log if kind == "log" else store.messages

    def read(end: int) -> RowPage:
        return ask(queue, begin, end, since=wanted.since, until=wanted.until, bodies=wanted.bodies)

    return read


def _placed(
    store: StoreReader, kind: str, span: RowSpan, wanted: RowSelection, skips_damage: bool
) -> Iterator[Sequence[StoredPacket]]:
    """The packets of a span with their places; those that the server has moved since, by their numbers.

    If damage is skipped, so are those from a damaged one on.
    """
    # It needs numpy, which a single row does without.
    from msmq.pipeline.reading.placed_pages import numbers_of, placed_pages

    following = span.begin
    try:
        for page in placed_pages(store, kind, span, wanted):
            yield page
            following = int((page.offsets if kind == "log" else page.lookup_ids)[-1]) + 1
    except (MomentGone, PacketDamage) as error:
        if isinstance(error, PacketDamage) and not skips_damage:
            raise
        planned = set(numbers_of(kind, span).tolist())
        rest = attrs.evolve(span, begin=following, places=b"")
        for rows in message_pages(store, kind, rest, wanted, skips_damage):
            # What has arrived since is not part of the read.
            yield [row for row in rows if (row.offset if kind == "log" else row.lookup_id) in planned]


def cuts_of(store: StoreReader, kind: str, span: RowSpan, rows: int) -> tuple[Sequence[int], int]:
    """The boundaries of pieces of this number of rows, and the number of rows of the last piece."""
    if span.queue is None:
        # The numbers of events have no gaps.
        boundaries = range(span.begin + rows, span.end, rows)
        return boundaries, span.end - (boundaries[-1] if boundaries else span.begin)
    ask = store.log_cuts if kind == "log" else store.message_cuts
    return ask(span.queue, span.begin, span.end, rows)
