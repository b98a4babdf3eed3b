"""Rows in the form in which Spark takes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from msmq.interfaces.storage import StoredEvent
from msmq.pipeline.reading.wanted import known_names
from msmq.pipeline.rows import PLAIN, Reading, StoredPacket, event_batch, message_batch


class Batches:
    """Makes Arrow batches of what was read.

    @param schema: the columns that Spark wants.
    @param stream: what is read.
    @raise ReadingError: one is no column of the stream.
    """

    def __init__(self, schema: StructType, stream: str, reading: Reading = PLAIN) -> None:
        self.names = known_names(schema.fieldNames(), stream)
        self._schema = to_arrow_schema(schema, timezone="UTC")
        self._reading = reading

    def of_packets(self, pages: Iterator[Sequence[StoredPacket]]) -> Iterator[pyarrow.RecordBatch]:
        """The rows of messages."""
        for page in pages:
            if page:
                yield self.fitted(message_batch(page, self.names, self._reading))

    def of_events(self, pages: Iterator[Sequence[StoredEvent]]) -> Iterator[pyarrow.RecordBatch]:
        """The rows of events."""
        for page in pages:
            if page:
                yield self.fitted(event_batch(page, self.names))

    def fitted(self, batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
        """The batch with the very types that Spark has, which tells even the names of elements apart."""
        if batch.schema.equals(self._schema):
            return batch
        columns = [batch.column(field.name).cast(field.type) for field in self._schema]
        return pyarrow.RecordBatch.from_arrays(columns, schema=self._schema)
