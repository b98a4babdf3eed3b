"""Arrow batches of rows with the types of Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow
from pyspark.sql.types import StructType

from msmq.interfaces.storage import StoredEvent
from msmq.pipeline.bodies import NONE, reading
from msmq.pipeline.reading.errors import ReadingError
from msmq.pipeline.reading.options import ReadOptions
from msmq.pipeline.reading.row_selection import known_names
from msmq.pipeline.rows import PLAIN, BodyReaders, event_batch, message_batch
from msmq.pipeline.spark.versions import arrow_schema_of
from msmq.pipeline.stored_packets import StoredPacket


def _reading(decode: str, headers: bool) -> BodyReaders:
    return PLAIN if decode == NONE and not headers else reading(decode, headers=headers)


class Batches:
    """Creates the Arrow batches of a read.

    @param schema: the columns that Spark requested.
    @param stream: the stream that is read.
    @param options: the read options, with the body decoder.
    @raise ReadingError: a name is not a column of the stream, or the decoder is unknown.
    """

    def __init__(self, schema: StructType, stream: str, options: ReadOptions) -> None:
        self.names = known_names(schema.fieldNames(), stream)
        self._schema = arrow_schema_of(schema)
        self._choice = options.decode, options.headers
        try:
            _reading(*self._choice)
        except ValueError as error:
            raise ReadingError(str(error)) from None

    def of_packets(self, pages: Iterator[Sequence[StoredPacket]]) -> Iterator[pyarrow.RecordBatch]:
        """The rows of messages."""
        # Created in the reading process, since decoders of plugins need not be picklable.
        how = _reading(*self._choice)
        for page in pages:
            if page:
                yield self.fitted(message_batch(page, self.names, how))

    def readers(self) -> BodyReaders:
        """The decoders of bodies and headers."""
        return _reading(*self._choice)

    def of_exported(self, batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        """Batch of exported rows with the same columns."""
        return map(self.fitted, batches)

    @property
    def are_decoded(self) -> bool:
        """Whether a requested column can be read only from packets, not from exported rows."""
        asked, headers = self._choice
        reads = asked != NONE and not {"decoded", "decode_error"}.isdisjoint(self.names)
        return reads or (headers and "headers" in self.names)

    def of_events(self, pages: Iterator[Sequence[StoredEvent]]) -> Iterator[pyarrow.RecordBatch]:
        """The rows of events."""
        for page in pages:
            if page:
                yield self.fitted(event_batch(page, self.names))

    def fitted(self, batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
        """The batch cast to exactly Spark's types, including the names of elements."""
        if batch.schema.equals(self._schema):
            return batch
        typed = self._typed(batch)
        columns = [
            typed[field.name] if field.name in typed else batch.column(field.name).cast(field.type)
            for field in self._schema
        ]
        return pyarrow.RecordBatch.from_arrays(columns, schema=self._schema)

    def _typed(self, batch: pyarrow.RecordBatch) -> dict[str, pyarrow.Array]:
        """C{decoded} as its declared type, and C{decode_error} with what this type cannot hold."""
        if "decoded" not in self.names:
            return {}
        type_ = self._schema.field("decoded").type
        if pyarrow.types.is_string(type_) or pyarrow.types.is_large_string(type_):
            return {}
        from msmq.pipeline.typed_bodies import typed_column

        typed, errors = typed_column(batch.column("decoded").to_pylist(), type_)
        if "decode_error" not in self.names:
            return {"decoded": typed}
        before = batch.column("decode_error").to_pylist()
        both = [old or new for old, new in zip(before, errors, strict=True)]
        return {
            "decoded": typed,
            "decode_error": pyarrow.array(both, self._schema.field("decode_error").type),
        }
