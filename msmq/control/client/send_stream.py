"""Blocking client of a send stream: many messages over one connection."""

from __future__ import annotations

import selectors
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from msmq.control.client.requests import ControlRequests
from msmq.control.client.streams import refused
from msmq.control.protocol.records import LENGTHS, RecordDecoder, RecordLimits, StreamRecord
from msmq.control.protocol.runs import LONGEST, RUN, run_header
from msmq.errors import RemoteProtocolError
from msmq.structures.status import MessageTooLarge, MQError

PATIENCE: Final = 0.001
"""Seconds after which collected messages are sent without waiting for more."""
_SLOW: Final = 0.002
"""Seconds after which a producer counts as slower than the server's responses."""
_READ: Final = 0x40000
_PORTION: Final = 0x10000
"""Bytes that are collected before they are sent."""
_LARGE_BODY: Final = 0x4000
"""Size of a body in bytes from which on a unix socket gets a larger send buffer."""
_LARGE_BUFFER: Final = 0x100000
"""Size of that buffer in bytes; the system limits it (C{net.core.wmem_max})."""
_SELECTOR: Final[type[selectors.BaseSelector]] = getattr(selectors, "PollSelector", selectors.SelectSelector)
"""C{select} refuses descriptors above 1023; C{poll} needs no descriptor of its own."""
_LIMITS: Final = RecordLimits()
"""Limits of the server, which takes a larger record for a damaged stream."""
_NOT_NOW: Final = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class _Collected:
    """Messages of the producer that are not written yet; consecutive messages with equal headers share one
    record.

    @ivar size: total size of the bodies, in bytes.
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
        """Add a message.

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
        """Remove the collected messages and return them as encoded records."""
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
"""Header keys that exclude a message from a run."""


def _too_large(size: int) -> MessageTooLarge:
    return MessageTooLarge(
        f"a message holds at most {_LIMITS.body} bytes with all its headers; the body and the extension of "
        f"this one have {size}"
    )


_END: Final = StreamRecord({"end": True})
"""The record that ends the stream and commits its transaction."""


class ClientSendStream:
    """Send stream that writes messages and reads results at the same time, so that neither side blocks the
    other.

    Messages are collected, so that many share one write.  A pipelined stream sends the collected messages
    when the oldest has waited for L{PATIENCE}, in a thread if the producer takes as long for the next one;
    messages of a slow producer are sent at once, and their results are awaited before the producer is called
    again. In a transaction there is one result, after the last message.
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
        """Prepare to send; iteration sends.

        @param outstanding: limit on sent messages without a result, outside a transaction.
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
        self._is_enlarged = False
        self._error: MQError | None = None
        self._refusal: MQError | None = None
        self._selector = _SELECTOR()
        # Held by this thread, except while it waits for the producer.
        self._lock = threading.Lock()
        self._waiting = threading.Event()
        self._over = threading.Event()
        self._flusher: threading.Thread | None = None

    def __iter__(self) -> Iterator[str]:
        """Send the messages, and yield the identifiers of those that the server has accepted.

        @raise MQError: a message is refused, or the connection is lost.
        @raise Exception: the producer raised it.
        """
        with self._asking.losing():
            self._socket.setblocking(False)
            self._selector.register(self._socket, selectors.EVENT_READ)
        self._lock.acquire()
        try:
            while True:
                if self._unsent:
                    self._send()
                self._fill()
                if not self._unanswered:
                    if self._refusal is not None:
                        raise self._refusal
                    return
                # While messages wait to be sent, only results that have already arrived are read.
                yield from self._answers()
        finally:
            self._over.set()
            self._waiting.set()
            self._lock.release()
            self._selector.close()

    def _fill(self) -> None:
        """Send messages of the producer until the socket is full or the producer is slow."""
        while not (self._unsent or self._is_complete or self._collected.size >= _PORTION):
            if self._is_full:
                break
            begun = self._monotonic()
            message = self._next()
            now = self._monotonic()
            self._is_slow = self._is_pipelined and now - begun > _SLOW
            if message is not None and len(message.body) > _LIMITS.body:
                self._refusal = _too_large(len(message.body))
                if self._outstanding is None:
                    # Without its end the transaction is aborted.
                    raise self._refusal
                # As the server refuses a message: those before it are sent.
                message = None
            if message is None:
                self._is_complete = True
                if self._outstanding is None and self._unanswered:
                    self._collected.add(_END)
                break
            if not self._collected:
                self._collecting_since = now
            self._unanswered += 1
            if len(message.body) >= _LARGE_BODY:
                self._enlarge_buffer()
            self._collected.add(message)
            if self._is_slow or (self._is_pipelined and now - self._collecting_since > PATIENCE):
                break
        self._flush()

    def _enlarge_buffer(self) -> None:
        # The usual buffer of a unix socket has space for three messages of 64 KiB, so the server would read
        # and store as few at a time. Small messages keep it: they fill a batch anyway, and the server stores
        # some while others are written. The buffers of TCP grow by themselves.
        if not self._is_enlarged and self._socket.family == socket.AF_UNIX:
            with self._asking.losing():
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LARGE_BUFFER)
        self._is_enlarged = True

    @property
    def _is_full(self) -> bool:
        return self._outstanding is not None and self._unanswered >= self._outstanding

    def _next(self) -> StreamRecord | None:
        """The next message of the producer; the collected ones may be sent meanwhile."""
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
        """Send the collected messages when the producer is slow; runs in a thread."""
        while True:
            self._waiting.wait()
            before = self._unanswered
            if self._over.wait(PATIENCE):
                return
            with self._lock:
                # The lock is free while the producer runs, and after the end of the stream.
                if not self._over.is_set() and (self._unanswered == before or not self._collected):
                    self._waiting.clear()
                    try:
                        self._flush()
                    except MQError as error:
                        self._error = error

    def _flush(self) -> None:
        if self._collected and not self._unsent:
            self._unsent = memoryview(self._collected.take())
            self._send()

    def _send(self) -> None:
        with self._asking.losing():
            try:
                self._unsent = self._unsent[self._socket.send(self._unsent) :]
            except _NOT_NOW:
                pass
            except (BrokenPipeError, ssl.SSLEOFError, ssl.SSLZeroReturnError):
                # The server sends its reason before it closes the connection.
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
                raise refused(header, "the stream was interrupted")
            with self._asking.losing():
                stem, _, number = header["first"].rpartition("\\")
                first, count = int(number), int(header["messages"])
            self._unanswered -= count
            for ordinal in range(first, first + count):
                yield f"{stem}\\{ordinal}"

    def _receive(self, has_more: bool) -> bytes | None:
        """Read received bytes; wait for them unless there is more to send."""
        with self._asking.losing():
            # Bytes that the TLS layer has buffered do not make the socket readable.
            if not (isinstance(self._socket, ssl.SSLSocket) and self._socket.pending()):
                wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if has_more else 0)
                self._selector.modify(self._socket, wanted)
                ready = self._selector.select(self._asking.patience)
                if not ready:
                    raise TimeoutError(
                        f"it neither read nor answered anything for {self._asking.patience:g} s"
                    )
                if not any(events & selectors.EVENT_READ for _, events in ready):
                    return None
            try:
                return self._socket.recv(_READ)
            except _NOT_NOW:
                return None
