"""Blocking client of a receive stream: many messages over one connection, confirmed by receipts."""

from __future__ import annotations

import http.client
import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, Final, Self

import attrs

from msmq.control.client.requests import ControlRequests
from msmq.control.protocol.records import RecordDecoder, RecordLimits, StreamRecord
from msmq.control.protocol.refusals import read_refusal
from msmq.control.protocol.runs import RUN, MalformedRun, messages_of
from msmq.errors import RemoteProtocolError
from msmq.structures.status import MQError

_READ: Final = 0x40000
_LONGEST_HEADER: Final = 0x1000000
_LARGEST_MESSAGE: Final = 0x400000


def _keep_heap() -> None:
    """Have the allocator keep memory between large messages.

    glibc returns what is free at the end of its heap beyond twice the largest block that was freed so far, so
    that each message of 64 KiB would get pages from the system, and return them. One block of the largest
    size of a message ends that; its pages are not touched. Other allocators are not affected.
    """
    bytes(_LARGEST_MESSAGE)


@attrs.frozen
class Delivered:
    """One message of a stream; it stays in its queue, locked, until its receipt is confirmed.

    @ivar properties: the message in JSON, with C{extension_size} instead of its extension, and without
        its body.
    """

    properties: Mapping[str, Any]
    body: bytes = attrs.field(repr=False)
    extension: bytes = attrs.field(repr=False)

    @property
    def identifier(self) -> str:
        """The identifier of the message: C{{guid}\\N}."""
        return str(self.properties["id"])

    @property
    def label(self) -> str:
        """The label."""
        return str(self.properties.get("label", ""))

    @property
    def text(self) -> str:
        """The body as UTF-8 text.

        @raise UnicodeDecodeError: it is not.
        """
        return self.body.decode("utf-8")


@attrs.frozen
class Receipt:
    """Receipt for the messages since the previous receipt.

    @ivar count: the number of these messages.
    """

    count: int
    _confirm: Callable[[bool], None] = attrs.field(repr=False)

    def confirm(self, *, wait: bool = True) -> None:
        """Confirm the messages; the server has durably removed them when this returns.

        @param wait: if false, return at once; the messages of all confirmed receipts are durably removed when
            the stream has ended, and the iteration raises the errors of confirmations.
        @raise MQError: the messages were not removed.
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
        # One for all reads: a new one for each costs as much as what is read, in pages that are zeroed.
        self._buffer = memoryview(bytearray(_READ))
        self._has_begun = False
        _keep_heap()

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
        """Yield messages and receipts up to the end of the stream.

        @raise MQError: the server ended the stream for another reason than the count or the time-out.
        """
        while True:
            record = self._waiting.popleft() if self._waiting else self._next()
            header = record.header
            if "end" in header:
                return
            if RUN in header:
                yield from self._run(record)
            elif "confirmed" not in header:
                yield self._item(record)

    def _run(self, record: StreamRecord) -> Iterator[Delivered]:
        try:
            for properties, body in messages_of(record.header, record.body):
                yield Delivered(properties, body, b"")
        except MalformedRun as error:
            raise self._asking.lost(str(error)) from error

    def _next(self) -> StreamRecord:
        """The next record of the server; further records in the same read are buffered."""
        records = self._read()
        self._waiting.extend(records[1:])
        return records[0]

    def _read(self) -> list[StreamRecord]:
        records: list[StreamRecord] = []
        while not records:
            with self._asking.losing():
                data = self._receive()
            if not data:
                raise self._asking.lost("the stream ended early")
            try:
                records = self._decoder.feed(data)
            except RemoteProtocolError as error:
                raise self._asking.lost(str(error)) from error
        return records

    def _receive(self) -> bytes | memoryview:
        if self._has_begun:
            return self._buffer[: self._response.fp.readinto1(self._buffer) or 0]
        # What came with the header of the response is buffered, and readinto1 would wait for more.
        self._has_begun = True
        return self._response.fp.read1(_READ)

    def _item(self, record: StreamRecord) -> Delivered | Receipt:
        header = record.header
        try:
            if "receipt" in header and "error" not in header:
                receipt = int(header["receipt"])
                return Receipt(int(header["messages"]), lambda wait: self._confirm(receipt, wait))
            if "error" in header:
                raise refused(header, "the stream was interrupted")
            size = len(record.body) - int(header["extension_size"])
        except (KeyError, TypeError, ValueError) as error:
            raise self._asking.lost(f"not a record of this API: {type(error).__name__}: {error}") from error
        return Delivered(header, record.body[:size], record.body[size:])

    def _confirm(self, receipt: int, wait: bool) -> None:
        with self._asking.losing():
            self._connection.sock.sendall(StreamRecord(_confirmation(receipt, wait)).to_bytes())
        while wait:
            for record in self._read():
                header = record.header
                if header.get("confirmed") == receipt:
                    wait = False
                elif "error" in header and header.get("receipt") == receipt:
                    raise refused(header, "the messages were not removed")
                else:
                    self._waiting.append(record)


def _confirmation(receipt: int, wait: bool) -> dict[str, object]:
    # The end of the stream confirms all receipts; a record for each would wake up both sides once more.
    return {"confirm": receipt} if wait else {"confirm": receipt, "answer": False}


def refused(header: Mapping[str, Any], otherwise: str) -> MQError:
    """The error in the header of a record."""
    return read_refusal(json.dumps(header).encode("ascii"), otherwise)
