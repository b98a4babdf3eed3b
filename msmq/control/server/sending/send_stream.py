"""Taking in many messages as one stream of records, while it still arrives.

A record's header holds the properties of its message and C{destination}, which holds for the records
behind it until another names its own.
The messages are handed to the queue manager in the order of the stream, one slice at a time; the
connection is not read further while too much waits.
If the first header has C{one_transaction}, all of them are sent in one transaction, which is committed when
the stream has come to its end, and aborted whenever it comes to another.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from msmq.control.protocol.records import RecordDecoder, StreamRecord
from msmq.control.protocol.refusals import internal_error, invalid
from msmq.control.server.http.disconnection import give_way, running
from msmq.control.server.http.limits import ControlLimits
from msmq.control.server.sending.slices import SliceBuilder, cost
from msmq.errors import RemoteProtocolError
from msmq.interfaces.queue_manager import IMessaging, ITransaction
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.status import MQError


@attrs.define
class AcceptedIdentifiers:
    """Consecutive identifiers that one queue manager gave out; a million fit into one of these."""

    first: MessageIdentifier
    count: int = 1

    def is_followed_by(self, identifier: MessageIdentifier) -> bool:
        """Whether C{identifier} would make this range one longer."""
        return (
            identifier.queue_manager == self.first.queue_manager
            and identifier.ordinal == self.first.ordinal + self.count
        )

    def texts(self, start: int, count: int) -> list[str]:
        """The identifiers from C{start} on, as people and scripts read them."""
        first, last = start, min(start + count, self.count)
        return [
            str(MessageIdentifier(self.first.queue_manager, self.first.ordinal + number))
            for number in range(first, last)
        ]


class SendStream:
    """One incoming stream of records.

    It is the file that the HTTP server writes a request body to; nothing can be read back from it.

    @ivar accepted: the identifiers of what the queue manager has taken, in order; in a transaction of what
        it takes if that is committed.
    @ivar error: why the rest is not taken; what is still to come is then dropped.
    """

    _log = Logger()

    def __init__(
        self,
        manager: IMessaging,
        limits: ControlLimits,
        clock: IReactorTime,
        pause: Callable[[], None],
        resume: Callable[[], None],
    ) -> None:
        self._manager = manager
        self._limits = limits
        self._clock = clock
        self._pause = pause
        self._resume = resume
        self._decoder = RecordDecoder(limits.records)
        self._records: deque[StreamRecord] = deque()
        self._backlog = 0
        self._is_paused = False
        self._is_working = False
        self._is_closed = False
        self._is_complete = False
        self._transaction: ITransaction | None = None
        self._slicer = SliceBuilder(limits, self._begin)
        self._finished: Deferred[None] | None = None
        self._fault: MQError | None = None
        self.accepted: list[AcceptedIdentifiers] = []
        self.error: MQError | None = None

    def write(self, data: bytes) -> None:
        """Take in the next bytes of the stream."""
        if self.error is not None or self._fault is not None or self._is_closed:
            return
        records: list[StreamRecord] = []
        try:
            records = self._decoder.feed(data)
        except RemoteProtocolError as error:
            self._fault = fault(error)
        self._records.extend(records)
        self._backlog += sum(map(cost, records))
        if self._backlog > self._limits.send_backlog and not self._is_paused:
            self._is_paused = True
            self._pause()
        self._work()

    def tell(self) -> int:
        """Always 0, so that the HTTP server looks for no form in it."""
        return 0

    def seek(self, offset: int, whence: int = 0) -> int:
        """Stays where it is."""
        return 0

    def read(self, size: int = -1) -> bytes:
        """Nothing; the bytes went to the queue manager."""
        return b""

    def close(self) -> None:
        """The request has ended, or its caller has disconnected: read nothing more."""
        self._is_closed = True
        self._records.clear()
        if self._transaction is not None:
            self._work()

    async def finish(self) -> None:
        """All bytes are in: wait until the messages are taken, or one is refused."""
        try:
            self._decoder.finish()
        except RemoteProtocolError as error:
            self._fault = fault(error)
        self._is_complete = True
        self._work()
        while self._is_working:
            self._finished = Deferred()
            await self._finished

    def _work(self) -> None:
        if not self._is_working:
            self._is_working = True
            running(self._take())

    async def _take(self) -> None:
        try:
            while self._records and self.error is None:
                part = self._slicer.cut(self._records)
                self._backlog -= part.cost
                sending = self._manager.send(
                    part.destination, part.messages, transaction=self._transaction, keys=part.keys
                )
                for identifier in await running(sending):
                    self._remember(identifier)
                self._relieve()
                await give_way(self._clock)
            self.error = self.error or self._fault
            if self._transaction is not None and self._is_whole:
                await self._commit(self._transaction)
        except MQError as error:
            self.error = error
        except Exception:
            self._log.failure("A stream of messages could not be taken in")
            self.error = internal_error()
        if self._transaction is not None and (self.error is not None or self._is_closed):
            await self._abort(self._transaction)
        self._is_working = False
        if self.error is not None:
            self._records.clear()
            self._relieve()
        finished, self._finished = self._finished, None
        if finished is not None:
            finished.callback(None)

    @property
    def _is_whole(self) -> bool:
        return self._is_complete and not self._is_closed and self.error is None

    async def _commit(self, transaction: ITransaction) -> None:
        await transaction.commit()
        self._transaction = None

    async def _abort(self, transaction: ITransaction) -> None:
        self._transaction = None
        self.accepted.clear()
        # An administrator may have aborted it already.
        if transaction.state in ("active", "prepared"):
            await transaction.abort()

    def _begin(self) -> None:
        if self._transaction is None:
            if self._slicer.has_cut:
                raise invalid("only the first record of a stream can say one_transaction")
            self._transaction = self._manager.begin()

    def _remember(self, identifier: MessageIdentifier) -> None:
        if self.accepted and self.accepted[-1].is_followed_by(identifier):
            self.accepted[-1].count += 1
        else:
            self.accepted.append(AcceptedIdentifiers(identifier))

    def _relieve(self) -> None:
        if self._is_paused and (self._backlog <= self._limits.send_backlog // 2 or not self._records):
            self._is_paused = False
            self._resume()


def fault(error: RemoteProtocolError) -> MQError:
    """Refuses a stream that is not one of records."""
    return invalid(f"the record at offset {error.offset}: {error.field}: {error.rule}")
