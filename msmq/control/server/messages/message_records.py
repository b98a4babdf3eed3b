"""Writes messages as stream records; properties shared with the message before are written once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any, Final

from msmq.control.server.http.responses import to_json
from msmq.control.server.messages.places import properties_of
from msmq.decoding.message_json import transaction_json
from msmq.decoding.values import unix_time
from msmq.interfaces.queue_manager import ReceivedMessage

_LENGTHS: Final = Struct("<II").pack
_KEPT: Final = 64


def record_header(message: ReceivedMessage) -> dict[str, Any]:
    """The message in JSON without its body, and with C{extension_size} in place of its extension."""
    header: dict[str, Any] = {}
    for key, value in properties_of(message).items():
        if key == "extension_base64":
            header["extension_size"] = len(message.view.extension)
        else:
            header[key] = value
    return header


class MessageWriter:
    """Writes messages one after the other, and remembers what those before had in common with them."""

    def __init__(self) -> None:
        self._forms: dict[bytes, Sequence[bytes]] = {}
        self._times: dict[float, bytes] = {}

    def record(self, message: ReceivedMessage) -> bytes:
        """The message with its body raw, and its extension behind it."""
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
        for write, text in zip(_DIFFERING.values(), form[1:], strict=True):
            parts.append(write(self, message))
            parts.append(text)
        return b"".join(parts)

    def _time(self, seconds: float) -> bytes:
        """A time; messages that came together share it."""
        text = self._times.get(seconds)
        if text is None:
            if len(self._times) == _KEPT:
                self._times.clear()
            text = self._times[seconds] = to_json(unix_time(seconds))
        return text


_DIFFERING: Final[dict[str, Callable[[MessageWriter, ReceivedMessage], bytes]]] = {
    "id": lambda writer, message: b"%d" % message.view.message_id,
    "lookup_id": lambda writer, message: b"%d" % message.lookup_id,
    "sent_time": lambda writer, message: writer._time(message.view.sent_time),
    "arrived_time": lambda writer, message: writer._time(message.arrived),
    "transaction": lambda writer, message: (
        to_json(transaction_json(message.view)) if message.view.is_transactional else b"null"
    ),
    "abort_count": lambda writer, message: b"%d" % message.aborts,
    "move_count": lambda writer, message: b"%d" % message.moves,
}
"""What messages do not share that were sent alike, in the order of the keys."""


def _form(header: dict[str, Any]) -> list[bytes]:
    """The texts between what differs, one more than that."""
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
            # What is before the number is the sender's identifier, which they do share.
            stem, _, _ = str(value).rpartition("\\")
            texts[-1] += to_json(stem + "\\")[:-1]
            opening = b'",'
    between = to_json(common)[1:-1]
    texts.append((opening + between if between else opening.rstrip(b",")) + b"}")
    return texts
