"""In-memory connections: what a protocol sees of them."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.error import ConnectionAborted, ConnectionDone, ConnectionLost
from twisted.internet.interfaces import IConsumer, IPullProducer, IPushProducer, ITCPTransport
from twisted.internet.protocol import Protocol, connectionDone
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer
from zope.interface.verify import verifyObject

from msmq.testing.streams import Conditions, Link, MemoryTransport


class Recorder(Protocol):
    """Keeps what arrives, chunk by chunk, and why the connection ended."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.chunks: list[tuple[float, bytes]] = []
        self.lost: list[type[BaseException]] = []

    @property
    def data(self) -> bytes:
        return b"".join(chunk for _, chunk in self.chunks)

    def dataReceived(self, data: bytes) -> None:
        self.chunks.append((self.clock.seconds(), data))

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        assert reason.type is not None
        self.lost.append(reason.type)


@implementer(IPushProducer, IPullProducer)
class Source:
    """Writes a piece whenever it may."""

    def __init__(self, transport: MemoryTransport, pieces: int) -> None:
        self.transport = transport
        self.pieces = pieces
        self.calls: list[str] = []

    def resumeProducing(self) -> None:
        self.calls.append("resume")
        if self.pieces:
            self.pieces -= 1
            self.transport.write(b"x" * 1000)

    def pauseProducing(self) -> None:
        self.calls.append("pause")

    def stopProducing(self) -> None:
        self.calls.append("stop")


class StreamTestCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.join()

    def join(self, *, conditions: Conditions | None = None, seed: int = 0) -> None:
        self.near, self.far = Recorder(self.clock), Recorder(self.clock)
        self.link = Link(
            self.clock,
            self.near,
            self.far,
            conditions=Conditions() if conditions is None else conditions,
            chance=random.Random(seed),
        )


class DeliveryTests(StreamTestCase):
    """How bytes come over."""

    def test_transport_provides_what_it_claims(self) -> None:
        """A protocol may ask for anything that it may ask a TCP transport for."""
        for interface in (ITCPTransport, IConsumer, IPushProducer):
            verifyObject(interface, self.link.initiator)

    def test_both_protocols_are_connected(self) -> None:
        """Each has its transport, and knows the other's address."""
        self.assertIs(self.near.transport, self.link.initiator)
        self.assertEqual(self.link.initiator.getPeer(), self.link.acceptor.getHost())
        self.assertEqual(self.link.acceptor.getPeer(), self.link.initiator.getHost())

    def test_nothing_arrives_inside_the_call_that_sends(self) -> None:
        """A write returns before its bytes arrive, as on a real network."""
        self.link.initiator.write(b"hello")
        self.assertEqual(self.far.data, b"")
        self.clock.advance(0)
        self.assertEqual(self.far.data, b"hello")

    def test_delay(self) -> None:
        """Written data arrives after the delay."""
        self.join(conditions=Conditions(delay=0.25))
        self.link.acceptor.write(b"hello")
        self.clock.advance(0.24)
        self.assertEqual(self.near.data, b"")
        self.clock.advance(0.01)
        self.assertEqual(self.near.chunks, [(0.25, b"hello")])

    def test_what_arrives_together_is_one_chunk(self) -> None:
        """Without a largest chunk, writes of one second are delivered as one."""
        for word in (b"one", b"two"):
            self.link.initiator.write(word)
        self.clock.advance(0)
        self.assertEqual([chunk for _, chunk in self.far.chunks], [b"onetwo"])

    def test_chunks_are_repeatable(self) -> None:
        """The same seed cuts the same pieces; another seed cuts others."""
        cuts: list[list[int]] = []
        for seed in (1, 1, 2):
            self.join(conditions=Conditions(largest_chunk=7), seed=seed)
            self.link.initiator.write(bytes(100))
            self.clock.advance(0)
            cuts.append([len(chunk) for _, chunk in self.far.chunks])
        self.assertEqual(cuts[0], cuts[1])
        self.assertNotEqual(cuts[0], cuts[2])
        self.assertLessEqual(max(cuts[0]), 7)

    @given(
        st.lists(st.binary(max_size=20), max_size=8),
        st.none() | st.integers(1, 9),
        st.floats(0, 1),
        st.integers(0, 99),
    )
    def test_bytes_come_whole_and_in_order(
        self, pieces: list[bytes], largest: int | None, jitter: float, seed: int
    ) -> None:
        """With any delays, a stream loses no data, keeps its order, and reports the written data."""
        self.join(conditions=Conditions(delay=0.1, jitter=jitter, largest_chunk=largest), seed=seed)
        for piece in pieces:
            self.link.initiator.write(piece)
            self.clock.advance(0.05)
        self.clock.pump([0.5] * 8)
        self.assertEqual(self.far.data, b"".join(pieces))
        self.assertEqual(self.link.initiator.data, b"".join(pieces))
        self.assertEqual(bytes(self.link.acceptor.received), b"".join(pieces))
        self.assertEqual(self.link.bytes_under_way, (0, 0))

    def test_only_bytes_are_taken(self) -> None:
        """Text is refused where it is written, not where it would arrive."""
        self.assertRaises(TypeError, self.link.initiator.write, "text")

    def test_report_says_when(self) -> None:
        """Each write is kept with its second."""
        self.link.initiator.write(b"a")
        self.clock.advance(2)
        self.link.initiator.writeSequence([b"b", b"c"])
        self.assertEqual(self.link.initiator.written, [(0.0, b"a"), (2.0, b"bc")])


class EndTests(StreamTestCase):
    """How a connection ends."""

    def test_closing_writes_out_first(self) -> None:
        """The other end gets all that was written before the close, then its end."""
        self.join(conditions=Conditions(delay=1.0))
        self.link.initiator.write(b"last words")
        self.link.initiator.loseConnection()
        self.link.initiator.write(b"too late")
        self.clock.advance(0)
        self.assertEqual((self.near.lost, self.far.lost), ([ConnectionDone], []))
        self.clock.advance(1)
        self.assertEqual(self.far.data, b"last words")
        self.assertEqual(self.far.lost, [ConnectionDone])
        self.assertFalse(self.link.is_connected)

    def test_end_is_reported_in_an_iteration_of_its_own(self) -> None:
        """C{connectionLost} is never called inside the call that closes."""
        self.link.initiator.loseConnection()
        self.assertEqual(self.near.lost, [])

    def test_abort_loses_bytes_in_transit(self) -> None:
        """The aborting side knows it; the other end sees a lost connection."""
        self.link.initiator.write(b"lost")
        self.link.initiator.abortConnection()
        self.clock.advance(0)
        self.assertEqual(self.far.data, b"")
        self.assertEqual((self.near.lost, self.far.lost), ([ConnectionAborted], [ConnectionLost]))

    def test_cut(self) -> None:
        """Both ends lose the connection; it is reported once, for any later calls."""
        self.link.initiator.write(b"lost")
        self.link.cut()
        self.link.cut()
        self.link.initiator.loseConnection()
        self.clock.advance(1)
        self.assertEqual((self.near.lost, self.far.lost), ([ConnectionLost], [ConnectionLost]))
        self.assertEqual(self.far.data, b"")

    def test_stall_holds_and_resume_delivers(self) -> None:
        """A stall is not notified; afterwards all arrives in order."""
        self.link.stall()
        self.link.initiator.write(b"one")
        self.clock.advance(3600)
        self.link.initiator.write(b"two")
        self.assertEqual(self.far.data, b"")
        self.link.resume()
        self.clock.advance(0)
        self.assertEqual(self.far.data, b"onetwo")

    def test_end_waits_behind_a_stall(self) -> None:
        """The other end sees a close only after the stall."""
        self.link.initiator.loseConnection()
        self.link.stall()
        self.clock.advance(60)
        self.assertEqual(self.far.lost, [])
        self.link.resume()
        self.clock.advance(0)
        self.clock.advance(0)
        self.assertEqual(self.far.lost, [ConnectionDone])

    def test_protocol_may_close_while_it_receives(self) -> None:
        """The rest of what had arrived is not delivered to a protocol that closed."""

        class Once(Recorder):
            def dataReceived(self, data: bytes) -> None:
                super().dataReceived(data)
                assert self.transport is not None
                self.transport.loseConnection()

        near, far = Recorder(self.clock), Once(self.clock)
        link = Link(self.clock, near, far, conditions=Conditions(largest_chunk=1))
        link.initiator.write(b"many")
        self.clock.pump([0, 0, 0])
        self.assertEqual((far.data, near.lost, far.lost), (b"m", [ConnectionDone], [ConnectionDone]))


class BackPressureTests(StreamTestCase):
    """Slow readers, and the producers that wait for them."""

    def test_paused_protocol_receives_nothing(self) -> None:
        """A protocol that paused its transport gets its bytes when it resumes."""
        self.link.acceptor.pauseProducing()
        self.link.initiator.write(b"wait")
        self.clock.advance(1)
        self.assertEqual(self.far.data, b"")
        self.link.acceptor.resumeProducing()
        self.clock.advance(0)
        self.assertEqual(self.far.data, b"wait")

    def test_pausing_takes_effect_between_two_chunks(self) -> None:
        """A protocol that pauses in C{dataReceived} gets nothing more before it resumes."""

        class Pausing(Recorder):
            def dataReceived(self, data: bytes) -> None:
                super().dataReceived(data)
                assert isinstance(self.transport, MemoryTransport)
                self.transport.pauseProducing()

        far = Pausing(self.clock)
        link = Link(self.clock, self.near, far, conditions=Conditions(largest_chunk=1))
        link.initiator.write(b"abc")
        self.clock.advance(0)
        self.assertEqual(far.data, b"a")
        link.acceptor.resumeProducing()
        self.clock.advance(0)
        self.assertEqual(far.data, b"ab")

    def test_streaming_producer_is_paused_and_resumed(self) -> None:
        """More than the high-water mark in transit pauses it; less than half resumes it."""
        source = Source(self.link.initiator, 0)
        self.link.initiator.registerProducer(source, True)
        self.link.initiator.write(bytes(MemoryTransport.HIGH_WATER + 1))
        self.link.initiator.write(b"more")
        self.assertEqual(source.calls, ["pause"])
        self.clock.advance(0)
        self.assertEqual(source.calls, ["pause", "resume"])

    def test_other_producer_is_asked_for_each_piece(self) -> None:
        """One that does not stream writes a piece each time the buffer is empty."""
        source = Source(self.link.initiator, 3)
        self.link.initiator.registerProducer(source, False)
        self.clock.pump([0] * 6)
        self.assertEqual(len(self.far.data), 3000)

    def test_closing_waits_for_the_producer(self) -> None:
        """As on TCP: the connection closes once the producer has said that it is done."""
        source = Source(self.link.initiator, 0)
        self.link.initiator.registerProducer(source, True)
        self.link.initiator.loseConnection()
        self.clock.advance(1)
        self.assertEqual(self.near.lost, [])
        self.link.initiator.unregisterProducer()
        self.clock.advance(0)
        self.assertEqual(self.near.lost, [ConnectionDone])

    def test_producer_is_stopped_with_the_connection(self) -> None:
        """A lost connection stops its producer; one that comes later is stopped at once."""
        source, late = Source(self.link.initiator, 0), Source(self.link.initiator, 0)
        self.link.initiator.registerProducer(source, True)
        self.link.cut()
        self.clock.advance(0)
        self.link.initiator.registerProducer(late, True)
        self.assertEqual((source.calls, late.calls), (["stop"], ["stop"]))

    def test_two_producers_are_refused(self) -> None:
        """A transport has one producer."""
        self.link.initiator.registerProducer(Source(self.link.initiator, 0), True)
        self.assertRaises(
            RuntimeError, self.link.initiator.registerProducer, Source(self.link.initiator, 0), True
        )
