"""A stream of messages that are sent over one connection, without a reactor."""

from __future__ import annotations

import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from msmq.control.client.requests import ControlRequests
from msmq.control.client.streams import refused
from msmq.control.protocol.records import LENGTHS, RecordDecoder, StreamRecord
from msmq.control.protocol.runs import LONGEST, RUN, run_header
from msmq.errors import RemoteProtocolError

PATIENCE: Final = 0.001
"""Seconds after which what a producer has given is sent without waiting for more."""
_SLOW: Final = 0.002
"""Seconds after which a producer of messages is taken to be slower than the server answers."""
_READ: Final = 0x40000
_PORTION: Final = 0x10000
"""Bytes that are collected before they are sent."""
_NOT_NOW: Final = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class _Collected:
    """Messages that the producer has given and that are not written yet; equal neighbours are one record.

    @ivar size: bytes of their bodies.
    @param has_runs: whether the server takes runs.
    """

    def __init__(self, has_runs: bool) -> None:
        self._has_runs = has_runs
        self._parts: list[bytes] = []
        self._header: Mapping[str, Any] = {}
        self._text = b""
        self._bodies: list[bytes] = []
        self.size = 0

    def __bool__(self) -> bool:
        return self.size > 0

    def add(self, message: StreamRecord) -> None:
        """One more.

        @raise LocalProtocolError: its header cannot be written as JSON.
        """
        self.size += len(message.body) + LENGTHS.size
        header = message.header
        if not self._bodies or len(self._bodies) == LONGEST or not self._is_alike(message):
            self._end_run()
            if not self._has_runs or not header or any(key in header for key in _ALONE):
                self._parts.append(message.to_bytes())
                return
            if header is not self._header:
                self._text = message.header_bytes()
                self._header = header
        self._bodies.append(message.body)

    def take(self) -> bytes:
        """All of them as they are written."""
        self._end_run()
        data = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts.clear()
        self.size = 0
        return data

    def _is_alike(self, message: StreamRecord) -> bool:
        # Values that are equal may be written differently, such as 1 and true.
        return message.header is self._header or message.header_bytes() == self._text

    def _end_run(self) -> None:
        bodies = self._bodies
        if not bodies:
            return
        header = self._text if len(bodies) == 1 else run_header(self._text, list(map(len, bodies)))
        self._parts += (LENGTHS.pack(len(header), sum(map(len, bodies))), header, *bodies)
        bodies.clear()


_ALONE: Final = (RUN, "key", "extension_size", "one_transaction")
"""What no message of a run has in its header."""


_END: Final = StreamRecord({"end": True})
"""Ends the stream, and commits its transaction."""


class ClientSendStream:
    """Sends and reads at the same time, so that neither side waits for the other to read.

    Messages are collected, so that many are one write.  A pipelined stream sends what it has collected when
    the oldest of it has waited for L{PATIENCE}, by a thread if the producer takes as long for the next one;
    what comes from a slow producer is sent at once, and its answers are waited for before it is asked again.
    In a transaction the one answer comes after the last message.
    """

    def __init__(
        self,
        asking: ControlRequests,
        sock: socket.socket,
        messages: Iterable[StreamRecord],
        outstanding: int,
        has_runs: bool,
        *,
        pipelined: bool = False,
        one_transaction: bool = False,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare to send; iterating does it.

        @param outstanding: messages that are sent and not answered yet, at most, outside a transaction.
        @param has_runs: whether the server takes runs.
        @param pipelined: do not wait for a slow producer; otherwise the batches depend on its messages alone.
        @param one_transaction: the first message says so, and the end of the messages commits.
        """
        self._asking = asking
        self._socket = sock
        self._messages = iter(messages)
        self._is_pipelined = pipelined and not one_transaction
        self._outstanding = None if one_transaction else max(1, outstanding)
        self._monotonic = monotonic
        self._decoder = RecordDecoder()
        self._collected = _Collected(has_runs)
        self._collecting_since = 0.0
        self._unsent = memoryview(b"")
        self._unanswered = 0
        self._is_complete = False
        self._is_slow = False
        self._error: BaseException | None = None
        # Held by this thread but while it waits for the producer.
        self._lock = threading.Lock()
        self._waiting = threading.Event()
        self._over = threading.Event()
        self._flusher: threading.Thread | None = None

    def __iter__(self) -> Iterator[str]:
        self._socket.setblocking(False)
        self._lock.acquire()
        try:
            while True:
                if self._unsent:
                    self._send()
                self._fill()
                if not self._unanswered:
                    return
                # While messages wait to be sent, answers are taken only as far as they are there.
                yield from self._answers()
        finally:
            self._over.set()
            self._waiting.set()
            self._lock.release()

    def _fill(self) -> None:
        """Send what the producer gives, as far as the socket takes it and for so long as it is quick."""
        while not (self._unsent or self._is_complete or self._collected.size >= _PORTION):
            if self._is_full:
                break
            begun = self._monotonic()
            message = self._next()
            now = self._monotonic()
            self._is_slow = self._is_pipelined and now - begun > _SLOW
            if message is None:
                self._is_complete = True
                if self._outstanding is None and self._unanswered:
                    self._collected.add(_END)
                break
            if not self._collected:
                self._collecting_since = now
            self._unanswered += 1
            self._collected.add(message)
            if self._is_slow or (self._is_pipelined and now - self._collecting_since > PATIENCE):
                break
        self._flush()

    @property
    def _is_full(self) -> bool:
        return self._outstanding is not None and self._unanswered >= self._outstanding

    def _next(self) -> StreamRecord | None:
        """What the producer gives next; meanwhile what was collected may be sent."""
        if self._is_pipelined and self._collected and not self._waiting.is_set():
            if self._flusher is None:
                self._flusher = threading.Thread(target=self._flush_when_slow, daemon=True)
                self._flusher.start()
            self._waiting.set()
        self._lock.release()
        try:
            message = next(self._messages, None)
        finally:
            self._lock.acquire()
        if self._error is not None:
            raise self._error
        return message

    def _flush_when_slow(self) -> None:
        """Send what was collected when the producer has not given more for a while; runs in a thread."""
        while True:
            self._waiting.wait()
            before = self._unanswered
            if self._over.wait(PATIENCE):
                return
            with self._lock:
                # It is free while the producer is asked, and when there is nothing more to do.
                if not self._over.is_set() and (self._unanswered == before or not self._collected):
                    self._waiting.clear()
                    try:
                        self._flush()
                    except OSError as error:
                        self._error = error

    def _flush(self) -> None:
        if self._collected and not self._unsent:
            self._unsent = memoryview(self._collected.take())
            self._send()

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
        is_waited_for = self._is_complete or self._is_slow or self._is_full
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
            if "end" in header and not self._unanswered:
                return
            if "first" not in header:
                raise refused(header, "the stream broke")
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
