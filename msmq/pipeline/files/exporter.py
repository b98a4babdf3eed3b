"""Export of a store to Parquet files, with or without a running server.

An export resumes after the previous one, even if that was killed: a log or the events after the last exported
number, a queue with the messages that are in no file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import attrs

from msmq.interfaces.storage import StoredEvent
from msmq.pipeline.files.directory import TopicFiles, writing_into
from msmq.pipeline.files.earlier_entries import earlier_entry
from msmq.pipeline.files.errors import FilesError, parquet
from msmq.pipeline.files.format import write_file
from msmq.pipeline.files.row_parts import (
    RowPart,
    log_bounds,
    logged_pages,
    number_of,
    queued_pages,
    row_parts,
)
from msmq.pipeline.reading.errors import ReadingError
from msmq.pipeline.reading.removal_notices import RemovalNotices
from msmq.pipeline.reading.slices import LEVEL, LEVELS
from msmq.pipeline.reading.streams import Topic, find_topic, topics_of
from msmq.pipeline.rows import EVENTS_TOPIC, PLAIN, BodyReaders, microseconds
from msmq.pipeline.stored_packets import StoredPacket, signed
from msmq.storage.readers import RowDamaged, StoreReader, open_reader
from msmq.structures.names.name_text import is_format_name
from msmq.wire.guid import NULL_GUID

FILE_ROWS: Final = 100_000
"""Maximum number of rows of a file."""
FILE_BYTES: Final = 128 * 1024 * 1024
"""Approximate limit on the bytes of packets in a file."""

MOST_PROBLEMS: Final = 20
"""Limit on the damaged rows of a stream that an export names."""

_STREAMS: Final = (
    *("queue", "log", "journal", "source_journal", "dead_letter", "dead_letter_transactional", "outgoing"),
)
_ALL: Final = 1 << 62
_SUFFIXES: Final = {"deadletter": "dead_letter", "deadxact": "dead_letter_transactional"}


@attrs.frozen
class ExportRequest:
    """Stream to export.

    @ivar stream: C{queue}, C{log}, C{journal}, C{events} and so on, as the data source calls it.
    """

    stream: str
    topic: Topic


@attrs.define
class Exported:
    """The result of an export, for people and programs.

    @ivar damaged: the number of rows of malformed packets, which have only the bytes.
    @ivar unreadable: the number of rows that are damaged in the store, and are left out.
    @ivar problems: what is wrong with the first of these.
    @ivar trimmed: the first and the last number of log entries that were trimmed before they were exported;
        some of them may belong to other queues.
    """

    topic: str
    stream: str
    rows: int = 0
    damaged: int = 0
    files: int = 0
    trimmed: tuple[int, int] | None = None
    unreadable: int = 0
    problems: list[str] = attrs.field(factory=list)

    def leave_out(self, error: RowDamaged) -> None:
        """Note a row that is damaged in the store."""
        self.unreadable += 1
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(str(error))


@contextmanager
def store_at(location: str) -> Iterator[StoreReader]:
    """Open the store at a path or URL for an export.

    @param location: a data directory, a record log, a file of SQLite, or C{postgresql://...}.
    @raise StorageError: there is none.
    """
    store = open_reader(location)
    try:
        yield store
    finally:
        store.close()


def export_request(store: StoreReader, name: str, *, log: bool = False) -> ExportRequest:
    r"""The stream and topic of a name: C{events}, or the path of a queue, a journal or a dead-letter queue.

    @param log: whether to export the message log of the queue instead of its messages.
    @raise ReadingError: there is no such queue or log.
    """
    if name == EVENTS_TOPIC and not log:
        return ExportRequest("events", Topic(NULL_GUID, EVENTS_TOPIC))
    stream = _stream(name, log)
    if (topic := find_topic(topics_of(stream, store.queues()), name)) is not None:
        return ExportRequest(stream, topic)
    if log:
        raise ReadingError(f"{store.text} has no queue {name} with a message log")
    raise ReadingError(f"{store.text} has no queue {name}")


def _stream(name: str, log: bool) -> str:
    path, _, suffix = name.lower().removeprefix(".\\").partition(";")
    if log:
        return "log"
    if is_format_name(name):
        return "outgoing"
    if path == "system$":
        return _SUFFIXES.get(suffix, "source_journal")
    return "journal" if suffix == "journal" else "queue"


class Exporter:
    """Exports to one directory, which it locks.

    @param reading: the body decoders.
    @param on_rows: called from time to time with the number of rows since the last call.
    """

    def __init__(
        self,
        store: StoreReader,
        directory: Path,
        *,
        reading: BodyReaders = PLAIN,
        on_rows: Callable[[int], None] = lambda rows: None,
        file_rows: int = FILE_ROWS,
    ) -> None:
        self._store = store
        self._directory = directory
        self._reading = reading
        self._on_rows = on_rows
        self._file_rows = file_rows

    def expected(self, requests: Sequence[ExportRequest]) -> int:
        """The approximate number of rows to write, for a progress bar."""
        return sum(map(self._expected, requests))

    def _expected(self, request: ExportRequest) -> int:
        queue = request.topic.queue
        if request.stream == "events":
            first, end = self._store.event_bounds()
            return end - max(first, self._behind(request))
        if request.stream == "log":
            return self._store.log_cuts(queue, self._behind(request), self._store.log_end(), _ALL)[1]
        return self._store.message_cuts(queue, 0, LEVELS * LEVEL, _ALL)[1]

    def run(self, requests: Sequence[ExportRequest]) -> Iterator[Exported]:
        """Export the requested streams in order, and report each when it is complete.

        @raise FilesError: a file cannot be written, or the directory has the export of another queue manager.
        @raise StorageError: the store cannot be read.
        """
        parquet()
        with writing_into(self._directory, self._store.identifier(), self._stems()):
            for request in requests:
                yield self._export(request)

    def _stems(self) -> set[str]:
        """The beginnings of the names of files of everything that the store has."""
        queues = self._store.queues()
        requests = [ExportRequest("events", Topic(NULL_GUID, EVENTS_TOPIC))]
        requests += [
            ExportRequest(stream, topic) for stream in _STREAMS for topic in topics_of(stream, queues)
        ]
        return {self._topic_files(request).stem for request in requests}

    def _topic_files(self, request: ExportRequest) -> TopicFiles:
        topic = request.topic
        whose = (self._store.identifier(), str(topic.queue), request.stream)
        return TopicFiles(
            self._directory, f"{topic.name}-log" if request.stream == "log" else topic.name, whose
        )

    def _behind(self, request: ExportRequest) -> int:
        """The first number of a log that is not exported yet."""
        return max((each.last for each in self._topic_files(request).files()), default=-1) + 1

    def _export(self, request: ExportRequest) -> Exported:
        exported = Exported(request.topic.name, request.stream)
        files, parts = self._topic_files(request), self._parts(request, exported)
        part = next(parts, None)
        while part is not None:
            part = self._write(files, part, parts, exported)
        return exported

    def _write(
        self, files: TopicFiles, begin: RowPart, following: Iterator[RowPart], exported: Exported
    ) -> RowPart | None:
        """Write a file of these parts, and return the part with which the next file begins."""
        part: RowPart | None = begin
        last = begin.last

        def batches() -> Iterator[Any]:
            nonlocal part, last
            rows = size = 0
            while part is not None and part.date == begin.date:
                if size >= FILE_BYTES or (rows and rows + part.batch.num_rows > self._file_rows):
                    return
                batch, last = part.batch, part.last
                rows, size = rows + batch.num_rows, size + part.size
                yield batch
                exported.rows += batch.num_rows
                if "packet" in batch.schema.names:
                    exported.damaged += batch.column("id").null_count
                self._on_rows(batch.num_rows)
                part = next(following, None)

        write_file(files.unfinished, exported.stream, batches(), is_parquet=True)
        files.publish(begin.date, begin.first, last)
        exported.files += 1
        return part

    def _parts(self, request: ExportRequest, exported: Exported) -> Iterator[RowPart]:
        number: Callable[[Any], int] = number_of if request.stream in ("events", "log") else _lookup_id
        for rows in self._pages(request, exported):
            yield from row_parts(rows, number, reading=self._reading, most=self._file_rows)

    def _pages(
        self, request: ExportRequest, exported: Exported
    ) -> Iterator[Sequence[StoredPacket | StoredEvent]]:
        if request.stream in ("events", "log"):
            return self._logged(request, exported)
        # A transaction that commits late may add a lower number than those in the files.
        known = self._topic_files(request).moments(self._present(request.topic))

        def is_new(lookup_id: int, arrived: float | None) -> bool:
            moment = known.get(signed(lookup_id))
            if moment is not None and moment != (microseconds(arrived) or 0):
                raise _restored(request, f"its message {lookup_id} is another one")
            return moment is None

        return queued_pages(self._store, request.topic, is_new, exported.leave_out)

    def _present(self, topic: Topic) -> Any:
        """The numbers of the messages that a queue has now, as an array of numpy: 8 bytes each."""
        import numpy

        parts = [numpy.empty(0, numpy.int64)]
        begin: int | None = 0
        while begin is not None:
            page = self._store.message_rows(topic.queue, begin)
            parts.append(numpy.array([signed(row[0]) for row in page.rows], numpy.int64))
            begin = page.next
        return numpy.concatenate(parts)

    def _logged(
        self, request: ExportRequest, exported: Exported
    ) -> Iterator[Sequence[StoredPacket | StoredEvent]]:
        is_events = request.stream == "events"
        first, end = log_bounds(self._store, request.topic, is_events=is_events)
        if not is_events:
            end = self._store.log_end()

        def trimmed(first: int, last: int) -> None:
            exported.trimmed = exported.trimmed[0] if exported.trimmed else first, last

        behind = self._behind(request)
        if behind:
            self._check_last(request, behind - 1, end)
        if 0 < behind < first:
            trimmed(behind, first - 1)
        begin = max(behind, first)
        pages = logged_pages(
            self._store, request.topic, begin, end, trimmed, exported.leave_out, is_events=is_events
        )
        for page, _ in pages:
            yield page

    def _check_last(self, request: ExportRequest, last: int, end: int) -> None:
        """Check that the store still has the last exported entry of a log, unless it was trimmed.

        @raise FilesError: it has another one, or none: it was restored from a backup.
        """
        if last >= end:
            raise _restored(request, f"it ends before {end}, the export before {last + 1}")
        is_events = request.stream == "events"
        page = earlier_entry(self._store, request.topic, last, is_events=is_events, notices=RemovalNotices())
        if page is None:
            return
        moments = [
            microseconds(row.event.time if isinstance(row, StoredEvent) else row.arrived) or 0 for row in page
        ]
        if moments != [self._topic_files(request).last_moment()]:
            raise _restored(request, f"its entry {last} is another one")


def _restored(request: ExportRequest, how: str) -> FilesError:
    return FilesError(
        f"{request.topic.name}: the store is not the one that was exported, {how}: it was restored from a"
        " backup; select another directory for the export from now on"
    )


def _lookup_id(packet: StoredPacket) -> int:
    return packet.lookup_id or 0
