"""[MS-MQMQ] 2.2.19.2: source, destination, times and delivery."""

from __future__ import annotations

import struct
from uuid import UUID

import attrs
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import LocalProtocolError, RemoteProtocolError
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.names.format_name import PrivateFormatName, parse_format_name
from msmq.structures.names.queue_names import (
    DirectQueueFormatName,
    PrivateQueueFormatName,
    PrivateQueueFormatNameId,
    PublicQueueFormatName,
    QueueNameKind,
)
from msmq.structures.packet.base_header import INFINITE
from msmq.structures.packet.user_header import UserHeader
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.wire.guid import NULL_GUID
from msmq.wire.reader import Reader
from tests.builders import ALPHA, BETA, GAMMA, user_packet
from tests.strategies import ADMIN_KINDS, DESTINATION_KINDS, NAMES_BY_KIND, user_headers
from tests.structures.three_ways import assert_only_remote_errors, assert_read_three_ways
from tests.vectors import INITIATOR as CLIENT
from tests.vectors import vector

FRAME_7 = UserHeader(
    source_queue_manager=CLIENT,
    sent_time=0x524F494C,
    message_id=0x8EE,
    destination_kind=QueueNameKind.DIRECT,
    destination_queue=DirectQueueFormatName("OS:a04bm02\\q"),
    has_security_header=True,
)


def read(data: bytes) -> UserHeader:
    return UserHeader.read(Reader(data, base=16))


def with_flags(flags: int, tail: bytes = b"") -> bytes:
    """A header of zeros but for its flags, with C{tail} behind it."""
    return bytes(44) + struct.pack("<I", flags) + tail


class UserHeaderTests(SynchronousTestCase):
    """L{UserHeader}."""

    def assert_malformed(self, data: bytes, field: str = "Flags", offset: int = 60) -> None:
        error = self.assertRaises(RemoteProtocolError, read, data)
        self.assertEqual(
            (error.section, error.header, error.field, error.offset),
            ("[MS-MQMQ] 2.2.19.2", "UserHeader", field, offset),
        )

    def test_is_read_from_the_message_of_the_document(self) -> None:
        """Frame 7 goes to a direct name (DQ 7)."""
        data = vector("mqqb-4.1.7-user-message")[16:92]
        self.assertEqual(read(data), FRAME_7)
        self.assertEqual(FRAME_7.flags, 0x00281C00)
        self.assertEqual(FRAME_7.to_bytes(), data)

    def test_every_field_is_at_its_offset(self) -> None:
        """The names and ConnectorType follow the fixed part in their order.

        MQMQ-2.2.19.2-01, and MQMQ-2.2.19.2-02: DestinationQueue, AdminQueue, ResponseQueue, ConnectorType.
        """
        header = UserHeader(
            source_queue_manager=UUID(bytes_le=b"source manager.."),
            queue_manager_address=UUID(bytes_le=b"address of the .."[:16]),
            time_to_be_received=0x01020304,
            sent_time=0x05060708,
            message_id=0x090A0B0C,
            hop_count=0x1D,
            is_recoverable=True,
            dead_letter=True,
            journal=True,
            destination_kind=QueueNameKind.PRIVATE_ON_DESTINATION,
            destination_queue=PrivateQueueFormatNameId(0x0D0E0F10),
            admin_kind=QueueNameKind.PRIVATE,
            admin_queue=PrivateQueueFormatName(UUID(bytes_le=b"admin manager..."), 0x11121314),
            response_kind=QueueNameKind.PUBLIC,
            response_queue=PublicQueueFormatName(UUID(bytes_le=b"response queue..")),
            connector_type=UUID(bytes_le=b"connector type.."),
            has_transaction_header=True,
        )
        expected = (
            b"source manager.."
            b"address of the .\x04\x03\x02\x01\x08\x07\x06\x05\x0c\x0b\x0a\x09\x3d\xcf\x75\x00"
            b"\x10\x0f\x0e\x0d"
            b"admin manager...\x14\x13\x12\x11"
            b"response queue.."
            b"connector type.."
        )
        self.assertEqual(header.to_bytes(), expected)
        self.assertEqual(read(expected), header)

    def test_the_flags_choose_the_structure_of_each_name(self) -> None:
        """MQMQ-2.2.18.1.5-01: all values of DQ, AQ and RQ, with the bytes that each needs."""
        tail = bytes(range(64, 64 + 16)) + bytes(4)
        sizes = {0: 0, 1: 0, 2: 4, 3: 4, 4: 4, 5: 16, 6: 20, 7: 4}
        direct = b"\x02\0\0\0"
        for shift, kinds in ((10, DESTINATION_KINDS), (13, ADMIN_KINDS), (16, tuple(QueueNameKind))):
            for kind in kinds:
                data = with_flags(0x00200000 | kind << shift, direct if kind == 7 else tail)
                reader = Reader(data)
                header = UserHeader.read(reader)
                self.assertEqual(reader.position, 48 + sizes[kind], (shift, kind))
                self.assertIn(
                    kind, (header.destination_kind, header.admin_kind, header.response_kind), (shift, kind)
                )

    def test_a_message_to_a_public_queue_comes_back(self) -> None:
        """MQMQ-2.2.18.1.7.1-01: DQ 5 is followed by the GUID of the queue."""
        header = UserHeader(
            ALPHA,
            BETA,
            destination_kind=QueueNameKind.PUBLIC,
            destination_queue=PublicQueueFormatName(CLIENT),
        )
        self.assertEqual(header.to_bytes()[48:].hex(), "d1587355509195954997b6e611ea26c6")
        self.assertEqual(read(header.to_bytes()), header)

    def test_a_message_with_a_private_admin_queue_comes_back(self) -> None:
        """MQMQ-2.2.18.1.7.2-01: AQ 6 is followed by a GUID and a number, aligned behind any direct name."""
        for text in ("OS:a\\q", "OS:a\\qq"):
            header = UserHeader(
                ALPHA,
                destination_kind=QueueNameKind.DIRECT,
                destination_queue=DirectQueueFormatName(text),
                admin_kind=QueueNameKind.PRIVATE,
                admin_queue=PrivateQueueFormatName(CLIENT, 10),
            )
            data = header.to_bytes()
            start = data.index(CLIENT.bytes_le)
            self.assertEqual(start % 4, 0)
            self.assertEqual(data[start + 16 :], b"\x0a\0\0\0")
            self.assertEqual(read(data), header)

    def test_destinations_of_every_kind_come_back(self) -> None:
        """MQMQ-2.2.19.2-18: nothing, a number of the destination, a public and a direct name."""
        for kind, flags, tail in (
            (0, 0x0000, b""),
            (3, 0x0C00, b"\x09\0\0\0"),
            (5, 0x1400, CLIENT.bytes_le),
            (7, 0x1C00, b"\x04\0q\0\0\0\0\0"),
        ):
            data = with_flags(0x00200000 | flags, tail)
            header = read(data)
            self.assertEqual(header.destination_kind, kind)
            self.assertEqual(header.to_bytes(), data)

    def test_admin_queues_of_every_kind_come_back(self) -> None:
        """MQMQ-2.2.19.2-20: nothing, a number of the source, of the destination, public, private, direct."""
        for kind, flags, tail in (
            (0, 0x0000, b""),
            (2, 0x4000, b"\x09\0\0\0"),
            (3, 0x6000, b"\x09\0\0\0"),
            (5, 0xA000, CLIENT.bytes_le),
            (6, 0xC000, CLIENT.bytes_le + b"\x09\0\0\0"),
            (7, 0xE000, b"\x04\0q\0\0\0\0\0"),
        ):
            data = with_flags(0x00200000 | flags, tail)
            header = read(data)
            self.assertEqual(header.admin_kind, kind)
            self.assertEqual(header.to_bytes(), data)

    def test_response_queues_of_every_kind_come_back(self) -> None:
        """MQMQ-2.2.19.2-23, MQMQ-2.2.19.2-24: three bits from 0x00010000 on."""
        for kind, tail in (
            (0, b""),
            (1, b""),
            (2, b"\x09\0\0\0"),
            (3, b"\x09\0\0\0"),
            (4, b"\x09\0\0\0"),
            (5, CLIENT.bytes_le),
            (6, CLIENT.bytes_le + b"\x09\0\0\0"),
            (7, b"\x04\0q\0\0\0\0\0"),
        ):
            data = with_flags(0x00200000 | kind * 0x00010000, tail)
            header = read(data)
            self.assertEqual(header.response_kind, kind)
            self.assertEqual(header.to_bytes(), data)

    def test_a_response_queue_may_be_the_admin_queue(self) -> None:
        """MQMQ-2.2.19.2-25: RQ 1 has no bytes of its own and means the admin queue; RQ 0 means none."""
        admin = b"\x09\0\0\0"
        same = read(with_flags(0x00200000 | 0x4000 | 0x00010000, admin))
        self.assertIsNone(same.response_queue)
        self.assertEqual(same.resolve_response_queue(), PrivateFormatName(NULL_GUID, 9))
        none = read(with_flags(0x00200000 | 0x4000, admin))
        self.assertIsNone(none.resolve_response_queue())
        for kind in range(2, 8):
            self.assertRaises(RemoteProtocolError, read, with_flags(0x00200000 | kind * 0x00010000))

    def test_names_are_resolved_with_their_header(self) -> None:
        """Numbers belong to SourceQueueManager, QueueManagerAddress or the host of the admin queue."""
        header = UserHeader(
            ALPHA,
            BETA,
            destination_kind=QueueNameKind.PRIVATE_ON_DESTINATION,
            destination_queue=PrivateQueueFormatNameId(1),
            admin_kind=QueueNameKind.PRIVATE,
            admin_queue=PrivateQueueFormatName(GAMMA, 2),
            response_kind=QueueNameKind.PRIVATE_ON_ADMIN_QUEUE_HOST,
            response_queue=PrivateQueueFormatNameId(3),
        )
        self.assertEqual(header.resolve_destination(), PrivateFormatName(BETA, 1))
        self.assertEqual(header.resolve_admin_queue(), PrivateFormatName(GAMMA, 2))
        self.assertEqual(header.resolve_response_queue(), PrivateFormatName(GAMMA, 3))
        self.assertEqual(FRAME_7.resolve_destination(), parse_format_name("DIRECT=OS:a04bm02\\q"))

    def test_delivery_modes_are_two(self) -> None:
        """MQMQ-2.2.19.2-11: 0 is express and 0x20 recoverable; 2 and 3 are malformed."""
        self.assertFalse(read(with_flags(0x00200000)).is_recoverable)
        self.assertTrue(read(with_flags(0x00200020)).is_recoverable)
        for flags in (0x00200040, 0x00200060):
            self.assert_malformed(with_flags(flags))
        self.assertEqual(UserHeader(ALPHA, is_recoverable=True).flags, 0x00200020)

    def test_hops_are_counted_up_to_29(self) -> None:
        """RC 0x1D is the last that is read or written (MQMQ-2.2.19.2-10)."""
        self.assertEqual(read(with_flags(0x0020001D)).hop_count, 0x1D)
        for flags in (0x0020001E, 0x0020001F):
            self.assert_malformed(with_flags(flags))
        for hop_count in (-1, 0x1E):
            self.assertRaises(LocalProtocolError, UserHeader(ALPHA, hop_count=hop_count).to_bytes)

    def test_destinations_of_other_kinds_are_malformed(self) -> None:
        """MQMQ-2.2.19.2-19: DQ 1, 2, 4 and 6 make the error that ends a session."""
        for kind in (1, 2, 4, 6):
            self.assert_malformed(with_flags(0x00200000 | kind << 10, bytes(64)))
            packet = bytearray(user_packet(b"x"))
            packet[61] = packet[61] & ~0x1C | kind << 2
            self.assertRaises(RemoteProtocolError, UserMessageView, bytes(packet))

    def test_admin_queues_of_other_kinds_are_malformed(self) -> None:
        """MQMQ-2.2.19.2-21: AQ 1 and 4 make the error that ends a session."""
        for kind in (1, 4):
            self.assert_malformed(with_flags(0x00200000 | kind << 13, bytes(64)))
            self.assertRaises(RemoteProtocolError, UserMessageView, user_packet(b"x", user_flags=kind << 13))

    def test_properties_are_always_announced(self) -> None:
        """MQMQ-2.2.19.2-28: a header without MP is malformed, and none is written."""
        self.assert_malformed(with_flags(0))
        packet = bytearray(user_packet(b"x"))
        packet[62] &= ~0x20
        self.assertRaises(RemoteProtocolError, UserMessageView, bytes(packet))
        self.assertTrue(UserHeader(ALPHA).flags & 0x00200000)

    def test_a_transactional_message_is_recoverable(self) -> None:
        """TH with DM 0 is neither read nor written."""
        self.assert_malformed(with_flags(0x00300000))
        self.assertTrue(read(with_flags(0x00300020)).has_transaction_header)
        self.assertRaises(LocalProtocolError, UserHeader(ALPHA, has_transaction_header=True).to_bytes)

    def test_a_connector_type_is_announced(self) -> None:
        """MQMQ-2.2.19.2-29: with 0x00400000 sixteen bytes follow the names."""
        header = UserHeader(ALPHA, connector_type=CLIENT)
        self.assertEqual(header.flags, 0x00600000)
        self.assertEqual(header.to_bytes()[48:], CLIENT.bytes_le)
        self.assertEqual(read(header.to_bytes()), header)
        self.assertRaises(RemoteProtocolError, read, header.to_bytes()[:-1])

    def test_the_flag_of_http_is_never_sent(self) -> None:
        """MQMQ-2.2.19.2-31: AH is read, and cleared when the header is written."""
        header = read(with_flags(0x02200000))
        self.assertTrue(header.is_over_http)
        self.assertEqual(header.to_bytes(), with_flags(0x00200000))

    @given(user_headers())
    def test_meaningless_bits_are_sent_as_0(self, header: UserHeader) -> None:
        """MQMQ-2.2.19.2-14: X1 to X4, 0xED000080, are never set."""
        self.assertEqual(int.from_bytes(header.to_bytes()[44:48], "little") & 0xED000080, 0)

    @given(user_headers(), st.integers(0, 0xFFFFFFFF))
    def test_meaningless_bits_are_ignored(self, header: UserHeader, junk: int) -> None:
        """X1 to X4 do not affect the header."""
        data = header.to_bytes()
        (flags,) = struct.unpack_from("<I", data, 44)
        data = data[:44] + struct.pack("<I", flags | junk & 0xED000080) + data[48:]
        self.assertEqual(read(data), header)

    def test_meaningless_bits_of_the_document_are_ignored(self) -> None:
        """MQMQ-2.2.19.2-13: frame 7 with all of X1 to X4 set is the same message."""
        data = vector("mqqb-4.1.7-user-message")
        junk = data[:60] + struct.pack("<I", 0x00281C00 | 0xED000080) + data[64:]
        self.assertEqual(read(junk[16:]), FRAME_7)
        self.assertEqual(UserMessageView(junk).user_header, FRAME_7)

    def test_a_name_of_another_kind_is_our_mistake(self) -> None:
        """A header says with its flags what its names are."""
        for values in (
            {"destination_kind": QueueNameKind.DIRECT},
            {"destination_queue": DirectQueueFormatName("OS:a\\q")},
            {"admin_kind": QueueNameKind.PUBLIC, "admin_queue": PrivateQueueFormatNameId(1)},
            {
                "response_kind": QueueNameKind.SAME_AS_ADMIN_QUEUE,
                "response_queue": PrivateQueueFormatNameId(1),
            },
            {
                "destination_kind": QueueNameKind.PRIVATE_ON_SOURCE,
                "destination_queue": PrivateQueueFormatNameId(1),
            },
            {"admin_kind": QueueNameKind.SAME_AS_ADMIN_QUEUE},
        ):
            header = attrs.evolve(UserHeader(ALPHA), **values)
            self.assertRaises(LocalProtocolError, header.to_bytes)

    def test_numbers_beyond_their_fields_are_our_mistake(self) -> None:
        """They are refused instead of being cut."""
        for header in (
            UserHeader(ALPHA, message_id=1 << 32),
            UserHeader(ALPHA, sent_time=-1),
            UserHeader(ALPHA, time_to_be_received=1 << 32),
        ):
            self.assertRaises(LocalProtocolError, header.to_bytes)

    def test_a_message_has_one_identifier(self) -> None:
        """The queue manager that sent it first, and the number it gave."""
        self.assertEqual(FRAME_7.identifier, MessageIdentifier(CLIENT, 0x8EE))
        self.assertEqual(FRAME_7.time_to_be_received, INFINITE)

    @given(user_headers())
    def test_every_header_round_trips(self, header: UserHeader) -> None:
        """It is read completely, not from any prefix, and with trailing bytes."""
        assert_read_three_ways(self, header)

    @given(st.integers(0, 0xFFFFFFFF), st.binary(max_size=80))
    def test_any_bytes_are_read_or_malformed(self, flags: int, tail: bytes) -> None:
        """No peer can cause any other error."""
        assert_only_remote_errors(UserHeader.read, with_flags(flags, tail))
        assert_only_remote_errors(UserHeader.read, with_flags(flags & 0x11F8FF3D | 0x00200000, tail))
        assert_only_remote_errors(UserHeader.read, tail)

    @given(st.data())
    def test_every_kind_of_name_is_where_the_header_says(self, data: st.DataObject) -> None:
        """Names of all kinds in one header are distinguished."""
        kind = data.draw(st.sampled_from(list(QueueNameKind)))
        header = UserHeader(
            ALPHA,
            destination_kind=QueueNameKind.DIRECT,
            destination_queue=DirectQueueFormatName("OS:beta\\q"),
            response_kind=kind,
            response_queue=data.draw(NAMES_BY_KIND[kind]),
        )
        self.assertEqual(read(header.to_bytes()), header)
