"""OutwardRoute: from a queue to a broker."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from itertools import count
from typing import Any, Final

import attrs
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.internet.task import deferLater

from msmq.background import run_in_background
from msmq.bridge.claims import BodyClaim
from msmq.bridge.flight import RouteSteps
from msmq.bridge.frameworks import answered_identifier
from msmq.bridge.native_headers import read_extension
from msmq.bridge.outward import map_outward
from msmq.bridge.replies import ReplyAddress
from msmq.bridge_service.brokers import (
    IN_FLIGHT,
    BrokerError,
    IBrokerConnection,
    IPublisher,
    PublishResults,
)
from msmq.bridge_service.dead_letters import queue_dead_letter
from msmq.bridge_service.queues import OF_A_MESSAGE, HeldMessages, IBridgedQueues
from msmq.bridge_service.reply_store import ReplyStore
from msmq.bridge_service.route import BridgeRoute
from msmq.bridge_service.route_state import tested
from msmq.bridge_service.settings import OutwardSettings
from msmq.interfaces.bridge_messages import AmqpMessage, MappingError, MessageForQueue, QueuedMessage
from msmq.structures.status import MQError

BATCH: Final = 64
"""Limit on messages that are received, and removed, together."""


_SAFE: Final = ("delivery", "body_type", "priority", "application_tag")
"""Properties of a dead letter that can be sent whatever a message has."""

_FRESH: Final = 0.25
"""Part of the lifetime of a stored body within which its message may be published again without a look."""


@attrs.define
class _Batch:
    """Messages that were received together, and are removed together.

    @ivar left: tokens that are not done.
    """

    held: HeldMessages
    tokens: tuple[int, ...]
    left: set[int]


@attrs.frozen
class _Claimed:
    """A message whose body is stored.

    @ivar since: when it was, in seconds of the reactor.
    """

    message: AmqpMessage
    since: float


class OutwardRoute(BridgeRoute):
    """A route from a queue to a broker.

    @param replies: for a route that publishes replies: where the addresses of their requests are.
    """

    def __init__(
        self,
        settings: OutwardSettings,
        queues: IBridgedQueues,
        reactor: IReactorTime,
        wall: Callable[[], float],
        replies: ReplyStore | None = None,
    ) -> None:
        super().__init__(settings, queues, reactor, wall)
        self.settings = settings
        self._replies = replies
        self._claimed: dict[int, _Claimed] = {}
        self._storing: set[int] = set()
        self._last_additions: dict[int, int] = {}
        self._publisher: IPublisher | None = None
        self._connection: IBrokerConnection | None = None
        self._tokens = count(1)
        self._messages: dict[int, QueuedMessage] = {}
        self._size = 0
        self._batch_of: dict[int, _Batch] = {}
        self._room: Deferred[None] | None = None
        self._receiving: Deferred[HeldMessages] | None = None
        self._reading: IDelayedCall | None = None
        self._removal_error: MQError | None = None
        self._is_removing = True

    async def stop(self) -> None:
        """See L{BridgeRoute}."""
        await super().stop()
        self._cancel_reading()
        self._lose_source()

    def map(self, message: QueuedMessage) -> AmqpMessage:
        """The message as it would be published.

        @raise MappingError: it cannot be.
        """
        with self._mapping():
            return map_outward(message, self.settings.rules, self._reply(message), self._wall())

    def _reply(self, message: QueuedMessage) -> ReplyAddress | None:
        """The request that a message answers, for a route that publishes replies."""
        if self._replies is None:
            return None
        found = self._replies.find(message.properties.get("correlation_id"))
        if found is None:
            found = self._replies.find(answered_identifier(read_extension(message.extension) or {}))
        return found

    async def test(self, count: int) -> list[dict[str, Any]]:
        """Connect to the broker, and map the first messages of the queue.

        @raise BrokerError: the broker cannot be used.
        @raise MQError: the queue cannot be read.
        """
        connection = await self._connect_to_test()
        try:
            await connection.check(self._destination)
        finally:
            await connection.close()
        messages = await self._queues.peek(self.settings.queue, count) if count else ()
        return [self._tested(message) for message in messages]

    def _tested(self, message: QueuedMessage) -> dict[str, Any]:
        try:
            mapped = self.map(message)
        except MappingError as error:
            return tested(message.identifier, len(message.body), reason=str(error))
        if len(mapped.body) > self.settings.rules.limit:
            mapped = BodyClaim.of(mapped.body).check_in(mapped)
        destination = self.settings.broker.destination(mapped.exchange, mapped.routing_key)
        properties = attrs.asdict(mapped.properties, recurse=False)
        return tested(message.identifier, len(message.body), destination, properties)

    @property
    def _destination(self) -> str:
        """What has to exist at the broker before anything is published."""
        return self.settings.rules.exchange

    def _work(self) -> list[Coroutine[Any, Any, None]]:
        return [self._receive(), self._supervise()]

    def _recover(self) -> None:
        """See L{BridgeRoute}."""
        self._removal_error = None
        self._lose_source()

    # The source.

    async def _receive(self) -> None:
        """Take messages from the queue as long as there is room for them in flight."""
        delay = self.settings.broker.retry
        is_missing = False
        while True:
            try:
                if is_missing:
                    # The next message may be far away: a queue that can be read, and waited for, is enough.
                    await self._has_room()
                    await self._queues.peek(self.settings.queue, 1)
                    self._cancel_reading()
                    self._reading = self._reactor.callLater(
                        self.settings.broker.retry, self._waits_for_messages
                    )
                await self._receive_next()
                if not self._is_removing:
                    # Nothing works before a removal has succeeded.
                    continue
                delay = self.settings.broker.retry
                if is_missing and self._publisher is not None:
                    # The queue can be read again.
                    self._works()
                is_missing = False
            except MQError as error:
                is_missing = True
                self._fails(f"queue {self.settings.queue_end}: {error}")
                self._lose_source()
                self._cancel_reading()
                await deferLater(self._reactor, delay)
                delay = min(2 * delay, self.settings.broker.retry_maximum)

    def _waits_for_messages(self) -> None:
        """Some time after an error of the queue: it can be read again, if nothing has failed since."""
        if self._receiving is None or self._publisher is None:
            return
        if self._is_removing or not len(self._flight):
            # The messages of a removal that failed are gone, so none can succeed first.
            self._is_removing = True
            self._works()

    def _cancel_reading(self) -> None:
        if self._reading is not None and self._reading.active():
            self._reading.cancel()

    async def _has_room(self) -> None:
        """Wait until messages may be taken, and can be sent."""
        while self._is_full or self._flight.is_paused or self._publisher is None:
            # Messages stay in the queue, where operators see them, while they cannot be sent.
            if self._flight.is_paused or self._publisher is None:
                self._queues.rest()
            self._room = Deferred()
            await self._room

    async def _receive_next(self) -> None:
        await self._has_room()
        error, self._removal_error = self._removal_error, None
        if error is not None:
            # The same messages are received next, so the same may fail again.
            raise error
        held = await self._received()
        if held is None:
            return
        tokens = tuple(next(self._tokens) for _ in held.messages)
        batch = _Batch(held, tokens, set(tokens))
        for token, message in zip(tokens, held.messages, strict=True):
            self._messages[token] = message
            self._size += _size(message)
            self._batch_of[token] = batch
            self._flight.take(token, message.identifier)
        self._pump()

    async def _received(self) -> HeldMessages | None:
        """Wait for messages; C{None} if they cannot be sent any more."""
        receiving = self._receiving = Deferred.fromCoroutine(self._next_messages())
        try:
            return await receiving
        except CancelledError:
            if self._receiving is receiving:
                # The route stops.
                raise
            return None
        finally:
            self._receiving = None

    async def _next_messages(self) -> HeldMessages:
        count = min(BATCH, self.settings.window - len(self._flight))
        return await self._queues.receive(self.settings.queue, count, IN_FLIGHT - self._size)

    def _receive_no_more(self) -> None:
        """Take no messages that cannot be sent: operators and other readers have them in the queue."""
        receiving, self._receiving = self._receiving, None
        if receiving is not None:
            receiving.cancel()

    @property
    def _is_full(self) -> bool:
        """Whether no more messages may be in flight."""
        return len(self._flight) >= self.settings.window or self._size >= IN_FLIGHT

    def _lose_source(self) -> None:
        """Return all messages in flight to the queue: they are received again."""
        batches = {id(batch): batch for batch in self._batch_of.values()}
        self._flight.source_lost()
        self._dead_letter_problem = ""
        self._messages.clear()
        self._size = 0
        self._claimed.clear()
        self._last_additions.clear()
        self._batch_of.clear()
        for batch in batches.values():
            batch.held.release()

    def _make_room(self) -> None:
        if self._room is not None and not self._room.called:
            self._room.callback(None)

    def pause(self) -> None:
        """See L{BridgeRoute}."""
        super().pause()
        self._receive_no_more()

    def resume(self) -> None:
        """See L{BridgeRoute}."""
        super().resume()
        self._make_room()

    # The steps.

    def _perform(self, steps: RouteSteps) -> None:
        for position, token in enumerate(steps.send):
            if self._publisher is None:
                # The connection was lost while the one before was published; the flight has them as waiting.
                break
            if not self._publish(token):
                # Those behind it wait too, so that the order is kept.
                for later in steps.send[position:]:
                    self._flight.nacked(later)
                break
        # A removal that fails at once returns all messages to the queue, also those of later steps.
        for token in steps.remove:
            if token in self._batch_of:
                self._done(token)
        for token, reason in steps.dead_letters:
            if token in self._batch_of:
                self._run(self._bury(token, reason))

    def _publish(self, token: int) -> bool:
        """Publish a message, unless something has to be stored before."""
        assert self._publisher is not None
        message = self._messages[token]
        if self._replies is not None and self._waits_for_address(self._replies, token, message):
            return False
        try:
            mapped = self._stored(token) or self.map(message)
            if len(mapped.body) > self.settings.rules.limit:
                if token not in self._storing:
                    self._storing.add(token)
                    self._run(self._store_body(token, mapped))
                return False
            self._publisher.publish(message, mapped, token)
        except MappingError as error:
            self._flight.failed(token, str(error))
        except ValueError as error:
            self._flight.failed(token, f"mapping: the message cannot be encoded: {error}")
        return True

    def _waits_for_address(self, replies: ReplyStore, token: int, message: QueuedMessage) -> bool:
        """Whether the request of a reply may be among those whose addresses are being stored.

        Requests that are sent later do not count: a reply to none would keep all others for ever.
        """
        if self._reply(message) is None:
            if replies.is_adding(self._last_additions.setdefault(token, replies.last_addition)):
                return True
        self._last_additions.pop(token, None)
        return False

    def _stored(self, token: int) -> AmqpMessage | None:
        """The message with a reference to its body; C{None} if that has to be stored, or stored anew."""
        found = self._claimed.get(token)
        if found is None or self._reactor.seconds() - found.since < _FRESH * self.settings.claim_lifetime:
            return None if found is None else found.message
        # Its time began with its last publication, which this one replaces.
        del self._claimed[token]
        return None

    async def _store_body(self, token: int, mapped: AmqpMessage) -> None:
        """Store a body that is too large for the broker; the message has its reference then."""
        assert self._claims is not None
        claim = BodyClaim.of(mapped.body)
        try:
            await self._claims.store(claim, mapped.body)
        except OSError as error:
            self._fails(f"claim check, {self._claims.directory}: {error.strerror or error}")
            return
        finally:
            self._storing.discard(token)
        if token in self._messages:
            self._claimed[token] = _Claimed(claim.check_in(mapped), self._reactor.seconds())
        if self._publisher is not None:
            self._works()
        self._flight.back_off_ended()
        self._pump()

    def _done(self, token: int) -> None:
        """A message needs nothing more; its batch is removed with the last of its messages."""
        batch = self._batch_of[token]
        batch.left.discard(token)
        if not batch.left:
            self._run(self._remove(batch))

    async def _remove(self, batch: _Batch) -> None:
        try:
            await batch.held.confirm()
        except MQError as error:
            if not any(token in self._batch_of for token in batch.tokens):
                # All messages have returned to the queue since then, and those in flight are others.
                return
            self._fails(f"queue {self.settings.queue_end}: {error}")
            self._is_removing = False
            self._removal_error = error
            self._lose_source()
            self._make_room()
            return
        if not self._is_removing:
            self._is_removing = True
            if self._publisher is not None:
                self._works()
        gone = []
        for token in batch.tokens:
            if (message := self._messages.pop(token, None)) is not None:
                gone.append(message.identifier)
                self._size -= _size(message)
            self._claimed.pop(token, None)
            self._batch_of.pop(token, None)
        if self._publisher is not None:
            self._publisher.removed(gone)
        self._flight.removed(batch.tokens)
        self._make_room()
        self._pump()

    async def _bury(self, token: int, reason: str) -> None:
        message = self._messages[token]
        dead_letter = queue_dead_letter(message, self.name, reason)
        try:
            await self._queues.create_queue(self.settings.dead_letters)
            await self._keep(dead_letter, message)
        except MQError as error:
            self._dead_letter_failed(token, f"dead letters, {self.settings.dead_letters}: {error}")
            return
        if token in self._batch_of:
            self._dead_lettered(self.settings.queue, message.identifier, reason)
            self._done(token)

    async def _keep(self, dead_letter: MessageForQueue, message: QueuedMessage) -> None:
        """Send a dead letter; without the reason, which the events have, if it is too large with it, and
        without the properties of the message that cannot be sent again.
        """
        try:
            await self._queues.send(self.settings.dead_letters, [dead_letter])
            return
        except MQError as error:
            if error.status in OF_A_MESSAGE:
                # A peer may have sent a response queue that is not the name of a queue.
                known = {
                    name: dead_letter.properties[name] for name in _SAFE if name in dead_letter.properties
                }
                plain = attrs.evolve(dead_letter, properties=known)
            elif len(dead_letter.extension) > len(message.extension):
                plain = attrs.evolve(dead_letter, extension=message.extension)
            else:
                raise
        await self._queues.send(self.settings.dead_letters, [plain])

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        run_in_background(self._guarded(work), "a step of a route")

    # The destination.

    async def _use(self, connection: IBrokerConnection) -> None:
        results = PublishResults(
            confirmed=self._confirmed, returned=self._returned, nacked=self._nacked, failed=self._refused
        )
        publisher = await connection.open_publisher(self._destination, results, self._blocked)
        await self._recognise(publisher)
        self._publisher, self._connection = publisher, connection
        culprit = ""
        try:
            self._works()
            self._flight.destination_ready()
            self._make_room()
            self._pump()
            error = await publisher.closed
            culprit = str(error) if error.is_message_to_blame else ""
            raise error
        finally:
            self._publisher = self._connection = None
            self._receive_no_more()
            self.counts.retries += self._flight.unconfirmed
            self._flight.destination_lost(culprit)
            self._pump()

    async def _recognise(self, publisher: IPublisher) -> None:
        """Have a publisher forget confirmed messages that are not in the queue any more."""
        if publisher.recognised:
            try:
                publisher.keep(await self._queues.holding(self.settings.queue, publisher.recognised))
            except MQError as error:
                raise BrokerError(f"queue {self.settings.queue_end}: {error}", is_of_queue=True) from error

    def _disconnected(self, node: str, error: BrokerError, delay: float) -> None:
        if error.is_message_to_blame:
            # The broker works; the message is found by sending one at a time.
            self.node = None
            return
        super()._disconnected(node, error, delay)

    def _confirmed(self, token: int) -> None:
        if self._connection is not None:
            self._connection.is_working = True
        if self._flight.confirmed(token):
            # Not when it is removed: that may fail, and is tried again.
            self.counts.forwarded += 1
        self._pump_soon()

    def _returned(self, token: int, reason: str) -> None:
        self._flight.returned(token, reason)

    def _nacked(self, token: int) -> None:
        self.counts.retries += 1
        self._flight.nacked(token)
        self._pump_soon()

    def _refused(self, token: int, reason: str) -> None:
        if self._connection is not None:
            self._connection.is_working = True
        self._flight.failed(token, reason)
        self._pump_soon()

    def _blocked(self, reason: str) -> None:
        self._blockage = reason
        self._flight.blocked(bool(reason))
        if reason:
            self.log.warn("route {route} of the bridge is blocked: {reason}", route=self.name, reason=reason)
        else:
            self.log.info("route {route} of the bridge is no longer blocked", route=self.name)
        self._pump()


def _size(message: QueuedMessage) -> int:
    return len(message.body) + len(message.extension)
