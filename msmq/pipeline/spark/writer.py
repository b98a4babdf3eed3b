"""C{df.write.format("msmq")} and its stream: sends rows as messages, through a running queue manager.

Spark retries a task when its process dies, and a streaming batch when the query fails; so every message has
an idempotency key, under which the queue manager accepts it once.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pyspark import TaskContext
from pyspark.sql import Row
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from msmq.control.client.client import ControlClient
from msmq.control.protocol.records import StreamRecord
from msmq.pipeline.reading.errors import ReadingError
from msmq.pipeline.spark.versions import StreamWriter
from msmq.pipeline.spark.workers import plain_errors
from msmq.pipeline.writing.location import location_of
from msmq.pipeline.writing.options import WriteOptions
from msmq.pipeline.writing.queue_kinds import QueueKinds
from msmq.pipeline.writing.records import RecordBuilder, check_columns, columns_of
from msmq.structures.status import MQError, Status

if TYPE_CHECKING:
    import pyarrow


class Sent(WriterCommitMessage):
    """Commit message of a task: the number of sent rows."""

    def __init__(self, messages: int, size: int) -> None:
        self.messages = messages
        self.size = size


class _Sending:
    """Sender of the rows of a task."""

    def __init__(self, options: WriteOptions, schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise ReadingError("a queue cannot be overwritten, only written to: mode append")
        check_columns(schema.fieldNames(), options.destination)
        self._options = options
        self._columns = columns_of(schema.fieldNames())
        self._run = str(uuid4())
        # Checked here, so that it fails once and not in every task.
        self._client().status()

    def _client(self) -> ControlClient:
        return ControlClient(location_of(self._options), patience=self._options.timeout)

    @plain_errors()
    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> WriterCommitMessage:
        """Send the rows of one task; returns when the queue manager has accepted them."""
        sizes: list[int] = []
        records = self._paced(self._records(iterator), sizes)
        if self._options.dry_run:
            for _ in records:
                pass
            return Sent(len(sizes), sum(sizes))
        try:
            # A row that is refused is written again, and would be after these.
            for _ in self._client().send(records, pipelined=True, stop_at_refusal=True):
                pass
        except MQError as error:
            if error.status is Status.MQ_ERROR_SERVICE_NOT_AVAILABLE:
                raise ReadingError(str(error)) from None
            raise ReadingError(f"the queue manager at {self._options.control} refuses: {error}") from None
        return Sent(len(sizes), sum(sizes))

    def _records(self, batches: Iterable[pyarrow.RecordBatch]) -> Iterator[StreamRecord]:
        task = self._task()
        kinds = QueueKinds(self._client())
        recording = RecordBuilder(self._options.destination, self._options.key, kinds.is_transactional, task)
        for number, row in enumerate(self._rows(batches)):
            yield recording.record(row, f"{task}:{number}")

    def _rows(self, batches: Iterable[Any]) -> Iterator[dict[str, Any]]:
        """The used columns of the rows; of a stream PySpark 4.0 gives rows instead of batches."""
        for batch in batches:
            if isinstance(batch, Row):
                found = batch.asDict(recursive=True)
                yield {name: found[name] for name in self._columns}
            else:
                yield from batch.select(self._columns).to_pylist()

    def _task(self) -> str:
        """Identifier of this task; the same if it is repeated.

        That of another write of the same batch of a stream may be equal (C{foreachBatch}).
        """
        context = TaskContext.get()
        assert context is not None
        query = context.getLocalProperty("sql.streaming.queryId")
        batch = context.getLocalProperty("streaming.sql.batchId")
        run = self._run if query is None else f"{query}:{batch}"
        return f"{run}:{context.partitionId()}"

    def _paced(self, records: Iterable[StreamRecord], sizes: list[int]) -> Iterator[StreamRecord]:
        """The same records, limited to the maximum rate, with their sizes recorded."""
        per_second = self._options.per_second
        begun = time.monotonic()
        for number, record in enumerate(records):
            if per_second and (early := begun + number / per_second - time.monotonic()) > 0:
                time.sleep(early)
            sizes.append(len(record.body))
            yield record

    def _report(self, sent: Sequence[WriterCommitMessage | None]) -> None:
        if self._options.dry_run:
            tasks = [one for one in sent if isinstance(one, Sent)]
            count, size = sum(one.messages for one in tasks), sum(one.size for one in tasks)
            where = self._options.control
            # Spark shows the output of its Python processes there.
            print(f"dry run: {count} messages, {size} bytes, would be sent by {where}", file=sys.stderr)


class MsmqWriter(_Sending, DataSourceArrowWriter):
    """Writer of a batch."""

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """No operation: every task has sent its rows."""
        self._report(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing: what was sent was sent, and has its key."""


class MsmqStreamWriter(_Sending, StreamWriter):
    """Writer of a stream, batch by batch."""

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """No operation: every task of the batch has sent its rows."""
        self._report(messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing: what was sent was sent, and has its key."""
