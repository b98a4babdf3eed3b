"""Well-formed messages with hostile contents, and damaged ones, against a real server."""

from __future__ import annotations

import contextlib
import json
import os
import random
import struct
from collections.abc import Sequence
from email.message import Message
from http import HTTPStatus
from urllib.parse import quote

from msmq.control.client.locations import UnixConnection
from tests.builders import (
    GAMMA,
    numbered_packet,
    session_ack,
    session_header,
)
from tests.integration.hostile.attacked_server import HostilePeersTestCase
from tests.integration.hostile.plain_sockets import (
    ORDERS,
)
from tests.patience import DEADLINE
from tests.servers.prepared import PROGRAMS, run
from tests.vectors import vector


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
        packets = [numbered_packet(b"to nowhere", destination=name) for name in names]
        packets += [
            numbered_packet(b"", private_number=0xFFFFFFFF),
            numbered_packet(b"", private_number=0),
            numbered_packet(b"", private_number=4),
            numbered_packet(b"", destination=here, queue_manager=GAMMA),
        ]
        labels = ["\ud800", "\udfff" * 249, "a\ud800b", "{label}%s\r\n\x1b[2J", "\uffff\ufffe", "x" * 249]
        packets += [numbered_packet(b"label", destination=here, label=label) for label in labels]
        packets += [
            self.with_properties(numbered_packet(bytes(8), destination=here), 24, struct.pack("<I", kind))
            for kind in (0, 2, 3, 8, 11, 12, 31, 72, 0x1008, 0xFFFF, 0xFFFFFFFF)
        ]
        packets += [
            self.with_properties(
                numbered_packet(b"\xff\xfe\x00", destination=here), 24, struct.pack("<I", kind)
            )
            for kind in (0, 2, 3, 8, 11, 31, 72, 0x1013, 0x80000000)
        ]
        packets += [
            self.with_properties(numbered_packet(b"class", destination=here), 2, struct.pack("<H", number))
            for number in (1, 2, 0xFF, 0x4000, 0x8000, 0xC004, 0xBEEF, 0xFFFF)
        ]
        packets += [
            self.with_properties(numbered_packet(b"much", destination=here), offset, b"\xff" * size)
            for offset, size in ((0, 1), (4, 20), (28, 4), (36, 4), (40, 4), (44, 4), (48, 4))
        ]
        packets += [
            self.with_user_header(numbered_packet(b"time", destination=here), offset, b"\xff\xff\xff\xff")
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
        packet = numbered_packet(b"names", destination=destination)
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
        command = [os.fspath(PROGRAMS / "msmq"), "--data", str(self.server.data), "receive", ORDERS]
        for options in (["--json"], []):
            arguments = ["--peek", "--count", str(count), "--timeout", "0", *options]
            done = run([*command, *arguments], timeout=DEADLINE)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
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
