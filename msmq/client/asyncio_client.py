"""The client for applications under asyncio."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeAlias, TypeVar

from msmq.client.awaited_batch import AwaitedBatch
from msmq.client.blocking import RECONNECT, Client
from msmq.client.consumer import Consumer
from msmq.client.threads import CallThreads

if TYPE_CHECKING:
    from msmq.client.tracing import MessageTracing

P = ParamSpec("P")
T = TypeVar("T")

AsyncioBatch: TypeAlias = AwaitedBatch[Coroutine[Any, Any, None]]
"""A batch whose methods are coroutines of asyncio."""


def _awaited(
    method: Callable[Concatenate[Client, P], T], *, may_wait: bool = False
) -> Callable[Concatenate[AsyncioClient, P], Coroutine[Any, Any, T]]:
    """The same method as a coroutine.

    @param may_wait: whether it has a C{timeout}, and waits for messages unless that is 0.
    """

    @functools.wraps(method)
    async def call(self: AsyncioClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        request = functools.partial(method, self.blocking, *args, **kwargs)
        is_wait = may_wait and kwargs.get("timeout", 0) != 0
        submitted = self.threads.submit(request, is_wait=is_wait)
        try:
            return await asyncio.wrap_future(submitted.future)
        except asyncio.CancelledError:
            submitted.withdraw()
            raise

    return call


class AsyncioClient:
    """L{Client} whose methods are awaited in asyncio; see there what each of them does.

    A request whose wait is cancelled is not made, or not repeated; one that was sent to the queue manager may
    have taken effect.

    @ivar blocking: the client that makes the requests, in worker threads.
    """

    def __init__(
        self,
        server: str | Path | None = None,
        *,
        token_file: str | Path | None = None,
        reconnect: float = RECONNECT,
        tracing: MessageTracing | None = None,
    ) -> None:
        """See L{Client}."""
        self.blocking = Client(server, token_file=token_file, reconnect=reconnect, tracing=tracing)
        self.threads = CallThreads()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the worker threads when their requests are completed."""
        self.threads.close()

    status = _awaited(Client.status)
    queue = _awaited(Client.queue)
    create_queue = _awaited(Client.create_queue)
    send = _awaited(Client.send)
    send_all = _awaited(Client.send_all)
    peek = _awaited(Client.peek, may_wait=True)
    search = _awaited(Client.search)

    def consume(
        self,
        queue: str,
        *,
        count: int | None = None,
        timeout: float | None = None,
        transactional: bool = False,
    ) -> AsyncioConsumer:
        """A consumer with a thread of its own; see L{Client.consume}."""
        return AsyncioConsumer(
            self.blocking.consume(queue, count=count, timeout=timeout, transactional=transactional)
        )


class AsyncioConsumer:
    """L{Consumer} whose methods are awaited in asyncio; see there what each of them does.

    C{async for} yields batches until no message arrives within the time-out.
    Cancelling a wait closes the consumer.
    """

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._threads = CallThreads(1)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def __aiter__(self) -> AsyncIterator[AsyncioBatch]:
        while batch := await self.next_batch():
            yield batch

    async def next_batch(self) -> AsyncioBatch:
        """See L{Consumer.next_batch}."""
        return AsyncioBatch(await self._call(self._consumer.next_batch), self._call)

    async def confirm(self, batch: AsyncioBatch) -> None:
        """The same as the method of the batch; see L{ReceivedBatch.confirm<msmq.client.ReceivedBatch>}."""
        await batch.confirm()

    async def release(self, batch: AsyncioBatch) -> None:
        """The same as the method of the batch; see L{ReceivedBatch.release<msmq.client.ReceivedBatch>}."""
        await batch.release()

    async def close(self) -> None:
        """See L{Consumer.close}."""
        self._consumer.abort()
        self._threads.withdraw()
        self._threads.close(self._consumer.close)

    async def _call(self, call: Callable[[], T]) -> T:
        submitted = self._threads.submit(call)
        try:
            return await asyncio.wrap_future(submitted.future)
        except asyncio.CancelledError:
            self._consumer.abort()
            submitted.withdraw()
            raise
