"""A whole queue manager, or a broker, and a peer that keeps to the protocol but for a field of some packets.

The peer encodes and reads with the tests' own codec, which has nothing of the package in it, and a plain
model of its own says which messages have to be in the queue at the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from twisted.internet.defer import Deferred
from twisted.internet.protocol import Factory

from msmq.queues.arriving.message import Delivery, Message
from msmq.settings import SessionSettings
from msmq.storage.memory import MemoryMessageStore
from msmq.structures.status import MQError
from msmq.testing.clock import ManualClock
from msmq.testing.network import MemoryHost, Network
from tests.broker.support import Recorder
from tests.builders import ALPHA, BETA, GAMMA, session_ack, session_header, user_packet
from tests.fuzz.changing import changed
from tests.fuzz.finding import expect
from tests.fuzz.observed_log import without_failures
from tests.nodes.scripted import Peer, order_ack, transactional
from tests.nodes.support import ADDRESSES, Node

SETTINGS: Final = SessionSettings(window_size=16)
WAITS: Final = (0.01, 0.6, 5.0, 21.0, 61.0, 301.0, 700.0, 4000.0)
PLAIN: Final = ".\\private$\\plain"
ORDERS: Final = ".\\private$\\orders"
TO_PLAIN: Final = "TCP:127.0.0.3\\private$\\plain"
MOST_STEPS: Final = 48
COUNTED: Final = 60
"""Bytes after which a packet has the flags of its UserHeader."""
REMEMBERED: Final = 1000.0
"""Seconds for which the identifiers of messages are surely remembered."""
SEQUENCE: Final = 7 << 32 | 1
INFINITE: Final = 0xFFFFFFFF


class _Line(Peer):
    """One connection of the peer.

    @ivar is_clean: each packet so far was right.
    """

    def __init__(self) -> None:
        super().__init__(ALPHA, is_initiator=True)
        self.is_clean = True

    @property
    def is_sound(self) -> bool:
        """Whether what is said now has to arrive."""
        return self.is_clean and self.is_open and not self.is_lost


class _Estate:
    """BETA, a peer with the address of ALPHA, and GAMMA, which always keeps to the protocol."""

    def __init__(self, is_broker: bool) -> None:
        self.clock = ManualClock()
        network = Network(self.clock.reactor)
        self.hosts = {name: network.host(ADDRESSES[name]) for name in ("ALPHA", "GAMMA")}
        queues = {"plain": {}, "orders": {"transactional": True}}
        self.broker = Recorder(queues=queues) if is_broker else None
        # Transactional messages are refused by a store that a restart empties.
        store = MemoryMessageStore(durable=True)
        self.beta = Node(network, self.clock, "BETA", BETA, SETTINGS, store, broker=self.broker)
        self.beta.start()
        self.accepted: list[Peer] = []
        self.hosts["ALPHA"].server_endpoint(1801).listen(Factory.forProtocol(self._accept))
        for path in (PLAIN, ORDERS):
            if not is_broker:
                Deferred.fromCoroutine(
                    self.beta.service.create_queue(path, transactional=path == ORDERS)
                ).addErrback(lambda failure: failure.trap(MQError))
        self.clock.advance(0)
        self.lines: list[_Line] = []
        self.numbers = 0
        self.packet = b""
        self.following = 1
        self.sent: dict[str, set[bytes]] = {PLAIN: set(), ORDERS: set()}
        self.due: dict[str, list[bytes]] = {PLAIN: [], ORDERS: []}
        self.is_order_sound = True
        self.has_repeated = False
        self.began = self.clock.now().monotonic

    def _accept(self) -> Peer:
        peer = Peer(ALPHA, is_initiator=False, is_prompt=True)
        self.accepted.append(peer)
        return peer

    def dial(self, host: MemoryHost, peer: Peer) -> None:
        """Open a connection to BETA; the peer opens the session."""
        endpoint = host.client_endpoint(ADDRESSES["BETA"], 1801)
        endpoint.connect(Factory.forProtocol(lambda: peer)).addErrback(lambda failure: None)
        self.clock.advance(0)

    @property
    def line(self) -> _Line:
        """The connection in use."""
        if not self.lines or self.lines[-1].is_lost:
            self.lines.append(_Line())
            self.dial(self.hosts["ALPHA"], self.lines[-1])
        return self.lines[-1]

    def say(self, packet: bytes, change: bytes, *, queue: str = "", body: bytes = b"") -> None:
        """Send one packet with one field wrong, if a change is given, and note what has to come of it."""
        line = self.line
        if line.is_lost:
            return
        altered = changed(packet, change)
        if altered != packet:
            line.is_clean = False
        self.packet = altered
        if queue:
            self.sent[queue].add(body)
            is_due = line.is_sound and (queue == PLAIN or self.is_order_sound)
            if is_due:
                self.due[queue].append(body)
            elif queue == ORDERS:
                # Whether this one was taken is open, and with it what comes after it in the order.
                self.is_order_sound = False
        if queue and len(altered) > COUNTED:
            line.send(altered)
        else:
            line.say(altered)
        self.clock.advance(0)

    def body(self) -> bytes:
        """One that no other message has."""
        self.numbers += 1
        return b"body %d" % self.numbers

    def received(self, path: str) -> list[bytes]:
        """What is in a queue now, or what the broker was passed."""
        if self.broker is not None:
            return [bytes(view.body) for view in self.broker.received.get(path.lower(), [])]
        found: list[bytes] = []
        peeking = Deferred.fromCoroutine(self.beta.service.reserve(path, count=10_000, timeout=0, peek=True))
        peeking.addCallbacks(
            lambda held: found.extend(bytes(message.view.body) for message in held.messages),
            lambda failure: failure.trap(MQError) and None,
        )
        self.clock.advance(0)
        return found


def _steps(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """A kind, a number, and the change of the packet if there is one."""
    position = 0
    for _ in range(MOST_STEPS):
        if position + 1 >= len(data):
            return
        kind, number = data[position], data[position + 1]
        position += 2
        change = b""
        if kind & 0x80:
            change = data[position : position + 4]
            position += 4
        yield kind & 0x7F, number, change


def queue_managers(data: bytes) -> None:
    """What a peer sent before its first wrong packet is there once and in order, and others are served.

    The first byte says whether a broker or a queue manager is addressed; the rest is steps.
    """
    if not data:
        return
    with without_failures():
        estate = _Estate(bool(data[0] & 1))
        for kind, number, change in _steps(data[1:]):
            _take_step(estate, kind, number, change)
        _check(estate)


def _take_step(estate: _Estate, kind: int, number: int, change: bytes) -> None:
    match kind % 16:
        case 0 | 1:
            body = estate.body()
            packet = user_packet(
                body, destination=TO_PLAIN, recoverable=bool(kind & 1), message_id=1000 + estate.numbers
            )
            estate.say(packet, change, queue=PLAIN, body=body)
        case 2 | 3:
            body = estate.body()
            packet = transactional(
                body,
                (SEQUENCE, estate.following, estate.following - 1),
                source=ALPHA,
                acknowledge=number & 0x8F if kind & 1 else 0,
            )
            estate.following += 1
            estate.say(packet, change, queue=ORDERS, body=body)
        case 4:
            # Some place in the stream, mostly a wrong one.
            body = estate.body()
            place = (SEQUENCE + (number >> 6), number & 7, number >> 3 & 7)
            if place[0] > SEQUENCE:
                # A new stream takes the place of the one before.
                estate.is_order_sound = False
            packet = transactional(body, place, source=ALPHA)
            estate.is_order_sound = False
            estate.say(packet, change, queue=ORDERS, body=body)
        case 5:
            line = estate.line
            header = line.header(received=None if number & 1 else number)
            if not number & 1:
                line.is_clean = False
            estate.say(session_ack(header), change)
        case 6:
            estate.line.is_clean = False
            header = session_header(
                number & 3, number >> 2 & 3, recoverable_base=number >> 4 & 3, recoverable_flags=number >> 6
            )
            estate.say(user_packet(b"", destination=TO_PLAIN, header=header), change)
        case 7:
            estate.say(
                user_packet(b"for none", destination=f"TCP:127.0.0.3\\private$\\none{number & 3}"), change
            )
        case 8:
            for _ in range(3):
                estate.clock.advance(WAITS[number % len(WAITS)] / 3)
        case 9:
            if estate.lines:
                estate.lines[-1].hang_up()
                estate.clock.advance(0)
        case 10:
            estate.line.is_clean = False
            # With another identifier it is another message with the same body, and identifiers are forgotten.
            is_late = estate.clock.now().monotonic - estate.began > REMEMBERED
            estate.has_repeated = estate.has_repeated or bool(change) or is_late
            estate.say(estate.packet, change)
        case 11:
            _send_from_beta(estate, number)
        case 12:
            # What acknowledges messages that BETA sent, or never sent.
            if number & 1:
                heard = [message for peer in estate.accepted for message in peer.messages]
                placed = [message for message in heard if message.user_flags & 0x00100000]
                if placed:
                    chosen = placed[(number >> 1) % len(placed)]
                    estate.say(order_ack(chosen.place[0], chosen.place[1], target=BETA, source=ALPHA), change)
            else:
                estate.say(order_ack(SEQUENCE, number >> 1, target=BETA, source=ALPHA), change)
        case 13:
            # The rest of the packet comes never, or as another one.
            estate.line.is_clean = False
            packet = user_packet(b"cut off", destination=TO_PLAIN)
            estate.say(packet[: number % len(packet)], change)
        case 14:
            body = estate.body()
            times = (number, INFINITE, 0)
            packet = transactional(
                body, (0, 0, 0), times=times, source=ALPHA, destination=TO_PLAIN, is_transactional=False
            )
            # It may expire, which is not what is examined here.
            estate.sent[PLAIN].add(body)
            estate.say(packet, change)
        case _:
            for peer in estate.accepted:
                if not peer.is_lost:
                    peer.say(changed(session_ack(peer.header()), change))
            estate.clock.advance(0)


def _send_from_beta(estate: _Estate, number: int) -> None:
    """An application of BETA sends to ALPHA, which acknowledges every message at once."""
    message = Message(
        body=b"from beta",
        delivery=Delivery.RECOVERABLE if number & 1 else Delivery.EXPRESS,
        transactional=bool(number & 2),
    )
    destination = f"DIRECT=TCP:127.0.0.2\\private$\\q{number >> 4 & 1}"
    sending = Deferred.fromCoroutine(estate.beta.service.send(destination, [message] * (1 + (number >> 6))))
    sending.addErrback(lambda failure: failure.trap(MQError))
    estate.clock.advance(0)


def _check(estate: _Estate) -> None:
    """Everything that is due is there, once and in order; nothing else is there that was not sent."""
    for path, due in estate.due.items():
        found = estate.received(path)
        listed = [body for body in found if body in set(due)]
        if estate.has_repeated:
            listed = list(dict.fromkeys(listed))
        expect(listed == due, f"{path}: what was sent before a wrong packet is there, once and in order")
        if all(line.is_clean for line in estate.lines):
            expect(set(found) <= estate.sent[path], f"{path}: nothing is there that was not sent")
    newcomer = Peer(GAMMA, is_initiator=True)
    estate.dial(estate.hosts["GAMMA"], newcomer)
    expect(newcomer.is_open, "another peer can open a session")
    newcomer.send(user_packet(b"newcomer", destination=TO_PLAIN, source=GAMMA, recoverable=True))
    estate.clock.advance(2)
    expect(b"newcomer" in estate.received(PLAIN), "and its message arrives")
    expect(newcomer.acks, "and is acknowledged")
    estate.beta.service.stopService()
    if estate.beta.program is not None:
        estate.beta.program.end()
    estate.clock.advance(0)
