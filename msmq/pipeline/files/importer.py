"""Import of Parquet files into queues, through a running server.

Each row is sent as a new message, as in a replay: without acknowledgements or journal copies, with new time
limits.
Every message has a key unique to its row, and progress is stored in a file: a killed import continues where
it ended, without duplicates.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, TypeAlias

import attrs

from msmq.control.client.client import ControlClient
from msmq.control.protocol.records import StreamRecord
from msmq.control.server.messages.properties import read_message
from msmq.decoding.message_json import message_json
from msmq.durable import write_durably
from msmq.errors import RemoteProtocolError
from msmq.pipeline.archive.manifest import FRESH, ROOT, Archive
from msmq.pipeline.files.destinations import ImportDestinations, queue_name
from msmq.pipeline.files.directory import file_order
from msmq.pipeline.files.errors import FilesError, parquet
from msmq.pipeline.files.format import EVENTS
from msmq.pipeline.files.logged_journals import left_out, logged_files, sent_files
from msmq.pipeline.reading.streams import is_sendable, names_queue
from msmq.pipeline.schema import VERSION, VERSION_KEY
from msmq.pipeline.writing.queue_kinds import QueueKinds
from msmq.structures.packet.message_class import class_name
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.structures.status import MessageTooLarge, MQError

PROGRESS_NAME: Final = "_msmq_import"
"""The prefix of files with the progress of an import; readers of the data ignore them."""

_NEEDED: Final = ("packet", "topic", "offset")
_KEPT: Final = ("label", "body_type", "priority", "response_queue", "application_tag")
_NO_CORRELATION: Final = bytes(20)
_NOTED_EVERY: Final = 1000
_OUTSTANDING: Final = 1000
_READ_ROWS: Final = 500


class UnsendableRow(Exception):
    """A row cannot be sent as a message; the text is the reason."""


@attrs.frozen
class Row:
    """One row of a file.

    @ivar number: counted from 1.
    """

    file: Path
    number: int
    packet: bytes = attrs.field(repr=False)
    topic: str
    offset: int

    def __str__(self) -> str:
        return f"{self.file} row {self.number}"


def files_in(
    paths: Sequence[Path], *, topic: str = "", on_left_out: Callable[[str], None] = lambda line: None
) -> list[Path]:
    """The given Parquet files, and those with messages in the given directories, in the order of their rows.

    @param topic: the one queue whose rows are sent; empty for all.
    @param on_left_out: called with a line about what a directory has that is not imported: events, and of an
        archive rows that are not in Parquet yet, and journals whose messages are in a message log too.
    @raise FilesError: there is no such file, or none with messages in a directory.
    """
    found: list[Path] = []
    for path in map(Path.absolute, paths):
        if path.is_dir():
            inside, fresh = _inside(path, topic, on_left_out)
            sendable = [each for each in inside if not _has_events(each)]
            if not sendable:
                raise FilesError(f"{path}: {_nothing_to_send(path, bool(inside), fresh)}")
            if events := len(inside) - len(sendable):
                on_left_out(f"{path}: left out {_files(events)} of events, which cannot be sent")
            if fresh:
                on_left_out(
                    f"{path}: left out {_files(fresh)} with the newest rows of the archive, which are not in"
                    f" Parquet yet: first run msmq archive compact {path}"
                )
            found += sendable
        elif path.exists():
            found.append(path)
        else:
            raise FilesError(f"{path}: there is no such file")
    return found


def _inside(path: Path, topic: str, on_left_out: Callable[[str], None]) -> tuple[list[Path], int]:
    """The Parquet files in a directory, in the order of their rows; of an archive also how many are fresh.

    @raise FilesError: a manifest of an archive cannot be read.
    """
    if (path / ROOT).is_file():
        archive = Archive(path)
        manifests = archive.streams()
        copies = logged_files(manifests, topic)
        for journal, files in copies.items():
            line = left_out(manifests, journal, files)
            on_left_out(f"{path}: {line}; --topic '{queue_name(journal)}' sends them")
        without = {file.path for files in copies.values() for file in files}
        # Events, which an archive has in fresh files at almost any time, are not sent from any.
        sendable = [file for each in manifests if each.stream != EVENTS for file in each.files]
        fresh = sum(file.is_fresh and file.path not in without for file in sendable)
        # Of the same manifests: others may name a journal's rows in files that are not in these.
        return [archive.path(file) for file in sent_files(manifests, without)], fresh
    # Spark names directories like this, too.
    every = (each for each in sorted(path.rglob("*.parquet"), key=file_order) if each.is_file())
    inside = [each for each in every if not _is_hidden(each, path)]
    return inside, len(list((path / FRESH).glob("*.arrow")))


def _nothing_to_send(path: Path, has_events: bool, fresh: int) -> str:
    """Why a directory has no file to import, and what to do."""
    if fresh:
        return f"its messages are not in Parquet yet: first run msmq archive compact {path}"
    if has_events:
        return "it has events only, which cannot be sent; name a directory with exported messages"
    return "there are no Parquet files in it"


def _files(number: int) -> str:
    return f"{number} file{'' if number == 1 else 's'}"


def _has_events(path: Path) -> bool:
    """Whether a file has events; L{rows_of} reports one that cannot be read."""
    try:
        return "event" in parquet().read_schema(path).names
    except (OSError, ValueError):
        return False


def _is_hidden(path: Path, below: Path) -> bool:
    return any(part.startswith((".", "_")) for part in path.relative_to(below).parts)


def rows_of(file: Path, *, after: int = 0) -> Iterator[Row]:
    """The rows of a file, after skipping this many.

    @raise FilesError: it cannot be read, or has no packets.
    """
    try:
        with parquet().ParquetFile(file) as opened:
            _check(file, opened.schema_arrow)
            number = 0
            for batch in opened.iter_batches(batch_size=_READ_ROWS, columns=list(_NEEDED)):
                if number + batch.num_rows <= after:
                    number += batch.num_rows
                    continue
                for packet, topic, offset in zip(*(batch.column(name) for name in _NEEDED), strict=True):
                    number += 1
                    if number > after:
                        yield Row(
                            file, number, packet.as_py() or b"", topic.as_py() or "", offset.as_py() or 0
                        )
    except (OSError, ValueError) as error:
        raise FilesError(f"{file}: {error}") from error


def topics_of(file: Path) -> Mapping[str, int]:
    """The queues from which the rows of a file were exported, each with the number of its rows.

    @raise FilesError: it cannot be read, or has no packets.
    """
    found: Counter[str] = Counter()
    try:
        with parquet().ParquetFile(file) as opened:
            _check(file, opened.schema_arrow)
            for batch in opened.iter_batches(batch_size=_READ_ROWS, columns=["topic"]):
                for counted in batch.column(0).value_counts():
                    found[counted["values"].as_py() or ""] += counted["counts"].as_py()
    except (OSError, ValueError) as error:
        raise FilesError(f"{file}: {error}") from error
    return found


def _check(file: Path, schema: Any) -> None:
    missing = [name for name in _NEEDED if name not in schema.names]
    if missing:
        what = "events" if "event" in schema.names else f"rows without {', '.join(missing)}"
        raise FilesError(f"{file}: {what} cannot be sent")
    version = (schema.metadata or {}).get(VERSION_KEY, b"").decode("ascii", "replace")
    if version != str(VERSION):
        raise FilesError(
            f"{file}: its record format is {version or 'unknown'}, and this program knows {VERSION}"
        )


def record_of(
    row: Row, destination: str, *, transactional: bool | None, keep_express: bool, key: str
) -> StreamRecord:
    """A copy of the message in a row.

    @param transactional: whether the copy is transactional; C{None}: as the original.
    @param keep_express: whether the copy of an express message is express; otherwise it is recoverable.
    @raise UnsendableRow: the packet is malformed, or not a message of an application.
    """
    try:
        view = UserMessageView(row.packet)
        known = message_json(view, body=False)
        body, extension = bytes(view.body), bytes(view.extension)
        correlation, message_class = view.correlation_id, view.message_class
    except RemoteProtocolError as error:
        raise UnsendableRow(f"the packet is damaged: {error}") from None
    if not is_sendable(row.topic, message_class):
        raise UnsendableRow(f"it is {class_name(message_class)}, which only queue managers send")
    properties = {name: known[name] for name in _KEPT if known[name] is not None}
    properties["delivery"] = known["delivery"] if keep_express else "recoverable"
    if not names_queue(str(properties.get("response_queue"))):
        # The response queue of the original is not a valid queue name, so responses are impossible.
        properties.pop("response_queue", None)
    if correlation != _NO_CORRELATION:
        properties["correlation_id"] = known["correlation_id"]
    if known["transactional"] if transactional is None else transactional:
        properties["transactional"] = True
    try:
        read_message(properties, body, is_recoverable=True)
    except MQError as error:
        raise UnsendableRow(str(error)) from None
    header = {"destination": destination, "key": key, **properties}
    if extension:
        header["extension_size"] = len(extension)
    return StreamRecord(header, body + extension)


_Sendable: TypeAlias = tuple[Row, StreamRecord]


def _drained(rows: deque[_Sendable]) -> Iterator[_Sendable]:
    """Take all of them, each when it is asked for."""
    while rows:
        yield rows.popleft()


@attrs.define
class Imported:
    """Result of an import.

    @ivar messages: the number of sent messages for each destination, including those of an earlier run.
    @ivar skipped: the number of rows that could not be sent.
    """

    messages: dict[str, int] = attrs.field(factory=dict)
    skipped: int = 0


class ImportProgress:
    """Progress file of an import.

    @ivar done: the files whose rows were all accepted.
    @ivar begun: the number of accepted rows of each other file; several if files were added meanwhile.
    """

    def __init__(self, path: Path, task: str) -> None:
        """Read the file, if it exists.

        @param task: a text that identifies the imported files and the destination.
        @raise FilesError: it cannot be read, or belongs to another import.
        """
        self._path = path
        self._task = task
        self.done: set[str] = set()
        self.begun: dict[str, int] = {}
        self._file = ""
        try:
            found = json.loads(path.read_bytes())
            if found["task"] != task:
                raise FilesError(f"{path}: it belongs to another import; select another file with --progress")
            self.done = set(found["done"])
            self.begun = {file: int(rows) for file, rows in found["begun"].items()}
        except FileNotFoundError:
            pass
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise FilesError(f"{path}: not a progress file of an import: {error}") from error

    def after(self, file: Path) -> int:
        """The number of accepted rows of a file."""
        return self.begun.get(str(file), 0)

    def reach(self, row: Row) -> None:
        """Record that all rows up to this one are accepted, in its file and in all earlier files."""
        file = str(row.file)
        if self._file not in ("", file):
            self.done.add(self._file)
            del self.begun[self._file]
        self._file = file
        self.begun[file] = row.number

    def note(self) -> None:
        """Write the file.

        @raise FilesError: it cannot be written.
        """
        state = {"task": self._task, "done": sorted(self.done), "begun": self.begun}
        try:
            write_durably(self._path, json.dumps(state).encode("ascii"), 0o666)
        except OSError as error:
            raise FilesError(
                f"{self._path}: {error.strerror or error}; --progress names a file that can be written"
            ) from error

    def remove(self) -> None:
        """Delete the file after a complete import."""
        self._path.unlink(missing_ok=True)


class Importer:
    """Sends the rows of files as messages.

    @param into: the destination; C{None} for the original queue of each row.
    @param topic: sends only rows that were exported from this queue; empty for all rows.
    @param key: the prefix of the key of every message.
    @param keep_express: copies of express messages are express too, so that a restart of the server loses
        them; otherwise every copy is recoverable.
    @param outstanding: limit on sent messages that are not yet accepted.
    @param on_skipped: called with a row that cannot be sent, and the reason; before all rows with the name of
        a queue to which messages cannot be sent, such as a dead-letter queue, and a reason with the number of
        its rows.
    @param on_rows: called with the number of further rows that were read.
    """

    def __init__(
        self,
        client: ControlClient,
        files: Sequence[Path],
        *,
        into: str | None = None,
        topic: str = "",
        key: str = "",
        keep_express: bool = False,
        outstanding: int = _OUTSTANDING,
        on_skipped: Callable[[Row | str, str], None] = lambda row, reason: None,
        on_rows: Callable[[int], None] = lambda rows: None,
    ) -> None:
        self._client = client
        self._files = files
        self._into = into
        self._topic = topic
        self._key = key
        self._outstanding = outstanding
        self._on_skipped = on_skipped
        self._on_rows = on_rows
        self._keep_express = keep_express
        self._kinds = QueueKinds(client)
        self._imported = Imported()
        self._unnoted = 0
        self._destinations = ImportDestinations({}, {})

    @property
    def task(self) -> str:
        """Short description of the import, for its L{ImportProgress}."""
        said = json.dumps([self._into, self._topic, self._key])
        return blake2b(said.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()

    def expected(self) -> int:
        """The number of rows of all files.

        @raise FilesError: a file cannot be read.
        """
        total = 0
        for file in self._files:
            try:
                total += parquet().read_metadata(file).num_rows
            except (OSError, ValueError) as error:
                raise FilesError(f"{file}: {error}") from error
        return total

    def rehearse(self) -> Imported:
        """Dry run: check the rows and that the destinations exist.

        @raise FilesError: a file cannot be read, or no message has a queue to go to.
        @raise MQError: a queue does not exist, or the server cannot be reached.
        """
        self._find_destinations(None)
        for _, record in self._records(None):
            self._count(record)
        return self._imported

    def run(self, progress: ImportProgress) -> Imported:
        """Send all rows that are not accepted yet.

        Files and destinations are checked before anything is sent. A message that is too large for its
        destination is skipped.

        @raise FilesError: a file cannot be read, or no message has a queue to go to.
        @raise MQError: a queue does not exist, a message is refused, or the connection is lost; the progress
            is stored.
        """
        self._find_destinations(progress)
        records = self._records(progress)
        again: deque[_Sendable] = deque()
        try:
            while True:
                is_again = bool(again)
                waiting: deque[_Sendable] = deque()
                try:
                    if is_again:
                        self._send(_drained(again), waiting, progress, outstanding=1)
                    else:
                        self._send(records, waiting, progress, outstanding=self._outstanding)
                except MessageTooLarge as error:
                    # Messages are refused together, so which of them it is shows when each is sent alone.
                    if is_again:
                        row, _ = waiting.popleft()
                        self._skip(row, str(error))
                    again.extendleft(reversed(waiting))
                else:
                    if not is_again:
                        break
        except BaseException:
            progress.note()
            raise
        progress.remove()
        return self._imported

    def _send(
        self,
        records: Iterable[_Sendable],
        waiting: deque[_Sendable],
        progress: ImportProgress,
        *,
        outstanding: int,
    ) -> None:
        """Send rows, and record those that are accepted.

        @param waiting: has the rows that were sent and are not accepted.
        @raise MQError: a message is refused; no later one was sent. Or the connection is lost.
        """

        def messages() -> Iterator[StreamRecord]:
            for row, record in records:
                waiting.append((row, record))
                yield record

        for _ in self._client.send(
            messages(),
            pipelined=True,
            # Sent again, a refused message would be after these.
            stop_at_refusal=True,
            outstanding=outstanding,
            is_import=True,
        ):
            row, record = waiting.popleft()
            self._count(record)
            progress.reach(row)
            self._unnoted += 1
            if self._unnoted == _NOTED_EVERY:
                progress.note()
                self._unnoted = 0

    def _skip(self, row: Row, reason: str) -> None:
        self._imported.skipped += 1
        self._on_skipped(row, reason)

    def _find_destinations(self, progress: ImportProgress | None) -> None:
        """Check all files, find the destinations, and report the queues that have none.

        @raise FilesError: a file cannot be read, or no message has a queue to go to.
        @raise MQError: a destination does not exist.
        """
        found: Counter[str] = Counter()
        for file in self._files:
            if progress is None or str(file) not in progress.done:
                found.update(topics_of(file))
        self._destinations = ImportDestinations.find(found, self._into, self._topic)
        self._destinations.require(self._kinds)
        for topic, rows in self._destinations.left_out.items():
            self._imported.skipped += rows
            number = "1 message" if rows == 1 else f"{rows} messages"
            reason = f"left out {number}, which cannot be sent there; send them with --topic and --into"
            self._on_skipped(queue_name(topic), reason)

    def _count(self, record: StreamRecord) -> None:
        destination = record.header["destination"]
        self._imported.messages[destination] = self._imported.messages.get(destination, 0) + 1

    def _records(self, progress: ImportProgress | None) -> Iterator[_Sendable]:
        for row in self._rows(progress):
            self._on_rows(1)
            destination = self._destinations.of.get(row.topic)
            if destination is None:
                # It is from another queue than --topic, or was reported before.
                continue
            key = self._key_of(row)
            try:
                record = record_of(
                    row,
                    destination,
                    transactional=self._kinds.is_transactional(destination),
                    keep_express=self._keep_express,
                    key=key,
                )
            except UnsendableRow as error:
                self._skip(row, str(error))
            else:
                yield row, record

    def _rows(self, progress: ImportProgress | None) -> Iterable[Row]:
        for file in self._files:
            if progress is None or str(file) not in progress.done:
                yield from rows_of(file, after=0 if progress is None else progress.after(file))

    def _key_of(self, row: Row) -> str:
        """Deterministic key of a row, different from that of any other."""
        said = [self._key, row.topic, row.offset]
        digest = blake2b(json.dumps(said).encode("utf-8", "surrogatepass"), digest_size=16)
        digest.update(row.packet)
        return f"import {digest.hexdigest()}"
