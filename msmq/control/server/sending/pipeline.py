"""Send pipeline: sends the messages of a stream of records while it arrives, over both kinds of streams.

The header of a record has the properties of its message and C{destination}, which applies to later records
until one names another. The messages are handed to the queue manager in the order of the stream, one slice at
a time, and their results are reported in that order; reading pauses while too many messages are pending. If
the first header has C{one_transaction}, all of them are sent in one transaction, which is committed at the
regular end of the stream, and aborted at any other end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import ClassVar, Final, Protocol

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from msmq.background import run_in_background
from msmq.control.protocol.records import RecordDecoder, StreamRecord
from msmq.control.protocol.refusals import internal_error, invalid
from msmq.control.server.http.disconnection import running
from msmq.control.server.http.limits import ControlLimits
from msmq.control.server.sending.identifiers import IdentifierRange, add_identifiers
from msmq.control.server.sending.slices import SendSlice, SliceBuilder, cost
from msmq.errors import RemoteProtocolError
from msmq.interfaces.manager.queue_manager import IMessaging, ITransaction
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.status import MQError

_COUNTED: Final = 100
"""Limit on destinations whose messages are counted."""


@attrs.frozen
class SendResult:
    """The result of consecutive messages of a stream.

    @ivar accepted: the identifiers of the messages that the queue manager has accepted.
    @ivar error: the reason of a refusal; C{None} for accepted messages.
    @ivar refused: the number of refused messages.
    """

    accepted: Sequence[IdentifierRange] = ()
    error: MQError | None = None
    refused: int = 0


class SendResults(Protocol):
    """Consumer of the results of a stream."""

    @property
    def is_behind(self) -> bool:
        """Whether results have to wait; the consumer calls L{SendPipeline.report} when it is ready."""

    def report(self, results: Sequence[SendResult], *, is_last: bool) -> None:
        """Consume the next results, in the order of the stream.

        @param is_last: whether these are the results of all records that have arrived, so that the client may
            be waiting.
        """


class PausableSource(Protocol):
    """Source of a stream, which can be paused."""

    def pauseProducing(self) -> None:
        """Stop reading."""

    def resumeProducing(self) -> None:
        """Resume reading."""


@attrs.define(eq=False)
class _HandedOver:
    """A slice that was passed to the queue manager, and its result once known."""

    part: SendSlice
    identifiers: Sequence[MessageIdentifier] | None = None
    error: MQError | None = None

    @property
    def is_settled(self) -> bool:
        """Whether the queue manager has answered."""
        return self.identifiers is not None or self.error is not None


class SendPipeline:
    """One stream of records that is being sent.

    @ivar ended: fires after the last reported result, with the reason why the stream was not sent to its end,
        or C{None}.
    @ivar accepted_by_destination: the number of accepted messages for each of the first destinations.
    """

    _log: ClassVar[Logger] = Logger()

    def __init__(
        self,
        manager: IMessaging,
        limits: ControlLimits,
        clock: IReactorTime,
        source: PausableSource,
        results: SendResults,
        *,
        stops_at_refusal: bool | None,
        has_end_record: bool,
    ) -> None:
        """Begin a stream.

        @param stops_at_refusal: whether a slice waits for the result of the one before, so that no message
            after a refused one is sent; C{None} for transactional messages alone, whose order matters.
            Otherwise only the backlog is limited, and the store batches many slices into one commit.
        @param has_end_record: whether a record with C{end} ends the stream, like L{complete}.
        """
        self._manager = manager
        self._limits = limits
        self._clock = clock
        self._source = source
        self._results = results
        self._stops_at_refusal = stops_at_refusal
        self._has_end_record = has_end_record
        self._decoder = RecordDecoder(limits.records)
        self._slicer = SliceBuilder(limits, manager.is_durable, self._begin)
        self._records: deque[StreamRecord] = deque()
        self._handed_over: deque[_HandedOver] = deque()
        self._backlog = 0
        self._is_paused = False
        self._call: IDelayedCall | None = None
        self._transaction: ITransaction | None = None
        self._in_transaction = _TransactionContents()
        self._error: MQError | None = None
        self._unreported: MQError | None = None
        self._is_complete = False
        self._is_closed = False
        self._is_ending = False
        self.ended: Deferred[MQError | None] = Deferred()
        self.accepted_by_destination: dict[str, int] = {}

    def write(self, data: bytes) -> None:
        """Process the next bytes of the stream; bytes after an error or the end are dropped."""
        if self._error is not None or self._is_complete or self._is_closed:
            return
        records: list[StreamRecord] = []
        try:
            records = self._decoder.feed(data)
        except RemoteProtocolError:
            pass
        if (error := self._decoder.error) is not None:
            self._error = self._unreported = _not_a_record(error)
        if self._has_end_record and records and records[-1].header.get("end") is True:
            del records[-1]
            self._is_complete = True
        self._records.extend(records)
        self._backlog += sum(map(cost, records))
        if self._call is None:
            self._work()
        self._adjust()

    def refuse(self, error: MQError) -> None:
        """Send nothing more, as if the next message were refused with this error."""
        if self._error is None and not self._is_complete and not self._is_closed:
            self._error = self._unreported = error
            self._drop_records()
            self._schedule()
            self._adjust()

    def complete(self) -> None:
        """End the stream: all bytes have arrived."""
        try:
            self._decoder.finish()
        except RemoteProtocolError as error:
            if self._error is None:
                self._error = self._unreported = _not_a_record(error)
        self._is_complete = True
        self._schedule()

    def close(self) -> None:
        """Stop sending and abort the transaction: the client has disconnected, or the stream has ended."""
        if self._is_closed:
            return
        self._is_closed = True
        self._drop_records()
        if self._call is not None:
            self._call.cancel()
            self._call = None
        if self._transaction is not None and not self._handed_over and not self._is_ending:
            run_in_background(self._abort(self._transaction), "aborting the transaction of a stream")

    def report(self) -> None:
        """Report the known results, in order, unless their consumer is behind."""
        if self._results.is_behind or self._is_closed:
            return
        results: list[SendResult] = []
        while self._handed_over and self._handed_over[0].is_settled:
            settled = self._handed_over.popleft()
            self._backlog -= settled.part.cost
            if self._transaction is None or settled.error is not None:
                results.append(self._result(settled))
            else:
                self._in_transaction.add(settled.part.destination, settled.identifiers or ())
        if results:
            self._results.report(results, is_last=not (self._handed_over or self._records))
        self._schedule()
        self._adjust()

    def _result(self, settled: _HandedOver) -> SendResult:
        if settled.error is not None:
            refused = len(settled.part.messages) + self._in_transaction.messages
            return SendResult(error=settled.error, refused=refused)
        identifiers = settled.identifiers or ()
        ranges: list[IdentifierRange] = []
        add_identifiers(ranges, identifiers)
        self._count(settled.part.destination, len(identifiers))
        return SendResult(ranges)

    def _count(self, destination: str, messages: int) -> None:
        counted = self.accepted_by_destination
        if destination in counted or len(counted) < _COUNTED:
            counted[destination] = counted.get(destination, 0) + messages

    def _work(self) -> None:
        """Send one slice; the next is sent in another iteration of the reactor."""
        self._call = None
        if self._records and self._has_room:
            try:
                part = self._slicer.cut(self._records)
            except MQError as error:
                if self._error is None:
                    self._error = self._unreported = error
                self._drop_records()
                # The rest of a request body is discarded, which needs the connection read to its end.
                self._adjust()
            else:
                self._hand_over(part)
        self._schedule()

    def _schedule(self) -> None:
        """Schedule the next slice if the limits allow it; end the stream when all is done."""
        if self._is_closed or self._call is not None:
            return
        if self._records:
            if self._has_room:
                self._call = self._clock.callLater(0, self._work)
        elif not self._handed_over and (self._is_complete or self._error is not None):
            self._end()

    @property
    def _has_room(self) -> bool:
        # Sends in a transaction do not wait for the store before the commit, so batching would gain nothing.
        if not self._handed_over:
            return True
        if self._transaction is not None or self._stops_at_refusal:
            return False
        return self._stops_at_refusal is False or not self._handed_over[-1].part.is_transactional

    def _begin(self) -> None:
        if self._transaction is None:
            if self._slicer.has_cut:
                raise invalid("only the first record of a stream can set one_transaction")
            self._transaction = self._manager.begin()

    def _hand_over(self, part: SendSlice) -> None:
        slice_ = _HandedOver(part)
        self._handed_over.append(slice_)
        answer = running(
            self._manager.send(part.destination, part.messages, transaction=self._transaction, keys=part.keys)
        )
        answer.addCallbacks(self._accepted, self._refused, callbackArgs=(slice_,), errbackArgs=(slice_,))

    def _accepted(self, identifiers: Sequence[MessageIdentifier], slice_: _HandedOver) -> None:
        slice_.identifiers = identifiers
        self._settled()

    def _refused(self, failure: Failure, slice_: _HandedOver) -> None:
        error = failure.value
        if not isinstance(error, MQError):
            self._log.failure("The messages of a stream could not be sent", failure)
            error = internal_error()
        slice_.error = error
        self._error = self._error or error
        self._drop_records()
        self._settled()

    def _settled(self) -> None:
        if not self._is_closed:
            self.report()
        elif self._transaction is not None and not self._is_ending:
            run_in_background(self._abort(self._transaction), "aborting the transaction of a stream")

    def _drop_records(self) -> None:
        self._backlog -= sum(map(cost, self._records))
        self._records.clear()

    def _end(self) -> None:
        if not self._is_ending:
            self._is_ending = True
            if self._transaction is None:
                self._finish()
            else:
                run_in_background(self._decide(self._transaction), "ending the transaction of a stream")

    async def _decide(self, transaction: ITransaction) -> None:
        """Commit a complete stream, abort any other, and report the result."""
        if self._error is None:
            try:
                await transaction.commit()
            except MQError as error:
                self._error = self._unreported = error
            except Exception:
                self._log.failure("A stream of messages could not be committed")
                self._error = self._unreported = internal_error()
            else:
                for destination, messages in self._in_transaction.by_destination.items():
                    self._count(destination, messages)
        if self._error is not None:
            await self._abort(transaction)
        elif self._in_transaction.ranges and not self._is_closed:
            self._results.report([SendResult(self._in_transaction.ranges)], is_last=True)
        self._finish()

    async def _abort(self, transaction: ITransaction) -> None:
        self._transaction = None
        # An administrator may have aborted it already.
        if transaction.state in ("active", "prepared"):
            try:
                await transaction.abort()
            except Exception:
                # The stream ends all the same; its client would wait for the result.
                self._log.failure("A transaction could not be aborted")

    def _finish(self) -> None:
        if self._unreported is not None and not self._is_closed:
            refused = max(1, self._in_transaction.messages)
            self._results.report([SendResult(error=self._unreported, refused=refused)], is_last=True)
        self.ended.callback(self._error)

    def _adjust(self) -> None:
        """Pause or resume the source."""
        if not self._is_paused and self._backlog > self._limits.send_backlog and not self._is_closed:
            self._is_paused = True
            self._source.pauseProducing()
        elif self._is_paused and self._backlog <= self._limits.send_backlog // 2:
            self._is_paused = False
            self._source.resumeProducing()


@attrs.define
class _TransactionContents:
    """Contents of a transaction so far.

    @ivar by_destination: messages for each of the first destinations.
    """

    ranges: list[IdentifierRange] = attrs.field(factory=list)
    by_destination: dict[str, int] = attrs.field(factory=dict)
    messages: int = 0

    def add(self, destination: str, identifiers: Sequence[MessageIdentifier]) -> None:
        """Count messages to a destination."""
        add_identifiers(self.ranges, identifiers)
        self.messages += len(identifiers)
        if destination in self.by_destination or len(self.by_destination) < _COUNTED:
            self.by_destination[destination] = self.by_destination.get(destination, 0) + len(identifiers)


def _not_a_record(error: RemoteProtocolError) -> MQError:
    """The refusal of a malformed stream of records."""
    return invalid(f"the record at offset {error.offset}: {error.field}: {error.rule}")
