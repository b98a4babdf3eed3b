"""Peers that break the rules, by malice or by mistake, against a real server."""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import socket
import struct
import subprocess
import sys
from collections.abc import Sequence
from email.message import Message
from http import HTTPStatus
from urllib.parse import quote
from uuid import UUID

from twisted.trial.unittest import SynchronousTestCase

from msmq.control.client import UnixConnection
from tests.builders import (
    ALPHA,
    GAMMA,
    base_header,
    establish,
    parameters,
    session_ack,
    session_header,
    user_packet,
)
from tests.integration.plain_sockets import (
    DEADLINE,
    ORDERS,
    PING_PORT,
    PlainPeer,
    ServerProcess,
    own_address,
)
from tests.vectors import vector

IMPATIENT = """
[timers]
session_initialization = 0.3
session_cleanup = 1
linger = 0.3
"""
PATIENT = """
[timers]
session_initialization = 0.3
linger = 0.3
"""


def of_type(packet: bytes, kind: int) -> bytes:
    """The same internal packet with another InternalHeader.PT."""
    return packet[:18] + bytes([kind]) + packet[19:]


class HealthySession:
    """A peer that behaves, and that notices whatever the others do to it."""

    def __init__(self, test: SynchronousTestCase, server: ServerProcess) -> None:
        self._test = test
        self._server = server
        server.client.create_queue(".\\private$\\healthy", {})
        self._peer = server.open(window_size=2, client=GAMMA)
        self._count = 0

    def exchange(self) -> None:
        """Send a message, see it acknowledged at once, and find it in its queue."""
        self._count += 1
        body = b"%d" % self._count
        self._peer.send(user_packet(body, destination=self._server.name("healthy"), source=GAMMA))
        expected = session_ack(session_header(received=self._count))
        self._test.assertEqual(self._peer.read(36), expected)
        self._test.assertEqual(self._server.bodies(queue=".\\private$\\healthy"), [body])


class HostilePeersTestCase(SynchronousTestCase):
    """A server with short timers, and a session that stays healthy to the end of each test."""

    configuration = PATIENT

    def setUp(self) -> None:
        self.server = ServerProcess(self, own_address(self), self.configuration)
        self.healthy = HealthySession(self, self.server)
        self.healthy.exchange()

    def assert_closes(self, *sent: bytes, answer: bytes = b"", opened: bool = False, reason: str) -> None:
        """Whoever sends this gets this answer and no other, is closed for this reason, and alone."""
        before = self.server.logged(f"closed: {reason}")
        peer = self.server.open() if opened else self.server.connect()
        peer.send(*sent)
        self.assertEqual(peer.read_to_end(), answer)
        peer.close()
        self.server.wait_for(f"closed: {reason}", before + 1)
        self.healthy.exchange()

    @property
    def establish_answer(self) -> bytes:
        """What answers an introduction."""
        return establish(ALPHA, self.server.identifier)


class ClosingTests(HostilePeersTestCase):
    """[MS-MQQB] 3.1.5.1: each of these ends its own connection, without a word."""

    def test_what_is_no_packet(self) -> None:
        """Another version, another signature, more than 4 MiB, less than the headers take."""
        good = user_packet(b"body", destination=self.server.name())
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

    def test_packets_out_of_turn(self) -> None:
        """A message before the handshake, and any step of the handshake at another time."""
        for answer, *sent in (
            (b"", user_packet(b"early", destination=self.server.name())),
            (b"", user_packet(bytes(100000))[:20]),
            (b"", parameters()),
            (b"", session_ack(session_header())),
            (self.establish_answer, establish(ALPHA), establish(ALPHA)),
            (self.establish_answer, establish(ALPHA), user_packet(b"early")),
            (self.establish_answer, establish(ALPHA), session_ack(session_header())),
        ):
            self.assert_closes(*sent, answer=answer, reason="packet out of turn")
        for packet in (establish(ALPHA), parameters()):
            self.assert_closes(packet, opened=True, reason="packet out of turn")
        self.assertEqual(self.server.client.queue(ORDERS)["messages"], 0)

    def test_acknowledgements_that_cannot_be(self) -> None:
        """Of what was never sent, and with counts that are not those of the session."""
        for counts, reason in (
            (session_header(received=1), "acknowledgement of what was never sent"),
            (session_header(sent=1), "message counts differ"),
        ):
            self.assert_closes(session_ack(counts), opened=True, reason=reason)

    def test_lengths_beyond_the_end(self) -> None:
        """After a good handshake, whatever a length field inside a message claims."""
        good = user_packet(b"body", destination=self.server.name(), label="label")
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
        """What is not whole is nothing; who closes in the middle of it loses only that."""
        good = user_packet(b"whole", destination=self.server.name())
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
        """Nothing at all, half an introduction, or no parameters: all end with the initialization timer."""
        reason = "handshake not finished in time"
        self.assert_closes(reason=reason)
        self.assert_closes(establish(ALPHA)[:500], reason=reason)
        self.assert_closes(establish(ALPHA), answer=self.establish_answer, reason=reason)
        self.assert_closes(establish(ALPHA), parameters()[:31], answer=self.establish_answer, reason=reason)

    def test_a_flood_of_tiny_segments(self) -> None:
        """Each byte of a conversation by itself, on ten connections in turn."""
        message = user_packet(b"drop by drop", destination=self.server.name())
        stream = establish(ALPHA) + parameters(window_size=2) + message
        peers = [self.server.connect() for _ in range(10)]
        for position in range(len(stream)):
            for peer in peers:
                peer.send(stream[position : position + 1])
        for peer in peers:
            self.assertEqual(peer.read(640)[-36:], session_ack(session_header(received=1)))
        self.assertEqual(self.server.bodies(10), [b"drop by drop"] * 10)
        self.healthy.exchange()

    def test_half_a_connection(self) -> None:
        """A peer that says that nothing follows gets what it is owed, and the connection ends."""
        peer = self.server.open(window_size=2)
        peer.send(user_packet(b"last words", destination=self.server.name()))
        self.assertEqual(peer.read(36), session_ack(session_header(received=1)))
        peer.finish()
        self.assertEqual(peer.read_to_end(), b"")
        self.assertEqual(self.server.bodies(), [b"last words"])
        self.healthy.exchange()

    def test_a_connection_that_is_reset(self) -> None:
        """Connections that vanish at every step of a conversation."""
        message = user_packet(b"x", destination=self.server.name())
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
        peer.send(user_packet(bytes(100000), destination=self.server.name())[:50000])
        idle: list[bytes] = []
        while not idle:
            # Whoever exchanges messages is not idle.
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
    """With room for ten handshakes at once, and all the time in the world for each."""

    configuration = "[limits]\nmax_handshakes = 10\n"

    def test_silence_keeps_nobody_out(self) -> None:
        """Of many connections that say nothing the oldest give way; who speaks is heard."""
        silent = [self.server.connect() for _ in range(50)]
        peer = self.server.open(window_size=2)
        peer.send(user_packet(b"heard", destination=self.server.name()))
        self.assertEqual(peer.read(36), session_ack(session_header(received=1)))
        for crowded_out in silent[:41]:
            self.assertEqual(crowded_out.read_to_end(), b"")
        self.server.wait_for("closed: too many handshakes at once", 41)
        self.assertEqual(self.server.client.status()["sessions"], 2 + 9)
        self.healthy.exchange()


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
        message = user_packet(destination=self.server.name())
        for _ in range(20):
            peer.send(message * 100)
        self.healthy.exchange()
        self.assertEqual(len(self.server.bodies(2000)), 2000)
        expected = b"".join(session_ack(session_header(received=count)) for count in range(1, 2001))
        self.assertEqual(peer.read(len(expected)), expected)


class DatagramTests(HostilePeersTestCase):
    """The ping port under fire."""

    def test_thousands_of_datagrams(self) -> None:
        """Rubbish and pings beyond the rate are dropped; sessions do not notice."""
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


class HostileMessagesTests(HostilePeersTestCase):
    """Well-formed messages with hostile contents, after a good handshake."""

    def messages(self) -> Sequence[bytes]:
        """Each is taken or refused, and ends no session."""
        here = self.server.name()
        names = [
            "",
            "x",
            "DIRECT=",
            "OS:",
            "OS:\\",
            "TCP:\\private$\\orders",
            "TCP:999.999.999.999\\private$\\orders",
            "OS:here\\private$\\",
            "OS:here\\private$\\" + "q" * 30000,
            "OS:" + "h" * 30000 + "\\private$\\orders",
            "OS:here\\private$\\orders\ud800",
            "OS:\udfff\ud800\\private$\\orders",
            "OS:here\\private$\\or\r\nders\x1b[31m\u202e",
            "OS:here\\private$\\orders;journal",
            "OS:here\\system$;deadletter",
            "OS:here\\private$\\order_queue$",
            "OS:here\\PRIVATE$\\..\\..\\etc\\passwd",
            "OS:{source}{0}%s%n\\private$\\{address}",
            "HTTP://here/msmq/private$/orders",
            "PUBLIC=00000000-0000-0000-0000-000000000000",
            "MULTICAST=239.0.0.1:1",
        ]
        packets = [user_packet(b"to nowhere", destination=name) for name in names]
        packets += [
            user_packet(b"", private_number=0xFFFFFFFF),
            user_packet(b"", private_number=0),
            user_packet(b"", private_number=4),
            user_packet(b"", destination=here, queue_manager=GAMMA),
        ]
        labels = ["\ud800", "\udfff" * 249, "a\ud800b", "{label}%s\r\n\x1b[2J", "\uffff\ufffe", "x" * 249]
        packets += [user_packet(b"label", destination=here, label=label) for label in labels]
        packets += [
            self.with_properties(user_packet(bytes(8), destination=here), 24, struct.pack("<I", kind))
            for kind in (0, 2, 3, 8, 11, 12, 31, 72, 0x1008, 0xFFFF, 0xFFFFFFFF)
        ]
        packets += [
            self.with_properties(user_packet(b"\xff\xfe\x00", destination=here), 24, struct.pack("<I", kind))
            for kind in (0, 2, 3, 8, 11, 31, 72, 0x1013, 0x80000000)
        ]
        packets += [
            self.with_properties(user_packet(b"class", destination=here), 2, struct.pack("<H", number))
            for number in (1, 2, 0xFF, 0x4000, 0x8000, 0xC004, 0xBEEF, 0xFFFF)
        ]
        packets += [
            self.with_properties(user_packet(b"much", destination=here), offset, b"\xff" * size)
            for offset, size in ((0, 1), (4, 20), (28, 4), (36, 4), (40, 4), (44, 4), (48, 4))
        ]
        packets += [
            self.with_user_header(user_packet(b"time", destination=here), offset, b"\xff\xff\xff\xff")
            for offset in (32, 36, 40)
        ]
        packets += [self.with_names(admin, 7, here) for admin in names]
        packets += [self.with_names(response, 0, here) for response in names]
        return packets

    def with_properties(self, packet: bytes, offset: int, value: bytes) -> bytes:
        """The same with other bytes in its MessagePropertiesHeader, which begins after a direct name."""
        (count,) = struct.unpack_from("<H", packet, 64)
        start = 64 + 2 + count
        start += -start % 4 + offset
        return packet[:start] + value + packet[start + len(value) :]

    def with_user_header(self, packet: bytes, offset: int, value: bytes) -> bytes:
        """The same with other bytes in its UserHeader."""
        return packet[: 16 + offset] + value + packet[16 + offset + len(value) :]

    def with_names(self, name: str, admin_kind: int, destination: str) -> bytes:
        """A message that names this queue for acknowledgements, or else for answers."""
        packet = user_packet(b"names", destination=destination)
        text = (name + "\0").encode("utf-16-le", "surrogatepass")
        encoded = struct.pack("<H", len(text)) + text
        encoded += b"\0" * (-len(encoded) % 4)
        (count,) = struct.unpack_from("<H", packet, 64)
        end = 64 + 2 + count
        end += -end % 4
        (flags,) = struct.unpack_from("<I", packet, 60)
        flags |= 7 << 13 if admin_kind else 7 << 16
        packet = packet[:60] + struct.pack("<I", flags) + packet[64:end] + encoded + packet[end:]
        return packet[:8] + struct.pack("<I", len(packet)) + packet[12:]

    def test_each_is_taken_or_refused(self) -> None:
        """One session carries them all, and what is in the queue can be seen by every means."""
        peer = self.server.open(window_size=1)
        packets = self.messages()
        for count, packet in enumerate(packets, 1):
            peer.send(packet)
            self.assertEqual(peer.read(36), session_ack(session_header(received=count)), packet[:200])
        self.healthy.exchange()
        taken = self.server.client.queue(ORDERS)["messages"]
        refused = sum(self.server.client.status()["refused"].values())
        self.assertEqual(taken + refused, len(packets))
        self.assertGreater(taken, 60)
        self.assert_shown_by_the_command(taken)
        self.assert_shown_one_by_one(taken)

    def assert_shown_by_the_command(self, count: int) -> None:
        """C{msmq receive} prints each, as JSON and for people."""
        command = [sys.executable, "-m", "msmq.cli", "--data", str(self.server.data), "receive", ORDERS]
        for options in (["--json"], []):
            done = subprocess.run(
                [*command, "--peek", "--count", str(count), "--timeout", "0", *options],
                capture_output=True,
                timeout=DEADLINE,
            )
            self.assertEqual((done.returncode, done.stderr), (0, b""))
            if options:
                self.assertEqual(len([json.loads(line) for line in done.stdout.splitlines()]), count)

    def assert_shown_one_by_one(self, count: int) -> None:
        """The control API gives each of them as an object, and with its properties as headers if they fit."""
        target = f"/v1/messages?queue={quote(ORDERS, safe='')}&timeout=0"
        for _ in range(count):
            shown = self.get(f"{target}&peek=true", "application/json")
            taken = self.get(target, "*/*")
            if taken[0] == HTTPStatus.NOT_ACCEPTABLE:
                self.assertIn(b"is too long for a header", taken[2])
                self.server.receive()
            else:
                self.assertEqual((shown[0], taken[0]), (HTTPStatus.OK, HTTPStatus.OK))
                self.assertEqual(taken[1]["Msmq-Id"], json.loads(shown[2])["id"])

    def get(self, target: str, accept: str) -> tuple[int, Message, bytes]:
        """The status, the headers and the body of an answer."""
        with contextlib.closing(UnixConnection(self.server.data / "control.sock")) as connection:
            connection.request("GET", target, headers={"Accept": accept})
            response = connection.getresponse()
            return response.status, response.headers, response.read()

    def test_mutilated_messages(self) -> None:
        """Messages with every kind of header, and random damage; each is taken, refused or malformed."""
        chance = random.Random(1811)
        originals = [*self.messages()[-60:], vector("mqqb-4.1.7-user-message")]
        outcomes = {36: 0, 0: 0}
        for _ in range(400):
            packet = bytearray(chance.choice(originals))
            for _ in range(chance.choice((1, 1, 2, 5))):
                position = chance.randrange(16, min(len(packet), 400))
                packet[position] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
            packet[60] &= ~0x20
            peer = self.server.open(window_size=1)
            peer.send(bytes(packet))
            outcomes[len(peer.read(36))] += 1
            peer.close()
        self.assertGreater(min(outcomes.values()), 40, outcomes)
        self.healthy.exchange()
        taken = self.server.client.queue(ORDERS)["messages"]
        self.assertGreater(taken, 20)
        self.assert_shown_by_the_command(taken)


class ThousandConnectionsTests(HostilePeersTestCase):
    """Memory under a long attack."""

    def attacks(self) -> Sequence[tuple[bool, bytes]]:
        """Whether there is a handshake first, and what follows."""
        good = user_packet(b"body", destination=self.server.name())
        lost = user_packet(bytes(2000), destination="OS:here\\private$\\nowhere" + "\ud800")
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
            (True, user_packet(bytes(1_000_000), destination=self.server.name())[:-1]),
            (True, good[:64] + b"\xfe\xff" + good[66:]),
            (True, lost * 8),
            (True, session_ack(session_header(received=9))),
        ]

    def attack(self, count: int, attacks: itertools.cycle[tuple[bool, bytes]]) -> None:
        """So many connections; some of them are still open and silent while the next ones come."""
        for number, (opened, data) in zip(range(count), attacks, strict=False):
            # Everyone claims to be somebody else.
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
        """After a thousand connections it is within 5 MB of what it was after the first hundred."""
        self.open: list[PlainPeer] = []
        attacks = itertools.cycle(self.attacks())
        self.attack(100, attacks)
        first = self.settle()
        self.attack(900, attacks)
        last = self.settle()
        figures = f"{first} bytes resident after 100 connections, {last} after 1000"
        self.assertLess(abs(last - first), 5_000_000, figures)
