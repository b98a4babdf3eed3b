"""Receipts of a receive stream: delivered messages until their reader confirms or releases them.

A receipt is confirmed by a separate request, or by a record on the upgraded connection of the stream.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import attrs
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from msmq.control.protocol.records import RecordDecoder, RecordLimits, StreamRecord
from msmq.control.protocol.refusals import internal_error, no_such_receipt, refusal
from msmq.control.server.http.channel import RecordConnection
from msmq.control.server.http.disconnection import running
from msmq.control.server.receiving.transaction_decision import ReaderDecision
from msmq.errors import RemoteProtocolError
from msmq.structures.status import MQError

if TYPE_CHECKING:
    from msmq.control.server.http.requests import Connection, ControlRequest

_CONFIRMATION: Final = RecordLimits(header=0x400, body=0)
"""A record that confirms a receipt."""


@attrs.define(eq=False)
class Receipts:
    """The messages of one stream that are not confirmed yet.

    @ivar identifier: the name of the stream in requests that confirm.
    """

    _log = Logger()

    identifier: str = attrs.field(factory=lambda: uuid4().hex)
    _held: dict[int, tuple[ReaderDecision, int]] = attrs.field(factory=dict, init=False)
    _confirming: int = attrs.field(default=0, init=False)
    _last: int = attrs.field(default=0, init=False)
    _is_closed: bool = attrs.field(default=False, init=False)
    _waiting: Deferred[None] | None = attrs.field(default=None, init=False)

    def hold(self, decision: ReaderDecision, count: int) -> int:
        """Hold messages until they are confirmed; returns the number of their receipt."""
        self._last += 1
        self._held[self._last] = (decision, count)
        return self._last

    async def at_most(self, count: int) -> None:
        """Wait until no more than C{count} receipts are unconfirmed."""
        while len(self._held) + self._confirming > count:
            self._waiting = Deferred()
            await self._waiting

    async def confirm(self, receipt: int) -> int:
        """Remove the messages of a receipt; returns their number.

        @raise MQError: the receipt is unknown or was confirmed before, or they could not be removed.
        """
        decision, count = self._held.pop(receipt, (None, 0))
        if decision is None:
            raise no_such_receipt(self.identifier, str(receipt))
        self._confirming += 1
        try:
            await decision.confirm()
        except Exception:
            # The messages are back in their queue; a second confirmation must fail too.
            decision.release()
            if self._is_closed:
                self._log.failure(
                    "Messages that a reader had confirmed could not be removed and are in their queue again"
                )
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
    """Processes the records by which a reader confirms receipts on its own connection.

    Unread results are limited: beyond the limit no further confirmation is processed, and the connection is
    not read.

    @ivar connection: the connection, which also carries the results.
    @param unread: how many results the reader may have unread.
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
        self._read_confirmations()

    def caught_up(self) -> None:
        """Continue: the reader has caught up."""
        self._unread = 0
        self._read_confirmations()

    def _read_confirmations(self) -> None:
        while self._records and self._unread < self._most:
            header = self._records.popleft().header
            self._confirm(header.get("confirm"), header.get("answer", True))
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

    def _answer(self, **header: object) -> None:
        self.connection.send_header(is_awaited=True, **header)
        self._unread += self.connection.is_behind

    def _confirm(self, receipt: object, is_answered: object) -> None:
        # A truth value is an int of Python, and would confirm the first receipt.
        if isinstance(receipt, bool) or not isinstance(receipt, int) or not isinstance(is_answered, bool):
            self._abort()
            return
        running(self._receipts.confirm(receipt)).addCallbacks(
            lambda count: self._answer(confirmed=receipt, messages=count) if is_answered else None,
            lambda failure: self._refuse(receipt, failure),
        )

    def _refuse(self, receipt: int, failure: Failure) -> None:
        error = failure.value
        if not isinstance(error, MQError):
            self._log.failure("Messages that a reader had confirmed could not be removed", failure)
            error = internal_error()
        self._answer(**refusal(error), receipt=receipt)
