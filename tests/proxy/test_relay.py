"""A relay between two queue managers: it changes nothing, records everything, and buffers little."""

from __future__ import annotations

import errno
import resource
from pathlib import Path
from typing import Any, cast

from dpkt.pcap import Reader
from twisted.internet.defer import Deferred, succeed
from twisted.internet.error import ConnectionAborted, ConnectionDone
from twisted.internet.interfaces import IProtocolFactory, IStreamClientEndpoint
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from msmq.decoding.captures import decode
from msmq.proxy.capture_file import LARGEST_SEGMENT, CaptureAddress, CaptureFile
from msmq.proxy.relay import RelayFactory
from msmq.proxy.relayed_packet import RelayedPacket
from msmq.queues.arriving.message import Delivery
from msmq.storage.memory import MemoryMessageStore
from msmq.testing.clock import ManualClock
from msmq.testing.streams import Conditions
from tests.builders import ALPHA, establish
from tests.nodes import support
from tests.nodes.support import ADDRESSES, Node, NodesTestCase

LARGEST_FILE = 1 << 26
"""Bytes of a file that a disk takes; the log of the tests has fewer."""

PROXY = "127.0.0.9"
TO_BETA = r"DIRECT=OS:BETA\private$\orders"


class Talker(Protocol):
    """A peer that sends what the test gives it, and keeps what it receives."""

    def __init__(self) -> None:
        self.received = b""
        self.is_closed = False

    def dataReceived(self, data: bytes) -> None:
        """Keep it."""
        self.received += data

    def connectionLost(self, reason: Any = None) -> None:
        """Notice it."""
        self.is_closed = True

    def send(self, data: bytes) -> None:
        """Send bytes."""
        assert self.transport is not None, "it is connected"
        self.transport.write(data)


class RelayTestCase(NodesTestCase):
    """ALPHA reaches BETA through a relay on 127.0.0.9."""

    def setUp(self) -> None:
        super().setUp()
        self.patch(support, "ADDRESSES", {**ADDRESSES, "BETA": PROXY})
        self.packets: list[RelayedPacket] = []
        self.path = Path(self.mktemp())
        self.host = self.network.host(PROXY)

    def node(self, name: str, identifier: Any, **kwargs: Any) -> Node:
        """With a store that keeps recoverable messages."""
        return super().node(name, identifier, store=MemoryMessageStore(durable=True), **kwargs)

    def relay(self, target: str = ADDRESSES["BETA"], **options: Any) -> RelayFactory:
        """A relay that listens."""
        factory = RelayFactory(
            self.host.client_endpoint(target, 1801),
            clock=self.clock,
            listener=self.packets.append,
            **options,
        )
        self.host.server_endpoint(1801).listen(factory)
        return factory

    def talker(self) -> Talker:
        """A peer that connects to the relay from a host of its own."""
        talker = Talker()
        endpoint = self.network.host("127.0.0.4").client_endpoint(PROXY, 1801)
        endpoint.connect(Factory.forProtocol(lambda: talker))
        self.clock.advance(1)
        return talker

    def kinds(self) -> list[str]:
        """The kinds of the reports that are not packets."""
        return [packet.kind for packet in self.packets if packet.kind != "packet"]


class QueueManagerTests(RelayTestCase):
    """Two queue managers do not notice the relay."""

    def names(self, is_from_initiator: bool) -> list[Any]:
        """The kinds of the packets that one side sent."""
        packets = [each for each in self.packets if each.kind == "packet"]
        return [each.fields["packet"] for each in packets if each.is_from_initiator is is_from_initiator]

    def exchange(self) -> None:
        """Messages of each delivery, through the relay."""
        orders = self.queue(self.beta, "orders")
        bills = self.queue(self.beta, "bills", transactional=True)
        self.send(self.alpha, TO_BETA, b"express", label="first")
        self.send(self.alpha, TO_BETA, b"recoverable", b"x" * 200_000, delivery=Delivery.RECOVERABLE)
        self.send(self.alpha, TO_BETA.replace("orders", "bills"), b"once", transactional=True)
        self.clock.advance(60)
        self.assertEqual(self.bodies(self.beta, orders), [b"express", b"recoverable", b"x" * 200_000])
        self.assertEqual(self.bodies(self.beta, bills), [b"once"])
        self.assertEqual(sum(queue.messages for queue in self.alpha.service.inspection.outgoing()), 0)

    def test_every_delivery(self) -> None:
        """Messages of each delivery arrive and are acknowledged, and each packet is reported."""
        self.relay()
        self.exchange()
        sent = [
            each.fields["packet"] for each in self.packets if each.kind == "packet" and each.is_from_initiator
        ]
        self.assertEqual(sent[:3], ["EstablishConnection", "ConnectionParameters", "UserMessage"])
        self.assertEqual(sent.count("UserMessage"), 4)
        answers = {
            each.fields["packet"] for each in self.packets if not each.is_from_initiator and each.fields
        }
        self.assertLessEqual({"EstablishConnection", "ConnectionParameters", "SessionAck"}, answers)
        self.assertEqual(self.kinds(), ["opened"])

    def test_capture(self) -> None:
        """The capture shows one connection between the queue managers, and C{msmq decode} reads it whole."""
        relay = self.relay(capture=CaptureFile(self.path))
        self.exchange()
        relay.close()
        self.clock.advance(1)
        lines = list(decode(self.path.read_bytes()))
        self.assertEqual([line for line in lines if "rule" in line or "note" in line], [])
        relayed = [each for each in self.packets if each.kind == "packet"]
        self.assertEqual([line["packet"] for line in lines], [each.fields["packet"] for each in relayed])
        hosts = {str(line["source"]).rpartition(":")[0] for line in lines}
        self.assertEqual(hosts, {ADDRESSES["ALPHA"], ADDRESSES["BETA"]})

    def test_small_pieces_on_a_slow_network(self) -> None:
        """Pieces of a few bytes are relayed and reported as whole packets."""
        for host in (ADDRESSES["ALPHA"], ADDRESSES["BETA"]):
            self.network.set_conditions(PROXY, host, Conditions(delay=0.01, largest_chunk=100))
        self.relay()
        orders = self.queue(self.beta, "orders")
        self.send(self.alpha, TO_BETA, b"slow" * 500)
        self.clock.advance(60)
        self.assertEqual(self.bodies(self.beta, orders), [b"slow" * 500])
        self.assertEqual({each.fields.get("rule") for each in self.packets}, {None})

    def test_target_is_away(self) -> None:
        """Without a target the initiator's connection is closed; its message goes when the target is back."""
        orders = self.queue(self.beta, "orders")
        self.beta.deaf()
        self.relay()
        self.send(self.alpha, TO_BETA, b"later", delivery=Delivery.RECOVERABLE)
        self.clock.advance(5)
        self.assertEqual(set(self.kinds()), {"refused"})
        self.beta.listen()
        self.clock.advance(120)
        self.assertEqual(self.bodies(self.beta, orders), [b"later"])


class StreamTests(RelayTestCase):
    """Any bytes of any peer."""

    def target(self) -> list[Talker]:
        """A target that accepts everything."""
        accepted: list[Talker] = []

        def accept() -> Talker:
            accepted.append(Talker())
            return accepted[-1]

        self.network.host("127.0.0.5").server_endpoint(1801).listen(Factory.forProtocol(accept))
        return accepted

    def test_bytes_that_are_no_packet(self) -> None:
        """They are passed on unchanged in both directions, and reported as what they are."""
        accepted = self.target()
        self.relay("127.0.0.5")
        talker = self.talker()
        talker.send(b"GET / HTTP/1.1\r\n\r\n")
        self.clock.advance(1)
        accepted[0].send(b"never heard of it" * 10)
        self.clock.advance(1)
        self.assertEqual(accepted[0].received, b"GET / HTTP/1.1\r\n\r\n")
        self.assertEqual(talker.received, b"never heard of it" * 10)
        errors = [each.fields["field"] for each in self.packets if "rule" in each.fields]
        self.assertEqual(errors[0], "VersionNumber")

    def test_each_end_may_close(self) -> None:
        """What one end has sent arrives before the other is closed."""
        accepted = self.target()
        self.relay("127.0.0.5")
        for closes in (True, False):
            talker = self.talker()
            ends = [talker, accepted[-1]] if closes else [accepted[-1], talker]
            ends[0].send(b"last words" * 1000)
            assert ends[0].transport is not None, "it is connected"
            ends[0].transport.loseConnection()
            self.clock.advance(1)
            self.assertEqual(ends[1].received, b"last words" * 1000)
            self.assertTrue(ends[1].is_closed)
            self.assertIs(
                [each for each in self.packets if each.kind == "closed"][-1].is_from_initiator, closes
            )

    def test_a_target_that_does_not_read(self) -> None:
        """The relay stops reading from a peer whose bytes the target does not take, until it takes them."""
        accepted = self.target()
        self.relay("127.0.0.5")
        talker = self.talker()
        transport: Any = accepted[0].transport
        transport.pauseProducing()
        for _ in range(100):
            talker.send(bytes(100_000))
            self.clock.advance(1)
        _, onward = self.network.links
        self.assertLess(onward.bytes_under_way[0], 300_000)
        self.assertEqual(accepted[0].received, b"")
        transport.resumeProducing()
        self.clock.advance(10)
        self.assertEqual(len(accepted[0].received), 10_000_000)

    def test_limit_on_sessions(self) -> None:
        """A connection beyond the limit is closed at once, and reported; the others go on."""
        self.target()
        self.relay("127.0.0.5", most_sessions=2)
        talkers = [self.talker() for _ in range(3)]
        self.assertEqual([each.is_closed for each in talkers], [False, False, True])
        self.assertEqual(self.packets[-1].kind, "refused")
        self.assertEqual(self.packets[-1].detail, "2 sessions are relayed already")
        assert talkers[0].transport is not None, "it is connected"
        talkers[0].transport.loseConnection()
        self.clock.advance(1)
        self.assertFalse(self.talker().is_closed)


class Unread(StringTransport):
    """A connection whose peer does not read: what is written to it never leaves."""

    protocol: Protocol
    is_aborted = False

    def abortConnection(self) -> None:
        self.is_aborted = True
        self.protocol.connectionLost(Failure(ConnectionAborted()))


@implementer(IStreamClientEndpoint)
class UnreadEndpoint:
    """A target that accepts connections and does not read.

    @ivar transports: those of its connections.
    """

    def __init__(self) -> None:
        self.transports: list[Unread] = []

    def connect(self, protocolFactory: IProtocolFactory) -> Deferred[Any]:
        protocol: Any = protocolFactory.buildProtocol(cast(Any, None))
        self.transports.append(unread(protocol))
        return succeed(protocol)


def unread(protocol: Any) -> Unread:
    """Give a protocol its connection."""
    transport = Unread()
    transport.protocol = protocol
    protocol.makeConnection(transport)
    return transport


class UnreadTests(SynchronousTestCase):
    """Ends that do not read what the others have sent before they closed."""

    def test_a_target_that_does_not_read(self) -> None:
        """Its connection counts until it has ended; it ends when the relay is closed, or when a new session
        would exceed the limit.
        """
        target = UnreadEndpoint()
        packets: list[RelayedPacket] = []
        relay = RelayFactory(target, clock=ManualClock(), listener=packets.append, most_sessions=2)
        for _ in range(2):
            initiator = relay.buildProtocol(None)
            unread(initiator)
            initiator.dataReceived(bytes(100))
            initiator.connectionLost(Failure(ConnectionDone()))
            self.assertEqual(packets[-1].kind, "closed")
        self.assertEqual([each.disconnecting for each in target.transports], [True, True])
        self.assertEqual([each.is_aborted for each in target.transports], [False, False])
        accepted = [unread(relay.buildProtocol(None)) for _ in range(2)]
        self.assertEqual([each.is_aborted for each in target.transports], [True, True, False, False])
        refused = unread(relay.buildProtocol(None))
        self.assertEqual((refused.is_aborted, packets[-1].kind), (True, "refused"))
        self.assertEqual([each.is_aborted for each in accepted], [False, False])
        relay.close()
        self.assertEqual([each.is_aborted for each in accepted], [True, True])
        self.assertEqual([each.is_aborted for each in target.transports], [True] * 4)

    def test_an_end_that_nothing_reaches_any_more(self) -> None:
        """What it sends afterwards is neither relayed nor reported."""
        target = UnreadEndpoint()
        packets: list[RelayedPacket] = []
        relay = RelayFactory(target, clock=ManualClock(), listener=packets.append)
        initiator = relay.buildProtocol(None)
        transport = unread(initiator)
        initiator.connectionLost(Failure(ConnectionDone()))
        target.transports[0].protocol.dataReceived(establish(ALPHA))
        self.assertEqual((transport.value(), [each.kind for each in packets]), (b"", ["opened", "closed"]))


class CaptureTests(RelayTestCase):
    """The file of a capture."""

    def test_limit(self) -> None:
        """A capture ends at its limit, with a file that can be read; the sessions go on."""
        capture = CaptureFile(self.path, limit=5_000)
        self.relay(capture=capture)
        orders = self.queue(self.beta, "orders")
        self.send(self.alpha, TO_BETA, b"small")
        self.clock.advance(5)
        self.send(self.alpha, TO_BETA, b"x" * 100_000)
        self.clock.advance(5)
        self.assertEqual(len(self.bodies(self.beta, orders)), 2)
        self.assertLessEqual(self.path.stat().st_size, 5_000)
        self.assertGreater(capture.omitted, 100_000)
        packets = [line["packet"] for line in decode(self.path.read_bytes()) if "packet" in line]
        self.assertIn("UserMessage", packets)

    def test_disk_is_full(self) -> None:
        """A capture that cannot be written ends, and says so once; the sessions go on."""

        class FullDisk(CaptureFile):
            """A file whose disk is full after the handshake."""

            def write(self, frame: bytes, time: float) -> bool:
                if self.path.stat().st_size > 1_000:
                    raise OSError(errno.ENOSPC, "No space left on device")
                return super().write(frame, time)

        self.relay(capture=FullDisk(self.path))
        orders = self.queue(self.beta, "orders")
        self.send(self.alpha, TO_BETA, *(b"%d" % number for number in range(20)))
        self.clock.advance(5)
        self.assertEqual(len(self.bodies(self.beta, orders)), 20)
        self.assertEqual(self.kinds(), ["opened", "capture_failed"])
        [failed] = [each.detail for each in self.packets if each.kind == "capture_failed"]
        self.assertEqual(failed, f"{self.path}: No space left on device")
        self.flushLoggedErrors()

    def test_a_part_of_a_frame(self) -> None:
        """Of a frame that the disk takes in part there is nothing in the file, which can be read."""
        capture = CaptureFile(self.path, limit=2 * LARGEST_FILE)
        connection = capture.connection(CaptureAddress("127.0.0.4", 40_000), CaptureAddress(PROXY, 1801), 0.0)
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        self.addCleanup(resource.setrlimit, resource.RLIMIT_FSIZE, limits)
        resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_FILE, limits[1]))
        with self.assertRaises(OSError):
            while True:
                connection.sent(True, bytes(LARGEST_SEGMENT), 0.0)
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        self.assertGreater(self.path.stat().st_size, LARGEST_FILE - 2 * LARGEST_SEGMENT)
        connection.sent(True, b"afterwards", 0.0)
        capture.close()
        with self.path.open("rb") as file:
            *frames, last = [frame for _, frame in Reader(file)]
        self.assertEqual({len(frame) for frame in frames[3:]}, {20 + 20 + LARGEST_SEGMENT})
        self.assertEqual(last[40:], b"afterwards")
