"""Whole queue managers on an in-memory network, driven by one clock."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypeVar
from uuid import UUID

from twisted.internet.defer import Deferred
from twisted.internet.protocol import Factory, Protocol
from twisted.trial.unittest import SynchronousTestCase

from msmq.broker.broker import Broker
from msmq.interfaces.directory import IDirectory
from msmq.interfaces.session_policy import ISessionPolicy
from msmq.interfaces.storage import IMessageStore
from msmq.membership.local import HostIdentity
from msmq.net.connector import Probe
from msmq.net.dialling_session_factory import DiallingSessionFactory
from msmq.net.resolver import HostNotFound, NextHopAddress
from msmq.queues.arriving.message import Message
from msmq.queues.model import QueueManagerModel
from msmq.queues.outgoing import OutgoingQueue
from msmq.queues.queue_names import one_of
from msmq.settings import SessionSettings
from msmq.storage.memory import MemoryMessageStore
from msmq.structures.names.format_name import parse_format_name
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.testing.clock import ManualClock
from msmq.testing.network import MemoryHost, Network
from msmq.testing.streams import PERFECT, Conditions
from msmq.transfer.transfer_info import IncomingTransferInfo, OutgoingTransferInfo
from tests.builders import ALPHA, BETA
from tests.nodes.services import DEFAULT_EVENTS, make_service
from tests.shares import SHARES

T = TypeVar("T")

ADDRESSES = {
    "ALPHA": "127.0.0.2",
    "BETA": "127.0.0.3",
    "GAMMA": "127.0.0.4",
    "DELTA": "127.0.0.5",
    "EPSILON": "127.0.0.6",
    "ZETA": "127.0.0.7",
}


class Node:
    """One queue manager with its session endpoint.

    @param events: how many events it keeps.
    @param directory: where it is published.
    @param options: of its L{QueueManagerService}.
    @param broker: processes its messages.
    @param session_policy: which messages its peers may send.
    @param probe: pings an address before a session, if the settings say so.
    @param limits: as of L{QueueManagerModel}.
    """

    def __init__(
        self,
        network: Network,
        clock: ManualClock,
        name: str,
        identifier: UUID,
        settings: SessionSettings,
        store: IMessageStore | None = None,
        *,
        events: int = DEFAULT_EVENTS,
        directory: IDirectory | None = None,
        options: Mapping[str, Any] | None = None,
        broker: Broker | None = None,
        session_policy: ISessionPolicy | None = None,
        probe: Probe | None = None,
        **limits: Any,
    ) -> None:
        self.address = ADDRESSES[name]
        self.host = network.host(self.address)
        self.clock = clock
        self.store = store if store is not None else MemoryMessageStore()
        self.model = QueueManagerModel(
            identifier,
            computer_names=[name],
            is_own_address=one_of([self.address]),
            now=clock.now(),
            **limits,
        )
        self.factory = DiallingSessionFactory(
            identifier,
            reactor=self.host,
            clock=clock,
            shares=SHARES,
            lookup=self._lookup,
            settings=settings,
            policy=session_policy,
            probe=probe,
        )
        self.broker = broker
        self.program = None if broker is None else broker.program(self.host, clock)
        if self.program is not None:
            self.factory.protocol = self.program.session_protocol
        self.service = make_service(
            self.model,
            self.store,
            self.factory,
            self.host,
            clock,
            HostIdentity(name, qualified_computer_name=f"{name.lower()}.example.com"),
            events=events,
            session=settings,
            directory=directory,
            **(options or {}),
        )
        self._port: Any = None

    async def _lookup(self, name: str) -> Sequence[NextHopAddress]:
        address = ADDRESSES.get(name.upper().removesuffix(".EXAMPLE.COM"), name)
        if address not in ADDRESSES.values():
            raise HostNotFound(f"{name}: unknown computer")
        return [NextHopAddress(address, 1801, self.host.client_endpoint(address, 1801))]

    def start(self) -> None:
        """Open the store, start, and listen."""
        Deferred.fromCoroutine(self.service.open())
        if self.program is not None:
            Deferred.fromCoroutine(self.program.prepare(self.service))
        self.service.startService()
        self.listen()
        if self.program is not None:
            self.program.begin()

    def listen(self) -> None:
        """Accept sessions."""
        self.host.server_endpoint(1801).listen(self.factory).addCallback(
            lambda port: setattr(self, "_port", port)
        )

    def deaf(self) -> None:
        """Accept no more sessions; open ones stay."""
        self._port.stopListening()

    def outgoing_transfer(self, queue: OutgoingQueue) -> OutgoingTransferInfo:
        """[MS-MQDMPR] 3.1.1.4, which no interface of the queue manager shows."""
        found = self.service._parts.outgoing.sequences.info(queue)
        assert found is not None
        return found

    def incoming_transfers(self) -> list[IncomingTransferInfo]:
        """[MS-MQDMPR] 3.1.1.5, which no interface of the queue manager shows."""
        return list(self.service._parts.outgoing.arrival_commits.history.streams.infos())


class NodesTestCase(SynchronousTestCase):
    """Two queue managers, ALPHA on 127.0.0.2 and BETA on 127.0.0.3."""

    conditions: Conditions = PERFECT
    settings = SessionSettings()

    def setUp(self) -> None:
        self.clock = ManualClock()
        self.network = Network(self.clock.reactor, conditions=self.conditions)
        self.alpha = self.node("ALPHA", ALPHA)
        self.beta = self.node("BETA", BETA)
        self.alpha.start()
        self.beta.start()

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        """One more queue manager."""
        return Node(self.network, self.clock, name, identifier, self.settings, **kwargs)

    def converse(self, host: MemoryHost, data: bytes, seconds: float = 5) -> bytes:
        """Say all this to BETA at once from another host, and give what it answers in that time."""
        protocol = _Talking()
        endpoint = host.client_endpoint(ADDRESSES["BETA"], 1801)
        connecting = endpoint.connect(Factory.forProtocol(lambda: protocol))
        self.clock.advance(0)
        self.successResultOf(connecting)
        protocol.say(data)
        self.clock.advance(seconds)
        return protocol.heard

    def deferred(self, coroutine: Coroutine[Deferred[object], Any, T]) -> Deferred[T]:
        """Something under way."""
        return Deferred.fromCoroutine(coroutine)

    def run_to_end(self, coroutine: Coroutine[Deferred[object], Any, T]) -> T:
        """The result of something that needs no time."""
        done = Deferred.fromCoroutine(coroutine)
        if not done.called:
            # Many transactional messages take several iterations of the reactor.
            self.clock.advance(0)
        return self.successResultOf(done)

    def queue(self, node: Node, name: str = "orders", **kwargs: Any) -> str:
        """Make a private queue, and give its path."""
        path = f".\\private$\\{name}"
        self.run_to_end(node.service.create_queue(path, **kwargs))
        return path

    def send(self, node: Node, destination: str, *bodies: bytes, **kwargs: Any) -> None:
        """Send messages with these bodies."""
        messages = [Message(body=body, **kwargs) for body in bodies]
        self.run_to_end(node.service.send(destination, messages))

    def put_packet(self, node: Node, destination: str, packet: bytes) -> None:
        """Have a node send a packet as it is, which no application could have it send.

        @param destination: a format name.
        """
        outbox = node.service._parts.outgoing.outbox
        self.run_to_end(outbox.put_packet(parse_format_name(destination), packet))

    def take(self, node: Node, path: str, count: int = 1000) -> list[UserMessageView]:
        """Receive the waiting messages permanently."""
        found: list[UserMessageView] = []
        while len(found) < count and node.service.inspection.queue(path).messages:
            reservation = self.run_to_end(node.service.reserve(path, count=count, timeout=0))
            self.run_to_end(reservation.confirm())
            found += [message.view for message in reservation.messages]
        return found

    def bodies(self, node: Node, path: str) -> list[bytes]:
        """The bodies of the waiting messages, received permanently."""
        return [bytes(view.body) for view in self.take(node, path)]


class _Talking(Protocol):
    """A peer that sends what the test hands it."""

    def __init__(self) -> None:
        self.heard = b""

    def say(self, data: bytes) -> None:
        assert self.transport is not None
        self.transport.write(data)

    def dataReceived(self, data: bytes) -> None:
        self.heard += data
