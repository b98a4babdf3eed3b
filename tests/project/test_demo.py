"""The demo: what it promises, what its witness sees, and a run of the whole."""

from __future__ import annotations

import hashlib
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, cast
from uuid import UUID

import attrs
from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import ServerFactory
from twisted.trial.unittest import SynchronousTestCase

from msmq.net.resolver import NextHopAddress
from msmq.queues.arriving.message import Message
from msmq.queues.arriving.packet_builder import build_packet
from msmq.session.packet_counts import KindCounts
from msmq.structures.names.format_name import parse_format_name
from msmq.structures.packet.base_header import BaseHeader
from msmq.structures.status import MQError, Status
from tests.builders import ALPHA
from tests.nodes.support import Node, NodesTestCase
from tests.patience import DEADLINE
from tests.project.example_files import EXAMPLES, example
from tests.servers.own_address import own_address


class PromisesTests(SynchronousTestCase):
    """The demo notices each kind of broken promise."""

    def setUp(self) -> None:
        self.messages = example("demo_messages")
        self.parcels = [
            self.messages.Parcel(f"A {number}", number % 2, b"%d" % number) for number in range(6)
        ]
        self.arrivals = [
            self.messages.Arrival(parcel.label, parcel.priority, 1, hashlib.sha256(parcel.body).digest())
            for parcel in (*self.parcels[1::2], *self.parcels[::2])
        ]

    def broken(self) -> list[str]:
        return list(self.messages.broken_promises(self.parcels, self.arrivals))

    def test_all_held(self) -> None:
        """Higher priorities may overtake lower ones, and nothing else happened."""
        self.assertEqual(self.broken(), [])

    def test_lost_messages_are_reported(self) -> None:
        """A message that did not arrive is named."""
        del self.arrivals[2]
        self.assertEqual(self.broken(), ["A 5 never arrived"])

    def test_duplicates_are_reported(self) -> None:
        """A message that arrived again is named."""
        self.arrivals.insert(1, self.arrivals[0])
        self.assertEqual(self.broken(), ["A 1 arrived 2 times"])

    def test_foreign(self) -> None:
        """A message that was never sent is named."""
        self.arrivals.append(self.messages.Arrival("B 1", 3, 0, b""))
        self.assertEqual(self.broken(), ["B 1 was never sent"])

    def test_altered(self) -> None:
        """Another body, or another priority, is noticed."""
        self.arrivals[0] = attrs.evolve(self.arrivals[0], sha256=bytes(32))
        self.arrivals[5] = attrs.evolve(self.arrivals[5], priority=7)
        self.assertEqual(
            self.broken(), ["A 1 arrived with another body", "A 4 arrived with priority 7, not 0"]
        )

    def test_out_of_order(self) -> None:
        """Messages of one priority that changed places are named."""
        self.arrivals[:2] = reversed(self.arrivals[:2])
        self.assertEqual(self.broken(), ["A 3 overtook A 1 within priority 1"])

    def test_largest_body(self) -> None:
        """The largest body fills a packet to the last byte, and one more does not fit."""
        label, to = "ALPHA 0000", r"DIRECT=TCP:127.0.0.3\private$\orders"
        largest = self.messages.largest_body(label, to)

        def packet(size: int) -> bytes:
            message = Message(body=bytes(size), label=label)
            return build_packet(message, parse_format_name(to), source=ALPHA, message_id=1, sent_time=0)

        self.assertEqual(len(packet(largest)), BaseHeader.MAXIMUM_PACKET_SIZE)
        error = self.assertRaises(MQError, packet, largest + 1)
        self.assertEqual(cast(MQError, error).status, Status.MQ_ERROR_INSUFFICIENT_RESOURCES)

    def test_sizes(self) -> None:
        """Empty bodies and the largest are among the messages, and each run has the same."""
        to = r"DIRECT=TCP:127.0.0.3\private$\orders"
        parcels = self.messages.make_parcels("ALPHA", to, 20)
        sizes = {len(parcel.body) for parcel in parcels}
        self.assertTrue({0, self.messages.largest_body("ALPHA 0000", to)} <= sizes)
        self.assertEqual(self.messages.make_parcels("ALPHA", to, 20), parcels)


@attrs.define(eq=False)
class Made(ServerFactory):
    """Asks a function for its protocols."""

    _make: Callable[[], Any]

    def buildProtocol(self, addr: IAddress | None) -> Any:
        return self._make()


class DetourNode(Node):
    """A queue manager whose connections go to a tap."""

    async def _lookup(self, name: str) -> Sequence[NextHopAddress]:
        return [NextHopAddress(name, 5000, self.host.client_endpoint("127.0.0.1", 5000))]


class CrashTests(SynchronousTestCase):
    """The second act notices what is lost, comes twice, or comes out of order."""

    def setUp(self) -> None:
        self.crash = example("demo_crash")
        self.labels = [f"{number:04}" for number in range(self.crash.COUNT)]

    def judge(self) -> list[str]:
        return list(self.crash.judge(self.labels, "transactional"))

    def test_all_held(self) -> None:
        """Everything arrived once and in order."""
        self.assertEqual(self.judge(), [])

    def test_lost_messages_are_reported(self) -> None:
        """Missing messages are counted, and the first is named."""
        del self.labels[7:9]
        self.assertEqual(self.judge(), ["2 transactional messages never arrived, 0007 the first of them"])

    def test_duplicates_are_reported(self) -> None:
        """Duplicates are counted."""
        self.labels.insert(3, "0003")
        self.assertEqual(
            self.judge(), ["1 transactional messages arrived more than once, 0003 the first of them"]
        )

    def test_out_of_order(self) -> None:
        """All messages are there, but not in their order."""
        self.labels.reverse()
        self.assertEqual(self.judge(), ["transactional messages arrived out of order"])


class WitnessTests(NodesTestCase):
    """The witness of the demo sees what both sides say."""

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        return DetourNode(self.network, self.clock, name, identifier, self.settings, **kwargs)

    def setUp(self) -> None:
        super().setUp()
        witness = example("demo_witness")
        self.there: Counter[str] = Counter()
        self.back: Counter[str] = Counter()
        host = self.network.host("127.0.0.1")
        onward = host.client_endpoint("127.0.0.3", 1801)
        near = Made(lambda: witness.NearSide(self.there, witness.Side(self.back), onward))
        host.server_endpoint(5000).listen(near)

    def test_counts_what_both_sides_count(self) -> None:
        """Every packet is passed on, and counted by its kind, in both directions."""
        path = self.queue(self.beta)
        self.send(self.alpha, r"DIRECT=TCP:127.0.0.3\private$\orders", *[b"x" * 5000] * 40)
        self.clock.advance(30)
        self.assertEqual(len(self.take(self.beta, path)), 40)
        sent, received = (node.service.inspection.status().packets for node in (self.alpha, self.beta))
        self.assertEqual(dict(self.there), _counted(sent.sent))
        self.assertEqual(sent.sent, received.received)
        self.assertEqual(dict(self.back), _counted(sent.received))
        self.assertEqual(sent.received, received.sent)
        self.assertEqual(self.there["user_message"], 40)

    def test_passes_on_what_it_cannot_read(self) -> None:
        """A stream that is not one of sessions is counted as such, and the receiver judges it."""
        connecting = self.network.host("127.0.0.2").client_endpoint("127.0.0.1", 5000)
        protocol = example("demo_witness").Side({})
        connecting.connect(Made(lambda: protocol))
        self.clock.advance(1)
        protocol.transport.write(b"GET / HTTP/1.1\r\n\r\n")
        self.clock.advance(1)
        self.assertEqual(dict(self.there), {"unreadable": 1})
        self.assertFalse(protocol.transport.connected)


class DemoTests(SynchronousTestCase):
    """The demo as C{make demo} runs it, on two addresses of its own."""

    def run_demo(self) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, str(EXAMPLES / "demo.py"), own_address(4), own_address(5)],
            capture_output=True,
            text=True,
            timeout=DEADLINE,
        )

    def test_every_promise_holds(self) -> None:
        """A thousand messages cross, once, intact and in order, and the witness agrees with both servers."""
        done = self.run_demo()
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("1000 messages arrived once.", done.stdout)
        self.assertIn("Every promise held.", done.stdout)

    def test_port_in_use(self) -> None:
        """An address whose port is taken is named in one line, and nothing keeps running."""
        with socket.socket() as taken:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            taken.bind((own_address(4), 1801))
            taken.listen()
            done = self.run_demo()
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertEqual(
            done.stderr,
            f"demo: ALPHA cannot start: cannot listen on TCP {own_address(4)}:1801: Address already in use\n",
        )


def _counted(counts: KindCounts) -> dict[str, int]:
    """The kinds of packets with a count."""
    return {kind: count for kind, count in attrs.asdict(counts).items() if count}
