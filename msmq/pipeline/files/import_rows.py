"""The rows of the files of an import, and the messages that they become."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from msmq.control.protocol.records import StreamRecord
from msmq.control.server.messages.properties import read_message
from msmq.decoding.message_json import message_json
from msmq.errors import RemoteProtocolError
from msmq.pipeline.files.errors import FilesError, parquet
from msmq.pipeline.reading.streams import is_sendable, names_queue
from msmq.pipeline.schema import VERSION, VERSION_KEY
from msmq.structures.packet.message_class import class_name
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.structures.status import MQError

_NEEDED: Final = ("packet", "topic", "offset")
_KEPT: Final = ("label", "body_type", "priority", "response_queue", "application_tag")
_NO_CORRELATION: Final = bytes(20)
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
