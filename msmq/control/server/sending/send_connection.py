"""Sending on a connection of its own, each message answered as soon as it is taken.

The client sends the records of L{SendStream}.  A record answers each in order: it was accepted (C{first}, the
identifier, and C{messages}, how many messages with consecutive identifiers were accepted with it), or refused
(C{error}, C{detail}, C{messages}).
What follows a refused message and is not answered by then is dropped, and the last record is C{end}.
"""

from __future__ import annotations

from collections import deque
from typing import ClassVar, Final

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from msmq.control.protocol.records import RecordDecoder, StreamRecord
from msmq.control.protocol.refusals import internal_error, invalid, refusal
from msmq.control.server.http.channel import RecordConnection
from msmq.control.server.http.disconnection import running
from msmq.control.server.http.limits import ControlLimits
from msmq.control.server.http.requests import ControlRequest
from msmq.control.server.sending.send_stream import AcceptedIdentifiers, fault
from msmq.control.server.sending.slices import SendSlice, SliceBuilder, cost
from msmq.errors import RemoteProtocolError
from msmq.interfaces.queue_manager import IMessaging
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.status import MQError

_COUNTED: Final = 100
"""Destinations of which it is counted how many messages went there."""


@attrs.define(eq=False)
class _Sent:
    """A slice that the queue manager has been given, and its answer."""

    part: SendSlice
    identifiers: list[MessageIdentifier] | None = None
    error: MQError | None = None


class SendConnection:
    """One connection on which an application sends, for as long as both like.

    Slices are handed to the queue manager without waiting for those before them, so that the store puts
    many into one commit; the connection is not read while too many of them wait.

    @ivar taken: how many messages were taken for each of the first destinations.
    """

    _log: ClassVar[Logger] = Logger()

    def __init__(
        self, request: ControlRequest, manager: IMessaging, limits: ControlLimits, clock: IReactorTime
    ) -> None:
        self._manager = manager
        self._limits = limits
        self._clock = clock
        self._reading = request.connection
        self._connection = RecordConnection(request, self._take, self._answer)
        self._decoder = RecordDecoder(limits.records)
        self._slicer = SliceBuilder(limits, _refuse_transaction)
        self._records: deque[StreamRecord] = deque()
        self._sent: deque[_Sent] = deque()
        self._backlog = 0
        self._is_paused = False
        self._call: IDelayedCall | None = None
        self._fault: MQError | None = None
        self._is_over = False
        self._ended: Deferred[None] = Deferred()
        self.taken: dict[str, int] = {}

    async def run(self) -> None:
        """Take what comes until a message is refused; cancelled when the caller leaves."""
        self._connection.open()
        try:
            await self._ended
        finally:
            self._is_over = True
            self._records.clear()
            if self._call is not None:
                self._call.cancel()
                self._call = None
        self._connection.end()

    def _take(self, data: bytes) -> None:
        if self._is_over or self._fault is not None:
            return
        records: list[StreamRecord] = []
        try:
            records = self._decoder.feed(data)
            # A mistake behind whole records shows with the next bytes, which may be none.
            self._decoder.feed(b"")
        except RemoteProtocolError as error:
            self._fault = fault(error)
        self._records.extend(records)
        self._backlog += sum(map(cost, records))
        if self._call is None:
            self._work()
        self._adjust()

    def _work(self) -> None:
        """Hand over one slice; the next has another turn of the reactor."""
        self._call = None
        if self._records:
            try:
                part = self._slicer.cut(self._records)
            except MQError as error:
                self._fail(error)
            else:
                self._hand_over(part)
        if self._records:
            self._call = self._clock.callLater(0, self._work)
        elif self._fault is not None and not self._sent:
            self._finish()

    def _hand_over(self, part: SendSlice) -> None:
        sent = _Sent(part)
        self._sent.append(sent)
        answer = running(self._manager.send(part.destination, part.messages, keys=part.keys))
        answer.addCallbacks(self._taken, self._refused, callbackArgs=(sent,), errbackArgs=(sent,))

    def _taken(self, identifiers: list[MessageIdentifier], sent: _Sent) -> None:
        sent.identifiers = identifiers
        self._count(sent.part.destination, len(identifiers))
        self._answer()

    def _count(self, destination: str, messages: int) -> None:
        if destination in self.taken or len(self.taken) < _COUNTED:
            self.taken[destination] = self.taken.get(destination, 0) + messages

    def _refused(self, failure: Failure, sent: _Sent) -> None:
        error = failure.value
        if not isinstance(error, MQError):
            self._log.failure("A message could not be taken in", failure)
            error = internal_error()
        sent.error = error
        self._fail(None)
        self._answer()

    def _fail(self, error: MQError | None) -> None:
        """Take nothing more; the error, if any, is about the next message."""
        self._fault = self._fault or error or _AFTER_ANOTHER
        self._records.clear()

    def _answer(self) -> None:
        """Tell what has become of slices, in their order, unless the caller does not listen."""
        if self._is_over or self._connection.is_behind:
            return
        parts: list[bytes] = []
        while self._sent and (self._sent[0].identifiers is not None or self._sent[0].error is not None):
            sent = self._sent.popleft()
            self._backlog -= sent.part.cost
            if sent.error is not None:
                header = {**refusal(sent.error), "messages": len(sent.part.messages)}
                parts.append(StreamRecord(header).to_bytes())
            for taken in _ranges(sent.identifiers or ()):
                parts.append(StreamRecord({"first": str(taken.first), "messages": taken.count}).to_bytes())
        if parts:
            self._connection.write(b"".join(parts))
        self._adjust()
        if self._fault is not None and not self._sent and not self._records:
            self._finish()

    def _finish(self) -> None:
        """All that was taken is answered: say what stopped it, and end."""
        if self._is_over:
            return
        self._is_over = True
        if self._fault is not None and self._fault is not _AFTER_ANOTHER:
            self._connection.tell(**refusal(self._fault), messages=1)
        self._connection.tell(end="error")
        self._ended.callback(None)

    def _adjust(self) -> None:
        """Read on, or no further."""
        if not self._is_paused and not self._is_over and self._backlog > self._limits.send_backlog:
            self._is_paused = True
            self._reading.pauseProducing()
        elif self._is_paused and (self._backlog <= self._limits.send_backlog // 2):
            self._is_paused = False
            self._reading.resumeProducing()


_AFTER_ANOTHER = invalid("a message before it was refused")
"""Stands for a refusal that has an answer of its own."""


def _refuse_transaction() -> None:
    raise invalid("one_transaction is for a stream that has an end: POST /v1/send")


def _ranges(identifiers: list[MessageIdentifier] | tuple[()]) -> list[AcceptedIdentifiers]:
    ranges: list[AcceptedIdentifiers] = []
    for identifier in identifiers:
        if ranges and ranges[-1].is_followed_by(identifier):
            ranges[-1].count += 1
        else:
            ranges.append(AcceptedIdentifiers(identifier))
    return ranges
