"""[MS-MQMQ] 2.2.19.1: the header of every packet."""

from __future__ import annotations

import attrs
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import LocalProtocolError, RemoteProtocolError
from msmq.structures.identifiers import TxSequenceID
from msmq.structures.internal.connection_parameters import ConnectionParameters
from msmq.structures.internal.establish_connection import EstablishConnection
from msmq.structures.internal.final_ack import FinalAck
from msmq.structures.internal.order_ack import OrderAck
from msmq.structures.internal.order_queue import AckEnvelope
from msmq.structures.internal.session_ack import SessionAck
from msmq.structures.packet.base_header import INFINITE, BaseHeader
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.session_header import SessionHeader
from msmq.structures.packet.user_message import UserMessage
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.wire.reader import Reader
from tests.builders import ALPHA, BETA, patched, user_packet
from tests.strategies import base_headers
from tests.structures.three_ways import assert_only_remote_errors, assert_read_three_ways
from tests.vectors import vector

FRAMES = {
    "mqqb-4.1.3-establish-connection-request": BaseHeader(572, is_internal=True),
    "mqqb-4.1.4-establish-connection-response": BaseHeader(572, is_internal=True),
    "mqqb-4.1.5-connection-parameters-request": BaseHeader(32, is_internal=True),
    "mqqb-4.1.6-connection-parameters-response": BaseHeader(32, is_internal=True),
    "mqqb-4.1.7-user-message": BaseHeader(0x8B0, time_to_reach_queue=0x54600),
    "mqqb-4.1.8-session-ack": BaseHeader(36, is_internal=True, has_session_header=True),
}
"""The BaseHeader of each packet of the document's session."""

ENVELOPE = AckEnvelope(ALPHA, BETA)
PACKETS = {
    "EstablishConnection": EstablishConnection(ALPHA, BETA, 1).to_bytes(),
    "ConnectionParameters": ConnectionParameters(500, 20000).to_bytes(),
    "SessionAck": SessionAck(SessionHeader(1, 0, 0, 0, 0, 64)).to_bytes(),
    "OrderAck": OrderAck(ENVELOPE, TxSequenceID(1, 2), 3).to_bytes(),
    "FinalAck": FinalAck(ENVELOPE, MessageClass.ACK_RECEIVE, TxSequenceID(1, 2), 3, 2, ALPHA, 9).to_bytes(),
    "UserMessage": user_packet(b"body"),
}
"""A packet of each kind, as we send it."""


def read(data: bytes) -> BaseHeader:
    return BaseHeader.read(Reader(data))


def spoilt(offset: int, replacement: bytes, name: str = "mqqb-4.1.7-user-message") -> bytes:
    return patched(vector(name), offset, replacement)


class BaseHeaderTests(SynchronousTestCase):
    """L{BaseHeader}."""

    def assert_malformed(self, data: bytes, field: str, offset: int) -> None:
        error = self.assertRaises(RemoteProtocolError, read, data)
        self.assertEqual(
            (error.section, error.header, error.field, error.offset),
            ("[MS-MQMQ] 2.2.19.1", "BaseHeader", field, offset),
        )

    def test_is_read_from_the_packets_of_the_document(self) -> None:
        """MQMQ-2.2.19.1-01: the six packets that the document prints begin with this header."""
        for name, header in FRAMES.items():
            self.assertEqual(read(vector(name)), header, name)

    def test_every_field_is_at_its_offset(self) -> None:
        """MQQB-2.2-03, MQMQ-2.2.18-01: sixteen bytes are read little-endian, field by field."""
        data = bytes.fromhex("10C00B004C494F5220000000FFFFFFFF")
        self.assertEqual(read(data), BaseHeader(32, 3, is_internal=True, time_to_reach_queue=INFINITE))
        header = BaseHeader(
            0x00012345, 5, has_debug_header=True, is_traced=True, time_to_reach_queue=0x0A0B0C0D
        )
        self.assertEqual(header.to_bytes().hex(), "100025014c494f52452301000d0c0b0a")

    def test_packet_size_is_little_endian(self) -> None:
        """MQQB-2.2-01: an EstablishConnection packet has the size 3C 02 00 00."""
        self.assertEqual(PACKETS["EstablishConnection"][8:12].hex(), "3c020000")

    def test_another_version_is_malformed(self) -> None:
        """MQMQ-2.2.19.1-02: only VersionNumber 0x10 is read."""
        for version in (0x00, 0x0F, 0x11, 0x90):
            self.assert_malformed(spoilt(0, bytes([version])), "VersionNumber", 0)

    def test_the_version_is_sent(self) -> None:
        """MQQB-2.2-04: byte 0 of every packet is 0x10."""
        for name, data in PACKETS.items():
            self.assertEqual(data[0], 0x10, name)

    def test_reserved_may_be_anything(self) -> None:
        """MQMQ-2.2.19.1-03: the captures hold C0, 5A, CD and 00; it is not looked at, and sent as 0."""
        for reserved in (0xC0, 0x5A, 0xCD, 0x00, 0xFF):
            self.assertEqual(read(spoilt(1, bytes([reserved]))), FRAMES["mqqb-4.1.7-user-message"])
        self.assertEqual({data[1] for data in PACKETS.values()}, {0})

    def test_reserved_changes_nothing_of_a_message(self) -> None:
        """MQQB-2.2-05: a packet with 0xFF in byte 1 holds the same message."""
        self.assertEqual(
            UserMessage.from_bytes(spoilt(1, b"\xff")),
            UserMessage.from_bytes(vector("mqqb-4.1.7-user-message")),
        )
        self.assertEqual(UserMessageView(spoilt(1, b"\xff")).label, "mqsender label")

    def test_priority_is_the_lowest_three_bits(self) -> None:
        """MQMQ-2.2.19.1-04: 0x0003 is priority 3, which is also the default; 7 is the highest."""
        self.assertEqual(FRAMES["mqqb-4.1.7-user-message"].priority, 3)
        self.assertEqual(BaseHeader(120).flags, 0x0003)
        for priority in range(8):
            header = BaseHeader(120, priority)
            self.assertEqual(header.flags, priority)
            self.assertEqual(read(header.to_bytes()), header)
        for priority in (-1, 8):
            self.assertRaises(LocalProtocolError, BaseHeader(120, priority).to_bytes)

    def test_flags_are_in_their_bits(self) -> None:
        """MQQB-2.2-06: 0x001B is priority 3 with IN and SH, 0x0120 is DH and TR."""
        session_ack = read(vector("mqqb-4.1.8-session-ack"))
        self.assertEqual(
            (session_ack.priority, session_ack.is_internal, session_ack.has_session_header), (3, True, True)
        )
        traced = read(spoilt(2, b"\x20\x01"))
        self.assertEqual((traced.priority, traced.has_debug_header, traced.is_traced), (0, True, True))
        self.assertEqual(traced.flags, 0x0120)

    def test_internal_packets_say_so(self) -> None:
        """MQMQ-2.2.19.1-07, MQMQ-2.2.19.1-08, MQQB-2.2-15: IN is set where the session talks of itself."""
        self.assertTrue(read(vector("mqqb-4.1.3-establish-connection-request")).is_internal)
        self.assertTrue(read(vector("mqqb-4.1.8-session-ack")).is_internal)
        self.assertEqual(
            {name for name, data in PACKETS.items() if read(data).is_internal},
            {"EstablishConnection", "ConnectionParameters", "SessionAck"},
        )
        self.assertEqual(PACKETS["OrderAck"][2:4], b"\0\0")
        self.assertEqual(PACKETS["FinalAck"][2:4], b"\0\0")

    def test_a_session_header_is_announced(self) -> None:
        """MQMQ-2.2.19.1-09: with 0x0010 a SessionHeader is in the packet."""
        header = SessionHeader(1, 0, 0, 2, 0, 64)
        packet = user_packet(b"body", header=header.to_bytes())
        self.assertEqual(packet[2], 0x13)
        self.assertEqual(UserMessage.from_bytes(packet).session, header)
        self.assertTrue(FRAMES["mqqb-4.1.8-session-ack"].has_session_header)

    def test_tracing_needs_a_debug_header(self) -> None:
        """MQMQ-2.2.19.1-11: TR without DH is neither read nor written."""
        self.assert_malformed(spoilt(2, b"\x00\x01"), "Flags", 2)
        self.assertRaises(LocalProtocolError, BaseHeader(120, is_traced=True).to_bytes)

    def test_an_internal_packet_has_no_debug_header(self) -> None:
        """Only a message may carry one."""
        self.assert_malformed(spoilt(2, b"\x2b", "mqqb-4.1.8-session-ack"), "Flags", 2)
        self.assertRaises(
            LocalProtocolError, BaseHeader(36, is_internal=True, has_debug_header=True).to_bytes
        )

    @given(base_headers())
    def test_meaningless_bits_are_sent_as_0(self, header: BaseHeader) -> None:
        """MQMQ-2.2.19.1-12: 0x00C0 and 0xFE00 are never set."""
        self.assertEqual(int.from_bytes(header.to_bytes()[2:4], "little") & 0xFEC0, 0)

    @given(base_headers(), st.integers(0, 0xFFFF))
    def test_meaningless_bits_are_ignored(self, header: BaseHeader, junk: int) -> None:
        """MQMQ-2.2.19.1-13: bits 0x00C0 and 0xFE00 do not affect the header."""
        data = bytearray(header.to_bytes())
        data[2] |= junk & 0xC0
        data[3] |= junk >> 8 & 0xFE
        self.assertEqual(read(bytes(data)), header)

    def test_meaningless_bits_change_nothing_of_a_message(self) -> None:
        """MQQB-2.2-07: a message with bit 15 set is the same message."""
        junk = spoilt(2, b"\xc3\xfe")
        self.assertEqual(
            UserMessage.from_bytes(junk), UserMessage.from_bytes(vector("mqqb-4.1.7-user-message"))
        )
        self.assertEqual(UserMessageView(junk).priority, 3)

    def test_the_signature_spells_lior(self) -> None:
        """MQMQ-2.2.19.1-14, MQQB-2.2-08: 4C 49 4F 52 is on the wire, and nothing else is read."""
        for name, data in PACKETS.items():
            self.assertEqual(data[4:8], b"LIOR", name)
        for signature in (b"ROIL", b"LIOS", bytes(4)):
            self.assert_malformed(spoilt(4, signature), "Signature", 4)
            self.assertRaises(RemoteProtocolError, UserMessageView, spoilt(4, signature))

    def test_packet_size_has_its_bounds(self) -> None:
        """More than 4 MiB, too little for the headers, and an odd size of an internal packet are refused."""
        for size in (0, 119, 0x00400001, 0xFFFFFFFF):
            self.assert_malformed(spoilt(8, size.to_bytes(4, "little")), "PacketSize", 8)
            self.assertRaises(LocalProtocolError, BaseHeader(size).to_bytes)
        for size in (0, 31, 33, 120, 571, 0x00400001):
            self.assert_malformed(
                spoilt(8, size.to_bytes(4, "little"), "mqqb-4.1.8-session-ack"), "PacketSize", 8
            )
            self.assertRaises(LocalProtocolError, BaseHeader(size, is_internal=True).to_bytes)
        for size in (120, 0x00400000):
            self.assertEqual(read(spoilt(8, size.to_bytes(4, "little"))).packet_size, size)

    def test_only_messages_have_to_reach_their_queue_in_time(self) -> None:
        """MQMQ-2.2.19.1-19, MQQB-2.2-11: all other packets say FF FF FF FF."""
        for name in FRAMES:
            if name != "mqqb-4.1.7-user-message":
                self.assertEqual(vector(name)[12:16], b"\xff" * 4, name)
        for name, data in PACKETS.items():
            self.assertEqual(data[12:16], b"\xff" * 4, name)
        header = BaseHeader(36, is_internal=True, time_to_reach_queue=60)
        self.assertRaises(LocalProtocolError, header.to_bytes)

    def test_a_number_beyond_its_field_is_our_mistake(self) -> None:
        """It is refused instead of being cut."""
        self.assertRaises(LocalProtocolError, BaseHeader(120, time_to_reach_queue=1 << 32).to_bytes)

    @given(base_headers())
    def test_every_header_round_trips(self, header: BaseHeader) -> None:
        """It is read completely, not from any prefix, and with trailing bytes."""
        assert_read_three_ways(self, header)

    @given(st.binary(max_size=20) | st.binary(min_size=8).map(lambda tail: b"\x10\0\x0b\0LIOR" + tail))
    def test_any_bytes_are_read_or_malformed(self, data: bytes) -> None:
        """No peer can cause any other error."""
        assert_only_remote_errors(BaseHeader.read, data)

    @given(base_headers())
    def test_flags_tell_the_whole_header(self, header: BaseHeader) -> None:
        """Two headers that differ in a flag differ in Flags."""
        for name in ("is_internal", "has_session_header", "has_debug_header", "is_traced"):
            other = attrs.evolve(header, **{name: not getattr(header, name)})
            self.assertNotEqual(header.flags, other.flags)
