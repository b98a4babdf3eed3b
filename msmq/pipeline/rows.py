"""Rows and Arrow batches of stored packets and events."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs

from msmq.decoding.message_json import message_json
from msmq.decoding.values import base64_text, correlation_text, plain_text, unix_time
from msmq.errors import RemoteProtocolError
from msmq.interfaces.storage import StoredEvent
from msmq.pipeline.schema import (
    EVENT_COLUMNS,
    EXPORTED_COLUMNS,
    MESSAGE_COLUMNS,
    TIMESTAMP,
    arrow_schema,
    names_of,
)
from msmq.pipeline.stored_packets import LATEST, StoredPacket, signed, text
from msmq.structures.names.name_text import is_outgoing_path
from msmq.structures.packet.base_header import INFINITE
from msmq.structures.packet.message_class import class_name
from msmq.structures.packet.user_message_view import UserMessageView

if TYPE_CHECKING:
    import pyarrow

    from msmq.pipeline.columns import Columns

EVENTS_TOPIC: Final = "events"
"""The topic of every event."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


Headers: TypeAlias = Sequence[tuple[str, bytes]]


@attrs.frozen
class BodyReaders:
    """Decoders of bodies and extensions.

    @ivar decode: returns the body as JSON text, and the reason if all or a part of it could not be decoded.
    @ivar headers: returns the headers in the extension; C{None} if there are none.
    """

    decode: Callable[[UserMessageView], tuple[str | None, str | None]] | None = None
    headers: Callable[[UserMessageView], Headers | None] | None = None


PLAIN: Final = BodyReaders()
"""Readers that decode neither bodies nor headers."""


def message_row(
    stored: StoredPacket, names: Sequence[str] = names_of(MESSAGE_COLUMNS), reading: BodyReaders = PLAIN
) -> tuple[Any, ...]:
    """The row of a message: text, numbers, bytes, aware C{datetime}, lists, and a C{dict} for a transaction.

    @param names: the selected columns, of L{EXPORTED_COLUMNS}.
    """
    return _row(_message_values(stored, names, reading), names, _TIMES)


def message_batch(
    stored: Sequence[StoredPacket],
    names: Sequence[str] = names_of(MESSAGE_COLUMNS),
    reading: BodyReaders = PLAIN,
) -> pyarrow.RecordBatch:
    """The rows of messages as one Arrow batch, faster than row by row.

    @param names: the selected columns, of L{EXPORTED_COLUMNS}; at least one.
    """
    import pyarrow

    # Imported here, since it needs numpy and single rows do not.
    from msmq.pipeline.columns import Columns

    columns = Columns(stored)
    alike = columns.rows.tolist()
    others = sorted(set(range(len(stored))).difference(alike))
    rest = _batch([_message_values(stored[row], names, reading) for row in others], names, EXPORTED_COLUMNS)
    if not alike:
        return rest
    read = _read_columns(columns, names, reading)
    arrays = []
    for field in rest.schema:
        found = columns.array(field.name, field.type)
        if found is None:
            values = read.get(field.name) or columns.stored(field.name, field.type)
            found = values if isinstance(values, pyarrow.Array) else pyarrow.array(values, field.type)
        arrays.append(found)
    batch = pyarrow.RecordBatch.from_arrays(arrays, schema=rest.schema)
    if not others:
        return batch
    order = sorted(range(len(stored)), key=[*alike, *others].__getitem__)
    whole = pyarrow.Table.from_batches([batch, rest]).take(pyarrow.array(order)).combine_chunks()
    return whole.to_batches()[0]


def _read_columns(columns: Columns, names: Sequence[str], reading: BodyReaders) -> dict[str, list[Any]]:
    """The columns that need each packet to be parsed."""
    found: dict[str, list[Any]] = {}
    if reading.headers is not None and "headers" in names:
        found["headers"] = [_headers(reading.headers(UserMessageView(packet))) for packet in columns.packets]
    if reading.decode is not None and ("decoded" in names or "decode_error" in names):
        both = [reading.decode(UserMessageView(packet)) for packet in columns.packets]
        found["decoded"], found["decode_error"] = ([pair[place] for pair in both] for place in (0, 1))
    return found


def event_row(stored: StoredEvent, names: Sequence[str] = names_of(EVENT_COLUMNS)) -> tuple[Any, ...]:
    """The row of an event; see L{message_row}."""
    return _row(_event_values(stored), names, _TIMES)


def event_batch(
    stored: Sequence[StoredEvent], names: Sequence[str] = names_of(EVENT_COLUMNS)
) -> pyarrow.RecordBatch:
    """The rows of events as one batch."""
    return _batch([_event_values(one) for one in stored], names, EVENT_COLUMNS)


_TIMES: Final = frozenset(
    column.name for column in (*MESSAGE_COLUMNS, *EVENT_COLUMNS) if column.type == TIMESTAMP
)


def _row(values: dict[str, Any], names: Sequence[str], times: frozenset[str]) -> tuple[Any, ...]:
    return tuple(
        _EPOCH + timedelta(microseconds=value) if name in times and value is not None else value
        for name in names
        for value in (values.get(name),)
    )


def _batch(
    rows: Sequence[dict[str, Any]], names: Sequence[str], columns: Sequence[Any]
) -> pyarrow.RecordBatch:
    import pyarrow

    by_name = {column.name: column for column in columns}
    schema = arrow_schema([by_name[name] for name in names])
    arrays = [pyarrow.array([row.get(field.name) for row in rows], field.type) for field in schema]
    return pyarrow.RecordBatch.from_arrays(arrays, schema=schema)


def _message_values(stored: StoredPacket, names: Sequence[str], reading: BodyReaders) -> dict[str, Any]:
    """The values of the columns; times are in microseconds since 1970-01-01 UTC."""
    arrived = microseconds(stored.arrived)
    values: dict[str, Any] = {
        "value": stored.packet,
        "topic": stored.topic,
        "partition": stored.partition,
        "offset": stored.offset,
        "timestamp": arrived,
        "timestampType": stored.timestamp_type,
        "lookup_id": None if stored.lookup_id is None else signed(stored.lookup_id),
        "arrived_time": arrived if stored.timestamp_type else None,
        "abort_count": stored.aborts,
        "move_count": stored.moves,
        "packet": stored.packet,
    }
    try:
        view = UserMessageView(stored.packet)
    except RemoteProtocolError as error:
        values["decode_error"] = text(str(error))
        return values
    record = message_json(view, body=False, is_kept=bool(stored.timestamp_type))
    for name in ("lookup_id", "arrived_time"):
        del record[name]
    values.update(record)
    for name in _TEXTS:
        if (found := values[name]) is not None:
            values[name] = text(found)
    values["value"] = bytes(view.body)
    if "body" in names or "body_base64" in names:
        body = plain_text(view.body)
        values["body"] = body
        values["body_base64"] = base64_text(view.body) if body is None else None
    values["sent_time"] = view.sent_time * 1_000_000
    values["time_to_reach_queue"] = limit(view.time_to_reach_queue)
    values["time_to_be_received"] = limit(view.time_to_be_received)
    if (transaction := values["transaction"]) is not None:
        transaction["sequence_id"] = signed(transaction["sequence_id"])
    if reading.headers is not None and "headers" in names:
        values["headers"] = _headers(reading.headers(view))
    if reading.decode is not None and ("decoded" in names or "decode_error" in names):
        values["decoded"], values["decode_error"] = reading.decode(view)
    return values


def _headers(found: Headers | None) -> list[dict[str, Any]] | None:
    return None if found is None else [{"key": key, "value": held} for key, held in found]


_TEXTS: Final = ("label", "destination_queue", "admin_queue", "response_queue", "dead_letter_queue")


def _event_values(stored: StoredEvent) -> dict[str, Any]:
    event = stored.event
    number = event.message_class or None
    queue = None
    if event.queue:
        queue = text(event.queue if is_outgoing_path(event.queue) else f".\\{event.queue}")
    values = {
        "time": unix_time(event.time),
        "id": correlation_text(event.identity) if event.identity else None,
        "event": text(event.event),
        "reason": text(event.reason),
        "class": number,
        "class_name": None if number is None else class_name(number),
        "queue": queue,
    }
    return {
        "value": json.dumps(values, ensure_ascii=False).encode(),
        "topic": EVENTS_TOPIC,
        "partition": 0,
        "offset": stored.sequence,
        "timestamp": microseconds(event.time),
        "timestampType": 1,
        **values,
    }


def microseconds(seconds: float | None) -> int | None:
    """A time in microseconds since 1970-01-01 UTC; C{None} for C{None} and for a time out of range."""
    if seconds is None or not 0 <= seconds * 1_000_000 < LATEST:
        return None
    return round(seconds * 1_000_000)


def limit(seconds: int) -> int | None:
    """A time limit in seconds; C{None} for no limit."""
    return None if seconds == INFINITE else seconds
