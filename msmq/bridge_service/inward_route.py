"""InwardRoute: from a broker to a queue."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from itertools import count, islice
from typing import Any, Final
from uuid import uuid4

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater

from msmq.background import run_in_background
from msmq.bridge.claims import CLAIM, BodyClaim
from msmq.bridge.flight import RouteSteps
from msmq.bridge.frameworks import request_identifier
from msmq.bridge.inward import is_request, map_inward
from msmq.bridge.replies import ReplyAddress
from msmq.bridge_service.brokers import (
    BrokerError,
    DeadLetterError,
    IBrokerConnection,
    IConsumer,
    IDeadLetterPublisher,
)
from msmq.bridge_service.dead_letters import broker_dead_letter, plain_dead_letter
from msmq.bridge_service.queues import OF_A_MESSAGE, IBridgedQueues
from msmq.bridge_service.reply_records import StoredRequest
from msmq.bridge_service.reply_store import ReplyStore
from msmq.bridge_service.route import BridgeRoute
from msmq.bridge_service.route_state import tested
from msmq.bridge_service.settings import InwardSettings
from msmq.errors import LocalProtocolError
from msmq.interfaces.bridge_messages import AmqpMessage, MappingError, MessageForQueue
from msmq.structures.status import MessageTooLarge, MQError, Status

BATCH: Final = 256
"""Limit on messages that are sent together."""

BATCH_BYTES: Final = 8 * 1024 * 1024
"""Limit on the bytes of their bodies, of which some are read from files; a single one may have more."""


class InwardRoute(BridgeRoute):
    """A route from a broker to a queue.

    @param replies: where the addresses of requests are kept until they are answered.
    """

    def __init__(
        self,
        settings: InwardSettings,
        queues: IBridgedQueues,
        reactor: IReactorTime,
        wall: Callable[[], float],
        replies: ReplyStore,
    ) -> None:
        super().__init__(settings, queues, reactor, wall)
        self.settings = settings
        self.replies = replies
        self._tokens = count(1)
        self._deliveries: dict[int, tuple[int, AmqpMessage]] = {}
        self._to_send: dict[int, None] = {}
        self._run_name = uuid4().hex
        self._most = BATCH
        self._is_sending = False
        self._pause: Deferred[None] | None = None
        self._consumer: IConsumer | None = None
        self._connection: IBrokerConnection | None = None
        self._dead_letters: IDeadLetterPublisher | None = None
        self._flight.destination_ready()

    async def stop(self) -> None:
        """See L{BridgeRoute}."""
        await super().stop()
        if self._pause is not None:
            self._pause.cancel()

    def map(self, message: AmqpMessage) -> MessageForQueue:
        """The message as it would be sent.

        @raise MappingError: it cannot be.
        """
        with self._mapping():
            return map_inward(message, self.settings.rules)

    async def test(self, count: int) -> list[dict[str, Any]]:
        """Take the first messages of the source, map them, and return them to it.

        @raise BrokerError: the broker cannot be used.
        """
        settings = self.settings
        connection = await self._connect_to_test()
        try:
            messages = await connection.peek(settings.broker_queue, count)
        finally:
            await connection.close()
        return [await self._tested(message) for message in messages]

    async def _tested(self, message: AmqpMessage) -> dict[str, Any]:
        identifier = message.properties.message_id or ""
        try:
            mapped = self.map(await self._whole(message))
        except (MappingError, OSError) as error:
            return tested(identifier, len(message.body), reason=str(error))
        return tested(identifier, len(mapped.body), self.settings.queue, mapped.properties)

    async def _whole(self, message: AmqpMessage) -> AmqpMessage:
        """A message with its body, which may be stored elsewhere.

        @raise MappingError: there is no such body.
        @raise OSError: it cannot be read at present.
        """
        claim = BodyClaim.read(message.properties.headers)
        if claim is None:
            return message
        if self._claims is None:
            raise MappingError("claim check: the message has only a reference, and the route no claim_check")
        return claim.check_out(message, await self._claims.read(claim))

    def _work(self) -> list[Coroutine[Any, Any, None]]:
        return [self._supervise()]

    def _recover(self) -> None:
        """See L{BridgeRoute}; the end of the connection has returned the messages to the broker."""
        self._flight.destination_ready()

    # The source.

    async def _use(self, connection: IBrokerConnection) -> None:
        self._connection = connection
        self._dead_letters = connection.dead_letters(self.settings.dead_letters)
        try:
            # Messages may be delivered before this returns; they are acknowledged in a later iteration.
            self._consumer = consumer = await connection.open_consumer(
                self.settings.broker_queue, self.settings.window, self._delivered
            )
            self._works()
            raise await consumer.closed
        finally:
            self._connection = self._consumer = self._dead_letters = None
            self.counts.retries += len(self._deliveries)
            self._deliveries.clear()
            self._to_send.clear()
            self._dead_letter_problem = ""
            self._flight.source_lost()

    def _delivered(self, tag: int, message: AmqpMessage) -> None:
        token = next(self._tokens)
        self._deliveries[token] = (tag, message)
        # The queue manager recognises by its key what is delivered again.
        self._flight.take(token, "")
        self._pump_soon()

    # The steps.

    def _perform(self, steps: RouteSteps) -> None:
        self._to_send.update(dict.fromkeys(steps.send))
        if self._to_send and not self._is_sending:
            self._is_sending = True
            run_in_background(self._guarded(self._send()), "sending messages of a route")
        if steps.remove:
            self.counts.forwarded += len(steps.remove)
            self._acknowledge(steps.remove)
        for token, reason in steps.dead_letters:
            run_in_background(self._guarded(self._bury(token, reason)), "storing a dead letter of a route")

    def _acknowledge(self, tokens: tuple[int, ...]) -> None:
        if self._consumer is not None and self._connection is not None:
            self._connection.is_working = True
            found = [self._deliveries.pop(token)[0] for token in tokens]
            self._consumer.acknowledge(found)
        self._flight.removed(tokens)

    async def _send(self) -> None:
        """Send what there is, one batch after the other, so that the order is kept."""
        try:
            # What arrives in the same iteration of the reactor is sent together.
            await deferLater(self._reactor, 0)
            while self._to_send:
                tokens = self._next_batch()
                for token in tokens:
                    del self._to_send[token]
                await self._send_batch(tokens)
        finally:
            self._is_sending = False

    def _next_batch(self) -> tuple[int, ...]:
        """The first messages to send; at least one."""
        tokens: list[int] = []
        size = 0
        for token in islice(self._to_send, self._most):
            # One of a lost connection is left out later.
            size += _body_size(self._deliveries[token][1]) if token in self._deliveries else 0
            if tokens and size > BATCH_BYTES:
                break
            tokens.append(token)
        return tuple(tokens)

    async def _send_batch(self, tokens: tuple[int, ...]) -> None:
        mapped: dict[int, MessageForQueue] = {}
        try:
            mapped = await self._mapped(tokens)
            deliveries = [self._deliveries[token][1] for token in mapped]
            send = partial(self._queues.send, self.settings.queue, list(mapped.values()))
            if any(is_request(message, self.settings.rules) for message in deliveries):
                await self.replies.send(send, partial(self._requests, deliveries))
            elif mapped:
                await send()
        except (MQError, OSError) as error:
            await self._refused(error, len(mapped))
            return
        except (LocalProtocolError, TypeError, ValueError) as error:
            # What a program has mapped need not be a message that can be sent.
            await self._refused(MQError(Status.MQ_ERROR_PROPERTY, f"it cannot be sent: {error}"))
            return
        self._most = min(BATCH, 2 * self._most)
        if self._problem and self._connection is not None:
            self._works()
        for token in mapped:
            self._flight.confirmed(token)
        self._pump()

    async def _mapped(self, tokens: tuple[int, ...]) -> dict[int, MessageForQueue]:
        """The messages to send; those that cannot be mapped have failed.

        @raise OSError: a body cannot be read at present.
        """
        found: dict[int, MessageForQueue] = {}
        for token in tokens:
            if token not in self._deliveries:
                # The connection was lost, and the broker delivers it again.
                continue
            message = self._deliveries[token][1]
            try:
                if CLAIM in message.properties.headers:
                    message = await self._whole(message)
                mapped = self.map(message)
            except MappingError as error:
                self._flight.failed(token, str(error))
                continue
            may_be_sent_again = not self._queues.sends_all_or_none or is_request(message, self.settings.rules)
            if not mapped.key and may_be_sent_again:
                # The part of a batch that was sent before a refusal is not sent again, and neither are
                # requests whose addresses could not be stored.
                mapped = attrs.evolve(mapped, key=f"bridge-delivery:{self._run_name}:{token}")
            found[token] = mapped
        return {token: mapped for token, mapped in found.items() if token in self._deliveries}

    async def _refused(self, error: MQError | OSError, number: int = 1) -> None:
        """The queue manager has refused messages: send them one by one, half of them, or later.

        @param number: how many were refused together.
        """
        self._to_send.clear()
        is_message_to_blame = isinstance(error, MQError) and (
            isinstance(error, MessageTooLarge) or error.status in OF_A_MESSAGE
        )
        # A quota may have space for some of them, and may never have it for all.
        is_halved = number > 1 and not is_message_to_blame and _is_quota(error)
        if is_halved:
            self._most = number // 2
        self._flight.destination_lost(str(error) if is_message_to_blame else "")
        if self._is_stopped:
            return
        if not (is_message_to_blame or is_halved):
            self.counts.retries += 1
            self._fails(self._named(error))
            self._pause = deferLater(self._reactor, self.settings.broker.retry)
            await self._pause
        self._flight.destination_ready()
        self._pump()

    def _named(self, error: MQError | OSError) -> str:
        """A refusal, with what has refused: the queue, or a file of stored bodies or of addresses."""
        if isinstance(error, MQError):
            return f"queue {self.settings.queue_end}: {error}"
        reason = error.strerror or str(error)
        return f"{error.filename}: {reason}" if error.filename else reason

    def _requests(
        self, messages: Sequence[AmqpMessage], identifiers: Sequence[str]
    ) -> Sequence[StoredRequest]:
        now = self._wall()
        found: list[StoredRequest] = []
        for message, identifier in zip(messages, identifiers, strict=True):
            if not is_request(message, self.settings.rules):
                continue
            properties = message.properties
            address = ReplyAddress(properties.reply_to or "", properties.correlation_id, now)
            found.append((identifier, address))
            # An answer of NServiceBus or Rebus names the identifier of the framework.
            if (native := request_identifier(properties)) is not None:
                found.append((native, address))
        return found

    async def _bury(self, token: int, reason: str) -> None:
        delivery = self._deliveries.get(token)
        if delivery is None:
            # The connection was lost while others were acknowledged; the broker delivers it again.
            return
        _, message = delivery
        publisher, queue = self._dead_letters, self.settings.dead_letters
        try:
            if publisher is None:
                raise BrokerError("the connection was closed")
            try:
                await publisher.store(broker_dead_letter(message, queue, self.name, reason))
            except DeadLetterError:
                # A publisher may use what the client library reads and does not write.
                await publisher.store(plain_dead_letter(message, queue, self.name, reason))
        except BrokerError as error:
            if token in self._deliveries:
                self._dead_letter_failed(token, str(error))
            return
        if token in self._deliveries:
            identifier = message.properties.message_id or "(none)"
            self._dead_lettered("", "", f"{reason}; message {identifier} of {self.settings.ends['source']}")
            self._acknowledge((token,))
            self._pump()


def _is_quota(error: MQError | OSError) -> bool:
    return isinstance(error, MQError) and error.status == Status.MQ_ERROR_INSUFFICIENT_RESOURCES


def _body_size(message: AmqpMessage) -> int:
    """The bytes of a body, also of one that is stored elsewhere, as far as that is known."""
    if CLAIM not in message.properties.headers:
        return len(message.body)
    try:
        claim = BodyClaim.read(message.properties.headers)
    except MappingError:
        return 0
    return 0 if claim is None else claim.size
