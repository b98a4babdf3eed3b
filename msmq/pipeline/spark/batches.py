"""Arrow batches of rows with the types of Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

import pyarrow
from pyspark.errors import PySparkException
from pyspark.sql.types import StructType

from msmq.interfaces.storage import StoredEvent
from msmq.pipeline.bodies import NONE, reading
from msmq.pipeline.reading.errors import ReadingError
from msmq.pipeline.reading.options import ReadOptions
from msmq.pipeline.reading.row_selection import known_names
from msmq.pipeline.rows import PLAIN, BodyReaders, event_batch, message_batch
from msmq.pipeline.schema import arrow_type, columns_of
from msmq.pipeline.spark.failures import reason
from msmq.pipeline.spark.versions import arrow_schema_of
from msmq.pipeline.stored_packets import StoredPacket


def _reading(decode: str, headers: bool) -> BodyReaders:
    return PLAIN if decode == NONE and not headers else reading(decode, headers=headers)


_Is: TypeAlias = Callable[[pyarrow.DataType], bool]

_kinds = pyarrow.types
_TEXT: Final[tuple[_Is, ...]] = (_kinds.is_string, _kinds.is_large_string)
_BYTES: Final[tuple[_Is, ...]] = (_kinds.is_binary, _kinds.is_large_binary)
_READABLE: Final[tuple[tuple[_Is, tuple[_Is, ...]], ...]] = (
    (_kinds.is_string, (*_TEXT, *_BYTES)),
    (_kinds.is_binary, (*_BYTES, *_TEXT)),
    (_kinds.is_integer, (_kinds.is_integer, _kinds.is_floating, _kinds.is_decimal, *_TEXT)),
    (_kinds.is_boolean, (_kinds.is_boolean, *_TEXT)),
    (_kinds.is_timestamp, (_kinds.is_timestamp, _kinds.is_date, *_TEXT)),
)
"""As which types the values of a type can be read; texts are never parsed."""


def _is_readable(own: pyarrow.DataType, given: pyarrow.DataType) -> bool:
    """Whether values of a column's own type can be read as another; a value may still be too large."""
    for is_own, readable in _READABLE:
        if is_own(own):
            return any(is_it(given) for is_it in readable)
    # A struct with other fields would be filled with nulls.
    return _shape(own) == _shape(given)


def _shape(type_: pyarrow.DataType) -> object:
    """A type without the nullability of its parts and the names of the elements of its lists."""
    if _kinds.is_struct(type_):
        return [(field.name, _shape(field.type)) for field in type_]
    if _kinds.is_list(type_) or _kinds.is_large_list(type_):
        return "list", _shape(type_.value_type)
    return type_


class Batches:
    """Creates the Arrow batches of a read.

    @param schema: the columns that Spark requested.
    @param stream: the stream that is read.
    @param options: the read options, with the body decoder.
    @raise ReadingError: a name is not a column of the stream, a type is unknown, or so is the decoder.
    """

    def __init__(self, schema: StructType, stream: str, options: ReadOptions) -> None:
        self.names = known_names(schema.fieldNames(), stream)
        try:
            self._schema = arrow_schema_of(schema)
        except PySparkException as error:
            raise ReadingError(f"a type of the schema cannot be read: {reason(error)}") from None
        self._given = {field.name: field.dataType.simpleString().upper() for field in schema}
        self._types = {column.name: column.type for column in columns_of(stream)}
        self._choice = options.decode, options.headers
        try:
            _reading(*self._choice)
        except ValueError as error:
            raise ReadingError(str(error)) from None

    def check_types(self) -> None:
        """Check that each column can be read as the type that the schema gives it.

        @raise ReadingError: one cannot; the text has the column, this type and its own.
        """
        for field in self._schema:
            own = arrow_type(self._types[field.name])
            if field.name != "decoded" and not _is_readable(own, field.type):
                raise self._mismatch(field)

    def _mismatch(self, field: pyarrow.Field, problem: str = "") -> ReadingError:
        own = self._types[field.name]
        return ReadingError(
            f"the column {field.name} is {own}, and the schema has it as {self._given[field.name]}"
            f"{problem}: give it the type {own}"
        )

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
            typed[field.name] if field.name in typed else self._cast(batch.column(field.name), field)
            for field in self._schema
        ]
        for field, column in zip(self._schema, columns, strict=True):
            if column.null_count and not field.nullable:
                raise ReadingError(
                    f"the column {field.name} is null in some rows, and the schema has it as NOT NULL: let it"
                    " be nullable"
                )
        return pyarrow.RecordBatch.from_arrays(columns, schema=self._schema)

    def _cast(self, column: pyarrow.Array, field: pyarrow.Field) -> pyarrow.Array:
        try:
            return column.cast(field.type)
        except pyarrow.ArrowException:
            raise self._mismatch(field, ", which cannot hold each of its values") from None

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
