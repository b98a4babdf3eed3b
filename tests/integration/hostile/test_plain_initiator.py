"""[MS-MQQB] 4.1 between a plain socket and a real server, in both roles."""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
from collections.abc import Callable
from typing import Any
from uuid import UUID

from twisted.trial.unittest import SynchronousTestCase

from tests.builders import (
    ALPHA,
    BETA,
    GAMMA,
    base_header,
    establish,
    established,
    numbered_packet,
    parameters,
    session_ack,
    session_header,
)
from tests.integration.hostile.plain_sockets import (
    ORDERS,
    PING_PORT,
    PlainListener,
    PlainPeer,
    ServerProcess,
    own_address,
)
from tests.patience import DEADLINE
from tests.servers.prepared import PROGRAMS, run
from tests.vectors import vector

PING_REQUEST = vector("mqqb-4.1.1-ping-request")
ESTABLISH_REQUEST = vector("mqqb-4.1.3-establish-connection-request")
PARAMETERS_REQUEST = vector("mqqb-4.1.5-connection-parameters-request")
USER_MESSAGE = vector("mqqb-4.1.7-user-message")


def with_server(request: bytes, identifier: UUID) -> bytes:
    """The same EstablishConnection packet, meant for this queue manager."""
    return request[:36] + identifier.bytes_le + request[52:]


class PlainInitiatorTests(SynchronousTestCase):
    """A peer that follows section 4.1 packet by packet gets what the documents say."""

    def setUp(self) -> None:
        self.server = ServerProcess(self, own_address(self))

    def ping(self, request: bytes) -> bytes:
        """The response to a Ping Request."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
            asker.settimeout(DEADLINE)
            asker.sendto(request, (self.server.address, PING_PORT))
            return asker.recv(1000)

    def test_follows_the_worked_example(self) -> None:
        """Ping, introduction, parameters, message: the packets of the example, and what answers them.

        The port is 1801, and any port of the initiator will do (MQQB-2.1.1-02, MQQB-2.1.1-03).
        """
        server = self.server
        response = self.ping(PING_REQUEST)
        self.assertEqual(len(response), 24)
        flags, signature, cookie = struct.unpack("<HHI", response[:8])
        self.assertEqual((flags & 3, signature, cookie), (1, 0x5548, 4))
        self.assertEqual(response[8:], server.identifier.bytes_le)

        peer = server.connect()
        request = with_server(ESTABLISH_REQUEST, server.identifier)
        peer.send(request)
        response = peer.read(572)
        self.assertEqual(response[:2], b"\x10\x5a", "as in frame 4; a port scanner's probe looks for it")
        self.assertEqual(response[2:16], base_header(0x000B, 572)[2:])
        self.assertEqual(response[16:20], b"\0\0\x02\0")
        self.assertEqual(response[20:36], request[20:36], "the GUID of the initiator")
        self.assertEqual(response[36:52], server.identifier.bytes_le)
        self.assertEqual(response[52:56], request[52:56], "TimeStamp")
        self.assertEqual(response[56:58], b"\x10\x01", "SE as in the request, and no server system")
        self.assertEqual(response[58:60], b"\0\0")
        self.assertEqual(response[60:], b"\x5a" * 512)

        peer.send(PARAMETERS_REQUEST)
        self.assertEqual(peer.read(32), base_header(0x000B, 32) + PARAMETERS_REQUEST[16:])

        # The example's message is for a queue that is not here: it counts, and is traced in the log.
        message = numbered_packet(bytes(range(256)), destination=server.name(), label="own", message_id=7)
        peer.send(USER_MESSAGE, message * 31)
        self.assertEqual(peer.read(36), session_ack(session_header(received=32)))
        self.assertEqual(server.bodies(31), [bytes(range(256))] * 31)
        self.assertEqual(server.client.status()["refused"], {"NACK_BAD_DST_Q": 1})
        self.assertEqual(server.logged("not accepted: NACK_BAD_DST_Q"), 1)
        [session] = server.client.sessions()
        self.assertEqual(session["remote_identifier"], "557358D1-9150-9595-4997-B6E611EA26C6")
        self.assertEqual((session["state"], session["direction"]), ("OPEN", "incoming"))

    def test_ping_says_what_was_asked(self) -> None:
        """Cookie and RC come back, and the GUID is that of C{msmq status}."""
        for flags, cookie in ((0, 0), (1, 0xFFFFFFFF), (0xFFFD, 0x12345678)):
            request = struct.pack("<HHI", flags, 0x5548, cookie) + ALPHA.bytes_le
            expected = struct.pack("<HHI", flags & 1, 0x5548, cookie) + self.server.identifier.bytes_le
            self.assertEqual(self.ping(request), expected)

    def test_introduction_has_the_identifier(self) -> None:
        """ServerGuid is null or the right one; any TimeStamp and SE are repeated."""
        own = self.server.identifier
        for server_guid, time_stamp, system, answered in (
            (UUID(int=0), 0, 0x0110, 0x0110),
            (own, 0xFFFFFFFF, 0x0010, 0x0010),
            (UUID(int=0), 0x12345678, 0xFF10, 0x0110),
            (own, 1, 0xFE10, 0x0010),
        ):
            peer = self.server.connect()
            peer.send(
                establish(
                    GAMMA,
                    server_guid,
                    time_stamp=time_stamp,
                    operating_system=system,
                    padding=bytes(range(256)) * 2,
                )
            )
            expected = established(GAMMA, own, time_stamp=time_stamp, operating_system=answered)
            self.assertEqual(peer.read(572), expected)

    def test_refuses_the_identifier_of_another(self) -> None:
        """A ServerGuid of another queue manager is answered with CS, and the connection ends."""
        peer = self.server.connect()
        peer.send(establish(ALPHA, GAMMA))
        self.assertEqual(peer.read_to_end(), established(ALPHA, self.server.identifier, refused=True))

    def test_parameters_come_back(self) -> None:
        """Both times are echoed, even those outside their ranges; the window is ours."""
        for recoverable, timeout, window in ((1496, 120000, 64), (0, 0, 0), (0xFFFFFFFF, 0xFFFFFFFF, 0xFFFF)):
            peer = self.server.connect()
            peer.send(establish(ALPHA), parameters(recoverable, timeout, window))
            peer.read(572)
            self.assertEqual(peer.read(32), parameters(recoverable, timeout, 64))

    def test_delivers_to_every_name_of_a_queue(self) -> None:
        """TCP, OS, with DIRECT= and without, in any case, and by the number of a private queue."""
        number = int(self.server.client.queue(ORDERS)["format_name"].split("\\")[1], 16)
        peer = self.server.open(window_size=1)
        packets = [
            numbered_packet(b"1", destination=self.server.name()),
            numbered_packet(b"2", destination="OS:whoever\\PRIVATE$\\Orders"),
            numbered_packet(b"3", destination="DIRECT=TCP:192.0.2.1\\private$\\orders"),
            numbered_packet(b"4", private_number=number),
            numbered_packet(b"5", private_number=number, queue_manager=self.server.identifier),
        ]
        for count, packet in enumerate(packets, 1):
            peer.send(packet)
            self.assertEqual(peer.read(36), session_ack(session_header(received=count)))
        self.assertEqual(self.server.bodies(5), [b"1", b"2", b"3", b"4", b"5"])

    def close_sessions(self, name: str) -> subprocess.CompletedProcess[str]:
        """C{msmq session close}."""
        data = str(self.server.data)
        command = [str(PROGRAMS / "msmq"), "--data", data, "session", "close", name, "--json"]
        return run(command, timeout=DEADLINE)

    def closed(self, name: str) -> list[dict[str, Any]]:
        """The sessions that it closed."""
        return [json.loads(line) for line in self.close_sessions(name).stdout.splitlines()]

    def test_an_operator_closes_a_session(self) -> None:
        """C{msmq session close} ends the connections of an address, and a session by its identifier."""
        peers = [self.server.open(), self.server.open()]
        local = peers[0].socket.getsockname()[0]
        self.assertEqual(len(self.closed(local)), 2)
        self.assertEqual([peer.read_to_end() for peer in peers], [b"", b""])
        peer = self.server.open()
        [session] = self.server.client.sessions()
        [closed] = self.closed(session["identifier"][:8].lower())
        self.assertEqual(closed["identifier"], session["identifier"])
        self.assertEqual(peer.read_to_end(), b"")
        gone = self.close_sessions(local)
        self.assertEqual(gone.returncode, 1, gone.stderr)
        self.assertIn(f"no session has the identifier or address '{local}'", gone.stderr)

    def test_the_command_receives_what_came(self) -> None:
        """C{msmq receive} prints the message with everything that its sender gave it."""
        peer = self.server.open()
        peer.send(
            numbered_packet(
                "Grüße".encode(),
                destination=self.server.name(),
                label="Bücher",
                priority=5,
                message_id=99,
                sent_time=1_700_000_000,
                source=BETA,
            )
        )
        command = [os.fspath(PROGRAMS / "msmq"), "--data", str(self.server.data), "receive", ORDERS]
        done = run([*command, "--timeout", str(DEADLINE), "--json"], timeout=DEADLINE)
        message = json.loads(done.stdout)
        self.assertEqual(message["id"], f"{{{str(BETA).upper()}}}\\99")
        self.assertEqual((message["label"], message["priority"]), ("Bücher", 5))
        self.assertEqual((message["body"], message["sent_time"]), ("Grüße", "2023-11-14T22:13:20+00:00"))

    def test_acknowledges_at_half_the_window(self) -> None:
        """With a window of 8 the fourth message brings the acknowledgement, at once."""
        peer = self.server.open(window_size=8)
        for count in (4, 8, 12):
            peer.send(b"".join(numbered_packet(b"x", destination=self.server.name()) for _ in range(4)))
            self.assertEqual(peer.read(36), session_ack(session_header(received=count)))

    def test_takes_every_byte_by_itself(self) -> None:
        """How the stream is cut makes no difference."""
        peer = self.server.connect()
        stream = (
            establish(ALPHA)
            + parameters(window_size=2)
            + numbered_packet(b"x", destination=self.server.name())
        )
        for position in range(len(stream)):
            peer.send(stream[position : position + 1])
        self.assertEqual(peer.read(572 + 32 + 36)[-36:], session_ack(session_header(received=1)))
        self.assertEqual(self.server.bodies(), [b"x"])

    def test_acknowledges_each_session_by_itself(self) -> None:
        """Two sessions of one peer have counts of their own (MQQB-1.3.5.1-02)."""
        first, second = self.server.open(window_size=2), self.server.open(window_size=2)
        packet = numbered_packet(b"x", destination=self.server.name())
        for count in (1, 2, 3):
            first.send(packet)
            self.assertEqual(first.read(36), session_ack(session_header(received=count)))
        second.send(packet)
        self.assertEqual(second.read(36), session_ack(session_header(received=1)))

    def test_takes_a_whole_packet_and_an_attached_acknowledgement(self) -> None:
        """The largest packet arrives whole, and a SessionHeader behind it is not part of it."""
        peer = self.server.open(window_size=2)
        fixed = len(numbered_packet(b"", destination=self.server.name()))
        body = bytes(range(256)) * 16384
        body = body[: 0x00400000 - fixed]
        header = session_header(sent=1, window_size=2)
        peer.send(numbered_packet(body, destination=self.server.name(), header=header))
        self.assertEqual(peer.read(36), session_ack(session_header(received=1)))
        self.assertEqual(self.server.bodies(), [body])


class PlainAcceptorTests(SynchronousTestCase):
    """The server dials a plain socket: what it says, and what it makes of the answers."""

    def setUp(self) -> None:
        self.address = own_address(self)
        self.listener = PlainListener(self, self.address)
        self.destination = f"TCP:{self.address}\\private$\\there"
        self.server = ServerProcess(
            self, own_address(self), "[timers]\nsession_initialization = 0.4\nsession_retry = 0.1\n"
        )

    def send(self, *bodies: bytes) -> list[int]:
        """Have these sent; gives the numbers in their identifiers."""
        sent = self.server.send(f"DIRECT={self.destination}", *bodies)
        return [int(identifier.rpartition("\\")[2]) for identifier in sent]

    def introduced(self) -> tuple[PlainPeer, bytes]:
        """The next connection, and the introduction that came on it."""
        peer = self.listener.accept()
        request = peer.read(572)
        self.assertEqual(request[20:36], self.server.identifier.bytes_le)
        return peer, request

    def answer(self, request: bytes, *, refused: bool = False, server: UUID = BETA) -> bytes:
        """The response of the documents to an introduction."""
        (time_stamp,) = struct.unpack("<I", request[52:56])
        return establish(self.server.identifier, server, time_stamp=time_stamp, refused=refused)

    def opened(self, window_size: int = 64) -> PlainPeer:
        """The next connection, after the handshake."""
        peer, request = self.introduced()
        peer.send(self.answer(request))
        self.assertEqual(peer.read(32), parameters(500, 20000, 64))
        peer.send(parameters(500, 20000, window_size))
        return peer

    def packet(self, number: int, body: bytes) -> Callable[[bytes], bytes]:
        """The expected packet of this message; SentTime is taken from the received one.

        It has four days to reach its queue.
        """

        def expected(arrived: bytes) -> bytes:
            (sent_time,) = struct.unpack("<I", arrived[52:56])
            packet = numbered_packet(
                body,
                destination=self.destination,
                message_id=number,
                source=self.server.identifier,
                sent_time=sent_time,
            )
            return packet[:12] + struct.pack("<I", 4 * 86400) + packet[16:]

        return expected

    def assert_sends(self, peer: PlainPeer, number: int, body: bytes) -> None:
        """Exactly this message is the next thing on the connection."""
        expected = self.packet(number, body)
        size = len(expected(bytes(56)))
        arrived = peer.read(size)
        self.assertEqual(arrived, expected(arrived))

    def assert_history(self, *expected: str) -> None:
        """The connection history of the outgoing queue begins like this."""
        history = [entry["status"] for entry in self.server.outgoing()["history"]]
        self.assertEqual(history[: len(expected)], list(expected))

    def wait_until_empty(self, left: int = 0) -> None:
        """Wait until at most this number of messages are pending or unacknowledged."""
        for _ in range(10000):
            if self.server.outgoing()["messages"] == left:
                return
        self.fail("messages are still there")

    def test_speaks_first_and_in_order(self) -> None:
        """Introduction, parameters, message; each waits for the answer before it.

        The connection comes to port 1801 (MQQB-2.1.1-01), and no ping before it (MQQB-2.1-02).
        A message is exactly PacketSize bytes on the connection (MQQB-3.1.7.1.6-01).
        """
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as pings:
            pings.bind((self.address, PING_PORT))
            pings.setblocking(False)
            [number] = self.send(b"hello")
            peer, request = self.introduced()
            (time_stamp,) = struct.unpack("<I", request[52:56])
            self.assertEqual(request, establish(self.server.identifier, time_stamp=time_stamp))
            self.assertRaises(BlockingIOError, pings.recv, 1000)
        peer.send(self.answer(request))
        self.assertEqual(peer.read(32), parameters(500, 20000, 64))
        peer.send(parameters(500, 20000, 64))
        self.assert_sends(peer, number, b"hello")
        self.assertEqual(self.server.outgoing()["unacknowledged"], 1)
        peer.send(session_ack(session_header(received=1)))
        self.wait_until_empty()
        self.assert_history("InProcess", "EstablishPacketReceived", "Established")
        self.assertEqual(self.server.outgoing()["state"], "CONNECTED")

    def test_sends_no_more_than_the_window(self) -> None:
        """With a window of 2 the third message comes when the first is acknowledged."""
        numbers = self.send(b"1", b"2", b"3", b"4")
        peer = self.opened(window_size=2)
        self.assert_sends(peer, numbers[0], b"1")
        self.assert_sends(peer, numbers[1], b"2")
        self.assertEqual(self.server.outgoing()["unacknowledged"], 2)
        peer.send(session_ack(session_header(received=1, window_size=2)))
        self.assert_sends(peer, numbers[2], b"3")
        peer.send(session_ack(session_header(received=3, window_size=2)))
        self.assert_sends(peer, numbers[3], b"4")
        peer.send(session_ack(session_header(received=4, window_size=2)))
        self.wait_until_empty()

    def test_takes_messages_on_a_session_that_it_dialled(self) -> None:
        """Messages are sent both ways, and are counted both ways."""
        [number] = self.send(b"there")
        peer = self.opened(window_size=2)
        self.assert_sends(peer, number, b"there")
        peer.send(
            numbered_packet(
                b"and back",
                destination=self.server.name(),
                header=session_header(received=1, sent=1, window_size=2),
            )
        )
        self.assertEqual(peer.read(36), session_ack(session_header(received=1, sent=1)))
        self.assertEqual(self.server.bodies(), [b"and back"])
        self.wait_until_empty()

    def assert_dials_again(self, number: int, reason: str, *history: str) -> None:
        """It closed for this reason, kept its message, and delivers it on the next connection."""
        self.server.wait_for(f"closed: {reason}")
        peer = self.opened()
        self.assert_history(*history)
        self.assert_sends(peer, number, b"kept")
        peer.send(session_ack(session_header(received=1)))
        self.wait_until_empty()

    def test_a_refused_introduction_is_tried_again(self) -> None:
        """CS in the answer ends the attempt, and the message waits for the next one."""
        [number] = self.send(b"kept")
        peer, request = self.introduced()
        peer.send(self.answer(request, refused=True))
        self.assertEqual(peer.read_to_end(), b"")
        self.assert_dials_again(number, "refused by the peer", "InProcess", "ConnectionRefused", "InProcess")

    def test_refused_parameters_are_tried_again(self) -> None:
        """The same for CS in the second answer."""
        [number] = self.send(b"kept")
        peer, request = self.introduced()
        peer.send(self.answer(request))
        self.assertEqual(peer.read(32), parameters(500, 20000, 64))
        peer.send(parameters(500, 20000, 64, refused=True))
        self.assertEqual(peer.read_to_end(), b"")
        self.assert_dials_again(
            number,
            "refused by the peer",
            "InProcess",
            "EstablishPacketReceived",
            "ConnectionRefused",
            "InProcess",
        )

    def test_silence_is_tried_again(self) -> None:
        """A peer that accepts and says nothing loses the connection when the initialization timer ends."""
        [number] = self.send(b"kept")
        peer, _ = self.introduced()
        self.assertEqual(peer.read_to_end(), b"")
        self.assert_dials_again(number, "handshake not finished in time", "InProcess", "InProcess")

    def test_silence_after_the_introduction_is_tried_again(self) -> None:
        """The timer covers the whole handshake."""
        [number] = self.send(b"kept")
        peer, request = self.introduced()
        peer.send(self.answer(request))
        self.assertEqual(peer.read_to_end(), parameters(500, 20000, 64))
        self.assert_dials_again(
            number, "handshake not finished in time", "InProcess", "EstablishPacketReceived"
        )

    def test_a_wrong_peer_is_no_peer(self) -> None:
        """An answer to another identifier, or from none, ends the attempt."""
        [number] = self.send(b"kept")
        peer, _ = self.introduced()
        peer.send(establish(GAMMA, BETA))
        self.assertEqual(peer.read_to_end(), b"")
        peer, request = self.introduced()
        peer.send(self.answer(request, server=UUID(int=0)))
        self.assertEqual(peer.read_to_end(), b"")
        self.assert_dials_again(number, "another queue manager answered", "InProcess", "InProcess")

    def test_garbage_is_no_answer(self) -> None:
        """A packet at the wrong time, and the beginning of a message before the handshake, are
        not accepted.
        """
        [number] = self.send(b"kept")
        for answer in (
            b"HTTP/1.1 400 Bad Request\r\n\r\n",
            parameters(),
            session_ack(session_header()),
            numbered_packet(bytes(1000))[:20],
        ):
            peer, _ = self.introduced()
            peer.send(answer)
            self.assertEqual(peer.read_to_end(), b"")
        self.server.wait_for("closed: malformed packet")
        self.server.wait_for("closed: unexpected packet", 3)
        self.assert_dials_again(number, "unexpected packet", "InProcess", "InProcess")

    def test_a_cut_connection_loses_no_message(self) -> None:
        """Unacknowledged messages are sent again, complete and under the same number."""
        first, second = self.send(b"first", b"second")
        peer = self.opened()
        self.assert_sends(peer, first, b"first")
        peer.send(session_ack(session_header(received=1)))
        self.wait_until_empty(left=1)
        peer.read(20)
        peer.close()
        peer = self.opened()
        self.assert_sends(peer, second, b"second")
        peer.send(session_ack(session_header(received=1)))
        self.wait_until_empty()

    def test_an_acknowledgement_of_what_was_never_sent_ends_the_session(self) -> None:
        """An acknowledgement beyond the sent messages is not accepted, and the message stays."""
        [number] = self.send(b"kept")
        peer = self.opened()
        self.assert_sends(peer, number, b"kept")
        peer.send(session_ack(session_header(received=2)))
        self.assertEqual(peer.read_to_end(), b"")
        self.assert_dials_again(number, "acknowledgement of unsent messages", "InProcess")
