"""Pages of a store as streams of Arrow IPC, for readers on other machines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from msmq.interfaces.storage import StorageError, StoredEvent
from msmq.persistence.changes import AppendEvent
from msmq.storage.readers.shape import RowPage

if TYPE_CHECKING:
    import pyarrow

_NEXT: Final = b"next"
_COLUMNS: Final = {
    "messages": ("lookup_id", "arrived", "aborts", "moves", "due", "packet"),
    "message_rows": ("lookup_id", "arrived", "aborts", "moves", "due", "size"),
    "log": ("sequence", "lookup_id", "arrived", "packet"),
    "events": ("sequence", "time", "identity", "event", "reason", "class", "queue"),
}
_UNSIGNED: Final = frozenset({"lookup_id"})
_SIGNED: Final = frozenset({"sequence", "aborts", "moves", "class", "size"})
_TIMES: Final = frozenset({"arrived", "due", "time"})
_TEXTS: Final = frozenset({"event", "reason", "queue"})


def _schema(kind: str) -> pyarrow.Schema:
    import pyarrow

    types = {
        **dict.fromkeys(_UNSIGNED, pyarrow.uint64()),
        **dict.fromkeys(_SIGNED, pyarrow.int64()),
        **dict.fromkeys(_TIMES, pyarrow.float64()),
        **dict.fromkeys(_TEXTS, pyarrow.string()),
    }
    return pyarrow.schema([(name, types.get(name, pyarrow.binary())) for name in _COLUMNS[kind]])


def encoded_page(kind: str, rows: Sequence[Sequence[Any]], following: int | None) -> bytes:
    """Encode the rows of a page.

    @param kind: C{messages}, C{message_rows}, C{log} or C{events}.
    @param following: the first number of the next page; C{None} after the last.
    """
    import pyarrow

    schema = _schema(kind)
    if following is not None:
        schema = schema.with_metadata({_NEXT: str(following).encode()})
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    arrays = [
        pyarrow.array(map(_unicode, column) if field.name in _TEXTS else column, field.type)
        for column, field in zip(columns, schema, strict=True)
    ]
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(pyarrow.RecordBatch.from_arrays(arrays, schema=schema))
    return bytes(sink.getvalue())


def _unicode(text: str) -> str:
    """The text, with U+FFFD for unpaired surrogates of peers, which Arrow cannot contain."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def decoded_rows(kind: str, data: bytes, where: str) -> tuple[list[tuple[Any, ...]], int | None]:
    """Decode the rows of a page, and the first number of the next.

    @raise StorageError: the data is not such a page.
    """
    import pyarrow

    try:
        with pyarrow.ipc.open_stream(data) as reader:
            table = reader.read_all()
        if not table.schema.equals(_schema(kind)):
            raise StorageError(
                f"{where}: a page of {kind} has unknown columns: {', '.join(table.schema.names)}"
            )
        following = (table.schema.metadata or {}).get(_NEXT)
        number = None if following is None else int(following)
    except (pyarrow.ArrowException, ValueError, OSError) as error:
        raise StorageError(f"{where}: a page of {kind} is damaged: {str(error).splitlines()[0]}") from None
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True)), number


def event_rows(events: Sequence[StoredEvent]) -> list[tuple[Any, ...]]:
    """The rows of events."""
    return [
        (
            one.sequence,
            one.event.time,
            one.event.identity,
            one.event.event,
            one.event.reason,
            one.event.message_class,
            one.event.queue,
        )
        for one in events
    ]


def page_of(kind: str, data: bytes, where: str) -> RowPage:
    """The page of messages or log entries that a stream has."""
    rows, following = decoded_rows(kind, data, where)
    return RowPage(rows, following)


def events_of_stream(data: bytes, where: str) -> tuple[Sequence[StoredEvent], int | None]:
    """The events that a stream has, and the first number of the next page."""
    rows, following = decoded_rows("events", data, where)
    return [StoredEvent(row[0], AppendEvent(*row[1:])) for row in rows], following
