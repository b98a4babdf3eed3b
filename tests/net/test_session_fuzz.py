"""A session under a broker, fed with anything at any time."""

from __future__ import annotations

from typing import Any

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred
from twisted.internet.testing import StringTransportWithDisconnection
from twisted.trial.unittest import SynchronousTestCase

from msmq.queues.arriving.message import Message
from msmq.session.state import SessionState
from msmq.settings import SessionSettings
from msmq.structures.names.format_name import PrivateFormatName
from msmq.structures.packet.user_message_view import measure_user_message
from msmq.testing.clock import ManualClock
from msmq.testing.network import Network
from msmq.wire.framer import MAXIMUM_PACKET_SIZE, StreamFramer
from tests.builders import (
    ALPHA,
    BETA,
    GAMMA,
    NULL,
    establish,
    parameters,
    session_ack,
    session_header,
    user_packet,
)
from tests.nodes.support import Node
from tests.samples import examples
from tests.vectors import vector

HERE = "OS:beta\\private$\\orders"
LARGEST_CHUNK = 65536
MOSTLY = st.sampled_from([True, True, True, False])
OVER = (SessionState.CLOSED, SessionState.WAITING_RECONNECT)
COUNTS = st.one_of(st.integers(0, 3), st.just(0xFFFF))

HEADERS = st.builds(
    session_header,
    COUNTS,
    COUNTS,
    recoverable_base=COUNTS,
    recoverable_flags=st.integers(0, 3),
    recoverable_sent=COUNTS,
    window_size=st.sampled_from([0, 1, 2, 64, 0xFFFF]),
)
USER_PACKETS = st.builds(
    user_packet,
    st.binary(max_size=40),
    destination=st.sampled_from(
        [HERE, HERE.upper(), "OS:x\\y", "", "\ud800", "TCP:127.0.0.3\\private$\\orders"]
    ),
    label=st.sampled_from(["", "label", "\udfff"]),
    recoverable=st.booleans(),
    priority=st.integers(0, 7),
    source=st.sampled_from([ALPHA, BETA, NULL]),
    user_flags=st.sampled_from([0, 0, 0, 0x00080000, 0x00100000, 0x0000E000, 0x00070000, 0x10000000]),
    header=st.none() | HEADERS,
    header_is_counted=st.booleans(),
    private_number=st.none() | st.sampled_from([1, 4, 0xFFFFFFFF]),
    queue_manager=st.sampled_from([NULL, BETA, GAMMA]),
)
PACKETS = st.one_of(
    st.builds(
        establish,
        st.sampled_from([ALPHA, BETA, NULL]),
        st.sampled_from([ALPHA, BETA, NULL, GAMMA]),
        refused=st.booleans(),
    ),
    st.builds(parameters, COUNTS, COUNTS, st.sampled_from([0, 1, 2, 64, 0xFFFF]), refused=st.booleans()),
    HEADERS.map(session_ack),
    USER_PACKETS,
    USER_PACKETS,
    st.just(vector("mqqb-4.1.7-user-message")),
)


@attrs.frozen
class Wait:
    """Time passes."""

    seconds: float


@attrs.frozen
class Send:
    """An application sends to the peer."""

    count: int


@attrs.frozen
class Congestion:
    """The peer stops reading, or reads again."""

    begins: bool


@attrs.frozen
class Acknowledge:
    """The peer acknowledges all that it was sent, if it is not in the middle of a packet."""


EVENTS = st.one_of(
    st.just(Acknowledge()),
    st.builds(Wait, st.sampled_from([0.0, 0.1, 5.0, 10.0, 25.0, 61.0, 400.0])),
    st.builds(Send, st.integers(1, 5)),
    st.builds(Congestion, st.booleans()),
)


@st.composite
def good_streams(draw: st.DrawFn) -> bytes:
    """Data of a peer that follows the protocol."""
    packets: list[bytes] = []
    count = 0
    for kind in draw(st.lists(st.sampled_from(["message", "message", "carrier", "ack"]), max_size=12)):
        if kind == "ack":
            packets.append(session_ack(session_header(sent=count)))
            continue
        count += 1
        header = session_header(sent=count) if kind == "carrier" else None
        body = draw(st.binary(max_size=40))
        packets.append(
            user_packet(
                body,
                destination=HERE,
                message_id=count,
                header=header,
                header_is_counted=draw(st.booleans()),
            )
        )
    return b"".join(packets)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A good stream, some wild packets in any order, and some bytes changed, lost, repeated or displaced."""
    stream = bytearray(draw(good_streams()))
    stream += b"".join(draw(st.lists(PACKETS, max_size=3)))
    stream += draw(good_streams())
    for _ in range(draw(st.sampled_from([0, 0, 1, 1, 3]))):
        start = draw(st.integers(0, len(stream)))
        end = draw(st.integers(start, min(len(stream), start + 700)))
        match draw(st.sampled_from(["flip", "cut", "repeat", "splice"])):
            case "flip" if start < len(stream):
                stream[start] ^= 1 << draw(st.integers(0, 7))
            case "cut":
                del stream[start:end]
            case "repeat":
                stream[start:start] = stream[start:end]
            case _:
                stream[start:end] = draw(st.binary(max_size=20))
    return bytes(stream)


@st.composite
def conversations(draw: st.DrawFn, streams: st.SearchStrategy[bytes]) -> list[object]:
    """A stream in arbitrary chunks, and what else happens between them."""
    stream = draw(streams)
    cuts = sorted(draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    steps: list[object] = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        steps.append(stream[start:end])
        steps += draw(st.lists(EVENTS, max_size=3))
    return steps


class Fuzzed:
    """A session of the queue manager BETA with a peer that may be anything."""

    def __init__(self, is_initiator: bool) -> None:
        self.clock = ManualClock()
        network = Network(self.clock.reactor)
        self.node = Node(network, self.clock, "BETA", BETA, SessionSettings())
        self.node.start()
        self.perform(self.node.service.create_queue(".\\private$\\orders"))
        self.is_initiator = is_initiator
        self.protocol = self.node.factory.build(is_initiator=is_initiator)
        self.transport = StringTransportWithDisconnection(peerAddress=IPv4Address("TCP", "127.0.0.9", 4000))
        self.transport.protocol = self.protocol
        self.protocol.makeConnection(self.transport)
        self.longest = 0

    def perform(self, coroutine: Any) -> None:
        """Begin something that needs no time."""
        Deferred.fromCoroutine(coroutine)

    def shake_hands(self) -> None:
        """Behave, to begin with."""
        if self.is_initiator:
            self.step(establish(BETA, ALPHA) + parameters())
        else:
            self.step(establish(ALPHA) + parameters())
        assert self.protocol.is_open

    def step(self, step: object) -> None:
        """One thing happens."""
        match step:
            case bytes() as data:
                for start in range(0, len(data), LARGEST_CHUNK):
                    if self.transport.connected:
                        self.protocol.dataReceived(data[start : start + LARGEST_CHUNK])
                    self.longest = max(self.longest, self.protocol._framer.buffered)
            case Wait(seconds):
                self.clock.advance(seconds)
            case Acknowledge():
                statistics = self.protocol.statistics
                if self.transport.connected and not self.protocol._framer.buffered:
                    counts = session_header(received=statistics.sent, sent=statistics.received)
                    self.protocol.dataReceived(session_ack(counts))
            case Send(count):
                messages = [Message(body=b"%d" % number) for number in range(count)]
                self.perform(self.node.service.send(str(PrivateFormatName(ALPHA, 1)), messages))
            case Congestion(begins):
                if self.transport.connected:
                    (self.protocol.pauseProducing if begins else self.protocol.resumeProducing)()


class SessionFuzzTests(SynchronousTestCase):
    """No exception escapes, no error is logged, and the session is open, closed or waiting."""

    def run_conversation(self, steps: list[object], *, is_initiator: bool, opened: bool) -> Fuzzed:
        fuzzed = Fuzzed(is_initiator)
        if opened:
            fuzzed.shake_hands()
        for step in steps:
            fuzzed.step(step)
            is_over = fuzzed.protocol.state in OVER
            self.assertEqual(fuzzed.transport.connected, not is_over, "a closed session has no connection")
            self.assertEqual(fuzzed.protocol in fuzzed.node.factory.connections, not is_over)
        self.assertLess(fuzzed.longest, MAXIMUM_PACKET_SIZE + LARGEST_CHUNK)
        self.assertEqual(self.flushLoggedErrors(), [])
        framer = StreamFramer(measure_user_message)
        framer.feed(fuzzed.transport.value())
        self.assertIsNone(framer.error, "only whole packets are ever written")
        self.assertEqual(framer.buffered, 0)
        # Without another word from the peer every session ends, and holds nothing.
        fuzzed.protocol.resumeProducing()
        fuzzed.clock.advance(1300)
        self.assertIn(fuzzed.protocol.state, OVER)
        self.assertFalse(fuzzed.transport.connected)
        self.assertEqual(fuzzed.node.service.inspection.status().sessions, 0)
        for queue in fuzzed.node.service.inspection.outgoing():
            self.assertEqual(queue.unacknowledged, 0)
        self.assertEqual(self.flushLoggedErrors(), [])
        return fuzzed

    @given(conversations(st.binary(max_size=2000)), st.booleans(), MOSTLY)
    def test_any_bytes(self, steps: list[object], is_initiator: bool, opened: bool) -> None:
        """Any data, before the handshake or after it."""
        self.run_conversation(steps, is_initiator=is_initiator, opened=opened)

    @settings(max_examples=examples(75))
    @given(conversations(damaged()), st.booleans(), MOSTLY)
    def test_damaged_streams(self, steps: list[object], is_initiator: bool, opened: bool) -> None:
        """Good packets in any order, damaged or not, in any chunks, at any time."""
        self.run_conversation(steps, is_initiator=is_initiator, opened=opened)

    @given(conversations(good_streams()), st.booleans())
    def test_good_streams_arrive_whole(self, steps: list[object], is_initiator: bool) -> None:
        """Valid data is delivered and counted, in any chunks."""
        steps = [step for step in steps if not isinstance(step, Wait)]
        framer = StreamFramer(measure_user_message)
        frames = framer.feed(b"".join(step for step in steps if isinstance(step, bytes)))
        count = sum(not packet[2] & 0x08 for packet, _ in frames)
        fuzzed = self.run_conversation(steps, is_initiator=is_initiator, opened=True)
        self.assertEqual(fuzzed.node.service.inspection.queue(".\\private$\\orders").messages, count)
        self.assertEqual(fuzzed.protocol.statistics.received, count)

    def test_buffers_no_more_than_a_packet(self) -> None:
        """The largest packet fits, and what claims to be larger is not waited for."""
        fixed = len(user_packet(b"", destination=HERE))
        body = bytes(MAXIMUM_PACKET_SIZE - fixed)
        largest, second = (user_packet(body, destination=HERE, message_id=number) for number in (1, 2))
        fuzzed = self.run_conversation([largest + second + largest[:-1]], is_initiator=False, opened=True)
        self.assertEqual(fuzzed.node.service.inspection.queue(".\\private$\\orders").messages, 2)
        self.assertGreater(fuzzed.longest, MAXIMUM_PACKET_SIZE - LARGEST_CHUNK)
        larger = largest[:8] + (MAXIMUM_PACKET_SIZE + 1).to_bytes(4, "little") + largest[12:]
        fuzzed = self.run_conversation([larger], is_initiator=False, opened=True)
        self.assertLess(fuzzed.longest, LARGEST_CHUNK)
