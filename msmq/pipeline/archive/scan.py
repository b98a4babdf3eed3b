"""Reads the parts of a plan: rows of archived files, and the rest of the store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import numpy
import pyarrow
import pyarrow.compute

from msmq.interfaces.storage import StoredEvent
from msmq.pipeline.archive.manifest import Archive
from msmq.pipeline.archive.parts import (
    LAST_OFFSET,
    ArchiveSlice,
    FilePart,
    opened_parquet,
    path_now,
    unreadable,
)
from msmq.pipeline.archive.plan import store_of
from msmq.pipeline.files.format import EVENTS
from msmq.pipeline.files.row_parts import number_of
from msmq.pipeline.packet_page import PacketPage
from msmq.pipeline.reading.errors import DataLost
from msmq.pipeline.reading.opening import open_store
from msmq.pipeline.reading.options import ReadOptions
from msmq.pipeline.reading.row_selection import RowSelection
from msmq.pipeline.reading.slices import RowSpan
from msmq.pipeline.reading.stores import event_pages, message_pages
from msmq.pipeline.rows import BodyReaders, event_batch, message_batch, microseconds
from msmq.pipeline.stored_packets import StoredPacket, signed
from msmq.storage.readers import StoreReader

BATCH_ROWS: Final = 16_384
"""Rows of a batch of a Parquet file."""

_SELECTING: Final = ("offset", "timestamp")
_KEPT: Final = ("topic", "offset", "timestamp", "lookup_id", "abort_count", "move_count", "packet")


@attrs.frozen
class ArchiveScan:
    """A read of an archive.

    @ivar stream: one of the streams of an archive.
    @ivar reading: the decoders of bodies and headers.
    @ivar is_decoded: whether columns are requested that only the packets have.
    """

    options: ReadOptions
    wanted: RowSelection
    stream: str
    reading: BodyReaders
    is_decoded: bool

    @property
    def archive(self) -> Archive:
        """The archive."""
        return Archive(Path(self.options.path))

    def batches(self, part: ArchiveSlice) -> Iterator[pyarrow.RecordBatch]:
        """The rows of a part.

        @raise ArchiveError: a file is damaged, or gone.
        @raise StorageError: the store cannot be read.
        @raise DataLost: entries were trimmed before they were read.
        """
        for file in part.files:
            for batch in self._file_batches(file, self._needed()):
                yield from self._selected(self._finished(batch))
        if part.tail is None:
            return
        location = store_of(self.archive, self.options)
        if location is None:
            return
        store = open_store(location)
        try:
            for batch in self._tail(store, part):
                yield from self._selected(batch)
        finally:
            store.close()

    def _needed(self) -> Sequence[str]:
        if self.is_decoded and self.stream != EVENTS:
            return _KEPT
        return tuple(dict.fromkeys((*self.wanted.names, *_SELECTING)))

    def _finished(self, batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
        if not self.is_decoded or self.stream == EVENTS:
            return batch
        return self._made([_packet(row) for row in batch.to_pylist()])

    def _made(self, rows: Sequence[Any]) -> pyarrow.RecordBatch:
        names = tuple(dict.fromkeys((*self.wanted.names, *_SELECTING)))
        return event_batch(rows, names) if self.stream == EVENTS else message_batch(rows, names, self.reading)

    def _file_batches(self, part: FilePart, names: Sequence[str]) -> Iterator[pyarrow.RecordBatch]:
        archive = self.archive
        if not part.path.endswith(".arrow"):
            with opened_parquet(archive, part) as file:
                if file is not None:
                    # An erasure keeps the row groups, some of them with fewer rows.
                    groups = list(part.groups) or None
                    for batch in file.iter_batches(BATCH_ROWS, groups, list(names)):
                        yield from _within(batch, part)
            return
        path = path_now(archive, part)
        if path is None:
            return
        try:
            with pyarrow.OSFile(str(path)) as source, pyarrow.ipc.open_file(source) as opened:
                for number in range(opened.num_record_batches):
                    yield from _within(opened.get_batch(number).select(list(names)), part)
        except (OSError, pyarrow.ArrowException) as error:
            raise unreadable(path, error) from error

    def _selected(self, batch: pyarrow.RecordBatch) -> Iterator[pyarrow.RecordBatch]:
        """The selected rows by time, with the requested columns."""
        wanted = self.wanted
        for bound, compare in ((wanted.since, "greater_equal"), (wanted.until, "less")):
            if bound is not None and batch.num_rows:
                column = batch.column("timestamp")
                limit = pyarrow.scalar(round(bound * 1_000_000), pyarrow.int64()).cast(column.type)
                holds = getattr(pyarrow.compute, compare)(column, limit)
                batch = batch.filter(holds.fill_null(False))
        if batch.num_rows:
            yield batch.select(list(wanted.names))

    def _tail(self, store: StoreReader, part: ArchiveSlice) -> Iterator[pyarrow.RecordBatch]:
        assert part.tail is not None
        for span in part.tail.spans:
            if part.tail.kind == "messages":
                yield from self._messages(store, part, span)
            else:
                yield from self._entries(store, part, span)

    def _entries(
        self, store: StoreReader, part: ArchiveSlice, span: RowSpan
    ) -> Iterator[pyarrow.RecordBatch]:
        """Entries of a log; those that the store trims meanwhile are read from the archive."""
        seen: list[Any] = []
        pages: Iterator[Sequence[Any]]
        skips = not self.options.fail_on_data_loss
        wanted = attrs.evolve(self.wanted, since=None, until=None)
        if span.queue is None:
            pages = event_pages(store, span, skips)
        else:
            pages = message_pages(store, "log", span, wanted, skips)
        for page in pages:
            seen.append(_numbers(page))
            if page:
                yield self._made(page)
        left = span.rows - sum(map(len, seen))
        if left <= 0:
            return

        read = numpy.concatenate([numpy.empty(0, numpy.int64), *seen])

        def is_unread(batch: pyarrow.RecordBatch) -> Any:
            numbers = batch.column("offset").to_numpy()
            return (numbers >= span.begin) & (numbers < span.end) & ~numpy.isin(numbers, read)

        for batch in self._archived(part, is_unread):
            left -= batch.num_rows
            yield batch
        if left > 0 and self.options.fail_on_data_loss and not self._were_removed(part, span):
            raise DataLost(
                f"{left} entries of {span.topic} between the offsets {span.begin} and {span.end} were trimmed"
                " before they were archived or read (failOnDataLoss is true)"
            )

    def _were_removed(self, part: ArchiveSlice, span: RowSpan) -> bool:
        """Whether entries that are in neither were archived since, and then erased or removed by age."""
        now = self.archive.load(part.manifest)
        return (
            now is not None
            and now.begun <= span.begin
            and span.end <= now.next
            and now.erased + now.expired > 0
            and not now.missing.may_have(span.begin, span.end)
        )

    def _messages(
        self, store: StoreReader, part: ArchiveSlice, span: RowSpan
    ) -> Iterator[pyarrow.RecordBatch]:
        """Messages of a queue; those that have left it are read from the archive, if they are there."""
        numbers, times = (numpy.frombuffer(each, numpy.int64) for each in (part.numbers, part.times))
        is_read = numpy.zeros(len(numbers), numpy.bool_)
        wanted = attrs.evolve(self.wanted, since=None, until=None)
        for page in message_pages(store, "messages", span, wanted, not self.options.fail_on_data_loss):
            rows = []
            for row in page:
                place = int(numpy.searchsorted(numbers, signed(row.lookup_id or 0)))
                if (
                    place < len(numbers)
                    and numbers[place] == row.lookup_id
                    and times[place] == (microseconds(row.arrived) or 0)
                ):
                    is_read[place] = True
                    rows.append(row)
            if rows:
                yield self._made(rows)
        if is_read.all():
            return
        keys = set(zip(numbers[~is_read].tolist(), times[~is_read].tolist(), strict=True))

        def is_unread(batch: pyarrow.RecordBatch) -> Any:
            moments = batch.column("timestamp").cast("int64").fill_null(0).to_pylist()
            found = zip(batch.column("lookup_id").to_pylist(), moments, strict=True)
            return numpy.array([key in keys for key in found], numpy.bool_)

        yield from self._archived(part, is_unread)

    def _archived(
        self, part: ArchiveSlice, mask: Callable[[pyarrow.RecordBatch], Any]
    ) -> Iterator[pyarrow.RecordBatch]:
        """The rows of a mask that the archive has now, of one stream."""
        manifest = self.archive.load(part.manifest)
        if manifest is None:
            return
        more = () if self.stream == EVENTS else ("lookup_id",)
        names = tuple(dict.fromkeys((*self._needed(), *more)))
        for file in manifest.files:
            for batch in self._file_batches(
                FilePart(manifest.name, manifest.topic, file.path, file.rows), names
            ):
                left = batch.filter(pyarrow.array(mask(batch), pyarrow.bool_()))
                if left.num_rows:
                    yield self._finished(left)


def _numbers(page: Sequence[StoredPacket | StoredEvent]) -> Any:
    """The numbers of entries of a log."""
    if isinstance(page, PacketPage):
        # Each of its rows is created when it is asked for. Its numbers have no sign, and those of an archive
        # have one: numpy would compare both as floating-point numbers.
        return page.offsets.astype(numpy.int64)
    return numpy.array([number_of(row) for row in page], numpy.int64)


def _within(batch: pyarrow.RecordBatch, part: FilePart) -> Iterator[pyarrow.RecordBatch]:
    """The rows between the offsets of a part."""
    if part.begin > 0 or part.end < LAST_OFFSET:
        numbers = batch.column("offset").to_numpy()
        batch = batch.filter(pyarrow.array((numbers >= part.begin) & (numbers < part.end)))
    if batch.num_rows:
        yield batch


def _packet(row: dict[str, Any]) -> StoredPacket:
    time = row["timestamp"]
    return StoredPacket(
        row["packet"],
        row["topic"],
        row["offset"],
        None if time is None else time.timestamp(),
        row["lookup_id"],
        row["abort_count"],
        row["move_count"],
    )
