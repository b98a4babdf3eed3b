"""Export of a store to Parquet files, with or without a running server.

An export resumes after the previous one, even if that was killed: a log or the events after the last exported
number, a queue with the messages that are in no file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import attrs

from msmq.interfaces.storage import StoredEvent
from msmq.pipeline.files.directory import NewFile, TopicFiles, date_of, writing_into
from msmq.pipeline.files.errors import parquet
from msmq.pipeline.reading.errors import ReadingError
from msmq.pipeline.reading.slices import LEVEL, LEVELS
from msmq.pipeline.reading.streams import Topic, find_topic, topics_of
from msmq.pipeline.rows import EVENTS_TOPIC, PLAIN, BodyReaders, event_batch, message_batch
from msmq.pipeline.schema import EXPORTED_COLUMNS, names_of
from msmq.pipeline.stored_packets import StoredPacket, signed
from msmq.storage.readers import StoreReader, open_reader
from msmq.structures.names.name_text import is_format_name
from msmq.wire.guid import NULL_GUID

FILE_ROWS: Final = 100_000
"""Maximum number of rows of a file."""
FILE_BYTES: Final = 128 * 1024 * 1024
"""Approximate limit on the bytes of packets in a file."""

_EXPORTED: Final = names_of(EXPORTED_COLUMNS)
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
    @ivar trimmed: the first and the last number of log entries that were trimmed before they were exported;
        some of them may belong to other queues.
    """

    topic: str
    stream: str
    rows: int = 0
    damaged: int = 0
    files: int = 0
    trimmed: tuple[int, int] | None = None


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

        @raise FilesError: a file cannot be written.
        @raise StorageError: the store cannot be read.
        """
        parquet()
        with writing_into(self._directory):
            for request in requests:
                yield self._export(request)

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
        writer = _Writer(self._topic_files(request), exported, self._on_rows, self._file_rows)
        try:
            if request.stream == "events":
                for events in self._events(request, exported):
                    writer.write(events, _event_facts, event_batch)
            else:
                for packets in self._packets(request, exported):
                    writer.write(packets, _packet_facts(request.stream), self._batch)
            writer.finish()
        except BaseException:
            writer.abandon()
            raise
        return exported

    def _batch(self, packets: Sequence[StoredPacket]) -> Any:
        return message_batch(packets, _EXPORTED, self._reading)

    def _events(self, request: ExportRequest, exported: Exported) -> Iterator[Sequence[StoredEvent]]:
        bounds = self._store.event_bounds()
        begin = self._from(request, bounds, exported)
        while True:
            events, following = self._store.events(begin, bounds[1])
            yield events
            if following is None:
                return
            begin = self._still(following, self._store.event_bounds()[0], exported)

    def _packets(self, request: ExportRequest, exported: Exported) -> Iterator[Sequence[StoredPacket]]:
        return self._logged(request, exported) if request.stream == "log" else self._of_queue(request)

    def _logged(self, request: ExportRequest, exported: Exported) -> Iterator[Sequence[StoredPacket]]:
        topic, end = request.topic, self._store.log_end()
        begin = self._from(request, self._store.log_bounds(topic.queue), exported)
        while True:
            page = self._store.log(topic.queue, begin, end, since=None, until=None, bodies=True)
            yield [
                StoredPacket(packet, topic.name, sequence, arrived, lookup_id)
                for sequence, lookup_id, arrived, packet in page.rows
            ]
            if page.next is None:
                return
            begin = self._still(page.next, self._store.log_bounds(topic.queue)[0], exported)

    def _still(self, following: int, first: int, exported: Exported) -> int:
        """Where to continue, given the expected and the actual first row."""
        if first <= following:
            return following
        exported.trimmed = exported.trimmed[0] if exported.trimmed else following, first - 1
        return first

    def _from(self, request: ExportRequest, bounds: tuple[int, int], exported: Exported) -> int:
        behind = self._behind(request)
        if 0 < behind < bounds[0]:
            exported.trimmed = behind, bounds[0] - 1
        return max(behind, bounds[0])

    def _of_queue(self, request: ExportRequest) -> Iterator[Sequence[StoredPacket]]:
        topic = request.topic
        # A transaction that commits late may add a lower number than those in the files.
        known = self._topic_files(request).numbers("lookup_id")
        begin: int | None = 0
        while begin is not None:
            page = self._store.messages(
                topic.queue, begin, LEVELS * LEVEL, since=None, until=None, bodies=True
            )
            yield [
                StoredPacket(packet, topic.name, lookup_id % LEVEL, arrived, lookup_id, aborts, moves)
                for lookup_id, arrived, aborts, moves, _, packet in page.rows
                if signed(lookup_id) not in known
            ]
            begin = page.next


def _packet_facts(stream: str) -> Callable[[StoredPacket], tuple[str, int, int]]:
    """The date of a packet, its number in the name of a file, and its size."""
    if stream == "log":
        return lambda packet: (date_of(packet.arrived), packet.offset, len(packet.packet))
    return lambda packet: (date_of(packet.arrived), packet.lookup_id or 0, len(packet.packet))


def _event_facts(stored: StoredEvent) -> tuple[str, int, int]:
    event = stored.event
    return date_of(event.time), stored.sequence, len(event.reason)


class _Writer:
    """Writes rows to files: a new file for each date, and when a file is large enough."""

    def __init__(
        self, topic_files: TopicFiles, exported: Exported, on_rows: Callable[[int], None], file_rows: int
    ) -> None:
        self._topic_files = topic_files
        self._exported = exported
        self._on_rows = on_rows
        self._file_rows = file_rows
        self._file: NewFile | None = None

    def write(
        self,
        rows: Sequence[Any],
        facts: Callable[[Any], tuple[str, int, int]],
        batch: Callable[[Sequence[Any]], Any],
    ) -> None:
        """Write rows in order."""
        for date, group in groupby(rows, lambda row: facts(row)[0]):
            same = list(group)
            if self._file is not None and self._file.date != date:
                self.finish()
            while same:
                if self._file is None:
                    self._file = self._topic_files.file(date, facts(same[0])[1])
                part = same[: self._file_rows - self._file.rows]
                del same[: len(part)]
                self._add(part, facts, batch(part))

    def _add(self, rows: Sequence[Any], facts: Callable[[Any], tuple[str, int, int]], batch: Any) -> None:
        file = self._file
        assert file is not None
        file.write(batch, facts(rows[-1])[1], sum(facts(row)[2] for row in rows))
        if "packet" in batch.schema.names:
            self._exported.damaged += batch.column("id").null_count
        self._exported.rows += len(rows)
        self._on_rows(len(rows))
        if file.rows >= self._file_rows or file.bytes >= FILE_BYTES:
            self.finish()

    def finish(self) -> None:
        """Finish the files."""
        if self._file is not None:
            self._file.finish()
            self._file = None
            self._exported.files += 1

    def abandon(self) -> None:
        """Delete unfinished files."""
        if self._file is not None:
            self._file.abandon()
