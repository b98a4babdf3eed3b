"""Writing answers: short ones at once, long ones at the pace of the reader."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

import attrs
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IPushProducer, IReactorTime
from twisted.python.failure import Failure
from twisted.web.server import Request
from zope.interface import implementer

from msmq.control.protocol.refusals import refusal
from msmq.control.server.http.disconnection import give_way
from msmq.structures.status import MQError

JSON: Final = "application/json"
JSON_LINES: Final = "application/x-ndjson"

_SLICE: Final = 100
_PROGRESS: Final = 1.0
_T = TypeVar("_T")


def to_json(value: object) -> bytes:
    """One line of JSON in ASCII, without its end."""
    return json.dumps(value, separators=(",", ":")).encode("ascii")


def json_answer(request: Request, value: object, code: int = 200) -> bytes:
    """Set the request up to be answered with a JSON object, and give the bytes to answer with."""
    body = to_json(value) + b"\n"
    request.setResponseCode(code)
    request.setHeader(b"content-type", JSON.encode("ascii"))
    request.setHeader(b"content-length", b"%d" % len(body))
    return body


@implementer(IPushProducer)
class ResponseStream:
    """An answer of many parts; its writer awaits L{drained} in between.

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
        """Whether the reader takes L{runs<msmq.control.protocol.runs>}; it has to ask for them."""
        return False

    def open(self) -> None:
        """Begin the answer; its status and headers are final from now on."""
        if not self.is_open:
            self.is_open = True
            self._request.setHeader(b"content-type", self._content_type.encode("ascii"))
            self._request.registerProducer(self, True)
            self._request.write(b"")

    def check(self) -> None:
        """Stop here if the caller is gone; for after a wait that may have ended well all the same.

        @raise CancelledError: the caller is gone.
        """
        if self._is_broken:
            raise CancelledError

    def write(self, data: bytes) -> None:
        """Hand over the next part."""
        self.open()
        self._request.write(data)

    def flush(self) -> None:
        """Pass to the kernel what was written, if that saves a turn of the reactor; for a client that waits.

        Without it the reactor waits for the socket first: a poll and two changes of what is polled.
        """

    async def drained(self) -> None:
        """Wait until the reader has taken enough of what was written."""
        while self._paused:
            self._waiting = Deferred()
            await self._waiting

    def close(self) -> None:
        """Stop producing; the answer ends when its request does."""
        if self.is_open:
            self.is_open = False
            # Of a lost connection the coroutine of the request may hear before this stream does.
            if not self._is_broken and self._request.channel is not None:
                self._request.unregisterProducer()

    def _break(self, reason: Failure) -> None:
        self._is_broken = True

    def pauseProducing(self) -> None:
        """The reader is behind."""
        self._paused = True

    def resumeProducing(self) -> None:
        """The reader has caught up."""
        self._paused = False
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.callback(None)

    def stopProducing(self) -> None:
        """The reader is gone; the request's own notice of it ends the writer."""


async def json_progress(
    request: Request,
    work: Deferred[_T],
    progress: Callable[[], Mapping[str, Any]],
    result: Callable[[_T], Mapping[str, Any]],
    clock: IReactorTime,
) -> bytes | None:
    """Answer work that may take long with a JSON object a line: how far it is, each second, and its result.

    Work that ends within a second is answered as L{json_answer} does; the caller may go away at any time
    without ending it. What fails later than that is a last line with C{error} and C{detail}.

    @raise MQError: as the work does within a second.
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
                # What it works on has gone; how the work ends says so.
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
    """How some work ended."""

    value: _T | Failure

    def get(self) -> _T:
        """Its result.

        @raise Exception: it failed with that.
        """
        if isinstance(self.value, Failure):
            self.value.raiseException()
        return self.value


class _Ending(Generic[_T]):
    """Waits for the end of some work, a while at a time."""

    def __init__(self, work: Deferred[_T], clock: IReactorTime) -> None:
        self._clock = clock
        self._waiting: Deferred[None] | None = None
        self.outcome: _Outcome[_T] | None = None
        work.addBoth(self._end)

    async def within(self, seconds: float) -> None:
        """Wait for so long, or until it has ended."""
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
    request: Request, items: Sequence[Mapping[str, Any]], clock: IReactorTime
) -> bytes | None:
    """Answer with a JSON array, in slices if it is long."""
    if len(items) <= _SLICE:
        return json_answer(request, list(items))
    stream = ResponseStream(request, JSON)
    try:
        for start in range(0, len(items), _SLICE):
            part = to_json(list(items[start : start + _SLICE]))[1:-1]
            stream.write((b"," if start else b"[") + part)
            await give_way(clock)
            await stream.drained()
        stream.write(b"]\n")
    finally:
        stream.close()
    return None


async def json_stream(
    request: Request, items: AsyncIterator[Mapping[str, Any]], clock: IReactorTime
) -> bytes | None:
    """Answer with a JSON array of what comes one by one, at the pace of the reader.

    What goes wrong before the first item is raised before the answer has begun.
    """
    stream = ResponseStream(request, JSON)
    part: list[Mapping[str, Any]] = []
    try:
        async for item in items:
            part.append(item)
            if len(part) == _SLICE:
                stream.write((b"," if stream.is_open else b"[") + to_json(part)[1:-1])
                part = []
                await give_way(clock)
                await stream.drained()
        if not stream.is_open:
            return json_answer(request, part)
        if part:
            stream.write(b"," + to_json(part)[1:-1])
        stream.write(b"]\n")
    finally:
        stream.close()
    return None
