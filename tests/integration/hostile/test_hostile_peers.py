"""Peers that break the rules, by malice or by mistake, against a real server."""

from __future__ import annotations

import random
import socket
import struct

from tests.builders import (
    ALPHA,
    base_header,
    establish,
    numbered_packet,
    parameters,
    session_ack,
    session_header,
)
from tests.integration.hostile.attacked_server import IMPATIENT, HostilePeersTestCase, of_type
from tests.integration.hostile.plain_sockets import (
    ORDERS,
    PING_PORT,
)
from tests.vectors import vector


class ClosingTests(HostilePeersTestCase):
    """[MS-MQQB] 3.1.5.1: each of these ends its own connection, without a word."""

    def test_invalid_packets(self) -> None:
        """Another version, another signature, more than 4 MiB, less than the headers take."""
        good = numbered_packet(b"body", destination=self.server.name())
        for field, header in (
            ("VersionNumber", b"\x11" + good[1:16]),
            ("Signature", good[:4] + b"ROIL" + good[8:16]),
            ("PacketSize", good[:8] + struct.pack("<I", 0x00400001) + good[12:16]),
            ("PacketSize", good[:8] + struct.pack("<I", 0xFFFFFFFF) + good[12:16]),
            ("PacketSize", good[:8] + struct.pack("<I", 119) + good[12:16]),
            ("PacketSize", base_header(0x000B, 33)),
        ):
            reason = f"malformed packet ([MS-MQMQ] 2.2.19.1 BaseHeader.{field} "
            for opened in (False, True):
                self.assert_closes(header, opened=opened, reason=reason)

    def test_internal_packets_that_do_not_exist(self) -> None:
        """A packet type that no document knows, and a type in a packet of the wrong size."""
        for kind in (0, 4, 9, 15):
            for opened in (False, True):
                self.assert_closes(of_type(parameters(), kind), opened=opened, reason="malformed packet")
        for kind, packet in ((1, establish(ALPHA)), (2, parameters()), (3, session_ack(session_header()))):
            self.assert_closes(of_type(packet, kind), reason="malformed packet")

    def test_packets_at_the_wrong_time(self) -> None:
        """A message before the handshake, and any step of the handshake at another time."""
        for answer, *sent in (
            (b"", numbered_packet(b"early", destination=self.server.name())),
            (b"", numbered_packet(bytes(100000))[:20]),
            (b"", parameters()),
            (b"", session_ack(session_header())),
            (self.establish_answer, establish(ALPHA), establish(ALPHA)),
            (self.establish_answer, establish(ALPHA), numbered_packet(b"early")),
            (self.establish_answer, establish(ALPHA), session_ack(session_header())),
        ):
            self.assert_closes(*sent, answer=answer, reason="unexpected packet")
        for packet in (establish(ALPHA), parameters()):
            self.assert_closes(packet, opened=True, reason="unexpected packet")
        self.assertEqual(self.server.client.queue(ORDERS)["messages"], 0)

    def test_acknowledgements_that_cannot_be(self) -> None:
        """Acknowledgements of messages never sent, and with counts of another session."""
        for counts, reason in (
            (session_header(received=1), "acknowledgement of unsent messages"),
            (session_header(sent=1), "message counts differ"),
        ):
            self.assert_closes(session_ack(counts), opened=True, reason=reason)

    def test_lengths_beyond_the_end(self) -> None:
        """Any length field of a message that exceeds it, after a valid handshake."""
        good = numbered_packet(b"body", destination=self.server.name(), label="label")
        properties = len(good) - 56 - 12 - 4
        for position, value in (
            (64, b"\xfe\xff"),
            (64, b"\x00\x00"),
            (64, b"\x03\x00"),
            (properties + 1, b"\xff"),
            (properties + 1, b"\x01"),
            (properties + 32, b"\xff\xff\xff\xff"),
            (properties + 32, b"\x00\x00\x40\x00"),
            (properties + 52, b"\xff\xff\xff\xff"),
            (60, b"\xff\xff\xff\xff"),
        ):
            packet = good[:position] + value + good[position + len(value) :]
            self.assertEqual(len(packet), len(good))
            self.assert_closes(packet, opened=True, reason="malformed packet")
        self.assertEqual(self.server.client.queue(ORDERS)["messages"], 0)

    def test_a_packet_cut_short(self) -> None:
        """An incomplete packet has no effect; closing in the middle of it loses only that."""
        good = numbered_packet(b"whole", destination=self.server.name())
        for opened, sent in (
            (False, b"\x10"),
            (False, establish(ALPHA)[:571]),
            (True, good[:15]),
            (True, good[:-1]),
            (True, good + good[:100]),
        ):
            before = self.server.logged("closed: connection lost")
            peer = self.server.open() if opened else self.server.connect()
            peer.send(sent)
            peer.finish()
            self.assertEqual(peer.read_to_end(), b"")
            self.server.wait_for("closed: connection lost", before + 1)
            self.healthy.exchange()
        self.assertEqual(self.server.bodies(), [b"whole"])

    def test_silence_in_a_handshake(self) -> None:
        """No data, half an EstablishConnection, or no parameters: all end with the initialization timer."""
        reason = "handshake not finished in time"
        self.assert_closes(reason=reason)
        self.assert_closes(establish(ALPHA)[:500], reason=reason)
        self.assert_closes(establish(ALPHA), answer=self.establish_answer, reason=reason)
        self.assert_closes(establish(ALPHA), parameters()[:31], answer=self.establish_answer, reason=reason)

    def test_half_a_connection(self) -> None:
        """A peer that says that nothing follows gets what it is owed, and the connection ends."""
        peer = self.server.open(window_size=2)
        peer.send(numbered_packet(b"last words", destination=self.server.name()))
        self.assertEqual(peer.read(36), session_ack(session_header(received=1)))
        peer.finish()
        self.assertEqual(peer.read_to_end(), b"")
        self.assertEqual(self.server.bodies(), [b"last words"])
        self.healthy.exchange()

    def test_a_connection_that_is_reset(self) -> None:
        """Connections that vanish at every step of a conversation."""
        message = numbered_packet(b"x", destination=self.server.name())
        stream = [b"", establish(ALPHA), parameters(window_size=2), message, message[:50]]
        for steps in range(len(stream) + 1):
            peer = self.server.connect()
            peer.send(*stream[:steps])
            peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            peer.close()
        self.healthy.exchange()


class IdleTests(HostilePeersTestCase):
    """With a cleanup timer of one second."""

    configuration = IMPATIENT

    def test_silence_in_the_middle_of_a_packet(self) -> None:
        """An open session whose packet does not go on is idle, and closes as idle."""
        peer = self.server.open()
        peer.send(numbered_packet(bytes(100000), destination=self.server.name())[:50000])
        idle: list[bytes] = []
        while not idle:
            # A peer that exchanges messages is not idle.
            self.healthy.exchange()
            peer.socket.settimeout(0.1)
            try:
                idle.append(peer.socket.recv(1))
            except TimeoutError:
                continue
        self.assertEqual(idle, [b""])
        self.server.wait_for("closed: idle")
        self.healthy.exchange()


class CrowdTests(HostilePeersTestCase):
    """A server with a limit of ten handshakes, and the usual time for each."""

    configuration = "[limits]\nmax_handshakes = 10\n"

    def test_silent_connections_do_not_lock_out_others(self) -> None:
        """The oldest of many silent connections are closed; a peer that sends is served."""
        silent = [self.server.connect() for _ in range(50)]
        peer = self.server.open(window_size=2)
        peer.send(numbered_packet(b"heard", destination=self.server.name()))
        self.assertEqual(peer.read(36), session_ack(session_header(received=1)))
        for crowded_out in silent[:41]:
            self.assertEqual(crowded_out.read_to_end(), b"")
        self.server.wait_for("closed: too many handshakes at once", 41)
        self.assertEqual(self.server.client.status()["sessions"], 2 + 9)
        self.healthy.exchange()

    def test_a_flood_of_tiny_segments(self) -> None:
        """Each byte of a conversation by itself, on ten connections alternately."""
        peers = [self.server.connect() for _ in range(10)]
        streams = [
            establish(ALPHA)
            + parameters(window_size=2)
            + numbered_packet(b"drop by drop", destination=self.server.name())
            for _ in peers
        ]
        for position in range(len(streams[0])):
            for peer, stream in zip(peers, streams, strict=True):
                peer.send(stream[position : position + 1])
        for peer in peers:
            self.assertEqual(peer.read(640)[-36:], session_ack(session_header(received=1)))
        self.assertEqual(self.server.bodies(10), [b"drop by drop"] * 10)
        self.healthy.exchange()


class DatagramTests(HostilePeersTestCase):
    """The ping port under fire."""

    def test_thousands_of_datagrams(self) -> None:
        """Malformed datagrams and pings beyond the rate are dropped; sessions are not affected."""
        rubbish = random.Random(4)
        request = vector("mqqb-4.1.1-ping-request")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as flood:
            flood.connect((self.server.address, PING_PORT))
            for number in range(3000):
                flood.send(rubbish.randbytes(rubbish.randrange(60)))
                flood.send(request[:4] + struct.pack("<I", number) + request[8:])
                if number % 500 == 0:
                    self.healthy.exchange()
            flood.setblocking(False)
            answers = 0
            while True:
                try:
                    answer = flood.recv(1000)
                except BlockingIOError:
                    break
                self.assertEqual(answer[8:], self.server.identifier.bytes_le)
                answers += 1
        self.assertTrue(0 < answers < 1000, answers)
        self.healthy.exchange()
