"""A hostile peer next to a healthy pair: it can affect only its own messages."""

from __future__ import annotations

import struct
from typing import Any
from uuid import UUID

from hypothesis import example, given
from hypothesis import strategies as st
from twisted.internet.protocol import Factory

from msmq.queues.arriving.message import Delivery, Message
from msmq.storage.memory import MemoryMessageStore
from msmq.testing.network import MemoryHost
from msmq.testing.streams import MemoryTransport
from tests.builders import ALPHA, BETA, GAMMA, session_ack, session_header
from tests.nodes.scripted import (
    ACK_RECEIVE,
    DEADXACT,
    JOURNAL,
    ORDER_ACK,
    Heard,
    Peer,
    ScriptedTestCase,
    acknowledgement,
    final_ack,
    order_ack,
    transactional,
)

UNKNOWN_PEER = UUID("57a40000-0000-4000-8000-000000000009")
LAIR = "127.0.0.4"
OUTSIDE = "198.51.100.7"
"""The address from which BETA trusts no peer."""
TO_BETA = "DIRECT=TCP:127.0.0.3\\private$\\orders"
TO_LAIR = "DIRECT=TCP:127.0.0.4\\private$\\orders"

_QUEUES = ("orders", "letters", "nowhere", "order_queue$")

_U16 = st.integers(0, 0xFFFF)
_U32 = st.one_of(st.integers(0, 40), st.integers(0, 0xFFFFFFFF))
_SHIFT = st.sampled_from((0, 0, 0, 1, -1, 1 << 32, -(1 << 32)))
_CLASS = st.sampled_from((ORDER_ACK, ACK_RECEIVE, 0x8000, 0xC000, 0xC001, 0xC002, 0x0002, 0x4001))
_WHO = st.sampled_from((UNKNOWN_PEER, GAMMA, ALPHA, BETA))
_STEP = st.one_of(
    # A SessionAck of anything.
    st.tuples(st.just("session ack"), st.integers(0, 9), _U16, st.integers(0, 0xFFFFFFFF), _U16, _U16, _U16),
    # An OrderAck or FinalAck of a sequence that is somewhere near one that there is.
    st.tuples(st.just("ack"), _CLASS, _SHIFT, _U32, _WHO, _WHO, st.booleans()),
    # The very acknowledgements that BETA will send.
    st.tuples(st.just("final ack"), _CLASS, st.integers(0, 4), _WHO),
    st.tuples(st.just("order ack"), st.integers(1, 9), _WHO),
    st.tuples(st.just("forge"), st.integers(1, 9), st.booleans()),
    # A message in a sequence of its own, which jumps and goes back.
    st.tuples(st.just("message"), _U32, _U32, st.integers(0, 3)),
    st.tuples(st.just("flood"), st.integers(1, 300)),
    st.tuples(st.just("rubbish"), st.binary(min_size=1, max_size=60)),
    st.tuples(st.just("stop reading")),
    st.tuples(st.just("hang up")),
    st.tuples(st.just("wait"), st.floats(0, 3)),
    st.tuples(st.just("dial"), _WHO, st.booleans()),
)


class HostileHistoryTests(ScriptedTestCase):
    """ALPHA sends to BETA, which receives, and to the address of a hostile peer."""

    def setUp(self) -> None:
        """Each history makes its own."""

    def begin(self) -> None:
        super().setUp()
        self.lair = self.network.host(LAIR)
        self.outside = self.network.host(OUTSIDE)
        self.orders = self.queue(self.beta, transactional=True)
        self.notes = self.queue(self.beta, "letters")
        self.listen(self.lair)
        self.put(TO_BETA, 1, 5)
        self.send_recoverable(1, 5)
        self.put(TO_LAIR, 101, 103)
        self.clock.advance(0.1)
        [link] = [each for each in self.network.links if each.acceptor.getHost().host == "127.0.0.3"]
        # What passes between the two is no secret.
        self.seen = [Heard(packet) for packet in _user_packets(link.initiator.data)]
        self.sequence = next(each.place[0] for each in self.seen if each.user_flags & 0x00100000)
        self.hostile: Peer = self.peers[0]
        # Some have been delivered and are not received yet, others are still to be delivered.
        self.network.partition("127.0.0.2", "127.0.0.3")
        self.put(TO_BETA, 6, 9)
        self.send_recoverable(6, 9)

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Any:
        kwargs.setdefault("store", MemoryMessageStore(durable=True))
        return super().node(name, identifier, **kwargs)

    def put(self, to: str, first: int, last: int) -> None:
        messages = [
            Message(body=b"%d" % number, transactional=True, journal=True, dead_letter=True)
            for number in range(first, last + 1)
        ]
        self.run_to_end(self.alpha.service.send(to, messages))

    def send_recoverable(self, first: int, last: int) -> None:
        messages = [
            Message(body=b"%d" % number, delivery=Delivery.RECOVERABLE) for number in range(first, last + 1)
        ]
        self.run_to_end(self.alpha.service.send("DIRECT=TCP:127.0.0.3\\private$\\letters", messages))

    def step(self, step: tuple[Any, ...]) -> None:
        peer = self.hostile
        match step:
            case ("session ack", received, base, flags, sent, recoverable_sent, window):
                header = session_header(
                    received,
                    sent,
                    recoverable_base=base,
                    recoverable_flags=flags,
                    recoverable_sent=recoverable_sent,
                    window_size=window,
                )
                peer.say(session_ack(header))
            case ("ack", message_class, shift, number, source, about, is_lairs):
                sequence = self.sequence + shift
                if is_lairs and self.hostile.messages:
                    sequence = max(each.place[0] for each in self.hostile.messages) + shift
                body = struct.pack("<QII", sequence % (1 << 64), number, max(0, number - 1))
                body += about.bytes_le + struct.pack("<I", self.seen[number % len(self.seen)].message_id)
                peer.send(acknowledgement(message_class, body, source=source, target=ALPHA))
            case ("final ack", message_class, index, source):
                real = [each for each in self.seen if each.user_flags & 0x00100000][index]
                peer.send(final_ack(real, message_class, source=source))
            case ("order ack", number, source):
                peer.send(order_ack(self.sequence, number, source=source))
            case ("forge", number, is_transactional):
                # The very message that ALPHA has yet to send, as far as anybody can guess it.
                queue, last = _QUEUES[not is_transactional], self.seen[-1].message_id
                forged = transactional(
                    b"hostile",
                    (self.sequence, number, number - 1),
                    message_id=last + 6 + number if is_transactional else last + number + 2,
                    source=ALPHA,
                    destination="TCP:127.0.0.3\\private$\\" + queue,
                    is_transactional=is_transactional,
                )
                peer.send(forged)
            case ("message", number, previous, kind):
                destination = "TCP:127.0.0.3\\private$\\" + _QUEUES[kind]
                place = (self.sequence, number, previous)
                peer.send(transactional(b"hostile", place, source=UNKNOWN_PEER, destination=destination))
            case ("flood", count):
                packet = transactional(b"hostile", (1, 1, 0), source=UNKNOWN_PEER, is_transactional=False)
                peer.send(*[packet] * count)
            case ("rubbish", data):
                peer.say(data)
            case ("stop reading",):
                transport = peer.transport
                assert isinstance(transport, MemoryTransport)
                transport.pauseProducing()
            case ("hang up",):
                peer.hang_up()
            case ("wait", seconds):
                self.clock.advance(seconds)
            case ("dial", identifier, is_alpha):
                self.hostile = peer = Peer(identifier, is_initiator=True)
                target = self.alpha if is_alpha else self.beta
                self.connect(peer, target.address, self.lair if is_alpha else self.outside)

    def connect(self, peer: Peer, address: str, host: MemoryHost) -> None:
        endpoint = host.client_endpoint(address, 1801)
        endpoint.connect(Factory.forProtocol(lambda: peer))
        self.clock.advance(0.1)

    @example([("dial", BETA, True), ("order ack", 9, BETA), ("final ack", 0xC001, 0, BETA)])
    @example([("dial", ALPHA, True), ("order ack", 9, ALPHA), ("final ack", 0x8000, 1, ALPHA)])
    @example([("order ack", 9, BETA), ("final ack", ACK_RECEIVE, 0, BETA), ("wait", 1.0), ("hang up",)])
    @example([("dial", UNKNOWN_PEER, False), ("forge", 6, True), ("dial", GAMMA, False), ("forge", 7, True)])
    @example([step for n in range(1, 15) for step in (("dial", UNKNOWN_PEER, False), ("forge", n, False))])
    @example([step for n in range(6, 10) for step in (("dial", ALPHA, False), ("forge", n, True))])
    @example([step for n in range(1, 15) for step in (("dial", ALPHA, False), ("forge", n, False))])
    @given(st.lists(_STEP, min_size=1, max_size=25))
    def test_other_peers_are_not_harmed(self, steps: list[tuple[Any, ...]]) -> None:
        """Messages from ALPHA to BETA arrive once and in order, are journaled once, and none is a dead
        letter.

        What it sent to the hostile peer is there until that has acknowledged it, or in one of its copies.
        """
        self.begin()
        for step in steps:
            if self.hostile.transport is not None:
                self.step(step)
        self.network.heal("127.0.0.2", "127.0.0.3")
        self.clock.advance(1200)
        expected = [b"%d" % number for number in range(1, 10)]
        received = [body for body in self.bodies(self.beta, self.orders) if body != b"hostile"]
        self.assertEqual(received, expected)
        notes = [body for body in self.bodies(self.beta, self.notes) if body != b"hostile"]
        self.assertEqual(notes, expected)
        self.clock.advance(100)
        kept = self.there(self.alpha, JOURNAL)
        self.assertEqual([body for body in kept if int(body) < 100], expected)
        lost = self.there(self.alpha, DEADXACT)
        self.assertEqual([body for body in lost if int(body) < 100], [])
        for node in (self.alpha, self.beta):
            node.service.stopService()
        self.clock.advance(1)
        self.assertEqual(self.flushLoggedErrors(), [])


def _user_packets(data: bytes) -> list[bytes]:
    packets = []
    while data:
        flags, size = struct.unpack_from("<2xH4xI", data)
        size += 16 if flags & 0x18 == 0x10 else 0
        if not flags & 0x08:
            packets.append(data[:size])
        data = data[size:]
    return packets
