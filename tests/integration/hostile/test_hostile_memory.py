"""Memory of a real server under hostile peers."""

from __future__ import annotations

import contextlib
import itertools
import struct
from collections.abc import Sequence
from uuid import UUID

from tests.builders import (
    ALPHA,
    GAMMA,
    establish,
    numbered_packet,
    parameters,
    session_ack,
    session_header,
)
from tests.integration.hostile.attacked_server import HostilePeersTestCase, of_type
from tests.integration.hostile.plain_sockets import (
    PlainPeer,
)


class UnreadTests(HostilePeersTestCase):
    """Peers that do not read."""

    def test_a_peer_that_reads_nothing_of_what_it_is_sent(self) -> None:
        """Messages for it stay where they are; the server holds no second copy of them."""
        peer = self.server.open()
        destination = f"PRIVATE={ALPHA}\\00000001"
        self.server.send(destination, *[bytes(1_000_000)] * 30)
        self.healthy.exchange()
        outgoing = self.server.outgoing()
        self.assertEqual((outgoing["messages"], outgoing["state"]), (30, "CONNECTED"))
        self.assertLess(outgoing["unacknowledged"], 15)
        peer.close()
        self.server.wait_for("closed: connection lost")
        self.healthy.exchange()
        self.assertEqual(self.server.outgoing()["unacknowledged"], 0)

    def test_a_peer_that_reads_no_acknowledgements(self) -> None:
        """It may send what it likes; it is acknowledged once it reads."""
        peer = self.server.open(window_size=1)
        for _ in range(20):
            peer.send(b"".join(numbered_packet(destination=self.server.name()) for _ in range(100)))
        self.healthy.exchange()
        self.assertEqual(len(self.server.bodies(2000)), 2000)
        expected = b"".join(session_ack(session_header(received=count)) for count in range(1, 2001))
        self.assertEqual(peer.read(len(expected)), expected)


class PartialPacketsTests(HostilePeersTestCase):
    """Packets that do not end, from many peers at once."""

    configuration = "[limits]\nreceive_memory = 4194304\n"

    def test_memory_is_bounded(self) -> None:
        """Forty peers that would have 160 MB kept get a tenth of it, and no other peer is affected."""
        before = self.server.resident
        packet = numbered_packet(bytes(4_000_000), destination=self.server.name())[:-1]
        hostile = [self.server.open(client=UUID(int=number + 1)) for number in range(40)]
        unsent = {peer: memoryview(packet) for peer in hostile}
        for peer in hostile:
            peer.socket.setblocking(False)
        for _ in range(40):
            for peer, rest in unsent.items():
                with contextlib.suppress(BlockingIOError):
                    unsent[peer] = rest[peer.socket.send(rest) :]
            self.healthy.exchange()
        growth = self.server.resident - before
        self.assertLess(growth, 20_000_000)
        for peer in hostile:
            peer.close()
        self.healthy.exchange()


class ThousandConnectionsTests(HostilePeersTestCase):
    """Memory under a long attack."""

    def attacks(self) -> Sequence[tuple[bool, bytes]]:
        """Whether there is a handshake first, and what follows."""
        good = numbered_packet(b"body", destination=self.server.name())
        lost = numbered_packet(bytes(2000), destination="OS:here\\private$\\nowhere" + "\ud800")
        oversize = good[:8] + struct.pack("<I", 0x00400001) + good[12:]
        unknown = of_type(parameters(), 9)
        return [
            (False, good[:4] + b"ROIL" + good[8:]),
            (False, b"\x11" + good[1:]),
            (False, oversize),
            (False, unknown),
            (False, good),
            (False, establish(ALPHA)[:300]),
            (False, establish(ALPHA, GAMMA)),
            (False, b""),
            (True, oversize),
            (True, unknown),
            (True, good[:-10]),
            (True, numbered_packet(bytes(1_000_000), destination=self.server.name())[:-1]),
            (True, good[:64] + b"\xfe\xff" + good[66:]),
            (True, lost * 8),
            (True, session_ack(session_header(received=9))),
        ]

    def attack(self, count: int, attacks: itertools.cycle[tuple[bool, bytes]]) -> None:
        """Open this number of connections; some are still open and silent while the next ones are made."""
        for number, (opened, data) in zip(range(count), attacks, strict=False):
            # Each peer claims another identity.
            peer = self.server.open(client=UUID(int=number + 1)) if opened else self.server.connect()
            peer.send(data)
            self.open.append(peer)
            if len(self.open) == 30:
                self.open.pop(0).close()

    def settle(self) -> int:
        """Wait until only the healthy session is left; gives the resident memory."""
        while self.open:
            self.open.pop().close()
        for _ in range(100000):
            if self.server.client.status()["sessions"] == 1:
                break
        self.healthy.exchange()
        return self.server.resident

    def test_memory_stays(self) -> None:
        """After a thousand connections it is within 8 MB of what it was after the first hundred."""
        self.open: list[PlainPeer] = []
        attacks = itertools.cycle(self.attacks())
        self.attack(100, attacks)
        first = self.settle()
        self.attack(900, attacks)
        last = self.settle()
        figures = f"{first} bytes resident after 100 connections, {last} after 1000"
        # A forked server maps pages that it shares with its parent as it first touches them: some megabytes.
        self.assertLess(abs(last - first), 8_000_000, figures)
