"""[MS-MQMQ] 2.2.20.6: the sender of a message, its signature and its cipher."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import LocalProtocolError, RemoteProtocolError
from msmq.structures.packet.security_header import ProviderInfo, SecurityHeader, SenderIdType
from msmq.wire.reader import Reader
from tests.strategies import security_headers
from tests.structures.three_ways import assert_only_remote_errors, assert_read_three_ways
from tests.vectors import vector

SID = bytes.fromhex("010500000000000515000000ad4a9ebd36d9fa3d63a656dae8030000")


def fixed(
    flags: int = 0, sender: int = 0, key: int = 0, signature: int = 0, certificate: int = 0, provider: int = 0
) -> bytes:
    return struct.pack("<HHHHII", flags, sender, key, signature, certificate, provider)


def read(data: bytes) -> SecurityHeader:
    return SecurityHeader.read(Reader(data, base=92))


class SecurityHeaderTests(SynchronousTestCase):
    """L{SecurityHeader}."""

    def assert_malformed(self, data: bytes, field: str, offset: int) -> None:
        error = self.assertRaises(RemoteProtocolError, read, data)
        self.assertEqual(
            (error.section, error.header, error.field, error.offset),
            ("[MS-MQMQ] 2.2.20.6", "SecurityHeader", field, offset),
        )

    def test_is_read_from_the_message_of_the_document(self) -> None:
        """Frame 7 names its sender by a SID (ST 1), and no more."""
        data = vector("mqqb-4.1.7-user-message")[92:136]
        header = SecurityHeader(SenderIdType.SID, SID)
        self.assertEqual(read(data), header)
        self.assertEqual(header.to_bytes(), data)

    def test_every_field_is_at_its_offset(self) -> None:
        """The five items follow in their order, each at a multiple of four bytes.

        MQMQ-2.2.20.6-01, MQMQ-2.2.20.6-13.
        """
        header = SecurityHeader(
            sender_id_type=2,
            security_id=b"sid",
            encryption_key=b"keykk",
            signature=b"signature",
            sender_cert=b"certific",
            provider_info=ProviderInfo(0x18, "p"),
            is_body_encrypted=True,
        )
        expected = (
            bytes.fromhex("a2000300050009000800000008000000")
            + b"sid\0"
            + b"keykk\0\0\0"
            + b"signature\0\0\0"
            + b"certific"
            + b"\x18\0\0\0p\0\0\0"
        )
        self.assertEqual(header.to_bytes(), expected)
        self.assertEqual(read(expected), header)

    def test_flags_are_in_their_bits(self) -> None:
        """MQMQ-2.2.20.6-02: ST is the lowest four, then come AU, EB, DE, AI, and what is not read."""
        for header, flags in (
            (SecurityHeader(0, b"", b"key"), 0x0080),
            (SecurityHeader(15, SID), 0x000F),
            (SecurityHeader(1, SID, is_body_encrypted=True), 0x0021),
            (SecurityHeader(1, SID, is_default_provider=True), 0x0041),
        ):
            data = header.to_bytes()
            self.assertEqual(int.from_bytes(data[:2], "little"), flags)
            self.assertEqual(read((flags ^ 0xFF90).to_bytes(2, "little") + data[2:]), header)

    def test_items_of_no_bytes_take_no_space(self) -> None:
        """The second item begins four bytes after the first if that has three."""
        header = SecurityHeader(1, b"abc", b"", b"defgh")
        self.assertEqual(header.to_bytes()[16:], b"abc\0defgh\0\0\0")
        self.assertEqual(read(header.to_bytes()), header)

    @given(security_headers(), st.integers(0, 0xFFFF))
    def test_meaningless_bits_are_ignored(self, header: SecurityHeader, junk: int) -> None:
        """MQMQ-2.2.20.6-09: 0xF000 is sent as 0 and may be anything on receipt, as AU, AI and AS."""
        data = header.to_bytes()
        flags = int.from_bytes(data[:2], "little")
        self.assertEqual(flags & 0xFF10, 0)
        self.assertEqual(read((flags | junk & 0xFF90).to_bytes(2, "little") + data[2:]), header)

    def test_sizes_decide_what_is_there(self) -> None:
        """MQMQ-2.2.20.6-07: AI with nothing behind it is malformed; without AI the items are read.

        It is sent with anything but a SecurityID alone.
        """
        self.assert_malformed(fixed(0x0080), "SenderIdSize", 94)
        self.assertEqual(read(fixed(0, signature=4) + b"sign"), SecurityHeader(signature=b"sign"))
        self.assertEqual(SecurityHeader(1, SID).to_bytes()[0], 0x01)
        self.assertEqual(SecurityHeader(1, SID, signature=b"sign").to_bytes()[0], 0x81)
        self.assertEqual(SecurityHeader(encryption_key=b"key").to_bytes()[0], 0x80)

    def test_a_header_of_nothing_is_malformed(self) -> None:
        """MQMQ-2.2.20.6-12: one of the five sizes must not be 0, for any flags."""
        for flags in (0x0000, 0x0001, 0x0040, 0xFFFF):
            self.assert_malformed(fixed(flags), "SenderIdSize", 94)
        self.assertRaises(LocalProtocolError, SecurityHeader(1).to_bytes)

    def test_an_identifier_needs_its_type(self) -> None:
        """ST 0 means no identifier, so 28 bytes of one are malformed."""
        self.assert_malformed(fixed(0, sender=28) + SID, "SenderIdSize", 94)
        self.assertRaises(LocalProtocolError, SecurityHeader(0, SID).to_bytes)
        queue_manager = SecurityHeader(SenderIdType.QUEUE_MANAGER, bytes(16))
        self.assertEqual(read(queue_manager.to_bytes()), queue_manager)

    def test_items_end_within_the_packet(self) -> None:
        """MQMQ-2.2.20.6-10: each size is that of its item, at most 0xFFFF, which has to be present
        completely.
        """
        for sizes, field in (
            ({"flags": 1, "sender": 9}, "SecurityID"),
            ({"key": 9}, "EncryptionKey"),
            ({"signature": 9}, "Signature"),
            ({"certificate": 9}, "SenderCert"),
        ):
            self.assert_malformed(fixed(**sizes) + bytes(8), field, 108)
        self.assert_malformed(fixed(provider=0xFFFFFFFF) + bytes(8), "ProviderInfoSize", 108)
        longest = SecurityHeader(1, bytes(0xFFFF), bytes(0xFFFF), bytes(0xFFFF))
        self.assertEqual(read(longest.to_bytes()), longest)
        self.assertRaises(LocalProtocolError, SecurityHeader(1, bytes(0x10000)).to_bytes)

    def test_the_padding_of_the_last_item_is_part_of_it(self) -> None:
        """Three bytes where four are due are malformed; what the padding holds is ignored."""
        self.assert_malformed(fixed(1, sender=3) + b"abc", "Padding", 111)
        self.assertEqual(read(fixed(1, sender=3) + b"abc\xff"), SecurityHeader(1, b"abc"))

    def test_a_certificate_has_at_most_65535_bytes(self) -> None:
        """MQMQ-2.2.20.6-11: 0x00010000 is malformed although the bytes are there."""
        self.assert_malformed(fixed(certificate=0x10000) + bytes(0x10000), "SenderCertSize", 100)
        longest = SecurityHeader(sender_cert=bytes(0xFFFF))
        self.assertEqual(read(longest.to_bytes()), longest)
        self.assertRaises(LocalProtocolError, SecurityHeader(sender_cert=bytes(0x10000)).to_bytes)

    def test_a_provider_is_a_number_and_a_name(self) -> None:
        """MQMQ-2.2.20.6-20: ProviderInfoSize is 4 and the bytes of the name with its NUL; only without DE."""
        name = "Microsoft Base Cryptographic Provider v1.0"
        header = SecurityHeader(signature=b"sign", provider_info=ProviderInfo(1, name))
        data = header.to_bytes()
        self.assertEqual(int.from_bytes(data[12:16], "little"), 4 + 2 * (len(name) + 1))
        self.assertEqual(read(data), header)
        with_default = SecurityHeader(
            signature=b"sign", provider_info=ProviderInfo(1, name), is_default_provider=True
        )
        self.assertRaises(LocalProtocolError, with_default.to_bytes)

    def test_a_provider_without_a_whole_name_is_malformed(self) -> None:
        """Half a number, no name, an odd size and a name without its NUL."""
        for info in (b"\1\0", b"\1\0\0\0", b"\1\0\0\0p\0\0", b"\1\0\0\0p\0"):
            self.assertRaises(RemoteProtocolError, read, fixed(provider=len(info)) + info + bytes(3))

    def test_bytes_behind_the_name_of_a_provider_are_kept(self) -> None:
        """They are no fault of the packet, so its session goes on; the header is written as it came."""
        for surplus in (b"\0\0\0\0", b"x\0", b"odd"):
            info = ProviderInfo(1, "p", surplus)
            header = SecurityHeader(signature=b"sign", provider_info=info)
            self.assertEqual(read(header.to_bytes()), header)
            self.assertEqual(int.from_bytes(header.to_bytes()[12:16], "little"), 8 + len(surplus))

    def test_a_type_beyond_4_bits_is_our_mistake(self) -> None:
        """It is refused instead of being cut."""
        self.assertRaises(LocalProtocolError, SecurityHeader(16, SID).to_bytes)

    @given(security_headers())
    def test_every_header_round_trips(self, header: SecurityHeader) -> None:
        """It is read completely, not from any prefix, and with trailing bytes."""
        assert_read_three_ways(self, header)

    @given(st.binary(max_size=40), st.binary(min_size=9, max_size=9))
    def test_any_bytes_are_read_or_malformed(self, data: bytes, sizes: bytes) -> None:
        """No peer can cause any other error."""
        assert_only_remote_errors(SecurityHeader.read, data)
        small = fixed(sizes[0], *(size % 9 for size in sizes[1:6]))
        assert_only_remote_errors(SecurityHeader.read, small + data)
