"""A relay between two queue managers: it changes nothing, records everything, and buffers little."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

from twisted.internet.protocol import Factory, Protocol

from msmq.decoding.captures import decode
from msmq.proxy.capture_file import CaptureFile
from msmq.proxy.relay import RelayFactory
from msmq.proxy.relayed_packet import RelayedPacket
from msmq.queues.arriving.message import Delivery
from msmq.storage.memory import MemoryMessageStore
from msmq.testing.streams import Conditions
from tests.nodes import support
from tests.nodes.support import ADDRESSES, Node, NodesTestCase

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
