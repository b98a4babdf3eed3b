"""Consumer: receives the messages of one queue in batches that are confirmed."""

from __future__ import annotations

import contextlib
import functools
import http.client
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Final, Self

import attrs

from msmq.client.arguments import check_count, check_seconds, check_text
from msmq.client.reconnection import Reconnection
from msmq.client.withdrawal import shut_down
from msmq.control.client.client import ControlClient
from msmq.control.client.streams import Delivered, Receipt, ReceiveStream
from msmq.errors import LocalProtocolError, MsmqError
from msmq.structures.status import MQError, Status

UNLIMITED: Final = 0x7FFFFFFF
"""Messages of a stream without a limit."""


@attrs.define(eq=False)
class ReceivedBatch:
    """Messages that are locked in their queue until the batch is confirmed or released.

    Leaving its context confirms the batch, or releases it after an exception, unless the block has done
    either. An exception of the block is raised even if the release fails: the messages return all the same.

    @ivar messages: in the order of the queue; empty if no message arrived in time.
    """

    messages: tuple[Delivered, ...]
    _settle: Callable[[bool], None] = attrs.field(repr=False)
    _is_settled: bool = attrs.field(default=False, init=False, repr=False)

    def __iter__(self) -> Iterator[Delivered]:
        return iter(self.messages)

    def __len__(self) -> int:
        return len(self.messages)

    def __enter__(self) -> Self:
        return self

    @property
    def is_settled(self) -> bool:
        """Whether it was confirmed or released, or that was tried."""
        return self._is_settled

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._is_settled:
            return
        if kind is None:
            self.confirm()
        else:
            with contextlib.suppress(MsmqError):
                self.release()

    def confirm(self) -> None:
        """Remove the messages from their queue; it is durable when this returns.

        @raise MQError: the messages were not removed; if the connection was lost
            (MQ_ERROR_SERVICE_NOT_AVAILABLE), they may have been, and otherwise are received again.
        """
        self._is_settled = True
        self._settle(True)

    def release(self) -> None:
        """Return the messages to their positions in the queue."""
        self._is_settled = True
        self._settle(False)


class Consumer:
    """Receives the messages of a queue in batches; connects again if the connection is lost.

    Messages that were not confirmed by then are received again.
    Leaving its context closes it; closing it releases all unconfirmed messages.
    """

    def __init__(
        self,
        client: ControlClient,
        queue: str,
        *,
        count: int | None,
        timeout: float | None,
        transactional: bool,
        reconnection: Reconnection,
    ) -> None:
        if transactional and count is None:
            raise LocalProtocolError("count is missing: a transaction needs the number of its messages")
        check_text("queue", queue)
        if count is not None:
            check_count("count", count)
        if timeout is not None:
            check_seconds("timeout", timeout)
        self._client = _AbortableClient(client)
        self._queue = queue
        self._count = count
        self._timeout = timeout
        self._transactional = transactional
        self._reconnection = reconnection
        self._stream: ReceiveStream | None = None
        self._items: Iterator[Delivered | Receipt] = iter(())
        self._unsettled: Receipt | None = None
        self._is_closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[ReceivedBatch]:
        """Yield batches until no message arrives within the time-out."""
        while batch := self.next_batch():
            yield batch

    def next_batch(self) -> ReceivedBatch:
        """Wait for the next messages: those that are there, at most C{count}.

        @return: an empty batch if no message arrived in time.
        @raise LocalProtocolError: the previous batch is neither confirmed nor released, or the consumer is
            closed.
        @raise MQError: no such queue, or it cannot be read; the server cannot be reached for as long as the
            client was created to wait.
        """
        if self._unsettled is not None:
            raise LocalProtocolError("the previous batch has to be confirmed or released first")
        return self._reconnection.run(self._receive, lambda: not self._is_closed)

    def close(self) -> None:
        """Release all unconfirmed messages, and disconnect."""
        self._is_closed = True
        self._disconnect()

    def abort(self) -> None:
        """Close the consumer from another thread, also while that waits for a message."""
        self._is_closed = True
        self._client.abort()

    def _receive(self) -> ReceivedBatch:
        if self._is_closed:
            raise LocalProtocolError("the consumer is closed")
        messages: list[Delivered] = []
        try:
            if self._stream is None:
                self._connect()
            for item in self._items:
                if isinstance(item, Delivered):
                    messages.append(item)
                else:
                    self._unsettled = item
                    return ReceivedBatch(tuple(messages), functools.partial(self._settle, item))
        except MQError as error:
            self._disconnect()
            if error.status != Status.MQ_ERROR_IO_TIMEOUT:
                raise
        except BaseException:
            # A signal, for example. The iteration has ended in the middle of a batch, which would look like
            # a time-out afterwards.
            self._disconnect()
            raise
        self._disconnect()
        return ReceivedBatch((), _nothing)

    def _connect(self) -> None:
        self._stream = self._client.receive(
            self._queue,
            count=UNLIMITED if self._count is None else self._count,
            timeout=self._timeout,
            transactional=self._transactional,
        )
        self._items = iter(self._stream)

    def _disconnect(self) -> None:
        self._unsettled = None
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.__exit__(None, None, None)

    def _settle(self, receipt: Receipt, is_done: bool) -> None:
        if self._unsettled is not receipt:
            raise LocalProtocolError("the batch was confirmed or released before, or its connection was lost")
        if not is_done:
            self._disconnect()
            return
        try:
            receipt.confirm()
        except BaseException:
            self._disconnect()
            raise
        self._unsettled = None
        if self._count is not None:
            self._disconnect()


def _nothing(_: bool) -> None:
    pass


class _AbortableClient(ControlClient):
    """Client with one connection at a time, which another thread can close."""

    def __init__(self, client: ControlClient) -> None:
        super().__init__(client.where)
        self._connection: http.client.HTTPConnection | None = None
        self._is_aborted = False

    def open(self) -> http.client.HTTPConnection:
        """See L{ControlRequests.open}."""
        self._connection = super().open()
        return self._connection

    def connect(self, connection: http.client.HTTPConnection) -> None:
        """See L{ControlRequests.connect}."""
        super().connect(connection)
        # C{abort} sets this before it looks for a socket, so it misses no connection.
        if self._is_aborted:
            raise OSError("the consumer was closed")

    def abort(self) -> None:
        """Close the connection, and connect no more."""
        self._is_aborted = True
        if self._connection is not None:
            shut_down(self._connection)
