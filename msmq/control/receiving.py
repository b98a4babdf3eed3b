"""Receiving many messages as one stream of records, confirmed batch by batch.

The stream carries records of four kinds, told apart by their headers: a message (C{id}), a receipt for
the messages since the one before (C{receipt}), and at the end either why there are no more (C{end}) or
what went wrong (C{error}).
The reader confirms a receipt in a request of its own while the stream is open; only then are its
messages removed.
Whatever is not confirmed when the stream closes, on whichever side, goes back in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.web.server import Request

from msmq.control.limits import ControlLimits
from msmq.control.records import CONTENT_TYPE, Record
from msmq.control.refusals import invalid, no_such_receipt, refusal, too_many
from msmq.control.responses import ResponseStream
from msmq.control.waiting import give_way, running, shielded
from msmq.decoding.message_json import message_json
from msmq.interfaces.queue_manager import IQueueManager, IReservation, ReceivedMessage
from msmq.structures.status import MQError, Status


@attrs.frozen
class ReceiveRequest:
    """What a caller wants to receive.

    @ivar count: the most messages.
    @ivar timeout: the longest wait for the next message, in seconds; C{None} for no limit.
    @ivar peek: look only, at what is there at one time.
    """

    queue: str
    count: int = 1
    timeout: float | None = None
    peek: bool = False

    def check(self, limits: ControlLimits) -> None:
        """Refuse what no stream could give.

        @raise MQError: MQ_ERROR_INVALID_PARAMETER.
        """
        if self.count < 1:
            raise invalid("count is at least 1")
        if self.peek and self.count > limits.peek:
            raise invalid(f"one peek shows at most {limits.peek} messages, not {self.count}")


def message_record(message: ReceivedMessage) -> Record:
    """The message with its body raw, and its extension behind it."""
    view = message.view
    extension = view.extension
    properties = message_json(view, lookup_id=message.lookup_id, arrived=message.arrived, body=False)
    header: dict[str, Any] = {}
    for key, value in properties.items():
        if key == "extension_base64":
            header["extension_size"] = len(extension)
        else:
            header[key] = value
    return Record(header, b"".join((view.body, extension)))


@attrs.define(eq=False)
class Receipts:
    """The messages that one stream has given out and that are not confirmed yet.

    @ivar identifier: what the requests that confirm call the stream.
    """

    _log = Logger()

    identifier: str = attrs.field(factory=lambda: uuid4().hex)
    _held: dict[int, IReservation] = attrs.field(factory=dict, init=False)
    _confirming: int = attrs.field(default=0, init=False)
    _last: int = attrs.field(default=0, init=False)
    _is_closed: bool = attrs.field(default=False, init=False)
    _waiting: Deferred[None] | None = attrs.field(default=None, init=False)

    def hold(self, reservation: IReservation) -> int:
        """Keep messages until they are confirmed; answers the number of their receipt."""
        self._last += 1
        self._held[self._last] = reservation
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
        reservation = self._held.pop(receipt, None)
        if reservation is None:
            raise no_such_receipt(self.identifier, str(receipt))
        self._confirming += 1
        try:
            await reservation.confirm()
        except Exception:
            # They are back in their queue; nobody may take a second attempt for a success.
            reservation.release()
            if self._is_closed:
                self._log.failure("Messages that a reader had confirmed could not be removed and are back")
            raise
        finally:
            self._confirming -= 1
            waiting, self._waiting = self._waiting, None
            if waiting is not None:
                waiting.callback(None)
        return len(reservation.messages)

    def close(self) -> None:
        """Give back what is not confirmed, in its order."""
        self._is_closed = True
        held, self._held = self._held, {}
        for reservation in held.values():
            reservation.release()


@attrs.define(eq=False)
class Receiving:
    """Every receive that is under way, and the receipts that they wait for."""

    _manager: IQueueManager
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

    async def reserve(self, wanted: ReceiveRequest, count: int) -> IReservation:
        """Lock up to C{count} messages, or wait for the first."""
        return await running(
            self._manager.reserve(wanted.queue, count=count, timeout=wanted.timeout, peek=wanted.peek)
        )

    async def confirm(self, identifier: str, receipt: str) -> int:
        """Confirm a receipt of an open stream, whatever becomes of the caller meanwhile.

        @raise MQError: there is no such receipt, or its messages could not be removed.
        """
        receipts = self._receipts.get(identifier)
        if receipts is None or not receipt.isdecimal():
            raise no_such_receipt(identifier, receipt)
        return await shielded(receipts.confirm(int(receipt)))

    async def stream(self, request: Request, wanted: ReceiveRequest) -> None:
        """Answer a request with a stream of records.

        Refusals before the first message are raised; later ones are the last record.

        @raise MQError: as above.
        """
        wanted.check(self._limits)
        end = self.begin()
        receipts = Receipts()
        self._receipts[receipts.identifier] = receipts
        response = ResponseStream(request, CONTENT_TYPE)
        try:
            last = await self._messages(response, receipts, wanted)
            await receipts.at_most(0)
            response.write(Record(last).to_bytes())
        finally:
            response.close()
            receipts.close()
            del self._receipts[receipts.identifier]
            end()

    async def _messages(
        self, response: ResponseStream, receipts: Receipts, wanted: ReceiveRequest
    ) -> dict[str, str]:
        missing = wanted.count
        try:
            while missing:
                await receipts.at_most(self._limits.open_receipts - 1)
                count = wanted.count if wanted.peek else min(missing, self._limits.receive_batch)
                reservation = await self.reserve(wanted, count)
                receipt = receipts.hold(reservation)
                response.check()
                await self._write(response, reservation)
                missing -= len(reservation.messages)
                if wanted.peek:
                    await receipts.confirm(receipt)
                    break
                header = {
                    "receipt": receipt,
                    "stream": receipts.identifier,
                    "messages": len(reservation.messages),
                }
                response.write(Record(header).to_bytes())
        except MQError as error:
            if not response.is_open:
                raise
            return {"end": "timeout"} if error.status is Status.MQ_ERROR_IO_TIMEOUT else refusal(error)
        return {"end": "count"}

    async def _write(self, response: ResponseStream, reservation: IReservation) -> None:
        for part in self._slices(reservation):
            response.write(part)
            await give_way(self._clock)
            await response.drained()

    def _slices(self, reservation: IReservation) -> Iterator[bytes]:
        parts: list[bytes] = []
        size = 0
        for message in reservation.messages:
            parts.append(message_record(message).to_bytes())
            size += len(parts[-1])
            if len(parts) >= self._limits.slice_messages or size >= self._limits.slice_bytes:
                yield b"".join(parts)
                parts, size = [], 0
        if parts:
            yield b"".join(parts)
