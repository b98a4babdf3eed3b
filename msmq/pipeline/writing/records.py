"""Conversion of rows to messages for sending, with the column names of the reader."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final

import attrs

from msmq.control.protocol.records import StreamRecord
from msmq.control.server.messages.properties import PROPERTIES, read_key, read_message
from msmq.pipeline.reading.errors import ReadingError
from msmq.pipeline.reading.streams import is_sendable, names_queue
from msmq.pipeline.schema import EXPORTED_COLUMNS, names_of
from msmq.pipeline.writing.repeated_rows import RepeatedRows
from msmq.quoting import kind_of, quoted
from msmq.structures.status import MQError

OWN: Final = ("destination", "key")
"""The optional columns of a row in addition to those of a message."""

_KNOWN: Final = frozenset({*names_of(EXPORTED_COLUMNS), *PROPERTIES, *OWN})
_TARGETS: Final = ("destination", "destination_queue", "topic")
_BODIES: Final = ("value", "body", "body_base64")
_COPIED: Final = tuple(name for name in PROPERTIES if name != "extension_base64")
_ANSWERED: Final = ("admin_queue", "response_queue")
_NO_CORRELATION: Final = "{00000000-0000-0000-0000-000000000000}\\0"


def check_columns(names: Iterable[str], destination: str) -> None:
    """Check that rows with these columns can be sent.

    @param destination: the destination of all rows; empty if each row has its own.
    @raise ReadingError: a required column is missing, or a column is unknown.
    """
    names = list(names)
    used = columns_of(names)
    for name in names:
        if name not in _KNOWN:
            raise ReadingError(
                f"a message has no column {quoted(name)}; it has {', '.join((*_BODIES, *OWN, *PROPERTIES))}"
            )
        if names.count(name) > 1 and name in used:
            raise ReadingError(f"the column {quoted(name)} is there twice: drop one of them")
    if not any(name in names for name in _BODIES):
        raise ReadingError(f"no body to send: none of the columns {', '.join(_BODIES)} is there")
    if not destination and not any(name in names for name in _TARGETS):
        raise ReadingError(
            "no destination: there is no option destination, and no column"
            f" {', '.join(_TARGETS[:-1])} or {_TARGETS[-1]}"
        )


@attrs.frozen
class RecordBuilder:
    """Builds records from the rows of one task.

    @ivar destination: the destination of all rows; empty if each row has its own.
    @ivar key: the prefix of every key.
    @ivar queue_kind: returns whether the queue of a destination is transactional; C{None} if unknown.
    @ivar task: identifies the task, the same if it is repeated.
    """

    destination: str
    key: str
    queue_kind: Callable[[str], bool | None]
    task: str = ""
    _repeated: RepeatedRows = attrs.field(factory=RepeatedRows, init=False, eq=False, repr=False)

    def record(self, row: Mapping[str, Any], row_id: str) -> StreamRecord:
        """Build the record of a row.

        @param row_id: names this row in errors, if it has neither a key nor an identifier.
        @raise ReadingError: the row cannot be sent.
        """
        try:
            return self._record(row, row_id)
        except MQError as error:
            raise ReadingError(f"row {self._name(row, row_id)} cannot be sent: {error}") from None

    def _record(self, row: Mapping[str, Any], row_id: str) -> StreamRecord:
        if row.get("decode_error") is not None and row.get("id") is None:
            raise ReadingError(f"row {self._name(row, row_id)} is a damaged packet, and cannot be sent")
        if not is_sendable(str(row.get("topic")), row.get("class") or 0):
            raise ReadingError(
                f"row {self._name(row, row_id)} is {row.get('class_name') or row['class']}, which only queue"
                " managers send: leave it out with class = 0"
            )
        properties = {name: row[name] for name in _COPIED if row.get(name) is not None}
        if properties.get("correlation_id") == _NO_CORRELATION:
            del properties["correlation_id"]
        if row.get("id") is not None:
            # The row was read from a store, where the response queue may be an invalid name.
            for name in _ANSWERED:
                if name in properties and not names_queue(str(properties[name])):
                    del properties[name]
        destination = self._destination(row, row_id)
        asked, known = properties.pop("transactional", False), self.queue_kind(destination)
        if asked if known is None else known:
            properties["transactional"] = True
        body, extension = _body(row, self._name(row, row_id)), _octets(row, "extension_base64")
        key = self._key(row, content_digest(destination, properties, body, extension))
        read_key(key)
        extension_base64 = base64.b64encode(extension).decode()
        read_message({**properties, "extension_base64": extension_base64}, body, is_recoverable=True)
        header = {"destination": destination, "key": key, **properties}
        if extension:
            header["extension_size"] = len(extension)
        return StreamRecord(header, body + extension)

    def _key(self, row: Mapping[str, Any], content: str) -> str:
        """The key of a row, the same each time the row is sent.

        Rows that were made of one message have its identifier, and are messages of their own if they differ
        in what is sent or where.
        A row with neither is known by its content: a task that is repeated may have its rows in another
        order, and several writes of one batch of a stream have tasks with the same identifiers, so the
        position of a row is that of other rows too.
        """
        own = row.get("key")
        if own is None and row.get("id") is not None:
            own = f"{row['id']}:{content}"
        if own is not None:
            return ":".join(part for part in (self.key, str(own)) if part)
        return ":".join(
            part for part in (self.key, self.task, content, self._repeated.suffix(content)) if part
        )

    def _destination(self, row: Mapping[str, Any], row_id: str) -> str:
        found = self.destination or next((row[name] for name in _TARGETS if row.get(name)), None)
        if not found:
            raise ReadingError(f"row {self._name(row, row_id)} has no destination")
        return str(found)

    def _name(self, row: Mapping[str, Any], row_id: str) -> str:
        return next((str(row[name]) for name in ("key", "id") if row.get(name) is not None), row_id)


def content_digest(destination: str, properties: Mapping[str, Any], body: bytes, extension: bytes) -> str:
    """What is sent, and where, in 16 characters."""
    header = json.dumps([destination, properties], sort_keys=True, default=str)
    found = blake2b(header.encode(), digest_size=8)
    for part in (body, extension):
        found.update(len(part).to_bytes(8, "little"))
        found.update(part)
    return found.hexdigest()


def _body(row: Mapping[str, Any], name: str) -> bytes:
    """The body of a row; its columns may repeat it, as those of a row that was read do.

    @param name: the row, for errors.
    @raise ReadingError: the columns have different bodies.
    """
    found: dict[str, bytes] = {}
    if (value := row.get("value")) is not None:
        if isinstance(value, str):
            value = value.encode()
        if not isinstance(value, bytes | bytearray | memoryview):
            # bytes() makes as many zeros of a number.
            raise ReadingError(
                f"the column value is {kind_of(value)}, it has to be BINARY or STRING; body takes any text"
            )
        found["value"] = bytes(value)
    if (body := row.get("body")) is not None:
        found["body"] = str(body).encode()
    if row.get("body_base64") is not None:
        found["body_base64"] = _octets(row, "body_base64")
    first, *others = found or {"value": b""}
    for other in others:
        if found[other] != found[first]:
            raise ReadingError(
                f"row {name} has one body in the column {first} and another in {other}: drop the column that"
                " is not to be sent"
            )
    return found.get(first, b"")


def _octets(row: Mapping[str, Any], name: str) -> bytes:
    """Decode a column in base64 strictly."""
    return bytes(PROPERTIES["extension_base64"](name, row.get(name) or ""))


def columns_of(names: Sequence[str]) -> list[str]:
    """The columns of a row that are used."""
    used = {*_TARGETS, *_BODIES, *OWN, *PROPERTIES, "id", "class", "class_name", "decode_error"}
    return [name for name in names if name in used]
