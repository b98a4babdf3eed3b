"""Batches of the asynchronous consumers: confirming and releasing them is awaited."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Iterator
from types import TracebackType
from typing import Generic, Self, TypeVar

from msmq.client.consumer import ReceivedBatch
from msmq.control.client.streams import Delivered
from msmq.errors import MsmqError

A = TypeVar("A", bound=Awaitable[None])


class AwaitedBatch(Generic[A]):
    """L{ReceivedBatch} whose methods are awaited; see there what each of them does.

    C{async with} confirms it at the end of the block, or releases it after an exception.

    @ivar blocking: the batch itself, which only the thread of the consumer may settle.
    """

    def __init__(self, batch: ReceivedBatch, call: Callable[[Callable[[], None]], A]) -> None:
        """See L{AsyncioConsumer.next_batch<msmq.client.AsyncioConsumer.next_batch>}.

        @param call: makes a call in the thread of the consumer.
        """
        self.blocking = batch
        self._call = call

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.messages})"

    def __iter__(self) -> Iterator[Delivered]:
        return iter(self.blocking)

    def __len__(self) -> int:
        return len(self.blocking)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.blocking.is_settled:
            return
        if kind is None:
            await self.confirm()
        else:
            with contextlib.suppress(MsmqError):
                await self.release()

    @property
    def messages(self) -> tuple[Delivered, ...]:
        """In the order of the queue; empty if no message arrived in time."""
        return self.blocking.messages

    def confirm(self) -> A:
        """See L{ReceivedBatch.confirm}."""
        return self._call(self.blocking.confirm)

    def release(self) -> A:
        """See L{ReceivedBatch.release}."""
        return self._call(self.blocking.release)
