"""Receiving many messages as one stream of records, confirmed batch by batch.

The stream carries records of four kinds, distinguished by their headers: a message (C{id}), a receipt for
the messages since the one before (C{receipt}), and at the end either why there are no more (C{end}) or
what went wrong (C{error}).
The reader confirms a receipt in a request of its own while the stream is open; only then are its
messages removed.
Messages that are not confirmed when either side closes the stream return to their positions.
In a transaction there is one receipt, behind all messages; confirming it commits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.server import Request

from msmq.control.protocol.records import CONTENT_TYPE, RecordDecoder, RecordLimits, StreamRecord
from msmq.control.protocol.refusals import internal_error, invalid, no_such_receipt, refusal, too_many
from msmq.control.server.http.channel import RecordConnection
from msmq.control.server.http.disconnection import give_way, running, shielded
from msmq.control.server.http.limits import ControlLimits
from msmq.control.server.http.responses import ResponseStream
from msmq.control.server.messages.message_records import MessageWriter
from msmq.control.server.receiving.transaction_decision import ReaderDecision, TransactionDecision
from msmq.errors import RemoteProtocolError
from msmq.interfaces.queue_manager import IMessaging, IReservation, ITransaction, ReceivedMessage
from msmq.structures.status import MQError, Status

if TYPE_CHECKING:
    from msmq.control.server.http.requests import Connection, ControlRequest

_DIGITS: Final = 20
"""More than the number of any receipt has."""

_CONFIRMATION: Final = RecordLimits(header=0x400, body=0)
"""What a reader may say at once."""


@attrs.frozen
class ReceiveRequest:
    """What a caller wants to receive.

    @ivar count: the most messages.
    @ivar timeout: the longest wait for the next message, in seconds; C{None} for no limit.
    @ivar peek: look only, at what is there at one time.
    @ivar transactional: receive all in one transaction.
    """

    queue: str
    count: int = 1
    timeout: float | None = None
    peek: bool = False
    transactional: bool = False

    def check(self, limits: ControlLimits) -> None:
        """Refuse what no stream could give.

        @raise MQError: MQ_ERROR_INVALID_PARAMETER.
        """
        if self.count < 1:
            raise invalid("count is at least 1")
        if self.peek and self.transactional:
            raise invalid("a peek receives nothing, so it cannot be transactional")
        if self.peek and self.count > limits.peek:
            raise invalid(f"one peek shows at most {limits.peek} messages, not {self.count}")


@attrs.define(eq=False)
class Receipts:
    """The messages that one stream has given out and that are not confirmed yet.

    @ivar identifier: what the requests that confirm call the stream.
    """

    _log = Logger()

    identifier: str = attrs.field(factory=lambda: uuid4().hex)
    _held: dict[int, tuple[ReaderDecision, int]] = attrs.field(factory=dict, init=False)
    _confirming: int = attrs.field(default=0, init=False)
    _last: int = attrs.field(default=0, init=False)
    _is_closed: bool = attrs.field(default=False, init=False)
    _waiting: Deferred[None] | None = attrs.field(default=None, init=False)

    def hold(self, decision: ReaderDecision, count: int) -> int:
        """Keep this number of messages until they are confirmed; returns the number of their receipt."""
        self._last += 1
        self._held[self._last] = (decision, count)
        return self._last

    async def at_most(self, count: int) -> None:
        """Wait until no more than C{count} receipts are unconfirmed."""
        while len(self._held) + self._confirming > count:
            self._waiting = Deferred()
            await self._waiting

    async def confirm(self, receipt: int) -> int:
        """Remove the messages of a receipt; answers how many.

        @raise MQError: the receipt is unknown or was confirmed before, or they could not be removed.
        """
        decision, count = self._held.pop(receipt, (None, 0))
        if decision is None:
            raise no_such_receipt(self.identifier, str(receipt))
        self._confirming += 1
        try:
            await decision.confirm()
        except Exception:
            # They are back in their queue; a second attempt must not look like a success.
            decision.release()
            if self._is_closed:
                self._log.failure("Messages that a reader had confirmed could not be removed and are back")
            raise
        finally:
            self._confirming -= 1
            waiting, self._waiting = self._waiting, None
            if waiting is not None:
                waiting.callback(None)
        return count

    def close(self) -> None:
        """Release the unconfirmed messages, in order."""
        self._is_closed = True
        held, self._held = self._held, {}
        for decision, _ in held.values():
            decision.release()


class Confirmations:
    """What a reader says on the connection that it reads from.

    A caller who says much and reads nothing would have the answers pile up here, so beyond a few that he has
    not read nothing more is heard, and then nothing more is read from the connection either.

    @ivar connection: where it is read, and answered.
    @param unread: how many answers the reader may have unread.
    """

    _log = Logger()

    def __init__(self, receipts: Receipts, request: ControlRequest, unread: int) -> None:
        self.connection = RecordConnection(request, self.take, self.caught_up)
        self._receipts = receipts
        self._reading: Connection = request.connection
        self._most = unread
        self._decoder = RecordDecoder(_CONFIRMATION)
        self._records: deque[StreamRecord] = deque()
        self._unread = 0
        self._is_paused = False
        self._is_over = False

    def take(self, data: bytes) -> None:
        """Process bytes of the reader; input after an error is ignored."""
        if self._is_over:
            return
        try:
            self._records.extend(self._decoder.feed(data))
        except RemoteProtocolError:
            self._abort()
            return
        self._hear()

    def caught_up(self) -> None:
        """The reader has taken what was written."""
        self._unread = 0
        self._hear()

    def _hear(self) -> None:
        while self._records and self._unread < self._most:
            self._confirm(self._records.popleft().header.get("confirm"))
        if not self._is_over and self._is_paused is not bool(self._records):
            self._is_paused = not self._is_paused
            if self._is_paused:
                self._reading.pauseProducing()
            else:
                self._reading.resumeProducing()

    def _abort(self) -> None:
        self._is_over = True
        self._records.clear()
        self.connection.abort()

    def _tell(self, **header: object) -> None:
        self.connection.tell(**header)
        self._unread += self.connection.is_behind

    def _confirm(self, receipt: object) -> None:
        if not isinstance(receipt, int):
            self._abort()
            return
        running(self._receipts.confirm(receipt)).addCallbacks(
            lambda count: self._tell(confirmed=receipt, messages=count),
            lambda failure: self._refuse(receipt, failure),
        )

    def _refuse(self, receipt: int, failure: Failure) -> None:
        error = failure.value
        if not isinstance(error, MQError):
            self._log.failure("Messages that a reader had confirmed could not be removed", failure)
            error = internal_error()
        self._tell(**refusal(error), receipt=receipt)


@attrs.define(eq=False)
class ActiveReceives:
    """All active receives, and the receipts that they wait for."""

    _manager: IMessaging
    _limits: ControlLimits
    _clock: IReactorTime
    _under_way: int = attrs.field(default=0, init=False)
    _receipts: dict[str, Receipts] = attrs.field(factory=dict, init=False)

    def begin(self) -> Callable[[], None]:
        """Count one more receive; answers what ends it.

        @raise ControlError: there are too many.
        """
        if self._under_way >= self._limits.receives:
            raise too_many("receives", self._limits.receives)
        self._under_way += 1

        def end() -> None:
            self._under_way -= 1

        return end

    async def reserve(
        self, wanted: ReceiveRequest, count: int, transaction: ITransaction | None = None
    ) -> IReservation:
        """Lock up to C{count} messages, or wait for the first."""
        return await running(
            self._manager.reserve(
                wanted.queue,
                count=count,
                timeout=wanted.timeout,
                peek=wanted.peek,
                transaction=transaction,
            )
        )

    async def confirm(self, identifier: str, receipt: str) -> int:
        """Confirm a receipt of an open stream, whatever becomes of the caller meanwhile.

        @raise MQError: there is no such receipt, or its messages could not be removed.
        """
        receipts = self._receipts.get(identifier)
        if receipts is None or not receipt.isdecimal() or len(receipt) > _DIGITS:
            raise no_such_receipt(identifier, receipt)
        return await shielded(receipts.confirm(int(receipt)))

    async def stream(self, request: Request, wanted: ReceiveRequest) -> None:
        """Answer a request with a stream of records.

        Refusals before the first message are raised; later ones are the last record.

        @raise MQError: as above.
        """
        await self._stream(wanted, Receipts(), ResponseStream(request, CONTENT_TYPE))

    async def steadily(self, request: ControlRequest, wanted: ReceiveRequest) -> None:
        """The same on a connection of its own, on which the caller confirms too.

        It sends records with C{confirm}, the number of a receipt, and is told C{confirmed} and C{messages}
        once they are removed, or with C{error} and C{detail} why they are not.

        @raise MQError: as L{stream}.
        """
        receipts = Receipts()
        connection = Confirmations(receipts, request, self._limits.unread_answers).connection
        await self._stream(wanted, receipts, connection)
        connection.end()

    async def _stream(self, wanted: ReceiveRequest, receipts: Receipts, response: ResponseStream) -> None:
        wanted.check(self._limits)
        end = self.begin()
        self._receipts[receipts.identifier] = receipts
        take = self._in_transaction if wanted.transactional else self._messages
        try:
            last = await self._told(response, take(response, receipts, wanted))
            await receipts.at_most(0)
            if isinstance(response, RecordConnection):
                # The result of the last confirmation is sent before the end.
                await give_way(self._clock)
            response.write(StreamRecord(last).to_bytes())
        finally:
            response.close()
            receipts.close()
            del self._receipts[receipts.identifier]
            end()

    async def _told(self, response: ResponseStream, work: Awaitable[None]) -> dict[str, str]:
        """What the last record of a stream says of the work that filled it."""
        try:
            await work
        except MQError as error:
            if not response.is_open:
                raise
            return {"end": "timeout"} if error.status is Status.MQ_ERROR_IO_TIMEOUT else refusal(error)
        return {"end": "count"}

    async def _messages(self, response: ResponseStream, receipts: Receipts, wanted: ReceiveRequest) -> None:
        missing = wanted.count
        writer = MessageWriter(response.has_runs)
        while missing:
            await receipts.at_most(self._limits.open_receipts - 1)
            count = wanted.count if wanted.peek else min(missing, self._limits.receive_batch)
            reservation = await self.reserve(wanted, count)
            receipt = receipts.hold(reservation, len(reservation.messages))
            response.check()
            await self._write(response, writer, reservation)
            missing -= len(reservation.messages)
            if wanted.peek:
                await receipts.confirm(receipt)
                return
            self._write_receipt(response, receipts, receipt, len(reservation.messages))

    async def _in_transaction(
        self, response: ResponseStream, receipts: Receipts, wanted: ReceiveRequest
    ) -> None:
        transaction = self._manager.begin()
        decision = TransactionDecision(transaction)
        writer = MessageWriter(response.has_runs)
        count = 0
        late: MQError | None = None
        try:
            while count < wanted.count and late is None:
                try:
                    reservation = await self.reserve(
                        wanted, min(wanted.count - count, self._limits.receive_batch), transaction
                    )
                except MQError as error:
                    if error.status is not Status.MQ_ERROR_IO_TIMEOUT or not count:
                        raise
                    late = error
                else:
                    response.check()
                    await self._write(response, writer, reservation)
                    count += len(reservation.messages)
        except BaseException:
            decision.release()
            raise
        self._write_receipt(response, receipts, receipts.hold(decision, count), count)
        if late is not None:
            raise late

    def _write_receipt(self, response: ResponseStream, receipts: Receipts, receipt: int, count: int) -> None:
        header = {"receipt": receipt, "stream": receipts.identifier, "messages": count}
        response.write(StreamRecord(header).to_bytes())

    async def _write(
        self, response: ResponseStream, writer: MessageWriter, reservation: IReservation
    ) -> None:
        for part in self._slices(reservation.messages):
            response.write(b"".join(writer.records(part)))
            await give_way(self._clock)
            await response.drained()

    def _slices(self, messages: Sequence[ReceivedMessage]) -> Iterator[Sequence[ReceivedMessage]]:
        most, limit = self._limits.slice_messages, self._limits.slice_bytes
        start = size = 0
        for number, message in enumerate(messages):
            size += message.view.size
            if number + 1 - start >= most or size >= limit:
                yield messages[start : number + 1]
                start, size = number + 1, 0
        if start < len(messages):
            yield messages[start:]
