"""Publishing for one route: a link to its address, and links to those of replies."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import ClassVar, Final

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorTime
from zope.interface import implementer

from msmq.background import run_in_background
from msmq.bridge_service.amqp10.answer_time import NoAnswer, in_time
from msmq.bridge_service.amqp10.engine import EngineProtocol
from msmq.bridge_service.amqp10.messages import encode
from msmq.bridge_service.amqp10.sender import SenderLink
from msmq.bridge_service.amqp10.settings import Amqp10Settings
from msmq.bridge_service.brokers import BrokerError, IPublisher, PublishResults
from msmq.interfaces.bridge_messages import AmqpMessage, QueuedMessage

LARGEST_NUMBER: Final = 50
"""Limit on links to addresses of replies; the one that was used least recently is closed."""


class _ReplyLink:
    """A link to the address of replies, which may not exist."""

    def __init__(self, link: SenderLink) -> None:
        self.link = link
        self.is_open = False
        self.waiting: list[tuple[bytes, int]] = []


@implementer(IPublisher)
class Amqp10Publisher:
    """Consumers recognise what is published twice by its message-id; nothing is recognised here."""

    recognised: ClassVar[Mapping[str, int]] = {}

    def __init__(
        self, engine: EngineProtocol, settings: Amqp10Settings, results: PublishResults, reactor: IReactorTime
    ) -> None:
        self.closed: Deferred[BrokerError] = Deferred()
        self._engine = engine
        self._settings = settings
        self._reactor = reactor
        self._route = results
        self._results = PublishResults(
            confirmed=self._confirmed, returned=results.returned, nacked=self._released, failed=self._failed
        )
        self._releases: dict[str, int] = {}
        self._identifiers: dict[int, str] = {}
        self._link: SenderLink | None = None
        self._replies: OrderedDict[str, _ReplyLink] = OrderedDict()

    async def start(self, address: str, blocked: Callable[[str], None]) -> None:
        """Open the link of the route; without an address only replies are published.

        @raise BrokerError: the broker refuses the address.
        """
        if not address:
            return
        self._link = SenderLink(self._engine, address, self._results, self._reactor)
        self._link.watch(self._settings.stall_time, blocked)
        self._link.closed.addCallback(self.end)
        await self._link.open()

    def keep(self, identifiers: Collection[str]) -> None:
        """See L{IPublisher}."""

    def removed(self, identifiers: Iterable[str]) -> None:
        """See L{IPublisher}."""

    def publish(self, source: QueuedMessage, message: AmqpMessage, token: int) -> None:
        """See L{IPublisher}."""
        data = encode(message)
        # A mapping of a program may have chosen another address than that of the route.
        address = message.exchange or message.routing_key
        if self._link is not None and address == self._link.address:
            self._link.send(data, token)
        else:
            reply = self._reply_link(address)
            if reply.is_open:
                reply.link.send(data, token)
            else:
                reply.waiting.append((data, token))
        # Nothing is kept of a message that is too large.
        self._identifiers[token] = source.identifier

    def end(self, error: BrokerError) -> None:
        """Nothing can be published any more."""
        if not self.closed.called:
            self.closed.callback(error)

    def _reply_link(self, address: str) -> _ReplyLink:
        found = self._replies.get(address)
        if found is None:
            if len(self._replies) >= LARGEST_NUMBER:
                idle = [name for name, each in self._replies.items() if not self._is_busy(each)]
                if idle:
                    self._replies.pop(idle[0]).link.detach()
            link = SenderLink(self._engine, address, self._results, self._reactor)
            found = self._replies[address] = _ReplyLink(link)
            run_in_background(self._open_reply(found), "opening a reply link")
        self._replies.move_to_end(address)
        return found

    @staticmethod
    def _is_busy(reply: _ReplyLink) -> bool:
        return bool(reply.waiting or reply.link.outstanding)

    async def _open_reply(self, reply: _ReplyLink) -> None:
        address = reply.link.address
        try:
            await in_time(reply.link.open(), self._settings.connect_time, self._reactor)
        except CancelledError:
            return
        except BrokerError as error:
            if isinstance(error, NoAnswer) or self._engine.has_ended:
                # The address may well exist.
                self._reply_closed(reply, error)
                return
            self._replies.pop(address, None)
            for _, token in reply.waiting:
                self._failed(token, f"unroutable: {error}")
            return
        reply.link.closed.addCallback(lambda error: self._reply_closed(reply, error))
        reply.is_open = True
        waiting, reply.waiting = reply.waiting, []
        for data, token in waiting:
            try:
                reply.link.send(data, token)
            except ValueError as error:
                self._failed(token, f"mapping: the message cannot be encoded: {error}")

    def _reply_closed(self, reply: _ReplyLink, error: BrokerError) -> None:
        """Messages that were not settled are published again with a new connection."""
        self._replies.pop(reply.link.address, None)
        if self._is_busy(reply):
            self.end(error)

    def _confirmed(self, token: int) -> None:
        self._releases.pop(self._identifiers.pop(token, ""), None)
        self._route.confirmed(token)

    def _failed(self, token: int, reason: str) -> None:
        self._releases.pop(self._identifiers.pop(token, ""), None)
        self._route.failed(token, reason)

    def _released(self, token: int) -> None:
        identifier = self._identifiers.pop(token, "")
        number = self._releases[identifier] = self._releases.get(identifier, 0) + 1
        if number < self._settings.releases:
            self._route.nacked(token)
        else:
            del self._releases[identifier]
            self._route.failed(token, f"released: the broker has released the message {number} times")
