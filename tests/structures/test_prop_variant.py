"""[MS-MQMQ] 2.2.12 to 2.2.16: PROPVARIANT holds a value of each type."""

from __future__ import annotations

from struct import pack
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import LocalProtocolError, RemoteProtocolError
from msmq.structures.packet.message_properties_header import MessagePropertiesHeader
from msmq.structures.prop_variant import PropVariant, VarEnum
from msmq.wire.reader import Reader
from tests.strategies_names import prop_variants
from tests.structures.three_ways import assert_only_remote_errors, assert_read_three_ways
from tests.vectors import INITIATOR as GUID

OTHER = UUID("00000000-0000-0000-0000-000000000001")


def plain(vt: int, arm: bytes) -> bytes:
    """A structure whose arm needs nothing behind it."""
    return pack("<HBBIH6x", vt, 0, 0, 0, vt) + arm


class PropVariantTests(SynchronousTestCase):
    """L{PropVariant}."""

    def carried(self, vt: int, value: object, expected: bytes | None = None) -> None:
        """Assert that a value is read back, and its bytes."""
        variant = PropVariant(vt, value)
        data = variant.to_bytes()
        self.assertEqual(data[:2], vt.to_bytes(2, "little"))
        if expected is not None:
            self.assertEqual(data, expected)
        assert_read_three_ways(self, variant)
        self.assertEqual(PropVariant.from_bytes(data).value, value)

    @given(prop_variants())
    def test_any_value_is_read_back(self, variant: PropVariant) -> None:
        """Values of any type round-trip, vectors of variants included."""
        self.assertEqual(PropVariant.from_bytes(variant.to_bytes()), variant)

    @given(st.binary(max_size=100))
    def test_any_bytes_are_read_or_malformed(self, data: bytes) -> None:
        """No peer can cause any other error."""
        assert_only_remote_errors(PropVariant.read, data)

    @given(prop_variants(), st.data())
    def test_a_damaged_structure_is_read_or_malformed(
        self, variant: PropVariant, data: st.DataObject
    ) -> None:
        """Nor by changing a byte of a good one."""
        damaged = bytearray(variant.to_bytes())
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
        assert_only_remote_errors(PropVariant.read, bytes(damaged))

    def test_empty(self) -> None:
        """MQMQ-2.2.12-01: type 0 has no data."""
        self.carried(0, None, bytes(10))

    def test_null(self) -> None:
        """MQMQ-2.2.12-02: type 1 has no data."""
        self.carried(1, None, bytes.fromhex("0100 0000 00000000 0100"))

    def test_i2(self) -> None:
        """MQMQ-2.2.12-03: type 2 is a signed number of 16 bits."""
        self.carried(2, -2, plain(2, b"\xfe\xff"))

    def test_i4(self) -> None:
        """MQMQ-2.2.12-04: type 3 is a signed number of 32 bits."""
        self.carried(3, -2, plain(3, b"\xfe\xff\xff\xff"))

    def test_bool(self) -> None:
        """MQMQ-2.2.12-05: type 11 is a VARIANT_BOOL."""
        self.carried(11, True, plain(11, b"\xff\xff"))

    def test_variants_come_in_vectors_alone(self) -> None:
        """MQMQ-2.2.12-06: type 0x100C holds variants; 12 alone is malformed."""
        self.carried(0x100C, (PropVariant(3, 7), PropVariant(31, "q")))
        self.assertRaises(RemoteProtocolError, PropVariant.from_bytes, plain(12, bytes(16)))

    def test_i1(self) -> None:
        """MQMQ-2.2.12-07: type 16 is a number of 8 bits."""
        self.carried(16, -2, plain(16, b"\xfe"))

    def test_ui1(self) -> None:
        """MQMQ-2.2.12-08: type 17 is an unsigned number of 8 bits."""
        self.carried(17, 254, plain(17, b"\xfe"))

    def test_ui2(self) -> None:
        """MQMQ-2.2.12-09: type 18 is an unsigned number of 16 bits."""
        self.carried(18, 0xFFFE, plain(18, b"\xfe\xff"))

    def test_ui4(self) -> None:
        """MQMQ-2.2.12-10: type 19 is an unsigned number of 32 bits."""
        self.carried(19, 0xFFFFFFFE, plain(19, b"\xfe\xff\xff\xff"))

    def test_i8(self) -> None:
        """MQMQ-2.2.12-11: type 20 is a signed number of 64 bits."""
        self.carried(20, -2, plain(20, b"\xfe" + b"\xff" * 7))

    def test_ui8(self) -> None:
        """MQMQ-2.2.12-12: type 21 is an unsigned number of 64 bits."""
        self.carried(21, 1 << 63, plain(21, bytes(7) + b"\x80"))

    def test_lpwstr(self) -> None:
        """MQMQ-2.2.12-13: type 31 points to UTF-16 text and its NUL."""
        text = pack("<IIII", 0x00020000, 2, 0, 2) + "q\0".encode("utf-16-le")
        self.carried(31, "q", plain(31, text))
        self.carried(31, "")

    def test_blob(self) -> None:
        """MQMQ-2.2.12-14: type 65 is a counted block of bytes."""
        self.carried(65, b"abc", plain(65, pack("<III", 3, 0x00020000, 3) + b"abc"))
        self.carried(65, b"")

    def test_clsid(self) -> None:
        """MQMQ-2.2.12-15: type 72 points to a GUID."""
        self.carried(72, GUID, plain(72, pack("<I", 0x00020000) + GUID.bytes_le))

    def test_a_vector_is_a_counted_array(self) -> None:
        """MQMQ-2.2.12-16: type 0x101F is an array of texts."""
        self.assertEqual(VarEnum.VT_VECTOR | VarEnum.VT_LPWSTR, 0x101F)
        self.carried(0x101F, ("IP=10.0.0.1", "", "IP=10.0.0.2"))

    def test_a_type_has_16_bits_here_and_32_as_body_type(self) -> None:
        """MQMQ-2.2.12.1-01: a type of 0x101F takes two bytes, BodyType of a message four."""
        self.assertEqual(PropVariant(0x101F, ()).to_bytes()[:10].hex(), "1f10" + "000000000000" + "1f10")
        properties = bytearray(MessagePropertiesHeader(body_type=0x101F).to_bytes())
        self.assertEqual(properties[24:28].hex(), "1f100000")
        properties[26:28] = b"\x34\x12"
        self.assertEqual(MessagePropertiesHeader.read(Reader(properties)).body_type, 0x1234101F)

    @given(st.binary(min_size=6, max_size=6))
    def test_the_reserved_members_mean_nothing(self, reserved: bytes) -> None:
        """MQMQ-2.2.13.1-01: reserved members do not affect the value; other types are malformed."""
        data = PropVariant(19, 7).to_bytes()
        self.assertEqual(data[2:8], bytes(6))
        self.assertEqual(PropVariant.from_bytes(data[:2] + reserved + data[8:]), PropVariant(19, 7))
        for vt in (4, 8, 66, 0x1000, 0x1002, 0x100B, 0x1041, 0x2013):
            error = self.assertRaises(RemoteProtocolError, PropVariant.from_bytes, plain(vt, bytes(16)))
            self.assertEqual(error.field, "vt")

    def test_true_and_false(self) -> None:
        """MQMQ-2.2.14-01: TRUE is 0xFFFF, FALSE is 0, and nothing else is either."""
        self.carried(11, True, plain(11, b"\xff\xff"))
        self.carried(11, False, plain(11, b"\0\0"))
        self.assertRaises(RemoteProtocolError, PropVariant.from_bytes, plain(11, b"\x01\0"))

    def test_arrays_say_how_many_elements_they_have(self) -> None:
        """MQMQ-2.2.16.1-01: none, one and three of each type; no more than there are."""
        for vt, elements in (
            (0x1011, b"abc"),
            (0x1012, (1, 0xFFFF, 3)),
            (0x1003, (-1, 2, 3)),
            (0x1013, (1, 2, 0xFFFFFFFF)),
            (0x1015, (1, 2, 1 << 63)),
            (0x1048, (GUID, OTHER, GUID)),
            (0x101F, ("a", "", "ccc")),
            (0x100C, (PropVariant(0, None), PropVariant(0x101F, ("a", "b")), PropVariant(21, 1))),
        ):
            for count in (0, 1, 3):
                self.carried(vt, elements[:count])
                data = bytearray(PropVariant(vt, elements[:count]).to_bytes())
                self.assertEqual(data[16:20], pack("<I", count))
                data[16:20] = pack("<I", count + 1)
                if count:
                    self.assertEqual(data[24:28], pack("<I", count))
                    data[24:28] = pack("<I", count + 1)
                self.assertRaises(RemoteProtocolError, PropVariant.from_bytes, bytes(data))

    def test_a_huge_count_is_malformed_at_once(self) -> None:
        """No memory is taken for elements that are not there."""
        for vt in (0x1011, 0x1012, 0x1015, 0x1048, 0x101F, 0x100C, 65):
            data = plain(vt, pack("<III", 0xFFFFFFFF, 0x00020000, 0xFFFFFFFF))
            self.assertRaises(RemoteProtocolError, PropVariant.from_bytes, data)

    def test_vectors_nest_up_to_eight_deep(self) -> None:
        """A peer cannot exhaust the stack."""
        variant = PropVariant(0, None)
        for _ in range(8):
            variant = PropVariant(0x100C, (variant,))
        self.assertEqual(PropVariant.from_bytes(variant.to_bytes()), variant)
        self.assertRaises(LocalProtocolError, PropVariant(0x100C, (variant,)).to_bytes)
        level = plain(0x100C, pack("<III4x", 1, 0x00020000, 1))
        self.assertRaises(RemoteProtocolError, PropVariant.from_bytes, level * 1000)

    def test_the_tag_must_repeat_the_type(self) -> None:
        """They say the same twice."""
        data = bytearray(PropVariant(19, 7).to_bytes())
        data[8] = 3
        self.assertRaises(RemoteProtocolError, PropVariant.from_bytes, bytes(data))

    def test_a_null_text_is_malformed(self) -> None:
        """As is a text that does not begin at its beginning."""
        self.assertRaises(RemoteProtocolError, PropVariant.from_bytes, plain(31, bytes(4)))
        text = pack("<IIII", 0x00020000, 3, 1, 2) + "q\0".encode("utf-16-le")
        self.assertRaises(RemoteProtocolError, PropVariant.from_bytes, plain(31, text))

    def test_a_value_of_another_type_is_refused(self) -> None:
        """A program cannot make what cannot be written."""
        for vt, value in (
            (0, 1),
            (3, "x"),
            (3, True),
            (2, 1 << 15),
            (17, -1),
            (11, 1),
            (31, b"x"),
            (72, "x"),
            (65, "x"),
            (0x101F, ("x", 1)),
            (0x1012, (1 << 16,)),
            (0x1013, [1]),
            (0x100C, (1,)),
            (12, None),
        ):
            self.assertRaises(LocalProtocolError, PropVariant, vt, value)
