"""Record framing of message streams in the control API, in both directions.

A record is two unsigned 32-bit little-endian lengths, a header in JSON (UTF-8, an object) of the first
length, and bytes of the second.
A record that stands for a message carries its body there, and behind it its extension, if the header's
C{extension_size} says that it has one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from struct import Struct
from typing import Any, Final, NoReturn

import attrs

from msmq.errors import LocalProtocolError, RemoteProtocolError

CONTENT_TYPE: Final = "application/vnd.msmq.records"
PROTOCOL: Final = "msmq-records"
"""Name of the protocol in C{Upgrade} for records in both directions on one connection."""
WITH_RUNS: Final = f"{PROTOCOL}/2"
"""The same protocol for clients that also read L{runs<msmq.control.protocol.runs>}."""

LENGTHS: Final = Struct("<II")
"""Prefix of a record: the lengths of its header and of its body."""

DEEPEST: Final = 100
"""Limit on the lists and objects inside each other in the JSON of a caller."""

_ENCODE: Final = json.JSONEncoder(separators=(",", ":")).encode
# json.dumps() makes an encoder for each value whose separators are not the usual ones.


@attrs.frozen
class RecordLimits:
    """Size limits of the parts of a record, in bytes.

    @ivar body: a body and an extension together; a packet of 4 MiB holds no more.
    """

    header: int = 0x40000
    body: int = 0x400000


@attrs.frozen
class StreamRecord:
    """One record; consecutive records with equal headers share the header object, which must not be changed.

    @ivar header_size: the size of the header if it was parsed; 0 if it repeats that of the previous record.
    """

    header: Mapping[str, Any]
    body: bytes = attrs.field(default=b"", repr=False)
    header_size: int = attrs.field(default=0, eq=False, repr=False)

    def to_bytes(self) -> bytes:
        """Encode the record.

        @raise LocalProtocolError: the header is nothing that JSON can say.
        """
        header = self.header_bytes()
        return b"".join((LENGTHS.pack(len(header), len(self.body)), header, self.body))

    def header_bytes(self) -> bytes:
        """Encode the header.

        @raise LocalProtocolError: the header is nothing that JSON can say.
        """
        try:
            return _ENCODE(self.header).encode("ascii")
        except (TypeError, ValueError) as error:
            raise LocalProtocolError(f"a record's header is not JSON: {error}") from error


class RecordDecoder:
    """Incremental decoder of a stream of records.

    The lengths are checked before memory is used for them. An error is final: the decoder refuses further
    input.
    """

    def __init__(self, limits: RecordLimits | None = None) -> None:
        self._limits = RecordLimits() if limits is None else limits
        self._buffer = bytearray()
        self._offset = 0
        self._lengths: tuple[int, int] | None = None
        self._last: tuple[bytes, dict[str, Any]] = (b"", {})
        self._error: RemoteProtocolError | None = None

    @property
    def error(self) -> RemoteProtocolError | None:
        """The error of the stream, which may have records before it."""
        return self._error

    @property
    def buffered(self) -> int:
        """The number of buffered bytes of an incomplete record."""
        return len(self._buffer)

    def feed(self, data: bytes | memoryview) -> list[StreamRecord]:
        """Return the records that C{data} completes; an error is raised after the records before it were
        returned.

        @raise RemoteProtocolError: a length is over its limit, or a header is not a JSON object.
        """
        if self._error is not None:
            raise self._error
        self._buffer += data
        records: list[StreamRecord] = []
        try:
            self._cut(records)
        except RemoteProtocolError:
            if not records:
                raise
        return records

    def finish(self) -> None:
        """End the stream.

        @raise RemoteProtocolError: it ended inside a record.
        """
        if self._error is not None:
            raise self._error
        if self._buffer:
            self._fail("length", f"the stream ends inside this record, {len(self._buffer)} bytes into it")

    def _cut(self, records: list[StreamRecord]) -> None:
        buffer = self._buffer
        start = 0
        while True:
            if self._lengths is None:
                if len(buffer) - start < LENGTHS.size:
                    break
                self._lengths = self._checked(*LENGTHS.unpack_from(buffer, start))
            header_size, body_size = self._lengths
            body_start = start + LENGTHS.size + header_size
            end = body_start + body_size
            if len(buffer) < end:
                break
            before = self._last[1]
            header = self._header(bytes(buffer[start + LENGTHS.size : body_start]))
            with memoryview(buffer) as view:
                body = bytes(view[body_start:end])
            records.append(StreamRecord(header, body, 0 if header is before else header_size))
            self._lengths = None
            self._offset += end - start
            start = end
        del buffer[:start]

    def _checked(self, header_size: int, body_size: int) -> tuple[int, int]:
        if header_size > self._limits.header:
            self._fail("header length", f"{header_size} is over the limit of {self._limits.header} bytes")
        if body_size > self._limits.body:
            self._fail("body length", f"{body_size} is over the limit of {self._limits.body} bytes")
        return header_size, body_size

    def _header(self, raw: bytes) -> dict[str, Any]:
        # Most streams repeat one header; parsing it once halves the work for each message.
        if raw == self._last[0] and raw:
            return self._last[1]
        try:
            header = parse_json(raw)
        except (ValueError, RecursionError) as error:
            self._fail("header", f"not JSON in UTF-8: {json_problem(error)}")
        if not isinstance(header, dict):
            self._fail("header", "not a JSON object")
        self._last = (raw, header)
        return header

    def _fail(self, field: str, rule: str) -> NoReturn:
        self._error = RemoteProtocolError("docs/control.md, Records", "Record", field, self._offset, rule)
        self._buffer.clear()
        raise self._error


def parse_json(raw: bytes) -> Any:
    """Parse JSON of a caller, with at most L{DEEPEST} lists and objects inside each other.

    @raise ValueError: it is not JSON in UTF-8.
    @raise RecursionError: it is nested too deeply.
    """
    value = json.loads(raw.decode("utf-8"))
    # Deeper values could be parsed, but not be shown in a refusal: where that fails depends on the caller.
    if raw.count(b"[") + raw.count(b"{") > DEEPEST and _is_deeper(value, DEEPEST):
        raise RecursionError
    return value


def _is_deeper(value: Any, most: int) -> bool:
    level = [value]
    for _ in range(most):
        inner = (each.values() if isinstance(each, dict) else each for each in level)
        level = [each for values in inner for each in values if isinstance(each, dict | list)]
        if not level:
            return False
    return True


def json_problem(error: Exception) -> str:
    """Describe the error in invalid JSON."""
    if isinstance(error, json.JSONDecodeError | UnicodeDecodeError):
        return str(error)
    if isinstance(error, RecursionError):
        return f"it is nested more than {DEEPEST} levels deep"
    return "a number in it has more digits than are read"
