"""Streams of messages in both directions over one connection, without a reactor."""

from __future__ import annotations

import http.client
import json
import select
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Final, Self

import attrs

from msmq.control.client.requests import ControlRequests
from msmq.control.protocol.records import RecordDecoder, RecordLimits, StreamRecord
from msmq.control.protocol.refusals import read_refusal
from msmq.errors import RemoteProtocolError
from msmq.structures.status import MQError

_READ: Final = 0x40000
_LONGEST_HEADER: Final = 0x1000000
_PORTION: Final = 0x10000
_SLOW: Final = 0.002
"""Seconds after which a producer of messages is taken to be slower than the server answers."""
_NOT_NOW: Final = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


@attrs.frozen
class Delivered:
    """One message of a stream; it stays the queue's until its receipt is confirmed.

    @ivar properties: the message in JSON, with C{extension_size} in place of its extension, and without
        its body.
    """

    properties: Mapping[str, Any]
    body: bytes = attrs.field(repr=False)
    extension: bytes = attrs.field(repr=False)


@attrs.frozen
class Receipt:
    """Stands for the messages since the receipt before it.

    @ivar count: how many they are.
    """

    count: int
    _confirm: Callable[[bool], None] = attrs.field(repr=False)

    def confirm(self, *, wait: bool = True) -> None:
        """Have them removed; they are permanently removed once this returns.

        @param wait: without it this returns at once, and the messages of all receipts that were confirmed
            are permanently removed when the stream has ended; it raises what would have been raised here.
        @raise MQError: they are not removed.
        """
        self._confirm(wait)


class ReceiveStream:
    """A stream of received messages, with a receipt after each batch.

    Leaving the context releases all unconfirmed messages.
    """

    def __init__(self, asking: ControlRequests, connection: http.client.HTTPConnection, target: str) -> None:
        self._asking = asking
        self._connection = connection
        self._response = asking.upgrade(connection, target)
        self._decoder = RecordDecoder(RecordLimits(header=_LONGEST_HEADER))
        self._waiting: deque[StreamRecord] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._response.close()
        self._connection.close()

    def __iter__(self) -> Iterator[Delivered | Receipt]:
        """What arrives, up to the end of the stream.

        @raise MQError: the server ended it for another reason than the count or the time.
        """
        while True:
            record = self._waiting.popleft() if self._waiting else self._next()
            header = record.header
            if "end" in header:
                return
            if "confirmed" not in header:
                yield self._item(record)

    def _next(self) -> StreamRecord:
        """The next record of the server; others that came with it wait."""
        records = self._read()
        self._waiting.extend(records[1:])
        return records[0]

    def _read(self) -> list[StreamRecord]:
        records: list[StreamRecord] = []
        while not records:
            with self._asking.losing():
                data = self._response.fp.read1(_READ)
            if not data:
                raise self._asking.lost("the stream ended early")
            try:
                records = self._decoder.feed(data)
            except RemoteProtocolError as error:
                raise self._asking.lost(str(error)) from error
        return records

    def _item(self, record: StreamRecord) -> Delivered | Receipt:
        header = record.header
        try:
            if "receipt" in header and "error" not in header:
                receipt = int(header["receipt"])
                return Receipt(int(header["messages"]), lambda wait: self._confirm(receipt, wait))
            if "error" in header:
                raise _refused(header, "the stream broke")
            size = len(record.body) - int(header["extension_size"])
        except (KeyError, TypeError, ValueError) as error:
            raise self._asking.lost(f"not a record of this API: {type(error).__name__}: {error}") from error
        return Delivered(header, record.body[:size], record.body[size:])

    def _confirm(self, receipt: int, wait: bool) -> None:
        with self._asking.losing():
            self._connection.sock.sendall(StreamRecord({"confirm": receipt}).to_bytes())
        while wait:
            for record in self._read():
                header = record.header
                if header.get("confirmed") == receipt:
                    wait = False
                elif "error" in header and header.get("receipt") == receipt:
                    raise _refused(header, "the messages were not removed")
                else:
                    self._waiting.append(record)


class ClientSendStream:
    """Sends and reads at the same time, so that neither side waits for the other to read.

    Each message is sent as soon as the producer has given it, because the producer may take its time for the
    next one; after a message for which it did, the answers are waited for first.
    """

    def __init__(
        self,
        asking: ControlRequests,
        sock: socket.socket,
        messages: Iterable[StreamRecord],
        outstanding: int,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._asking = asking
        self._socket = sock
        self._messages = iter(messages)
        self._outstanding = max(1, outstanding)
        self._monotonic = monotonic
        self._decoder = RecordDecoder()
        self._unsent = memoryview(b"")
        self._unanswered = 0
        self._is_complete = False
        self._is_slow = False

    def __iter__(self) -> Iterator[str]:
        self._socket.setblocking(False)
        while True:
            if self._unsent:
                self._send()
            self._fill()
            if not self._unanswered:
                return
            # While messages wait to be sent, answers are taken only as far as they are there.
            yield from self._answers()

    def _fill(self) -> None:
        """Send what the producer gives, as far as the socket takes it and for so long as it is quick."""
        size = 0
        while not (self._unsent or self._is_complete or size >= _PORTION):
            if self._unanswered >= self._outstanding:
                break
            begun = self._monotonic()
            message = next(self._messages, None)
            self._is_slow = self._monotonic() - begun > _SLOW
            if message is None:
                self._is_complete = True
                break
            data = message.to_bytes()
            size += len(data)
            self._unanswered += 1
            self._unsent = memoryview(data)
            self._send()
            if self._is_slow:
                break

    def _send(self) -> None:
        try:
            self._unsent = self._unsent[self._socket.send(self._unsent) :]
        except _NOT_NOW:
            pass
        except (BrokenPipeError, ssl.SSLEOFError, ssl.SSLZeroReturnError):
            # The server says why it stopped before it closes.
            self._unsent = memoryview(b"")
            self._is_complete = True

    def _answers(self) -> Iterator[str]:
        is_waited_for = self._is_complete or self._is_slow or self._unanswered >= self._outstanding
        has_more = bool(self._unsent) or not is_waited_for
        data = self._receive(has_more)
        if data is None:
            return
        if not data:
            raise self._asking.lost("the connection ended early")
        try:
            records = self._decoder.feed(data)
        except RemoteProtocolError as error:
            raise self._asking.lost(str(error)) from error
        for record in records:
            header = record.header
            if "first" not in header:
                raise _refused(header, "the stream broke")
            stem, _, number = header["first"].rpartition("\\")
            count = int(header["messages"])
            self._unanswered -= count
            for ordinal in range(int(number), int(number) + count):
                yield f"{stem}\\{ordinal}"

    def _receive(self, has_more: bool) -> bytes | None:
        """What has come; waits for it unless more is to be sent."""
        # What TLS has taken from the socket and not given out does not show there.
        if not (isinstance(self._socket, ssl.SSLSocket) and self._socket.pending()):
            readable, _, _ = select.select([self._socket], [self._socket] if has_more else [], [])
            if not readable:
                return None
        try:
            return self._socket.recv(_READ)
        except _NOT_NOW:
            return None


def _refused(header: Mapping[str, Any], otherwise: str) -> MQError:
    return read_refusal(json.dumps(header).encode("ascii"), otherwise)
