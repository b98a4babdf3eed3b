"""Import of Parquet files into queues, through a running server.

Each row is sent as a new message, as in a replay: without acknowledgements or journal copies, with new time
limits.
Every message has a key unique to its row, and progress is stored in a file: a killed import continues where
it ended, without duplicates.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Final, TypeAlias

import attrs

from msmq.control.client.client import ControlClient
from msmq.control.protocol.records import StreamRecord
from msmq.pipeline.files.destinations import ImportDestinations, queue_name
from msmq.pipeline.files.errors import FilesError, parquet
from msmq.pipeline.files.import_progress import ImportProgress
from msmq.pipeline.files.import_rows import Row, UnsendableRow, record_of, rows_of, topics_of
from msmq.pipeline.writing.queue_kinds import QueueKinds
from msmq.structures.status import MessageTooLarge

_NOTED_EVERY: Final = 1000
_OUTSTANDING: Final = 1000


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
