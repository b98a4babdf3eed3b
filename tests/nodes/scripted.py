"""A plain peer for whole queue managers: it sends and receives bytes of the tests' own encoder.

Nothing of the package is in it.
It keeps the counts of a session as [MS-MQQB] 3.1.1.4 requires, and acknowledges only what a test makes it
acknowledge.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

import attrs
from twisted.internet.protocol import Factory, Protocol

from msmq.membership.local import HostIdentity
from msmq.net.dialling_session_factory import DiallingSessionFactory
from msmq.storage.memory import MemoryMessageStore
from msmq.testing.network import MemoryHost
from tests.builders import (
    ALPHA,
    BETA,
    GAMMA,
    NULL,
    base_header,
    direct_name,
    establish,
    parameters,
    session_ack,
    session_header,
)
from tests.nodes.services import make_service
from tests.nodes.support import ADDRESSES, Node, NodesTestCase
from tests.shares import SHARES

ORDER_ACK, ACK_RECEIVE = 0x00FF, 0x4000
DEADXACT = ".\\system$;deadxact"
DEADLETTER = ".\\system$;deadletter"
JOURNAL = ".\\system$;journal"
NEGATIVE, POSITIVE = 0x0100, 0x0200
"""JN and JP of UserHeader.Flags."""


_EXPRESS_IDS = itertools.count(1_000_000)


@attrs.frozen
class Heard:
    """One user packet, read by its byte layouts alone."""

    packet: bytes

    def at(self, layout: str, offset: int) -> Any:
        """One field."""
        [value] = struct.unpack_from("<" + layout, self.packet, offset)
        return value

    @property
    def base_flags(self) -> int:
        flags: int = self.at("H", 2)
        return flags

    @property
    def size(self) -> int:
        size: int = self.at("I", 8)
        return size

    @property
    def source(self) -> UUID:
        return UUID(bytes_le=self.packet[16:32])

    @property
    def queue_manager(self) -> UUID:
        return UUID(bytes_le=self.packet[32:48])

    @property
    def message_id(self) -> int:
        number: int = self.at("I", 56)
        return number

    @property
    def user_flags(self) -> int:
        flags: int = self.at("I", 60)
        return flags

    @property
    def is_recoverable(self) -> bool:
        return bool(self.user_flags & 0x20)

    @property
    def name_size(self) -> int:
        if self.user_flags >> 10 & 7 == 7:
            return (2 + int(self.at("H", 64)) + 3) & ~3
        return 4

    @property
    def destination(self) -> str | int:
        """The text of a direct name, or the number of a private queue."""
        if self.user_flags >> 10 & 7 == 7:
            return self.packet[66 : 66 + self.at("H", 64)].decode("utf-16-le").rstrip("\0")
        number: int = self.at("I", 64)
        return number

    @property
    def transaction(self) -> bytes:
        """The TransactionHeader."""
        assert self.user_flags & 0x00100000
        start = 64 + self.name_size
        return self.packet[start : start + 20]

    @property
    def place(self) -> tuple[int, int, int]:
        """TxSequenceID as a number, TxSequenceNumber and PreviousTxSequenceNumber."""
        _, sequence, number, previous = struct.unpack("<IQII", self.transaction)
        return sequence, number, previous

    @property
    def numbers(self) -> tuple[int, int]:
        return self.place[1:]

    @property
    def properties(self) -> int:
        """Where the MessagePropertiesHeader begins, in a packet with direct names."""
        start = 64 + self.name_size
        for shift in (13, 16):
            kind = self.user_flags >> shift & 7
            assert kind in (0, 7), "no other names are used here"
            if kind:
                start += (2 + int(self.at("H", start)) + 3) & ~3
        start += 20 if self.user_flags & 0x00100000 else 0
        if self.user_flags & 0x00080000:
            sizes = struct.unpack_from("<HHHHII", self.packet, start)
            start += 16 + sum((size + 3) & ~3 for size in sizes[1:])
        return start

    @property
    def message_class(self) -> int:
        value: int = self.at("H", self.properties + 2)
        return value

    @property
    def body(self) -> bytes:
        start = self.properties
        length = self.packet[start + 1] * 2 + int(self.at("I", start + 52))
        begin = start + 56 + length
        return self.packet[begin : begin + int(self.at("I", start + 32))]

    @property
    def acknowledged(self) -> tuple[int, int, int]:
        """Sequence, number and previous number of an OrderAck or a FinalAck."""
        sequence, number, previous = struct.unpack_from("<QII", self.body)
        return sequence, number, previous

    @property
    def header(self) -> tuple[int, ...] | None:
        """The SessionHeader that it carries."""
        if not self.base_flags & 0x10:
            return None
        return struct.unpack("<HHIHHHH", self.packet[-16:])


class Peer(Protocol):
    """One session of a plain peer, at either end of it.

    @param identifier: of the queue manager that it pretends to be.
    @param is_initiator: whether it opened the connection.
    @param window: the WindowSize that it sends.
    @ivar parameters: RecoverableAckTimeout, AckTimeout, Reserved and WindowSize, as they came.
    @ivar heard: the received user packets, in order.
    @ivar acks: the SessionHeaders of the received SessionAcks, in order.
    @ivar is_prompt: whether it acknowledges every message at once.
    @ivar is_mute: whether it does not continue the handshake.
    @ivar is_open: whether the handshake has ended.
    @ivar is_lost: whether the connection is closed.
    """

    def __init__(
        self,
        identifier: UUID,
        *,
        is_initiator: bool,
        is_prompt: bool = False,
        is_mute: bool = False,
        window: int = 64,
    ) -> None:
        self.identifier = identifier
        self.is_initiator = is_initiator
        self.is_prompt = is_prompt
        self.is_mute = is_mute
        self.is_open = self.is_lost = False
        self.client: bytes = b""
        self.parameters: tuple[int, ...] = ()
        self.heard: list[Heard] = []
        self.acks: list[tuple[int, ...]] = []
        self.sent = self.recoverable_sent = 0
        self.received = self.recoverable_received = 0
        self._acknowledged = 0
        self._data = b""
        self.window = window

    def connectionMade(self) -> None:
        if self.is_initiator:
            self.say(establish(self.identifier))

    def connectionLost(self, reason: object = None) -> None:
        self.is_lost = True

    def say(self, data: bytes) -> None:
        """Write raw bytes, which count for nothing."""
        assert self.transport is not None
        self.transport.write(data)

    def dataReceived(self, data: bytes) -> None:
        self._data += data
        while len(self._data) >= 16:
            flags, size = struct.unpack_from("<2xH4xI", self._data)
            if flags & 0x10 and not flags & 0x08:
                size += 16
            if len(self._data) < size:
                return
            packet, self._data = self._data[:size], self._data[size:]
            if flags & 0x08:
                self._internal(packet)
            else:
                self._user(Heard(packet))

    def _internal(self, packet: bytes) -> None:
        kind = packet[18] & 0x0F
        if kind == 1:
            self.acks.append(struct.unpack("<HHIHHHH", packet[20:36]))
        elif self.is_mute:
            return
        elif kind == 2 and self.is_initiator:
            self.say(parameters(window_size=self.window))
        elif kind == 2:
            self.client = packet[20:36]
            time_stamp, system = struct.unpack_from("<IH", packet, 52)
            self.say(
                establish(
                    UUID(bytes_le=self.client),
                    self.identifier,
                    time_stamp=time_stamp,
                    operating_system=system,
                )
            )
        else:
            self.is_open = True
            self.parameters = struct.unpack("<IIHH", packet[20:32])
            if not self.is_initiator:
                self.say(packet[:28] + parameters(window_size=self.window)[28:])

    def _user(self, message: Heard) -> None:
        self.heard.append(message)
        self.received += 1
        self.recoverable_received += message.is_recoverable
        if self.is_prompt:
            self.acknowledge()

    def hang_up(self) -> None:
        """Close the connection."""
        assert self.transport is not None
        self.transport.loseConnection()

    def header(self, *, received: int | None = None) -> bytes:
        """The SessionHeader that is true now, up to 32 recoverable messages named."""
        named = min(32, self.recoverable_received - self._acknowledged)
        header = session_header(
            (self.received if received is None else received) & 0xFFFF,
            self.sent & 0xFFFF,
            recoverable_base=(self._acknowledged + 1) & 0xFFFF if named else 0,
            recoverable_flags=(1 << named) - 1,
            recoverable_sent=self.recoverable_sent & 0xFFFF,
            window_size=self.window,
        )
        self._acknowledged += named
        return header

    def acknowledge(self) -> None:
        """Say a SessionAck of everything that came."""
        self.say(session_ack(self.header()))

    def send(self, *packets: bytes) -> None:
        """Say user packets, and count them."""
        for packet in packets:
            self.sent += 1
            self.recoverable_sent += bool(packet[60] & 0x20)
        self.say(b"".join(packets))

    @property
    def messages(self) -> list[Heard]:
        """The received messages that are not OrderAcks or FinalAcks."""
        return [each for each in self.heard if not _is_for_order_queue(each)]

    @property
    def bodies(self) -> list[bytes]:
        return [each.body for each in self.messages]

    @property
    def order_acks(self) -> list[tuple[int, int, int]]:
        """The content of the OrderAcks."""
        return [
            each.acknowledged
            for each in self.heard
            if _is_for_order_queue(each) and each.message_class == ORDER_ACK
        ]

    @property
    def final_acks(self) -> list[tuple[int, int]]:
        """Class and number of the FinalAcks."""
        return [
            (each.message_class, each.acknowledged[1])
            for each in self.heard
            if _is_for_order_queue(each) and each.message_class != ORDER_ACK
        ]


def _is_for_order_queue(message: Heard) -> bool:
    name = message.destination
    return name == 4 or (isinstance(name, str) and name.lower().endswith("\\private$\\order_queue$"))


def transactional(
    body: bytes,
    place: tuple[int, int, int],
    *,
    message_id: int | None = None,
    source: UUID = GAMMA,
    destination: str = "TCP:127.0.0.3\\private$\\orders",
    queue_manager: UUID | None = None,
    number: int = 0,
    user_flags: int = 0,
    transaction_flags: int = 0,
    acknowledge: int = 0,
    admin: str = "",
    times: tuple[int, int, int] = (0xFFFFFFFF, 0xFFFFFFFF, 0),
    header: bytes | None = None,
    is_transactional: bool = True,
    is_recoverable: bool = True,
) -> bytes:
    """[MS-MQMQ] 2.2.20 a message, transactional by default, from the byte layouts alone.

    @param place: TxSequenceID as a number, TxSequenceNumber and PreviousTxSequenceNumber.
    @param message_id: by default the number in the sequence, of an express message one that no other has.
    @param queue_manager: whose private queue C{number} it is for; a direct name otherwise.
    @param times: TimeToReachQueue, TimeToBeReceived and SentTime.
    @param header: a SessionHeader to attach.
    """
    flags = (
        0x00200000 | user_flags | (0x00100000 if is_transactional else 0) | (0x20 if is_recoverable else 0)
    )
    if queue_manager is None:
        name = direct_name(destination)
        flags |= 7 << 10
    else:
        name = struct.pack("<I", number)
        flags |= 3 << 10
    if admin:
        name += direct_name(admin)
        flags |= 7 << 13
    to_reach, to_be_received, sent_time = times
    user = source.bytes_le + (queue_manager or NULL).bytes_le
    own_id = message_id
    if own_id is None:
        own_id = place[1] if is_recoverable else next(_EXPRESS_IDS)
    user += struct.pack("<IIII", to_be_received, sent_time, own_id, flags) + name
    transaction = struct.pack("<IQII", transaction_flags, *place) if is_transactional else b""
    properties = struct.pack("<BBH", acknowledge, 0, 0) + bytes(20)
    properties += struct.pack("<IIIIIIII", 0, 0, len(body), len(body), 0, 0x800E, 0x6610, 0) + body
    properties += b"\0" * (-len(properties) % 4)
    size = 16 + len(user) + len(transaction) + len(properties)
    base = base_header(3 | (0 if header is None else 0x10), size, to_reach)
    return base + user + transaction + properties + (header or b"")


def acknowledgement(
    message_class: int, body: bytes, *, target: UUID = ALPHA, source: UUID = GAMMA, direct: str = ""
) -> bytes:
    """[MS-MQQB] 2.2.4 and 2.2.5 an OrderAck or a FinalAck, from the byte layouts alone."""
    recoverable = 0 if message_class == ORDER_ACK else 0x20
    flags = 0x00200000 | recoverable | (7 if direct else 3) << 10
    name = direct_name(f"{direct}\\PRIVATE$\\order_queue$") if direct else struct.pack("<I", 4)
    address = NULL if direct else target
    user = source.bytes_le + address.bytes_le
    user += struct.pack("<IIII", 0xFFFFFFFF, 6, 7, flags) + name
    label = "QM Ordering Ack\0".encode("utf-16-le")
    properties = struct.pack("<BBH", 0, 16, message_class) + bytes(20)
    properties += struct.pack("<IIIIIIII", 0, 0, len(body), len(body), 0, 0, 0, 0) + label + body
    properties += b"\0" * (-len(properties) % 4)
    return base_header(0, 16 + len(user) + len(properties)) + user + properties


def order_ack(sequence: int, number: int, **kwargs: Any) -> bytes:
    """An OrderAck up to C{number}."""
    body = struct.pack("<QII", sequence, number, (number - 1) & 0xFFFFFFFF) + bytes(20)
    return acknowledgement(ORDER_ACK, body, **kwargs)


def final_ack(message: Heard, message_class: int = ACK_RECEIVE, **kwargs: Any) -> bytes:
    """A FinalAck of a message that was received."""
    body = struct.pack("<QII", *message.place)
    body += kwargs.pop("about", message.source).bytes_le + struct.pack("<I", message.message_id)
    return acknowledgement(message_class, body, **kwargs)


class ScriptedTestCase(NodesTestCase):
    """ALPHA and BETA, whose stores keep what was committed, and a plain peer GAMMA on 127.0.0.4."""

    def setUp(self) -> None:
        super().setUp()
        self.peers: list[Peer] = []
        self.gamma = self.network.host(ADDRESSES["GAMMA"])

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        kwargs.setdefault("store", MemoryMessageStore(durable=True))
        return super().node(name, identifier, **kwargs)

    def listen(
        self, host: MemoryHost | None = None, *, identifier: UUID = GAMMA, **kwargs: Any
    ) -> Callable[[], object]:
        """Let the peer accept sessions; gives what ends that. Its sessions are C{peers}."""

        def make() -> Peer:
            self.peers.append(Peer(identifier, is_initiator=False, **kwargs))
            return self.peers[-1]

        listening = (host or self.gamma).server_endpoint(1801).listen(Factory.forProtocol(make))
        return self.successResultOf(listening).stopListening

    def dial(
        self,
        node: str = "BETA",
        *,
        host: MemoryHost | None = None,
        identifier: UUID = GAMMA,
        is_opened: bool = True,
        **kwargs: Any,
    ) -> Peer:
        """A session of the peer to a queue manager."""
        peer = Peer(identifier, is_initiator=True, **kwargs)
        peer.is_mute = not is_opened
        endpoint = (host or self.gamma).client_endpoint(ADDRESSES[node], 1801)
        connecting = endpoint.connect(Factory.forProtocol(lambda: peer))
        self.clock.advance(0)
        self.successResultOf(connecting)
        if is_opened:
            self.clock.advance(0.1)
            self.assertTrue(peer.is_open)
        return peer

    def restart(self, node: Node, **kwargs: Any) -> Node:
        """Kill a queue manager, and start another on what its store kept."""
        name = "ALPHA" if node.model.identifier == ALPHA else "BETA"
        node.deaf()
        node.service.stopService()
        self.assertIn(node.model.identifier, (ALPHA, BETA))
        fresh = self.node(name, node.model.identifier, store=node.store, **kwargs)
        fresh.start()
        return fresh

    def reconfigured(self, node: Node, **kwargs: Any) -> Node:
        """Stop a queue manager, and start another on its store that has these options."""
        node.deaf()
        node.service.stopService()
        name = "ALPHA" if node.model.identifier == ALPHA else "BETA"
        fresh = self.node(name, node.model.identifier, store=node.store)
        fresh.factory = DiallingSessionFactory(
            node.model.identifier,
            reactor=fresh.host,
            clock=self.clock,
            shares=SHARES,
            lookup=fresh._lookup,
            settings=self.settings,
        )
        fresh.service = make_service(
            fresh.model,
            fresh.store,
            fresh.factory,
            self.clock.reactor,
            self.clock,
            HostIdentity(name, qualified_computer_name=f"{name.lower()}.example.com"),
            **kwargs,
        )
        fresh.start()
        return fresh

    def waiting(self, node: Node) -> int:
        """How many messages have not left yet, acknowledgements included."""
        return sum(queue.messages for queue in node.service.inspection.outgoing())

    def there(self, node: Node, path: str) -> Sequence[bytes]:
        """The messages in a queue, which stay in it."""
        if not node.service.inspection.queue(path).messages:
            return []
        reservation = self.run_to_end(node.service.reserve(path, count=1000, timeout=0, peek=True))
        return [bytes(message.view.body) for message in reservation.messages]
