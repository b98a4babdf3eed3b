"""[MS-MQQB] 2.2: internal packets and the ping byte for byte, and the exact error for each fault."""

from __future__ import annotations

from collections.abc import Callable

from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import LocalProtocolError, RemoteProtocolError
from msmq.structures.internal.connection_parameters import ConnectionParameters
from msmq.structures.internal.establish_connection import EstablishConnection
from msmq.structures.internal.ping import Ping
from msmq.structures.internal.session_ack import SessionAck
from msmq.structures.packet.base_header import Packet
from msmq.structures.packet.session_header import SessionHeader
from msmq.wire.reader import Reader
from tests.builders import patched
from tests.vectors import ACCEPTOR, INITIATOR

GUIDS = "d1587355 50919595 4997b6e6 11ea26c6 0789cd43 4c39118f 44459078 909ea0fc"
PADDING = "5a" * 512
ESTABLISH = EstablishConnection(INITIATOR, ACCEPTOR, 0x01020304)
PARAMETERS = ConnectionParameters(0x01020304, 0x05060708, 0x090A)
ACK = SessionAck(SessionHeader(0x0102, 0x0304, 0x05060708, 0x090A, 0x0B0C, 0x0D0E))
PACKETS: tuple[tuple[Packet, str], ...] = (
    (
        ESTABLISH,
        f"10000b00 4c494f52 3c020000 ffffffff 00000200 {GUIDS} 04030201 10010000 {PADDING}",
    ),
    (
        EstablishConnection(INITIATOR, ACCEPTOR, 0xFFFFFFFF, False, True, False, True, is_response=True),
        f"105a0b00 4c494f52 3c020000 ffffffff 00001200 {GUIDS} ffffffff 10020000 {PADDING}",
    ),
    (
        EstablishConnection(INITIATOR, ACCEPTOR, 0, False, False, True, padding=bytes(512)),
        f"10000b00 4c494f52 3c020000 ffffffff 00000200 {GUIDS} 00000000 10040000 {'00' * 512}",
    ),
    (PARAMETERS, "10000b00 4c494f52 20000000 ffffffff 00000300 04030201 08070605 00000a09"),
    (
        ConnectionParameters(0xFFFFFFFF, 0, is_refused=True),
        "10000b00 4c494f52 20000000 ffffffff 00001300 ffffffff 00000000 00004000",
    ),
    (ACK, "10001b00 4c494f52 24000000 ffffffff 00000100 02010403 08070605 0a090c0b 0e0d0000"),
)
START = 100
"""Where packets begin in these tests, so that offsets are those from the beginning of a larger whole."""


def fault(case: SynchronousTestCase, read: Callable[[Reader], object], data: bytes) -> str:
    """The error of reading bytes that begin at offset 100 of something."""
    return str(case.assertRaises(RemoteProtocolError, read, Reader(data, base=START)))


class InternalPacketTests(SynchronousTestCase):
    """L{EstablishConnection}, L{ConnectionParameters} and L{SessionAck}."""

    def test_every_byte(self) -> None:
        """Both directions of requests, responses and refusals, with each flag alone."""
        for packet, expected in PACKETS:
            data = bytes.fromhex(expected)
            self.assertEqual(packet.to_bytes(), data)
            self.assertEqual(type(packet).from_bytes(data), packet)
            self.assertEqual(type(packet).read(Reader(data, base=START)), packet)

    def test_a_user_packet_is_refused_for_its_flag(self) -> None:
        """The error names IN, which distinguishes internal packets, before their type or size."""
        for packet in (ESTABLISH, PARAMETERS, ACK):
            data = patched(packet.to_bytes(), 2, b"\x03") + bytes(572)
            data = patched(data, 8, b"\0\1\0\0")
            self.assertEqual(
                fault(self, type(packet).read, data),
                "[MS-MQMQ] 2.2.19.1 BaseHeader.Flags at offset 102: IN is not set",
            )

    def test_another_packet_type_is_named(self) -> None:
        """The error has the type that was found and the one that was expected."""
        for packet, number, other in ((ESTABLISH, 2, 1), (PARAMETERS, 3, 2), (ACK, 1, 3)):
            data = patched(packet.to_bytes(), 18, bytes((other,)))
            self.assertEqual(
                fault(self, type(packet).read, data),
                f"[MS-MQQB] 2.2.1 InternalHeader.Flags at offset 118: PT {other} is not {number}",
            )

    def test_another_size_is_named(self) -> None:
        """The error has the declared size, the type of the packet and its only size."""
        for packet, number, size, other in (
            (ESTABLISH, 2, 572, 36),
            (PARAMETERS, 3, 32, 572),
            (ACK, 1, 36, 32),
        ):
            data = patched(packet.to_bytes(), 8, other.to_bytes(4, "little"))
            self.assertEqual(
                fault(self, type(packet).read, data),
                f"[MS-MQMQ] 2.2.19.1 BaseHeader.PacketSize at offset 108: {other} where PT {number} has"
                f" {size} bytes",
            )

    def test_a_session_ack_needs_its_flag(self) -> None:
        """SH announces the SessionHeader of a SessionAck; the other packets have no use for it."""
        self.assertEqual(
            fault(self, SessionAck.read, patched(ACK.to_bytes(), 2, b"\x0b")),
            "[MS-MQMQ] 2.2.19.1 BaseHeader.Flags at offset 102: a SessionAck without SH",
        )
        self.assertEqual(
            ConnectionParameters.from_bytes(patched(PARAMETERS.to_bytes(), 2, b"\x1b")), PARAMETERS
        )

    def test_what_cannot_be_sent(self) -> None:
        """The error has the field and the value; the values next to it are sent."""
        for time_stamp in (-1, 1 << 32):
            error = self.assertRaises(
                LocalProtocolError, EstablishConnection(INITIATOR, ACCEPTOR, time_stamp).to_bytes
            )
            self.assertEqual(str(error), f"TimeStamp: {time_stamp} does not fit 32 bits")
        for length in (511, 513):
            packet = EstablishConnection(INITIATOR, ACCEPTOR, 1, padding=bytes(length))
            error = self.assertRaises(LocalProtocolError, packet.to_bytes)
            self.assertEqual(str(error), f"Padding: {length} bytes are not 512")

    def test_the_short_way_of_a_session_ack(self) -> None:
        """It has the same result, and leaves every packet that may be something else to the full parser."""
        data = ACK.to_bytes()
        self.assertEqual(SessionAck.of(data), ACK)
        for offset, bits in (
            (1, "ff"),
            (2, "1c"),
            (3, "fe"),
            (12, "00000000"),
            (16, "ffffe1ff"),
            (34, "ffff"),
        ):
            self.assertEqual(SessionAck.of(patched(data, offset, bytes.fromhex(bits))), ACK)
        for offset, bits in (
            (0, "11"),
            (2, "0b"),
            (2, "13"),
            (2, "3b"),
            (3, "01"),
            (4, "4d"),
            (8, "20"),
            (18, "02"),
            (18, "11"),
        ):
            self.assertIsNone(SessionAck.of(patched(data, offset, bytes.fromhex(bits))), (offset, bits))
        for other in (data[:-1], data + b"\0"):
            self.assertIsNone(SessionAck.of(other))


class PingTests(SynchronousTestCase):
    """L{Ping}."""

    def test_every_byte(self) -> None:
        """Flags, Signature, Cookie and QMGuid, with the highest and the lowest cookie."""
        for ping, expected in (
            (Ping(0, INITIATOR), "0000 4855 00000000"),
            (Ping(0xFFFFFFFF, INITIATOR, is_workstation=True), "0100 4855 ffffffff"),
            (Ping(0x01020304, INITIATOR, is_refused=True), "0200 4855 04030201"),
        ):
            data = bytes.fromhex(expected) + INITIATOR.bytes_le
            self.assertEqual(ping.to_bytes(), data)
            self.assertEqual(Ping.from_bytes(data), ping)

    def test_a_cookie_has_32_bits(self) -> None:
        """Any other number is refused with a reason, instead of an error of the encoder."""
        for cookie in (-1, 1 << 32):
            error = self.assertRaises(LocalProtocolError, Ping(cookie, INITIATOR).to_bytes)
            self.assertEqual(str(error), f"Cookie: {cookie} does not fit 32 bits")

    def test_another_signature(self) -> None:
        """The error has both signatures, and where the field begins."""
        data = bytes.fromhex("0000 4955 00000000") + INITIATOR.bytes_le
        self.assertEqual(
            fault(self, Ping.read, data),
            "[MS-MQQB] 2.2.7 PingPacket.Signature at offset 102: should be 0x5548, is 0x5549",
        )

    def test_a_response(self) -> None:
        """It has the Cookie and RC of the request, the GUID of its sender, and RF as that decides."""
        for is_workstation in (False, True):
            for is_refused in (False, True):
                self.assertEqual(
                    Ping(7, INITIATOR, is_workstation).response(ACCEPTOR, is_refused=is_refused),
                    Ping(7, ACCEPTOR, is_workstation, is_refused),
                )
