"""HTTP responses: short ones in one write, long ones with back-pressure from the reader."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from itertools import islice
from typing import Any, Final, Generic, Protocol, TypeVar, cast

import attrs
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IPushProducer, IReactorTime
from twisted.python.failure import Failure
from twisted.web.server import Request
from zope.interface import implementer

from msmq.control.protocol.refusals import no_longer_admitted, refusal
from msmq.control.server.http.disconnection import next_reactor_turn
from msmq.structures.status import MQError

JSON: Final = "application/json"
JSON_LINES: Final = "application/x-ndjson"

_ENCODE: Final = json.JSONEncoder(separators=(",", ":")).encode
# json.dumps() makes an encoder for each value whose separators are not the usual ones.

_SLICE: Final = 20
_SLICE_BYTES: Final = 0x40000
_PROGRESS: Final = 1.0
_T = TypeVar("_T")


def to_json(value: object) -> bytes:
    """One line of JSON in ASCII, without a newline."""
    return _ENCODE(value).encode("ascii")


def json_answer(request: Request, value: object, code: int = 200) -> bytes:
    """Set status and headers of a JSON response, and return its body."""
    return encoded_answer(request, to_json(value) + b"\n", code)


def encoded_answer(request: Request, body: bytes, code: int = 200, content_type: str = JSON) -> bytes:
    """Set status and headers of a response whose body is encoded already, by default as JSON."""
    request.setResponseCode(code)
    request.setHeader(b"content-type", content_type.encode("ascii"))
    request.setHeader(b"content-length", b"%d" % len(body))
    return body


class LastingRequest(Protocol):
    """Interface of a request whose response may last longer than the rights of its caller.

    @ivar token_name: the name of its token; empty for a caller that needs none.
    """

    token_name: str

    def is_current(self) -> bool:
        """Whether the caller still has its role."""


@implementer(IPushProducer)
class ResponseStream:
    """Streamed response; its writer awaits L{drained} between parts.

    The awaiting coroutine is cancelled with its request if the caller goes away.
    """

    def __init__(self, request: Request, content_type: str) -> None:
        self._request = request
        self._content_type = content_type
        self._paused = False
        self._waiting: Deferred[None] | None = None
        self._is_broken = False
        self.is_open = False
        request.notifyFinish().addErrback(self._break)

    @property
    def has_runs(self) -> bool:
        """Whether the reader requested L{runs<msmq.control.protocol.runs>}."""
        return False

    @property
    def has_token(self) -> bool:
        """Whether the caller has a token, which may be removed while the response lasts."""
        return bool(cast(LastingRequest, self._request).token_name)

    def open(self) -> None:
        """Begin the response; its status and headers are final from now on."""
        if not self.is_open:
            self.is_open = True
            self._request.setHeader(b"content-type", self._content_type.encode("ascii"))
            self._request.registerProducer(self, True)
            self._request.write(b"")

    def check(self) -> None:
        """Stop if the caller has disconnected; for use after a wait that may have succeeded nevertheless.

        @raise CancelledError: the caller has disconnected.
        """
        if self._is_broken:
            raise CancelledError

    def check_caller(self) -> None:
        """As L{check}, and stop if the caller has lost its role; before messages or entries are shown.

        @raise MQError: MQ_ERROR_ACCESS_DENIED: its token was removed, or has another role.
        """
        self.check()
        if not cast(LastingRequest, self._request).is_current():
            raise no_longer_admitted()

    def write(self, data: bytes, *, is_awaited: bool = False) -> None:
        """Write the next part.

        @param is_awaited: the client may be waiting for it, so that a direct write to the kernel saves it an
            iteration of the reactor, where that is possible.
        """
        self.open()
        self._request.write(data)

    @property
    def is_behind(self) -> bool:
        """Whether the reader has many bytes still to read."""
        return self._paused

    def cut(self) -> None:
        """Close the connection at once; what was written and not read is discarded."""
        channel: Any = self._request.channel
        if channel is not None and not self._is_broken:
            channel.transport.abortConnection()

    async def drained(self) -> None:
        """Wait until the reader has caught up."""
        while self._paused:
            self._waiting = Deferred()
            await self._waiting

    async def drained_within(self, seconds: float, clock: IReactorTime) -> bool:
        """Wait until the reader has caught up, but no longer than this; returns whether it has."""
        if self._paused:
            waiting = self._waiting = Deferred()
            timer = clock.callLater(seconds, self._wake)
            try:
                await waiting
            finally:
                if timer.active():
                    timer.cancel()
        return not self._paused

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.callback(None)

    def close(self) -> None:
        """Stop producing; the response ends with its request."""
        if self.is_open:
            self.is_open = False
            # The request's coroutine may be notified of a lost connection before this stream.
            if not self._is_broken and self._request.channel is not None:
                self._request.unregisterProducer()

    def _break(self, reason: Failure) -> None:
        self._is_broken = True

    def pauseProducing(self) -> None:
        """Pause: the reader is behind."""
        self._paused = True

    def resumeProducing(self) -> None:
        """The reader has caught up."""
        self._paused = False
        self._wake()

    def stopProducing(self) -> None:
        """The reader has disconnected; the request's own notification ends the writer."""


async def json_progress(
    request: Request,
    work: Deferred[_T],
    progress: Callable[[], Mapping[str, Any]],
    result: Callable[[_T], Mapping[str, Any]],
    clock: IReactorTime,
) -> bytes | None:
    """Answer long work with lines of JSON: its progress each second, and its result.

    Work that ends within a second is answered as L{json_answer} does. The work continues if the caller
    disconnects. A later failure is a last line with C{error} and C{detail}.

    @raise MQError: the work fails within a second.
    """
    ending = _Ending(work, clock)
    await ending.within(_PROGRESS)
    if ending.outcome is not None:
        return json_answer(request, result(ending.outcome.get()))
    stream = ResponseStream(request, JSON_LINES)
    stream.open()
    try:
        while ending.outcome is None:
            try:
                stream.write(to_json(progress()) + b"\n")
            except MQError:
                # The object of the work was deleted; the result of the work reports it.
                pass
            await ending.within(_PROGRESS)
        try:
            line = result(ending.outcome.get())
        except MQError as error:
            line = refusal(error)
        stream.write(to_json(line) + b"\n")
    finally:
        stream.close()
    return None


@attrs.frozen
class _Outcome(Generic[_T]):
    """Result of some work."""

    value: _T | Failure

    def get(self) -> _T:
        """Return the result.

        @raise Exception: the failure of the work.
        """
        if isinstance(self.value, Failure):
            self.value.raiseException()
        return self.value


class _Ending(Generic[_T]):
    """Waits for the end of some work, with a time-out for each wait."""

    def __init__(self, work: Deferred[_T], clock: IReactorTime) -> None:
        self._clock = clock
        self._waiting: Deferred[None] | None = None
        self.outcome: _Outcome[_T] | None = None
        work.addBoth(self._end)

    async def within(self, seconds: float) -> None:
        """Wait for this number of seconds, or until the work has ended."""
        if self.outcome is not None:
            return
        waiting = self._waiting = Deferred()
        timer = self._clock.callLater(seconds, waiting.callback, None)
        try:
            await waiting
        finally:
            self._waiting = None
            if timer.active():
                timer.cancel()

    def _end(self, value: _T | Failure) -> None:
        self.outcome = _Outcome(value)
        if self._waiting is not None:
            self._waiting.callback(None)


async def json_list(
    request: Request, items: Iterable[Mapping[str, Any]], clock: IReactorTime
) -> bytes | None:
    """Answer with a JSON array, in slices if it is long; the items are made slice by slice."""
    remaining = iter(items)
    part = list(islice(remaining, _SLICE))
    if len(part) < _SLICE:
        return json_answer(request, part)
    await next_reactor_turn(clock)
    following = list(islice(remaining, _SLICE))
    if not following:
        return json_answer(request, part)
    stream = ResponseStream(request, JSON)
    try:
        stream.write(b"[" + to_json(part)[1:-1])
        while following:
            stream.write(b"," + to_json(following)[1:-1])
            await next_reactor_turn(clock)
            await stream.drained()
            stream.check_caller()
            following = list(islice(remaining, _SLICE))
        stream.write(b"]\n")
    finally:
        stream.close()
    return None


async def json_lists(
    request: Request, lists: Mapping[str, Iterable[Mapping[str, Any]]], clock: IReactorTime
) -> None:
    """Answer with a JSON object of arrays, as a stream; the items are made slice by slice."""
    stream = ResponseStream(request, JSON)
    try:
        before = b"{"
        for name, items in lists.items():
            stream.write(before + to_json(name) + b":[")
            remaining, is_first = iter(items), True
            while part := list(islice(remaining, _SLICE)):
                stream.write((b"" if is_first else b",") + to_json(part)[1:-1])
                is_first = False
                await next_reactor_turn(clock)
                await stream.drained()
                stream.check_caller()
            before = b"],"
        stream.write(b"]}\n" if lists else b"{}\n")
    finally:
        stream.close()


async def json_stream(
    request: Request, items: AsyncIterator[Mapping[str, Any]], clock: IReactorTime
) -> bytes | None:
    """Answer with a JSON array of items from an iterator, with back-pressure from the reader.

    An error before the first item is raised before the response has begun.
    """
    stream = ResponseStream(request, JSON)
    part: list[bytes] = []
    size = 0
    try:
        async for item in items:
            part.append(to_json(item))
            size += len(part[-1])
            if len(part) == _SLICE or size >= _SLICE_BYTES:
                stream.write((b"," if stream.is_open else b"[") + b",".join(part))
                part, size = [], 0
                await next_reactor_turn(clock)
                await stream.drained()
                stream.check_caller()
        if not stream.is_open:
            return encoded_answer(request, b"[" + b",".join(part) + b"]\n")
        if part:
            stream.write(b"," + b",".join(part))
        stream.write(b"]\n")
    finally:
        stream.close()
    return None
