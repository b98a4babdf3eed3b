"""[MS-MQQB] 2.2.2, 2.2.3, 2.2.6: the packets that a session sends for itself."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import attrs
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import LocalProtocolError, RemoteProtocolError
from msmq.structures.internal.connection_parameters import ConnectionParameters
from msmq.structures.internal.establish_connection import EstablishConnection
from msmq.structures.internal.session_ack import SessionAck
from msmq.structures.packet.session_header import SessionHeader
from msmq.structures.packet.user_message import UserMessage
from msmq.wire.guid import NULL_GUID
from tests.builders import patched
from tests.vectors import ACCEPTOR, INITIATOR, vector

EXAMPLES: dict[str, Callable[[bytes], Any]] = {
    "mqqb-4.1.3-establish-connection-request": EstablishConnection.from_bytes,
    "mqqb-4.1.4-establish-connection-response": EstablishConnection.from_bytes,
    "mqqb-4.1.5-connection-parameters-request": ConnectionParameters.from_bytes,
    "mqqb-4.1.6-connection-parameters-response": ConnectionParameters.from_bytes,
    "mqqb-4.1.8-session-ack": SessionAck.from_bytes,
}

u16 = st.integers(0, 0xFFFF)
u32 = st.integers(0, 0xFFFFFFFF)
session_headers = st.builds(SessionHeader, u16, u16, u32, u16, u16, st.integers(1, 0xFFFF))
packets = st.one_of(
    st.builds(
        EstablishConnection,
        st.uuids(),
        st.uuids(),
        u32,
        st.booleans(),
        st.booleans(),
        st.booleans(),
        st.booleans(),
        st.binary(min_size=512, max_size=512),
    ),
    st.builds(ConnectionParameters, u32, u32, u16, st.booleans()),
    st.builds(SessionAck, session_headers),
)


class ExampleTests(SynchronousTestCase):
    """Properties of each of the worked examples of [MS-MQQB] 4.1."""

    def test_they_come_back_but_for_one_reserved_byte(self) -> None:
        """Decoded and encoded, they are the same bytes, with BaseHeader.Reserved 0."""
        for name, read in EXAMPLES.items():
            data = vector(name)
            self.assertEqual(read(data).to_bytes().hex(), patched(data, 1, b"\0").hex(), name)

    def test_every_strict_prefix_is_malformed(self) -> None:
        """A packet that is cut anywhere is refused."""
        for name, read in EXAMPLES.items():
            data = vector(name)
            for length in range(len(data)):
                self.assertRaises(RemoteProtocolError, read, data[:length])

    def test_bytes_behind_them_are_malformed(self) -> None:
        """A packet is exactly as long as it says."""
        for name, read in EXAMPLES.items():
            self.assertRaises(RemoteProtocolError, read, vector(name) + b"\0")

    def test_they_are_distinguished(self) -> None:
        """None of them is read as another kind."""
        for name, read in EXAMPLES.items():
            for other in set(EXAMPLES.values()) - {read}:
                self.assertRaises(RemoteProtocolError, other, vector(name))

    def test_their_priority_is_ignored(self) -> None:
        """MQQB-2.2-12: PR 3 is sent, and any other is accepted."""
        for name, read in EXAMPLES.items():
            data = vector(name)
            self.assertEqual(data[2] & 0x07, 3)
            self.assertEqual(read(data).to_bytes()[2], data[2])
            self.assertEqual(read(patched(data, 2, bytes([data[2] & ~0x07]))), read(data))

    def test_reserved_bits_are_ignored(self) -> None:
        """MQQB-2.2.1-02, MQQB-2.2.1-10: InternalHeader.Reserved and its unused flags change nothing."""
        for name, read in EXAMPLES.items():
            data = vector(name)
            noisy = patched(data, 16, b"\xff\xff" + bytes([data[18] | 0xE0, 0xFF]))
            self.assertEqual(read(noisy), read(data))
            self.assertEqual(read(noisy).to_bytes()[16:20], data[16:20])

    def test_a_user_message_is_none_of_them(self) -> None:
        """Without IN the packet belongs to an application."""
        data = vector("mqqb-4.1.7-user-message")
        for read in EXAMPLES.values():
            self.assertRaises(RemoteProtocolError, read, data)

    def test_they_never_expire(self) -> None:
        """TimeToReachQueue is FF FF FF FF in each of them."""
        for name, read in EXAMPLES.items():
            self.assertEqual(read(vector(name)).to_bytes()[12:16], b"\xff\xff\xff\xff")

    @given(packets)
    def test_every_packet_round_trips(
        self, packet: EstablishConnection | ConnectionParameters | SessionAck
    ) -> None:
        """Every packet round-trips."""
        self.assertEqual(type(packet).from_bytes(packet.to_bytes()), packet)

    @given(st.sampled_from(sorted(EXAMPLES)), st.integers(0, 35), st.binary(min_size=1, max_size=4))
    def test_damage_is_a_packet_or_malformed(self, name: str, offset: int, noise: bytes) -> None:
        """Any changed bytes are parsed or raise the error of malformed packets."""
        for read in EXAMPLES.values():
            try:
                read(patched(vector(name), offset, noise))
            except RemoteProtocolError:
                pass


class EstablishConnectionTests(SynchronousTestCase):
    def test_frame_3_is_understood(self) -> None:
        """MQQB-2.2.3.1-01: the fields of the worked example lie where the document says."""
        packet = EstablishConnection.from_bytes(vector("mqqb-4.1.3-establish-connection-request"))
        expected = EstablishConnection(INITIATOR, ACCEPTOR, 0x1DDECA4E, is_without_ping=True, is_server=True)
        self.assertEqual(packet, expected)
        self.assertEqual(packet.operating_system, 0x0310)

    def test_frame_4_is_understood(self) -> None:
        """MQQB-2.2-02: its genuine GUIDs show the byte order."""
        packet = EstablishConnection.from_bytes(vector("mqqb-4.1.4-establish-connection-response"))
        self.assertEqual(packet.client_guid, UUID("1F742305-BE5E-4177-BC77-C4DD7719E474"))
        self.assertEqual(packet.server_guid, UUID("3C3A6AEB-F567-4143-87D3-85CF4D68CEB4"))
        self.assertFalse(packet.is_refused)

    def test_it_is_572_bytes(self) -> None:
        """MQQB-2.2.3-01: IN, PacketSize 0x23C and PT 2."""
        data = EstablishConnection(INITIATOR, NULL_GUID, 0).to_bytes()
        self.assertEqual(len(data), 572)
        self.assertEqual(data[:20].hex(), "10000b004c494f523c020000ffffffff00000200")

    def test_padding_is_always_filled(self) -> None:
        """MQQB-2.2.3.1-13, MQQB-2.2.3.1-14: bytes 60 to 571 are 0x5A, so no old memory is shown."""
        for is_refused in (False, True):
            packet = EstablishConnection(INITIATOR, ACCEPTOR, 1, is_refused=is_refused)
            self.assertEqual(packet.to_bytes()[60:], b"\x5a" * 512)

    def test_received_padding_may_be_anything(self) -> None:
        """Other padding is accepted, and the fields say the same."""
        data = patched(EstablishConnection(INITIATOR, ACCEPTOR, 1).to_bytes(), 60, bytes(range(256)) * 2)
        self.assertEqual(EstablishConnection.from_bytes(data).client_guid, INITIATOR)

    def test_the_operating_system_begins_with_10(self) -> None:
        """MQQB-2.2.3.1-06: byte 56 is 0x10 for any flags."""
        for flags in range(8):
            packet = EstablishConnection(
                INITIATOR, ACCEPTOR, 1, bool(flags & 1), bool(flags & 2), bool(flags & 4)
            )
            self.assertEqual(packet.to_bytes()[56:58], bytes([0x10, flags]))

    def test_unused_operating_system_bits_are_ignored(self) -> None:
        """MQQB-2.2.3.1-11, MQQB-2.2.3.1-12: 0xF8 in the flags and 0xFFFF in Reserved change nothing."""
        packet = EstablishConnection(INITIATOR, ACCEPTOR, 1, False, False)
        data = packet.to_bytes()
        self.assertEqual(data[56:60].hex(), "10000000")
        self.assertEqual(EstablishConnection.from_bytes(patched(data, 56, b"\x10\xf8\xff\xff")), packet)

    def test_refusal_is_one_bit(self) -> None:
        """MQQB-2.2.1-05: CS makes the flags 0x0012."""
        data = EstablishConnection(INITIATOR, ACCEPTOR, 1, is_refused=True).to_bytes()
        self.assertEqual(data[18:20].hex(), "1200")
        self.assertTrue(EstablishConnection.from_bytes(data).is_refused)

    def test_another_size_is_malformed(self) -> None:
        """PT 2 with the PacketSize of ConnectionParameters is refused, naming the field."""
        data = patched(EstablishConnection(INITIATOR, ACCEPTOR, 1).to_bytes(), 8, b"\x20\0\0\0")
        error = self.assertRaises(RemoteProtocolError, EstablishConnection.from_bytes, data)
        self.assertEqual((error.header, error.field, error.offset), ("BaseHeader", "PacketSize", 8))

    def test_what_does_not_fit_is_our_mistake(self) -> None:
        """A time stamp beyond 32 bits and padding of another length are refused locally."""
        for packet in (
            EstablishConnection(INITIATOR, ACCEPTOR, 1 << 32),
            EstablishConnection(INITIATOR, ACCEPTOR, -1),
            EstablishConnection(INITIATOR, ACCEPTOR, 1, padding=bytes(511)),
        ):
            self.assertRaises(LocalProtocolError, packet.to_bytes)


class ConnectionParametersTests(SynchronousTestCase):
    def test_frame_5_is_understood(self) -> None:
        """MQQB-2.2.2.1-01: 1496 ms, 120000 ms and a window of 64."""
        packet = ConnectionParameters.from_bytes(vector("mqqb-4.1.5-connection-parameters-request"))
        self.assertEqual(packet, ConnectionParameters(1496, 120000, 64))

    def test_it_is_32_bytes(self) -> None:
        """MQQB-2.2.2-01: IN, PacketSize 0x20 and PT 3, then the four fields."""
        data = ConnectionParameters(0x01020304, 0x05060708, 0x090A).to_bytes()
        self.assertEqual(
            data.hex(),
            "10000b004c494f5220000000ffffffff00000300040302010807060500000a09",
        )

    def test_reserved_is_ignored(self) -> None:
        """MQQB-2.2.2.1-04: 0xBEEF in it is accepted; it is sent as 0."""
        packet = ConnectionParameters(1000, 20000, 1)
        data = packet.to_bytes()
        self.assertEqual(data[28:30], b"\0\0")
        self.assertEqual(ConnectionParameters.from_bytes(patched(data, 28, b"\xef\xbe")), packet)

    def test_a_window_may_be_anything(self) -> None:
        """0 and 0xFFFF are carried as they are."""
        for window in (0, 0xFFFF):
            data = ConnectionParameters(1000, 20000, window).to_bytes()
            self.assertEqual(ConnectionParameters.from_bytes(data).window_size, window)

    def test_times_are_carried_as_they_came(self) -> None:
        """An acceptor repeats even a time outside its range."""
        packet = ConnectionParameters(1, 0xFFFFFFFF)
        self.assertEqual(ConnectionParameters.from_bytes(packet.to_bytes()), packet)

    def test_another_size_is_malformed(self) -> None:
        """PT 3 with a PacketSize of 0x1C, or with that of another packet, is refused."""
        data = ConnectionParameters(1000, 20000).to_bytes()
        for size in (0x1C, 0x24, 0x23C):
            changed = patched(data, 8, size.to_bytes(4, "little"))
            error = self.assertRaises(RemoteProtocolError, ConnectionParameters.from_bytes, changed)
            self.assertEqual((error.header, error.field, error.offset), ("BaseHeader", "PacketSize", 8))

    def test_what_does_not_fit_is_our_mistake(self) -> None:
        """A window beyond 16 bits or a time beyond 32 is refused locally."""
        self.assertRaises(LocalProtocolError, ConnectionParameters(1000, 20000, 1 << 16).to_bytes)
        self.assertRaises(LocalProtocolError, ConnectionParameters(1 << 32, 20000).to_bytes)


class SessionAckTests(SynchronousTestCase):
    def test_frame_8_is_understood(self) -> None:
        """MQQB-2.2.6-02: one message is acknowledged and the window is 64; each field has its place."""
        data = vector("mqqb-4.1.8-session-ack")
        self.assertEqual(SessionAck.from_bytes(data), SessionAck(SessionHeader(1, 0, 0, 0, 0, 64)))
        filled = patched(data, 20, bytes.fromhex("0100 0200 03000000 0400 0500 0600 0000"))
        self.assertEqual(SessionAck.from_bytes(filled), SessionAck(SessionHeader(1, 2, 3, 4, 5, 6)))

    def test_it_is_36_bytes(self) -> None:
        """MQQB-2.2.6-01: IN and SH, PacketSize 0x24 and PT 1, then the six fields and Reserved."""
        data = SessionAck(SessionHeader(0x0102, 0x0304, 0x05060708, 0x090A, 0x0B0C, 0x0D0E)).to_bytes()
        self.assertEqual(
            data.hex(),
            "10001b00" "4c494f52" "24000000" "ffffffff" "00000100"
            "0201" "0403" "08070605" "0a09" "0c0b" "0e0d" "0000",
        )  # fmt: skip

    def test_reserved_is_ignored(self) -> None:
        """MQQB-2.2.6-03: 0xFFFF in SessionHeader.Reserved changes nothing."""
        data = vector("mqqb-4.1.8-session-ack")
        self.assertEqual(SessionAck.from_bytes(patched(data, 34, b"\xff\xff")), SessionAck.from_bytes(data))

    def test_its_size_counts_the_session_header(self) -> None:
        """MQQB-2.2-09: that of a UserMessage does not; frame 7 with one is 2240 bytes and says 0x8B0."""
        ack = vector("mqqb-4.1.8-session-ack")
        self.assertEqual((len(ack), SessionAck.from_bytes(ack).to_bytes()[8:12].hex()), (36, "24000000"))
        message = UserMessage.from_bytes(vector("mqqb-4.1.7-user-message"))
        without_acks = attrs.evolve(message.properties, flags=0)
        carrier = attrs.evolve(
            message, properties=without_acks, session=SessionHeader(1, 0, 0, 1, 0, 64)
        ).to_bytes()
        self.assertEqual((len(carrier), carrier[8:12].hex()), (2240, "b0080000"))

    def test_it_has_no_refusal(self) -> None:
        """MQQB-2.2.1-06: the flags of InternalHeader are 0x0001, and a received CS is ignored."""
        data = vector("mqqb-4.1.8-session-ack")
        packet = SessionAck.from_bytes(patched(data, 18, b"\x11"))
        self.assertEqual(packet.to_bytes()[18:20].hex(), "0100")

    def test_it_needs_a_session_header(self) -> None:
        """PT 1 without SH is malformed."""
        data = patched(vector("mqqb-4.1.8-session-ack"), 2, b"\x0b")
        error = self.assertRaises(RemoteProtocolError, SessionAck.from_bytes, data)
        self.assertEqual((error.header, error.field, error.offset), ("BaseHeader", "Flags", 2))

    def test_another_size_is_malformed(self) -> None:
        """PT 1 with a PacketSize of 0x20 is refused."""
        data = patched(vector("mqqb-4.1.8-session-ack"), 8, b"\x20")
        self.assertRaises(RemoteProtocolError, SessionAck.from_bytes, data)

    def test_a_window_of_0_is_never_sent(self) -> None:
        """MQQB-2.2.6-06: 0 is refused locally, 1 to 0xFFFF are sent; the default window is 40 00."""
        self.assertRaises(LocalProtocolError, SessionAck(SessionHeader(0, 0, 0, 0, 0, 0)).to_bytes)
        for window in (1, 0x40, 0xFFFF):
            data = SessionAck(SessionHeader(0, 0, 0, 0, 0, window)).to_bytes()
            self.assertEqual(data[32:34], window.to_bytes(2, "little"))
