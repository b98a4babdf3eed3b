"""ControlQueues: the queues of a queue manager in another process, by its control API."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar, Final, cast

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorFromThreads
from twisted.internet.threads import deferToThread
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from msmq.bridge_service.queues import HeldMessages, IBridgedQueues, ValuesOfSent
from msmq.client import DeferredBatch, DeferredClient, DeferredConsumer, message_to
from msmq.control.client.client import ControlClient
from msmq.control.client.locations import parse_location
from msmq.control.client.streams import Delivered
from msmq.errors import LocalProtocolError
from msmq.interfaces.bridge_messages import MessageForQueue, QueuedMessage
from msmq.structures.status import MQError, Status

_SIZE: Final = "extension_size"


@implementer(IBridgedQueues)
class ControlQueues:
    """The queue manager of one route; it receives from one queue.

    A queue manager that cannot be reached is a refusal as any other: the route waits, and tries again.
    Received messages are locked on the connection of their consumer; when that is lost, the queue manager
    returns them to their positions.

    @param client: of the queue manager; it repeats no request by itself.
    @param control: of the same one.
    """

    log: ClassVar[Logger] = Logger()

    sends_all_or_none = False
    service_values = None

    def __init__(self, client: DeferredClient, control: ControlClient) -> None:
        self._client = client
        self._control = control
        self._consumer: DeferredConsumer | None = None
        self._is_held = False
        self._free: Deferred[None] | None = None
        self._is_resting = False

    @classmethod
    def at(cls, server: str, reactor: object) -> ControlQueues:
        """The queues of a server.

        @param server: its location, such as C{unix:PATH}.
        """
        threaded = cast(IReactorFromThreads, reactor)
        control = ControlClient(parse_location(server))
        return cls(DeferredClient(server, reconnect=0, reactor=threaded), control)

    def close(self) -> None:
        """Disconnect: messages that are not confirmed return to their queue."""
        self._disconnect()
        self._let_go()
        self._client.close()

    def suspicion(self) -> str:
        """See L{IBridgedQueues}; the configuration of this bridge names the queue manager."""
        return ""

    async def receive(self, queue: str, count: int, size: int) -> HeldMessages:
        """See L{IBridgedQueues}; a batch has what the server sends at once, some MiB at most."""
        self._is_resting = False
        while self._is_held:
            # A consumer has one batch at a time, so that batches come in the order of the queue.
            self._free = Deferred()
            await self._free
        while True:
            if self._consumer is None:
                self._consumer = self._client.consume(queue)
            consumer = self._consumer
            try:
                batch = await consumer.next_batch()
            except CancelledError:
                self._disconnect()
                raise
            except LocalProtocolError as error:
                # It was closed meanwhile.
                raise _lost() from error
            if batch:
                return self._hold(consumer, batch)

    def rest(self) -> None:
        """See L{IBridgedQueues}."""
        self._is_resting = True
        if not self._is_held:
            self._disconnect()

    async def peek(self, queue: str, count: int) -> Sequence[QueuedMessage]:
        """See L{IBridgedQueues}."""
        return [_queued(each) for each in await self._client.peek(queue, count=count)]

    async def holding(self, queue: str, messages: Mapping[str, int]) -> Collection[str]:
        """See L{IBridgedQueues}."""
        return await deferToThread(self._holding, queue, messages)

    def _holding(self, queue: str, messages: Mapping[str, int]) -> Collection[str]:
        found = set()
        for identifier, lookup_id in messages.items():
            try:
                message = self._control.message(queue, lookup_id)
            except MQError as error:
                if error.status == Status.MQ_ERROR_MESSAGE_NOT_FOUND:
                    continue
                raise
            if message["id"] == identifier:
                found.add(identifier)
        return found

    async def send(
        self, destination: str, messages: Sequence[MessageForQueue], values: ValuesOfSent | None = None
    ) -> Sequence[str]:
        """See L{IBridgedQueues}; C{values} is C{None}."""
        return await self._client.send_all(
            [
                message_to(destination, each.body, extension=each.extension, **cast(Any, _properties(each)))
                for each in messages
            ]
        )

    async def create_queue(self, path: str) -> None:
        """See L{IBridgedQueues}."""
        await self._client.create_queue(path, label="dead letters of a bridge")

    def note(self, event: str, reason: str, queue: str, identifier: str) -> None:
        """See L{IBridgedQueues}; the event log of the queue manager is not for other processes."""
        self.log.warn(
            "{kind}: message {identifier} of {queue}: {reason}",
            kind=event,
            identifier=identifier or "(none)",
            queue=queue or "the broker",
            reason=reason,
        )

    def _hold(self, consumer: DeferredConsumer, batch: DeferredBatch) -> HeldMessages:
        self._is_held = True

        async def confirm() -> None:
            if self._consumer is not consumer:
                raise _lost()
            try:
                await batch.confirm()
            except LocalProtocolError as error:
                raise _lost() from error
            finally:
                self._let_go()

        def release() -> None:
            # A closed consumer has released everything.
            if self._consumer is consumer:
                batch.release().addErrback(_ignore)
                self._let_go()

        return HeldMessages([_queued(each) for each in batch], confirm, release)

    def _let_go(self) -> None:
        self._is_held = False
        free, self._free = self._free, None
        if self._is_resting:
            self._disconnect()
        if free is not None and not free.called:
            free.callback(None)

    def _disconnect(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()


def _properties(message: MessageForQueue) -> Mapping[str, object]:
    return {**message.properties, **({"key": message.key} if message.key else {})}


def _queued(message: Delivered) -> QueuedMessage:
    properties = {name: value for name, value in message.properties.items() if name != _SIZE}
    return QueuedMessage(properties, message.body, message.extension)


def _lost() -> MQError:
    return MQError(Status.MQ_ERROR_SERVICE_NOT_AVAILABLE, "the connection to the queue manager was lost")


def _ignore(failure: Failure) -> None:
    """The messages of a lost connection have returned to their queue."""
    failure.trap(MQError, LocalProtocolError, CancelledError)
