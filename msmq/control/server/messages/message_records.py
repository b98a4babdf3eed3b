"""Encodes received messages as stream records; properties shared with the previous message are encoded once.

Messages that differ only in C{_DIFFERING} and their bodies are one record, if the reader accepts
L{runs<msmq.control.protocol.runs>}.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any, Final

from msmq.control.protocol.runs import LONGEST
from msmq.control.server.http.responses import to_json
from msmq.control.server.messages.queued_messages_json import properties_of
from msmq.decoding.values import unix_time
from msmq.interfaces.manager.received_messages import ReceivedMessage
from msmq.structures.packet.base_header import INFINITE
from msmq.structures.packet.packet_shape import PacketShape
from msmq.structures.packet.user_message_view import UserMessageView

_LENGTHS: Final = Struct("<II").pack
_MESSAGE_ID: Final[Callable[[bytes, int], Any]] = Struct("<I").unpack_from
_SEQUENCE: Final[Callable[[bytes, int], Any]] = Struct("<QII").unpack_from
"""TxSequenceID, TxSequenceNumber and PreviousTxSequenceNumber of a TransactionHeader, behind its flags."""
_KEPT: Final = 64
_RUN_BYTES: Final = 0x40000
"""Total size of bodies, in bytes, after which a run ends."""


def record_header(message: ReceivedMessage) -> dict[str, Any]:
    """The message in JSON without its body, and with C{extension_size} instead of its extension.

    C{time_to_be_received} has the seconds of TimeToBeReceived, for messages with such a limit.
    """
    header: dict[str, Any] = {}
    for key, value in properties_of(message).items():
        if key == "extension_base64":
            header["extension_size"] = len(message.view.extension)
        else:
            header[key] = value
    limit = message.view.time_to_be_received
    if limit != INFINITE:
        header["time_to_be_received"] = limit
    return header


class MessageWriter:
    """Encoder of consecutive messages, which caches what they have in common.

    @param has_runs: whether the reader accepts runs.
    """

    def __init__(self, has_runs: bool = False) -> None:
        self._has_runs = has_runs
        self._forms: dict[bytes, Sequence[bytes]] = {}
        self._run_forms: dict[bytes, Sequence[bytes]] = {}
        self._times: dict[float, bytes] = {}

    def records(self, messages: Sequence[ReceivedMessage]) -> list[bytes]:
        """Encode messages, in order."""
        if not self._has_runs:
            return [self.record(message) for message in messages]
        found: list[bytes] = []
        run: list[ReceivedMessage] = []
        common: bytes | None = None
        size = 0
        shape: PacketShape | None = None
        key: bytes | None = None
        for message in messages:
            if message.view.shape is not shape:
                key = None if message.view.extension_size else message.view.common_bytes()
                shape = message.view.shape
            if run and (key != common or len(run) == LONGEST or size >= _RUN_BYTES):
                found.append(self._run(common, run))
                run, size = [], 0
            common = key
            if key is None:
                found.append(self.record(message))
            else:
                run.append(message)
                size += message.view.shape.body_size
        if run:
            found.append(self._run(common, run))
        return found

    def _run(self, common: bytes | None, messages: Sequence[ReceivedMessage]) -> bytes:
        """Encode messages with equal common bytes as one record."""
        if len(messages) == 1 or common is None:
            return self.record(messages[0])
        form = self._run_forms.get(common)
        if form is None:
            if len(self._run_forms) == _KEPT:
                self._run_forms.clear()
            form = self._run_forms[common] = _run_form(record_header(messages[0]))
        columns = [write(self, messages) for write in _COLUMNS.values()]
        parts = [form[0] % len(messages)]
        for name, column in zip(_COLUMNS, columns, strict=True):
            if column.startswith(b"["):
                parts += (b",", _NAMES[name])
        parts.append(form[1])
        for column, text in zip(columns, form[2:], strict=True):
            parts += (column, text)
        header = b"".join(parts)
        bodies = [message.view.body for message in messages]
        size = sum(map(len, bodies))
        return b"".join((_LENGTHS(len(header), size), header, *bodies))

    def record(self, message: ReceivedMessage) -> bytes:
        """Encode one message; the raw body is followed by the extension."""
        view = message.view
        header = self._header(message)
        body, extension = view.body, view.extension
        return b"".join((_LENGTHS(len(header), len(body) + len(extension)), header, body, extension))

    def _header(self, message: ReceivedMessage) -> bytes:
        common = message.view.common_bytes()
        if common is None:
            return to_json(record_header(message))
        form = self._forms.get(common)
        if form is None:
            if len(self._forms) == _KEPT:
                self._forms.clear()
            form = self._forms[common] = _form(record_header(message))
        parts = [form[0]]
        for value, text in zip(self._differing(message), form[1:], strict=True):
            parts.append(value)
            parts.append(text)
        return b"".join(parts)

    def _differing(self, message: ReceivedMessage) -> Sequence[bytes]:
        """The values of the keys in C{_DIFFERING}, in their order."""
        view = message.view
        return (
            b"%d" % _MESSAGE_ID(view.packet, 56),
            b"%d" % message.lookup_id,
            b"%d" % view.body_size,
            self._time(view.sent_time),
            self._time(message.arrived),
            _transaction(view),
            b"%d" % message.aborts,
            b"%d" % message.moves,
        )

    def _time(self, seconds: float) -> bytes:
        """Format a time; messages that arrived together share it."""
        text = self._times.get(seconds)
        if text is None:
            if len(self._times) == _KEPT:
                self._times.clear()
            text = self._times[seconds] = to_json(unix_time(seconds))
        return text

    def _many_times(self, seconds: Sequence[float]) -> bytes:
        """Format times as a column."""
        first = seconds[0]
        if seconds.count(first) == len(seconds):
            return self._time(first)
        return _texts([self._time(each) for each in seconds])


_DIFFERING: Final = (
    "id",
    "lookup_id",
    "body_size",
    "sent_time",
    "arrived_time",
    "transaction",
    "abort_count",
    "move_count",
)
"""The keys that differ between messages with the same properties, in order."""


def _transaction(view: UserMessageView) -> bytes:
    """L{transaction_json<msmq.decoding.message_json.transaction_json>} as bytes, for each message anew."""
    if not view.is_transactional:
        return b"null"
    sequence, number, previous = _SEQUENCE(view.packet, view.transaction_offset + 4)
    return b'{"sequence_id":%d,"sequence_number":%d,"previous":%d,"first":%b,"last":%b}' % (
        sequence,
        number,
        previous,
        b"true" if view.is_first else b"false",
        b"true" if view.is_last else b"false",
    )


def _numbers(values: list[int]) -> bytes:
    """A column of numbers, or one number if all are equal."""
    first = values[0]
    if values.count(first) == len(values):
        return b"%d" % first
    return b"[" + b",".join(b"%d" % value for value in values) + b"]"


def _texts(texts: list[bytes]) -> bytes:
    """A column of JSON values, or one value if all are equal."""
    return texts[0] if texts.count(texts[0]) == len(texts) else b"[" + b",".join(texts) + b"]"


_COLUMNS: Final[dict[str, Callable[[MessageWriter, Sequence[ReceivedMessage]], bytes]]] = {
    "id": lambda writer, messages: (
        b"[" + b",".join([b"%d" % _MESSAGE_ID(message.view.packet, 56)[0] for message in messages]) + b"]"
    ),
    "lookup_id": lambda writer, messages: _numbers([message.lookup_id for message in messages]),
    "body_size": lambda writer, messages: _numbers([message.view.shape.body_size for message in messages]),
    "sent_time": lambda writer, messages: writer._many_times(
        [message.view.shape.sent_time for message in messages]
    ),
    "arrived_time": lambda writer, messages: writer._many_times([message.arrived for message in messages]),
    "transaction": lambda writer, messages: (
        _texts([_transaction(message.view) for message in messages])
        if messages[0].view.is_transactional
        else b"null"
    ),
    "abort_count": lambda writer, messages: _numbers([message.aborts for message in messages]),
    "move_count": lambda writer, messages: _numbers([message.moves for message in messages]),
}
_NAMES: Final = {name: to_json(name) for name in _COLUMNS}


def _run_form(header: dict[str, Any]) -> list[bytes]:
    """The prefix of the column names of a run, and the constant texts between the differing values."""
    stem, _, _ = str(header["id"]).rpartition("\\")
    run = to_json({"id": stem + "\\"})[1:-1].replace(b"%", b"%%")
    texts: list[bytes] = []
    between = b"]}"
    for key, value in header.items():
        between += b"," + to_json(key) + b":"
        if key in _COLUMNS:
            texts.append(between)
            between = b""
        else:
            between += to_json(value)
    return [b'{"run":{"messages":%d,' + run + b',"columns":["id"', *texts, between + b"}"]


def _form(header: dict[str, Any]) -> list[bytes]:
    """The constant texts around the differing values, one more than those."""
    texts: list[bytes] = []
    common: dict[str, Any] = {}
    opening = b"{"
    for key, value in header.items():
        if key not in _DIFFERING:
            common[key] = value
            continue
        between = to_json(common)[1:-1]
        common = {}
        texts.append(opening + between + (b"," if between else b"") + to_json(key) + b":")
        opening = b","
        if key == "id":
            # The part before the number is the source's GUID, which the messages share.
            stem, _, _ = str(value).rpartition("\\")
            texts[-1] += to_json(stem + "\\")[:-1]
            opening = b'",'
    between = to_json(common)[1:-1]
    texts.append((opening + between if between else opening.rstrip(b",")) + b"}")
    return texts
