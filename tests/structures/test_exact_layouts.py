"""[MS-MQMQ] 2.2.1, 2.2.13 and [MS-MQQB] 2.4: paddings, limits and errors of structures, to the byte."""

from __future__ import annotations

from hashlib import sha256
from struct import pack
from uuid import UUID

from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import LocalProtocolError, RemoteProtocolError
from msmq.structures.directory.public_key_blob import PublicKeyBlob
from msmq.structures.directory.public_keys import MqdsPublicKey, MqdsPublicKeys
from msmq.structures.directory.simple_blob import SessionKeyAlgorithm, SimpleBlob
from msmq.structures.identifier_digest import add_to_digest, digest_text
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.management import parse_next_hop
from msmq.structures.ndr import read_pointer, write_pointer
from msmq.structures.prop_variant import PropVariant
from msmq.structures.status import MQError
from msmq.wire.reader import Reader
from msmq.wire.structure import WholeStructure
from msmq.wire.writer import Writer
from tests.vectors import INITIATOR as GUID
from tests.vectors import INITIATOR_HEX as GUID_HEX

START = 96
"""Where structures begin in these tests, as in the middle of a larger whole."""
VARIANT = "[MS-MQMQ] 2.2.13.1 PROPVARIANT"


def inline(vt: int, arm: str = "") -> str:
    """The inline part of a variant with this arm, in hex."""
    return pack("<HxxxxxxHxxxxxx", vt, vt).hex() + arm


class LayoutCase(SynchronousTestCase):
    """Asserts on bytes and errors."""

    def assert_bytes(self, value: WholeStructure, expected: str) -> None:
        """A value is written to these bytes, and read from them."""
        data = bytes.fromhex(expected)
        self.assertEqual(value.to_bytes().hex(), data.hex())
        self.assertEqual(type(value).from_bytes(data), value)

    def assert_fault(self, kind: type[WholeStructure], data: bytes, expected: str) -> None:
        """The structure, read from offset 96 of something, has this error."""
        error = self.assertRaises(RemoteProtocolError, kind.read, Reader(data, base=START))
        self.assertEqual(str(error), expected)


class PropVariantTests(LayoutCase):
    """L{PropVariant}."""

    def test_referents_are_aligned(self) -> None:
        """A GUID, a text and an array begin at a multiple of four, a number at a multiple of its size."""
        three = PropVariant(0x1011, b"abc")
        head = inline(0x100C, "02000000 00000200 02000000 00000000")
        bytes_inline = inline(0x1011, "03000000 00000200")
        for second, arm, referent in (
            (PropVariant(72, GUID), "00000200", GUID_HEX),
            (PropVariant(31, "q"), "00000200", "02000000 00000000 02000000 71000000"),
            (PropVariant(0x1012, (1, 2)), "02000000 00000200", "02000000 0100 0200"),
            (PropVariant(0x1013, (1, 2)), "02000000 00000200", "02000000 01000000 02000000"),
            (PropVariant(0x1048, (GUID,)), "01000000 00000200", f"01000000 {GUID_HEX}"),
            (
                PropVariant(0x101F, ("q", "")),
                "02000000 00000200",
                "02000000 00000200 00000200 02000000 00000000 02000000 71000000 01000000 00000000 01000000"
                " 0000",
            ),
        ):
            self.assert_bytes(
                PropVariant(0x100C, (three, second)),
                f"{head}{bytes_inline}{inline(second.vt, arm)} 03000000 61626300 {referent}",
            )

    def test_pointers_are_aligned(self) -> None:
        """The inline parts of a vector's elements begin at multiples of eight, whatever stands before."""
        self.assert_bytes(
            PropVariant(0x100C, (PropVariant(17, 5), PropVariant(31, ""), PropVariant(0, None))),
            inline(0x100C, "03000000 00000200 03000000 00000000")
            + inline(17, "05 00000000000000")
            + inline(31, "00000200 00000000")
            + "0000 000000000000 0000 0000"
            + "01000000 00000000 01000000 0000",
        )
        self.assert_bytes(
            PropVariant(0x1015, (1, 2)),
            inline(0x1015, "02000000 00000200 02000000 00000000 0100000000000000 0200000000000000"),
        )

    def test_guids_in_an_array(self) -> None:
        """They follow each other without padding."""
        other = UUID(int=1)
        expected = f"03000000 00000200 03000000 {GUID_HEX}{other.bytes_le.hex()}{GUID_HEX}"
        self.assert_bytes(PropVariant(0x1048, (GUID, other, GUID)), inline(0x1048, expected))

    def test_errors(self) -> None:
        """Each names its member, and where that begins."""
        for data, field, offset, rule in (
            (pack("<H6xH", 3, 2), "_varUnion", 104, "differs from vt"),
            (inline(11, "0100"), "boolVal", 112, "is neither 0xFFFF nor 0"),
            (inline(31, "00000000"), "pwszVal", 112, "is a null pointer"),
            (inline(72, "00000000"), "puuid", 112, "is a null pointer"),
            (inline(12), "vt", 96, "0x000C is not the type of a property"),
            (
                inline(0x1011, "03000000 00000000"),
                "cElems",
                120,
                "counts 3 elements behind a null pointer",
            ),
            (
                inline(0x1011, "03000000 00000200 02000000 616263"),
                "pElems",
                120,
                "holds other than 3 elements",
            ),
            (
                inline(0x101F, "01000000 00000200 01000000 00000000"),
                "pElems",
                124,
                "is a null pointer",
            ),
            (
                inline(31, "00000200 02000000 01000000 02000000 71000000"),
                "pwszVal",
                116,
                "counts 2 of 2 characters from 1",
            ),
            (
                inline(31, "00000200 01000000 00000000 02000000 71000000"),
                "pwszVal",
                116,
                "counts 2 of 1 characters from 0",
            ),
        ):
            raw = data if isinstance(data, bytes) else bytes.fromhex(data)
            self.assert_fault(PropVariant, raw, f"{VARIANT}.{field} at offset {offset}: {rule}")

    def test_nesting(self) -> None:
        """Eight vectors within each other are read and written, nine are not."""
        nested: dict[int, PropVariant] = {0: PropVariant(0, None)}
        for depth in range(1, 10):
            nested[depth] = PropVariant(0x100C, (nested[depth - 1],))
        level = bytes.fromhex(inline(0x100C, "01000000 00000200 01000000 00000000"))
        nothing = bytes(10)
        self.assertEqual(nested[8].to_bytes(), level * 8 + nothing)
        self.assertEqual(PropVariant.from_bytes(level * 8 + nothing), nested[8])
        rule = "vectors are nested more than 8 deep"
        self.assert_fault(
            PropVariant, level * 9 + nothing, f"{VARIANT}.vt at offset {START + 8 * 32}: {rule}"
        )
        self.assertEqual(str(self.assertRaises(LocalProtocolError, nested[9].to_bytes)), rule)

    def test_limits_of_numbers(self) -> None:
        """The smallest and the largest number of each type fit, and their neighbours do not."""
        for vt, lowest, highest in (
            (16, -(1 << 7), (1 << 7) - 1),
            (17, 0, (1 << 8) - 1),
            (2, -(1 << 15), (1 << 15) - 1),
            (18, 0, (1 << 16) - 1),
            (3, -(1 << 31), (1 << 31) - 1),
            (19, 0, (1 << 32) - 1),
            (20, -(1 << 63), (1 << 63) - 1),
            (21, 0, (1 << 64) - 1),
        ):
            for number in (lowest, highest):
                variant = PropVariant(vt, number)
                self.assertEqual(PropVariant.from_bytes(variant.to_bytes()), variant)
            for number in (lowest - 1, highest + 1):
                error = self.assertRaises(LocalProtocolError, PropVariant, vt, number)
                self.assertEqual(str(error), f"vt 0x{vt:04X} cannot hold {number}")

    def test_a_long_value_is_cut(self) -> None:
        """An error shows the first hundred characters of a value."""
        error = self.assertRaises(LocalProtocolError, PropVariant, 3, "x" * 300)
        self.assertEqual(str(error).count("x"), 101)


class PointerTests(SynchronousTestCase):
    """L{read_pointer} and L{write_pointer}."""

    def test_a_pointer_is_aligned(self) -> None:
        """It begins at a multiple of four bytes, whatever stands before."""
        for before in range(1, 5):
            writer = Writer()
            writer.bytes(b"x" * before)
            write_pointer(writer, "first")
            write_pointer(writer, "second", is_null=True)
            expected = (b"x" * before).ljust(4, b"\0") + bytes.fromhex("00000200 00000000")
            self.assertEqual(writer.getvalue(), expected)
            reader = Reader(expected)
            reader.skip(before, "before")
            self.assertTrue(read_pointer(reader, "first"))
            self.assertFalse(read_pointer(reader, "second"))


class KeyTests(LayoutCase):
    """L{PublicKeyBlob}, L{MqdsPublicKeys} and L{SimpleBlob}."""

    def test_public_keys(self) -> None:
        """The error of each field has the offset at which that begins."""
        good = bytes.fromhex("06020000 00a40000 52534131 08000000 03000000 05")
        self.assertEqual(PublicKeyBlob.from_bytes(good), PublicKeyBlob(5, 3))
        for offset, replacement, field, where, rule in (
            (0, "07", "bType", 96, "does not begin with 06 02"),
            (1, "03", "bType", 96, "does not begin with 06 02"),
            (4, "01", "aiKeyAlg", 100, "0x0000A401 is neither 0x0000A400 nor 0x00002400"),
            (8, "53", "magic", 104, "is not RSA1"),
            (12, "07", "bitLen", 108, "7 bits are not whole bytes"),
            (12, "10", "modulus", 116, "needs 2 bytes where 1 remain"),
        ):
            new = bytes.fromhex(replacement)
            self.assert_fault(
                PublicKeyBlob,
                good[:offset] + new + good[offset + 1 :],
                f"[MS-MQQB] 2.4.1 PUBLICKEYBLOB.{field} at offset {where}: {rule}",
            )

    def test_lengths_of_a_modulus(self) -> None:
        """It has as many whole bytes as it needs, and fits if it is less than the next power of two."""
        for modulus, bits in ((0, 0), (1, 8), (255, 8), (256, 16), ((1 << 1024) - 1, 1024)):
            self.assertEqual(PublicKeyBlob(modulus, 3).bit_length, bits)
        self.assertEqual(PublicKeyBlob(255, 3, 16).bit_length, 16)
        for modulus in (-1, 256, 300):
            error = self.assertRaises(LocalProtocolError, PublicKeyBlob, modulus, 3, 8)
            self.assertEqual(str(error), "modulus: does not fit 8 bits")
        error = self.assertRaises(LocalProtocolError, PublicKeyBlob, 1, 3, 9)
        self.assertEqual(str(error), "bitLen: 9 bits are not whole bytes")

    def test_a_set_of_keys_counts_its_own_header(self) -> None:
        """A length of eight is that of no keys, and a smaller one is malformed."""
        self.assert_bytes(MqdsPublicKeys(), "08000000 00000000")
        self.assert_fault(
            MqdsPublicKeys,
            pack("<II", 7, 0),
            "[MS-MQMQ] 2.2.2 MQDSPUBLICKEYS.ulLen at offset 96: 7 is less than 8",
        )

    def test_the_provider_of_a_key(self) -> None:
        """An unknown type is named as a number of 32 bits."""
        self.assert_fault(
            MqdsPublicKey,
            pack("<III", 20, 2, 2) + bytes(2),
            "[MS-MQMQ] 2.2.1 MQDSPUBLICKEY.ulProviderType at offset 104: 0x00000002 is neither"
            " PROV_RSA_FULL nor PROV_RSA_AES",
        )

    def test_session_keys(self) -> None:
        """The error of each field has the offset at which that begins."""
        good = SimpleBlob(SessionKeyAlgorithm.RC4, b"k").to_bytes()
        for offset, replacement, field, where, rule in (
            (0, "02", "bType", 96, "does not begin with 01 02"),
            (1, "01", "bType", 96, "does not begin with 01 02"),
            (4, "02", "sessionKeyAlgorithm", 100, "0x00006802 is not a cipher for a body"),
            (8, "01", "keyExchangeAlgorithm", 104, "is not 0x0000A400"),
        ):
            new = bytes.fromhex(replacement)
            self.assert_fault(
                SimpleBlob,
                good[:offset] + new + good[offset + 1 :],
                f"[MS-MQQB] 2.4.2 SIMPLEBLOB.{field} at offset {where}: {rule}",
            )
        self.assert_fault(
            SimpleBlob, good[:-1], "[MS-MQQB] 2.4.2 SIMPLEBLOB.encryptedKey at offset 108: is missing"
        )


class OwnGuid(UUID):
    """A GUID of a program's own class."""


class OwnNumber(int):
    """A number of a program's own class."""


class IdentifierTests(SynchronousTestCase):
    """L{MessageIdentifier} and L{add_to_digest}."""

    def test_values_of_other_types(self) -> None:
        """They are refused where they come in, with the type that was expected; subclasses are welcome."""
        own = OwnGuid(str(GUID))
        identifier = MessageIdentifier(own, OwnNumber(7))
        self.assertEqual(identifier.to_bytes().hex(), GUID_HEX + "07000000")
        for queue_manager, ordinal, rule in (
            (str(GUID), 1, "queue_manager is a str; it has to be a UUID"),
            (b"", 1, "queue_manager is a bytes; it has to be a UUID"),
            (GUID, "1", "ordinal is a str; it has to be an int"),
            (own, 1.0, "ordinal is a float; it has to be an int"),
        ):
            error = self.assertRaises(LocalProtocolError, MessageIdentifier, queue_manager, ordinal)
            self.assertEqual(str(error), f"MessageIdentifier: {rule}")
        error = self.assertRaises(LocalProtocolError, MessageIdentifier.parse, b"1")
        self.assertEqual(str(error), "MessageIdentifier: text is a bytes; it has to be a str")

    def test_a_digest_is_a_sum(self) -> None:
        """Order and batches do not matter, while each identifier counts every time, modulo 2**256."""
        one, other = b"1" * 20, b"2" * 20
        first, second = (int.from_bytes(sha256(each).digest(), "big") for each in (one, other))
        self.assertEqual(add_to_digest(0, []), 0)
        self.assertEqual(add_to_digest(0, [one]), first)
        self.assertEqual(add_to_digest(0, [one, other, one]), (2 * first + second) % (1 << 256))
        self.assertEqual(add_to_digest(add_to_digest(0, [other]), [one]), add_to_digest(0, [one, other]))
        self.assertEqual(add_to_digest((1 << 256) - 1, [one]), first - 1)
        self.assertEqual(digest_text(0xAB), "0" * 62 + "ab")


class NextHopTests(SynchronousTestCase):
    """L{parse_next_hop}."""

    def test_errors(self) -> None:
        """A wrong address says what is wrong with it, another text what is expected."""
        expected = "is not one of IP=, IPv6= and FOREIGN= with an address"
        for text, rule in (
            ("IP=1", "is not a next hop: "),
            ("IPv6=1", "is not a next hop: "),
            ("FOREIGN=1", expected),
            ("IPX=1", expected),
            ("", expected),
        ):
            error: MQError = self.assertRaises(MQError, parse_next_hop, text)
            self.assertTrue(error.detail.startswith(f"{text!r} {rule}"), error.detail)
