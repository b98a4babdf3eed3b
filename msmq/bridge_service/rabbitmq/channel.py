"""One channel of a connection: requests with Deferreds that fail when the channel closes."""

from __future__ import annotations

from typing import Any

from pika.exceptions import AMQPError, ChannelClosedByBroker
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.python.failure import Failure

from msmq.bridge_service.brokers import BrokerError
from msmq.bridge_service.rabbitmq.errors import broker_error


class BrokerChannel:
    """A channel.

    @ivar closed: fires with the reason, a L{BrokerError}, when the channel or its connection is closed.
    @ivar close_code: the reply code with which the broker has closed the channel; 0 if it has not.
    """

    def __init__(self, connection: Any, answer_time: float, reactor: IReactorTime) -> None:
        """Begin to open a channel; await L{opened} before anything else.

        @param connection: pika's connection.
        @param answer_time: seconds that the broker has for each answer.
        """
        self._answer_time = answer_time
        self._reactor = reactor
        self.closed: Deferred[BrokerError] = Deferred()
        self.close_code = 0
        self._pending: list[Deferred[Any]] = []
        self.channel: Any = connection.channel(on_open_callback=self._opened)
        self.opened: Deferred[None] = self.awaited()
        self.channel.add_on_close_callback(self._closed)

    @property
    def is_open(self) -> bool:
        """Whether it can be used."""
        return bool(self.channel.is_open)

    def request(self, name: str, **arguments: Any) -> Deferred[Any]:
        """Call a method of pika's channel; fires with the answer of the broker, or fails with a
        L{BrokerError}.
        """
        answer = self.awaited()
        try:
            getattr(self.channel, name)(callback=lambda frame: self.fire(answer, frame), **arguments)
        except AMQPError as error:
            # A name that is too long, for example.
            self._pending.remove(answer)
            answer.errback(Failure(broker_error(error)))
        return answer

    def awaited(self) -> Deferred[Any]:
        """A Deferred that fails when the channel closes before L{fire}, as it does after some time."""
        answer: Deferred[Any] = Deferred()
        self._pending.append(answer)
        late = self._reactor.callLater(self._answer_time, self._give_up)

        def in_time(result: Any) -> Any:
            if late.active():
                late.cancel()
            return result

        return answer.addBoth(in_time)

    def fire(self, answer: Deferred[Any], value: object) -> None:
        """Fire a Deferred of L{awaited}; no effect after the channel was closed."""
        if answer in self._pending:
            self._pending.remove(answer)
            answer.callback(value)

    def fail(self, reason: str) -> None:
        """Close the channel, because it cannot do what it is for."""
        if self.channel.is_open:
            self.channel.close(reply_text=reason[:200])
        self._end(BrokerError(reason))

    def _give_up(self) -> None:
        # Its heartbeats may go on, as those of a node whose queue has no leader.
        self.fail(f"the broker has not answered within {self._answer_time:g} s")

    def _opened(self, channel: Any) -> None:
        self.fire(self.opened, None)

    def _closed(self, channel: Any, reason: BaseException) -> None:
        if isinstance(reason, ChannelClosedByBroker):
            self.close_code = reason.reply_code
        self._end(broker_error(reason))

    def _end(self, error: BrokerError) -> None:
        pending, self._pending = self._pending, []
        for each in pending:
            each.errback(Failure(error))
        if not self.closed.called:
            self.closed.callback(error)
