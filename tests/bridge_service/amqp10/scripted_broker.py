"""A broker of AMQP 1.0 without a network: proton's engine, which does what a test says."""

from __future__ import annotations

from typing import Any

from proton import Collector, Connection, Delivery, Event, Transport
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport

from msmq.bridge_service.amqp10.engine import EngineProtocol
from msmq.bridge_service.amqp10.settings import Amqp10Settings


class ScriptedBroker:
    """Accepts a connection and its links; grants credit and settles only when a test says so.

    @ivar client: the protocol under test, connected.
    @ivar links: the addresses of the links that the client has attached.
    @ivar is_deaf: whether it answers no further link.
    @param idle_time: seconds without a frame after which it closes the connection; 0 for none. The client
        reads half of it in the open frame.
    """

    def __init__(self, clock: Clock, idle_time: float = 0) -> None:
        self._collector = Collector()
        self._connection = Connection()
        self._connection.collect(self._collector)
        self._engine = Transport(Transport.SERVER)
        self._engine.idle_timeout = idle_time
        self._engine.sasl().allowed_mechs("ANONYMOUS")
        self._engine.bind(self._connection)
        self._receiver: Any = None
        self._sender: Any = None
        self._arrived: list[Delivery] = []
        self.links: list[str] = []
        self.is_deaf = False
        self.client = EngineProtocol(Amqp10Settings(addresses=()), "broker.example", clock)
        self.wire = StringTransport()
        self.client.makeConnection(self.wire)
        self.exchange()

    def exchange(self) -> None:
        """Move bytes both ways until neither side has any to send."""
        while True:
            data = self.wire.value()
            self.wire.clear()
            left = data
            while left:
                capacity = self._engine.capacity()
                self._engine.push(left[:capacity])
                left = left[capacity:]
                self._handle()
            self._handle()
            pending = self._engine.pending()
            answer = self._engine.peek(pending) or b"" if pending > 0 else b""
            if answer:
                self._engine.pop(len(answer))
                self.client.dataReceived(answer)
            if not data and not answer:
                return

    def grant(self, credit: int) -> None:
        """Let the client send."""
        self._receiver.flow(credit)
        self.exchange()

    def settle(self) -> None:
        """Accept what has arrived."""
        for delivery in self._arrived:
            delivery.update(Delivery.ACCEPTED)
            delivery.settle()
        self._arrived.clear()
        self.exchange()

    def progress(self) -> None:
        """Report that a part of what has arrived is there, which is no outcome."""
        for delivery in self._arrived:
            delivery.local.section_number = 1
            delivery.local.section_offset = 0
            delivery.update(Delivery.RECEIVED)
        self.exchange()

    @property
    def credit(self) -> int:
        """Messages that it may send to the client now."""
        return int(self._sender.credit)

    def deliver(self, *messages: bytes) -> None:
        """Send encoded messages to the client, which consumes; all before anything of it is read."""
        for message in messages:
            self._sender.delivery(f"{len(message)}")
            self._sender.stream(message)
            self._sender.advance()
        self.exchange()

    def end_link(self) -> None:
        """Close the link on which the client sends."""
        self._receiver.close()
        self.exchange()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
        self.exchange()

    def _handle(self) -> None:
        while (found := self._collector.peek()) is not None:
            event: Any = found
            if event.type == Event.CONNECTION_REMOTE_OPEN:
                self._connection.open()
            elif event.type == Event.SESSION_REMOTE_OPEN:
                event.session.open()
            elif event.type == Event.LINK_REMOTE_OPEN:
                consumes = event.link.is_sender
                address = event.link.remote_source if consumes else event.link.remote_target
                self.links.append(address.address)
                if self.is_deaf:
                    self._collector.pop()
                    continue
                if consumes:
                    self._sender = event.link
                else:
                    self._receiver = event.link
                event.link.source.copy(event.link.remote_source)
                event.link.target.copy(event.link.remote_target)
                event.link.open()
            elif event.type == Event.LINK_REMOTE_CLOSE:
                event.link.close()
            elif event.type == Event.SESSION_REMOTE_CLOSE:
                event.session.close()
            elif event.type == Event.DELIVERY and event.link.is_receiver:
                self._arrived.append(event.delivery)
                event.link.advance()
            self._collector.pop()
