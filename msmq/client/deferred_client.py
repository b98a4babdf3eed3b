"""The client for applications on Twisted."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec, Self, TypeAlias, TypeVar, cast

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorCore, IReactorFromThreads
from twisted.python.failure import Failure

from msmq.client.awaited_batch import AwaitedBatch
from msmq.client.blocking import RECONNECT, Client
from msmq.client.consumer import Consumer
from msmq.client.shutdown import RequestsAtShutdown
from msmq.client.threads import CallThreads, SubmittedCall

if TYPE_CHECKING:
    from msmq.client.tracing import MessageTracing

P = ParamSpec("P")
T = TypeVar("T")

DeferredBatch: TypeAlias = AwaitedBatch[Deferred[None]]
"""A batch whose methods return Deferreds; C{async with} is for coroutines on Twisted."""


def _deferred(
    method: Callable[Concatenate[Client, P], T], *, may_wait: bool = False
) -> Callable[Concatenate[DeferredClient, P], Deferred[T]]:
    """The same method with a Deferred as its result.

    @param may_wait: whether it has a C{timeout}, and waits for messages unless that is 0.
    """

    @functools.wraps(method)
    def call(self: DeferredClient, /, *args: P.args, **kwargs: P.kwargs) -> Deferred[T]:
        request = functools.partial(method, self.blocking, *args, **kwargs)
        is_wait = may_wait and kwargs.get("timeout", 0) != 0
        submitted = self.threads.submit(request, is_wait=is_wait)
        self.at_shutdown.add(submitted)
        return _fired_by(submitted, self.reactor, at_shutdown=self.at_shutdown)

    return call


def _fired_by(
    submitted: SubmittedCall[T],
    reactor: IReactorFromThreads,
    abort: Callable[[], None] | None = None,
    at_shutdown: RequestsAtShutdown | None = None,
) -> Deferred[T]:
    future = submitted.future

    def cancel(_: Deferred[T]) -> None:
        if abort is not None and future.running():
            abort()
        submitted.withdraw()

    deferred: Deferred[T] = Deferred(cancel)

    def fire() -> None:
        if at_shutdown is not None:
            at_shutdown.discard(submitted)
        if deferred.called or future.cancelled():
            return
        error = future.exception()
        if error is None:
            deferred.callback(future.result())
        else:
            deferred.errback(Failure(error))

    future.add_done_callback(lambda _: reactor.callFromThread(fire))
    return deferred


class DeferredClient:
    """L{Client} whose methods return Deferreds; see there what each of them does.

    A request whose Deferred is cancelled is not made, or not repeated; one that was sent to the queue manager
    may have taken effect. When the reactor ends, requests that wait for messages are withdrawn, and others
    after five seconds.

    @ivar blocking: the client that makes the requests, in worker threads.
    """

    def __init__(
        self,
        server: str | Path | None = None,
        *,
        token_file: str | Path | None = None,
        reconnect: float = RECONNECT,
        tracing: MessageTracing | None = None,
        reactor: IReactorFromThreads | None = None,
    ) -> None:
        """See L{Client}.

        @param reactor: by default the reactor of the process.
        """
        if reactor is None:
            from twisted.internet import reactor as default

            reactor = cast("IReactorFromThreads", default)
        self.blocking = Client(server, token_file=token_file, reconnect=reconnect, tracing=tracing)
        self.threads = CallThreads()
        self.reactor = reactor
        self.at_shutdown = RequestsAtShutdown(reactor)

    def close(self) -> None:
        """End the worker threads when their requests are completed."""
        self.threads.close()

    status = _deferred(Client.status)
    queue = _deferred(Client.queue)
    create_queue = _deferred(Client.create_queue)
    send = _deferred(Client.send)
    send_all = _deferred(Client.send_all)
    peek = _deferred(Client.peek, may_wait=True)
    search = _deferred(Client.search)

    def consume(
        self,
        queue: str,
        *,
        count: int | None = None,
        timeout: float | None = None,
        transactional: bool = False,
    ) -> DeferredConsumer:
        """A consumer with a thread of its own; see L{Client.consume}."""
        consumer = self.blocking.consume(queue, count=count, timeout=timeout, transactional=transactional)
        return DeferredConsumer(consumer, self.reactor)


class DeferredConsumer:
    """L{Consumer} whose methods return Deferreds; see there what each of them does.

    In a coroutine on Twisted, C{async for} yields batches until no message arrives within the time-out, and
    C{async with} closes it.
    Cancelling a wait closes the consumer, and so does the end of the reactor.
    """

    def __init__(self, consumer: Consumer, reactor: IReactorFromThreads) -> None:
        self._consumer = consumer
        self._threads = CallThreads(1)
        self._reactor = reactor
        self._core: IReactorCore | None = IReactorCore(reactor, None)
        # A thread that waits for messages would keep the process from ending.
        self._at_shutdown = None
        if self._core is not None:
            self._at_shutdown = self._core.addSystemEventTrigger("before", "shutdown", self._shut_down)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    async def __aiter__(self) -> AsyncIterator[DeferredBatch]:
        while batch := await self.next_batch():
            yield batch

    def next_batch(self) -> Deferred[DeferredBatch]:
        """See L{Consumer.next_batch}."""
        return self._call(lambda: DeferredBatch(self._consumer.next_batch(), self._call))

    def confirm(self, batch: DeferredBatch) -> Deferred[None]:
        """The same as the method of the batch; see L{ReceivedBatch.confirm<msmq.client.ReceivedBatch>}."""
        return batch.confirm()

    def release(self, batch: DeferredBatch) -> Deferred[None]:
        """The same as the method of the batch; see L{ReceivedBatch.release<msmq.client.ReceivedBatch>}."""
        return batch.release()

    def close(self) -> None:
        """See L{Consumer.close}."""
        trigger, self._at_shutdown = self._at_shutdown, None
        if self._core is not None and trigger is not None:
            self._core.removeSystemEventTrigger(trigger)
        self._consumer.abort()
        self._threads.withdraw()
        self._threads.close(self._consumer.close)

    def _shut_down(self) -> None:
        self._at_shutdown = None
        self.close()

    def _call(self, call: Callable[[], T]) -> Deferred[T]:
        return _fired_by(self._threads.submit(call), self._reactor, self._consumer.abort)
