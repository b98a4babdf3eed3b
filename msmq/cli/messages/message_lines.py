"""Reads messages from lines for C{msmq send}: JSON as C{msmq receive --json} prints it, or bodies."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Mapping
from typing import IO, Any, Final

import attrs
import click

from msmq.cli.standard_input import standard_input
from msmq.control.protocol.message_documents import decode_base64, divide_document
from msmq.control.protocol.records import StreamRecord
from msmq.errors import MsmqError
from msmq.structures.status import MQError

LONGEST: Final = 0x2000000
"""Maximum length of a line in bytes: a body of 4 MiB in JSON with every byte escaped, and its properties."""

_LARGEST: Final = 0x400000


class DamagedLine(MsmqError):
    """A line is not a message; the text names the file and the line."""


@attrs.define
class MessageLines:
    """Reads messages from a file, and tracks which of its lines were sent.

    Iteration stops before a damaged line, so that the lines before it are sent; with C{is_whole} it raises,
    so that none is sent.

    @ivar name: the name of the file for output.
    @ivar defaults: properties of messages whose lines do not have them.
    @ivar destination: the destination of messages whose line has no C{destination}; if empty, the
        C{destination_queue} of the line is used.
    @ivar key: prefix of the generated keys of lines without a key; the line number follows.
    @ivar is_json: lines are JSON; otherwise each is a body.
    @ivar sent: the number of accepted messages, up to the line C{last}.
    @ivar damage: the error at which reading stopped.
    """

    name: str
    file: IO[bytes]
    defaults: Mapping[str, Any]
    destination: str | None
    key: str | None
    is_json: bool
    is_whole: bool
    sent: int = 0
    last: int = 0
    damage: DamagedLine | None = None
    _under_way: deque[int] = attrs.field(factory=deque, init=False)

    def __iter__(self) -> Iterator[StreamRecord]:
        number = 0
        try:
            while line := self._line(number + 1):
                number += 1
                if self.is_json and not line.strip():
                    continue
                record = self._record(line, number)
                self._under_way.append(number)
                yield record
        except DamagedLine as damage:
            self.damage = damage
            if self.is_whole:
                raise

    def accepted(self) -> None:
        """Record the acceptance of the next message."""
        self.sent += 1
        self.last = self._under_way.popleft()

    @property
    def refused(self) -> str:
        """Where the server refused a message: the file and the first line without a result, as far as known.

        The one result of a transaction is not about any of its lines.
        """
        is_known = bool(self._under_way) and not self.is_whole
        return f"{self.name}:{self._under_way[0]}" if is_known else self.name

    def refused_result(self) -> str:
        """A summary after a refusal, after which no message is sent."""
        return f"{self.result()}, and none after them" if self.sent else self.result()

    def result(self) -> str:
        """A summary of the sent messages, for an error that follows."""
        if not self.sent:
            return "nothing was sent"
        messages = "1 message" if self.sent == 1 else f"{self.sent} messages"
        lines = "line 1" if self.last == 1 else f"lines 1 to {self.last}"
        return f"{messages} of {lines} sent"

    def interrupted_result(self) -> str:
        """A summary after an interruption: messages that were handed over and have no result may be sent."""
        if not self._under_way:
            return self.refused_result()
        first, last = self._under_way[0], self._under_way[-1]
        lines = f"line {first}" if first == last else f"lines {first} to {last}"
        known = self.result() if self.sent else "no message is known to be sent"
        return f"{known}; {lines} may be sent, since there is no result"

    def _line(self, number: int) -> bytes:
        try:
            line = self.file.readline(LONGEST + 1)
        except OSError as error:
            raise self._damaged(number, error.strerror or str(error)) from error
        if len(line) > LONGEST:
            raise self._damaged(number, f"the line has more than {LONGEST} bytes")
        return line

    def _record(self, line: bytes, number: int) -> StreamRecord:
        properties: dict[str, Any] = dict(self.defaults)
        destination = self.destination
        if self.is_json:
            own, body, destination = self._parsed(line, number)
            properties |= own
        else:
            body = line.removesuffix(b"\n").removesuffix(b"\r")
        if destination is None:
            raise self._damaged(number, "it has no destination, and neither has the command")
        if len(body) > _LARGEST:
            raise self._damaged(number, f"body and extension have more than {_LARGEST} bytes")
        properties["destination"] = destination
        if self.key is not None:
            properties.setdefault("key", f"{self.key}/{number}")
        return StreamRecord(properties, body)

    def _parsed(self, line: bytes, number: int) -> tuple[dict[str, Any], bytes, str | None]:
        try:
            document = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise self._damaged(number, f"it is not JSON: {' '.join(str(error).split())}") from None
        try:
            properties, body = divide_document(document)
            extension = properties.pop("extension_base64", None)
            added = b"" if extension is None else decode_base64("extension_base64", extension)
        except MQError as error:
            raise self._damaged(number, error.detail) from None
        destination = properties.pop("destination", None) or self.destination
        destination = destination or document.get("destination_queue")
        if destination is not None and not isinstance(destination, str):
            raise self._damaged(number, "its destination is not text")
        if added:
            properties["extension_size"] = len(added)
        if properties.get("dead_letter_queue"):
            properties["dead_letter"] = True
        return properties, (body or b"") + added, destination

    def _damaged(self, number: int, problem: str) -> DamagedLine:
        return DamagedLine(f"{self.name}:{number}: {problem}")


def open_lines(path: str) -> IO[bytes]:
    """Open the file, or standard input for C{-}.

    @raise click.UsageError: the file cannot be opened.
    """
    if path == "-":
        return standard_input()
    try:
        return open(path, "rb")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise click.UsageError(f"cannot read {path}: {reason}") from error
