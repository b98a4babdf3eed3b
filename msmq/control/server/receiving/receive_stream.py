"""Receiving many messages as one stream of records, confirmed batch by batch.

The stream has four kinds of records, distinguished by their headers: a message (C{id}), a receipt for the
messages since the previous receipt (C{receipt}), and at the end either the reason of a normal end (C{end}) or
an error (C{error}). The reader confirms a receipt in a separate request while the stream is open; only then
are its messages removed. Unconfirmed messages return to their positions when either side closes the stream.
In a transaction there is one receipt, after all messages; its confirmation commits.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import attrs
from twisted.internet.interfaces import IReactorTime
from twisted.web.server import Request

from msmq.control.protocol.records import CONTENT_TYPE, StreamRecord
from msmq.control.protocol.refusals import invalid, no_such_receipt, refusal, too_many
from msmq.control.server.http.admission import while_admitted
from msmq.control.server.http.answer_memory import AnswerMemory
from msmq.control.server.http.disconnection import next_reactor_turn, shielded
from msmq.control.server.http.limits import ControlLimits
from msmq.control.server.http.responses import ResponseStream
from msmq.control.server.messages.message_records import MessageWriter
from msmq.control.server.receiving.receipts import Confirmations, Receipts
from msmq.control.server.receiving.transaction_decision import TransactionDecision
from msmq.interfaces.manager.queue_manager import IMessaging, IReservation, ITransaction
from msmq.interfaces.manager.received_messages import ReceivedMessage
from msmq.structures.status import MQError, Status

if TYPE_CHECKING:
    from msmq.control.server.http.requests import ControlRequest

_DIGITS: Final = 20
"""Upper bound on the digits of a receipt number."""


@attrs.frozen
class ReceiveRequest:
    """Parameters of a receive.

    @ivar count: the most messages.
    @ivar timeout: the longest wait for the next message, in seconds; C{None} for no limit.
    @ivar peek: peek at the messages that are in the queue at the start, without removing them.
    @ivar transactional: receive all in one transaction.
    """

    queue: str
    count: int = 1
    timeout: float | None = None
    peek: bool = False
    transactional: bool = False

    def check(self, limits: ControlLimits) -> None:
        """Check the combination of parameters.

        @raise MQError: MQ_ERROR_INVALID_PARAMETER.
        """
        if self.count < 1:
            raise invalid("count is at least 1")
        if self.peek and self.transactional:
            raise invalid("a peek receives nothing, so it cannot be transactional")
        if self.peek and self.count > limits.peek:
            raise invalid(f"one peek shows at most {limits.peek} messages, not {self.count}")


@attrs.define(eq=False)
class ActiveReceives:
    """The active receives and their receipts."""

    _manager: IMessaging
    _limits: ControlLimits
    _clock: IReactorTime
    _memory: AnswerMemory
    _under_way: int = attrs.field(default=0, init=False)
    _receipts: dict[str, Receipts] = attrs.field(factory=dict, init=False)

    def begin(self) -> Callable[[], None]:
        """Register a receive; returns the function that ends it.

        @raise ControlError: the limit of receives is reached.
        """
        if self._under_way >= self._limits.receives:
            raise too_many("receives", self._limits.receives)
        self._under_way += 1

        def end() -> None:
            self._under_way -= 1

        return end

    async def reserve(
        self,
        wanted: ReceiveRequest,
        count: int,
        answer: ResponseStream,
        transaction: ITransaction | None = None,
        after: int = -1,
    ) -> IReservation:
        """Lock up to C{count} messages, or wait for the first.

        @param answer: holds their packets until L{delivered}.
        @param after: for the next part of a peek, the last LookupIdentifier of the part before.
        """
        await self._memory.room()
        reservation = await self._manager.reserve(
            wanted.queue,
            count=count,
            timeout=wanted.timeout if after < 0 else 0,
            peek=wanted.peek,
            transaction=transaction,
            size=self._limits.receive_bytes,
            after=after,
        )
        self._memory.take(answer, sum([message.view.size for message in reservation.messages]))
        return reservation

    def delivered(self, answer: ResponseStream, reservation: IReservation | None = None) -> None:
        """The reader of an answer has read its packets, or is gone; may be called again."""
        if reservation is not None:
            reservation.drop_packets()
        self._memory.release(answer)

    async def confirm(self, identifier: str, receipt: str) -> int:
        """Confirm a receipt of an open stream, even if the caller disconnects meanwhile.

        @raise MQError: no such receipt, or its messages could not be removed.
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

    async def upgraded(self, request: ControlRequest, wanted: ReceiveRequest) -> None:
        """Receive on an upgraded connection, on which the client also confirms.

        The client sends records with C{confirm}, the number of a receipt; each is answered with C{confirmed}
        and C{messages} once the messages are removed, or with C{error} and C{detail}.

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
        take = self._peek if wanted.peek else self._messages
        if wanted.transactional:
            take = self._in_transaction
        try:
            taking = while_admitted(response, take(response, receipts, wanted), self._clock)
            last = await self._last_record(response, taking)
            try:
                await while_admitted(response, receipts.at_most(0), self._clock)
            except MQError as error:
                # What it has not confirmed goes back to the queue.
                last = refusal(error)
            # The result of the last confirmation is sent before the end.
            await next_reactor_turn(self._clock)
            response.write(StreamRecord(last).to_bytes())
        finally:
            self.delivered(response)
            response.close()
            receipts.close()
            del self._receipts[receipts.identifier]
            end()

    async def _last_record(self, response: ResponseStream, work: Awaitable[None]) -> dict[str, str]:
        """The last record of a stream, from the result of its work."""
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
            reservation = await self.reserve(wanted, min(missing, self._limits.receive_batch), response)
            try:
                response.check_caller()
            except BaseException:
                # Without a receipt that the reader has seen, nothing would release them before the end.
                reservation.release()
                raise
            receipt = receipts.hold(reservation, len(reservation.messages))
            missing -= len(reservation.messages)
            record = _receipt(receipts, receipt, len(reservation.messages))
            await self._write(response, writer, reservation, record)

    async def _peek(self, response: ResponseStream, _: Receipts, wanted: ReceiveRequest) -> None:
        """In parts, so that not all packets are in memory at the same time."""
        missing = wanted.count
        writer = MessageWriter(response.has_runs)
        after = -1
        while missing:
            try:
                reservation = await self.reserve(
                    wanted, min(missing, self._limits.receive_batch), response, after=after
                )
            except MQError as error:
                if after < 0 or error.status is not Status.MQ_ERROR_IO_TIMEOUT:
                    raise
                # It has seen the last message.
                return
            response.check_caller()
            missing -= len(reservation.messages)
            after = reservation.messages[-1].lookup_id
            await self._write(response, writer, reservation)

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
                        wanted, min(wanted.count - count, self._limits.receive_batch), response, transaction
                    )
                except MQError as error:
                    if error.status is not Status.MQ_ERROR_IO_TIMEOUT or not count:
                        raise
                    late = error
                else:
                    response.check_caller()
                    count += len(reservation.messages)
                    await self._write(response, writer, reservation)
        except BaseException:
            decision.release()
            raise
        response.write(_receipt(receipts, receipts.hold(decision, count), count), is_awaited=True)
        if late is not None:
            raise late

    async def _write(
        self,
        response: ResponseStream,
        writer: MessageWriter,
        reservation: IReservation,
        receipt: bytes = b"",
    ) -> None:
        """Write messages in slices, and a receipt with the last one.

        A single small slice takes no iteration of the reactor of its own; the limit on unconfirmed receipts
        bounds how many follow each other.
        """
        parts = list(self._slices(reservation.messages))
        last = len(parts) - 1
        for number, part in enumerate(parts):
            records = writer.records(part)
            if number < last or not receipt:
                response.write(b"".join(records))
                await next_reactor_turn(self._clock)
            else:
                response.write(b"".join((*records, receipt)), is_awaited=True)
                if last:
                    await next_reactor_turn(self._clock)
            await response.drained()
            self._memory.read(response)
        self.delivered(response, reservation)

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


def _receipt(receipts: Receipts, receipt: int, count: int) -> bytes:
    """The record of a receipt."""
    header = {"receipt": receipt, "stream": receipts.identifier, "messages": count}
    return StreamRecord(header).to_bytes()
