"""[MS-MQQB] 2.4 and [MS-MQMQ] 2.2.1, 2.2.2: public keys and encrypted session keys."""

from __future__ import annotations

from functools import cache
from struct import pack

from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import LocalProtocolError, RemoteProtocolError
from msmq.structures.directory.public_key_blob import KeyAlgorithm, PublicKeyBlob
from msmq.structures.directory.public_keys import (
    AES_PROVIDER,
    BASE_PROVIDER,
    ENHANCED_PROVIDER,
    MqdsPublicKey,
    MqdsPublicKeys,
    ProviderType,
)
from msmq.structures.directory.simple_blob import SessionKeyAlgorithm, SimpleBlob
from msmq.wire.reader import Reader
from tests.structures.three_ways import assert_only_remote_errors, assert_read_three_ways

MODULUS = int.from_bytes(bytes((0xC0 | index % 64) for index in range(128)), "big")
"""1024 bits, made up; the bytes are counted so that their order shows."""

BLOB = PublicKeyBlob(MODULUS, 65537)


@cache
def private_key() -> RSAPrivateKey:
    """A real key of 1024 bits."""
    return generate_private_key(65537, 1024)


def public_key_blobs() -> st.SearchStrategy[PublicKeyBlob]:
    """Keys of any length."""
    modulus = st.binary(max_size=140).map(lambda data: int.from_bytes(data, "big"))
    exponent = st.integers(0, 0xFFFFFFFF)
    algorithm = st.sampled_from(KeyAlgorithm)
    return st.builds(PublicKeyBlob, modulus, exponent, algorithm=algorithm)


class PublicKeyBlobTests(SynchronousTestCase):
    """L{PublicKeyBlob}."""

    @given(public_key_blobs())
    def test_any_key_is_read_back(self, blob: PublicKeyBlob) -> None:
        """Keys of any length round-trip."""
        self.assertEqual(PublicKeyBlob.from_bytes(blob.to_bytes()), blob)

    @given(st.binary(max_size=60) | st.binary(max_size=30).map(lambda tail: BLOB.to_bytes()[:12] + tail))
    def test_any_bytes_are_read_or_malformed(self, data: bytes) -> None:
        """No peer can cause any other error."""
        assert_only_remote_errors(PublicKeyBlob.read, data)

    def test_begins_with_type_algorithm_and_magic(self) -> None:
        """MQQB-2.4.1-01: then come the bits of the modulus, the exponent and the modulus."""
        data = BLOB.to_bytes()
        self.assertEqual(data[:20].hex(" "), "06 02 00 00 00 a4 00 00 52 53 41 31 00 04 00 00 01 00 01 00")
        self.assertEqual(len(data), 20 + 128)
        assert_read_three_ways(self, BLOB)

    def test_the_modulus_is_little_endian(self) -> None:
        """MQQB-2.4.1-02: its bytes are those of the usual form reversed, bitLen bits of them."""
        self.assertEqual(BLOB.to_bytes()[20:], MODULUS.to_bytes(128, "big")[::-1])

    def test_a_real_key_is_read_back(self) -> None:
        """MQMQ-2.2.20.6-17: for signing or for encryption, from a key of 1024 bits."""
        numbers = private_key().public_key().public_numbers()
        for algorithm, number in ((KeyAlgorithm.SIGNATURE, 0x2400), (KeyAlgorithm.KEY_EXCHANGE, 0xA400)):
            data = PublicKeyBlob(numbers.n, numbers.e, algorithm=algorithm).to_bytes()
            self.assertEqual(data[:16], pack("<II", 0x0206, number) + b"RSA1" + pack("<I", 1024))
            blob = PublicKeyBlob.from_bytes(data)
            self.assertEqual(
                (blob.modulus, blob.public_exponent, blob.algorithm), (numbers.n, numbers.e, number)
            )

    def test_the_length_counts_whole_bytes(self) -> None:
        """MQMQ-2.2.20.6-18: a modulus of fewer bits is padded with zero bits."""
        blob = PublicKeyBlob(MODULUS >> 3, 3)
        self.assertEqual(blob.bit_length, 1024)
        self.assertEqual(blob.to_bytes()[12:16], pack("<I", 1024))
        self.assertEqual(len(blob.to_bytes()[20:]) * 8, blob.bit_length)
        data = bytearray(BLOB.to_bytes())
        data[12:16] = pack("<I", 1023)
        self.assertRaises(RemoteProtocolError, PublicKeyBlob.from_bytes, bytes(data))

    def test_the_reserved_bytes_mean_nothing(self) -> None:
        """Reserved bytes do not affect the key."""
        data = BLOB.to_bytes()
        self.assertEqual(PublicKeyBlob.from_bytes(data[:2] + b"\xab\xcd" + data[4:]), BLOB)

    def test_other_beginnings_are_malformed(self) -> None:
        """The error names the field."""
        data = BLOB.to_bytes()
        for offset, field in ((0, "bType"), (1, "bType"), (4, "aiKeyAlg"), (8, "magic")):
            damaged = bytearray(data)
            damaged[offset] ^= 1
            error = self.assertRaises(RemoteProtocolError, PublicKeyBlob.from_bytes, bytes(damaged))
            self.assertEqual(error.field, field)

    def test_a_modulus_that_does_not_fit_cannot_be_made(self) -> None:
        """Nor one of part of a byte."""
        self.assertRaises(LocalProtocolError, PublicKeyBlob, MODULUS, 3, 512)
        self.assertRaises(LocalProtocolError, PublicKeyBlob, 5, 3, 3)


class SimpleBlobTests(SynchronousTestCase):
    """L{SimpleBlob}."""

    def test_begins_with_type_and_algorithms(self) -> None:
        """MQQB-2.4.2-01: the cipher of the body first, then the key exchange."""
        blob = SimpleBlob(SessionKeyAlgorithm.AES_256, b"\x01\x02\x03")
        self.assertEqual(blob.to_bytes().hex(" "), "01 02 00 00 10 66 00 00 00 a4 00 00 03 02 01")

    def test_there_are_five_ciphers(self) -> None:
        """MQQB-2.4.2-02: each has its number; others are malformed."""
        for algorithm, number in (
            (SessionKeyAlgorithm.AES_128, "0e660000"),
            (SessionKeyAlgorithm.AES_192, "0f660000"),
            (SessionKeyAlgorithm.AES_256, "10660000"),
            (SessionKeyAlgorithm.RC2, "02660000"),
            (SessionKeyAlgorithm.RC4, "01680000"),
        ):
            data = SimpleBlob(algorithm, b"k").to_bytes()
            self.assertEqual(data[4:8].hex(), number)
            self.assertEqual(SimpleBlob.from_bytes(data).algorithm, algorithm)
        data = SimpleBlob(SessionKeyAlgorithm.RC4, b"k").to_bytes()
        damaged = data[:4] + pack("<I", 0x6601) + data[8:]
        self.assertEqual(
            self.assertRaises(RemoteProtocolError, SimpleBlob.from_bytes, damaged).field,
            "sessionKeyAlgorithm",
        )

    def test_the_encrypted_key_is_reversed(self) -> None:
        """MQQB-2.4.2-03: the owner of the private key gets the session key back from the reversed bytes."""
        key = private_key()
        encrypted = key.public_key().encrypt(b"a session key of 32 bytes length", PKCS1v15())
        data = SimpleBlob(SessionKeyAlgorithm.AES_256, encrypted).to_bytes()
        self.assertEqual(key.decrypt(data[:11:-1], PKCS1v15()), b"a session key of 32 bytes length")
        blob = SimpleBlob.from_bytes(data)
        self.assertEqual(key.decrypt(blob.encrypted_key, PKCS1v15()), b"a session key of 32 bytes length")

    def test_the_encrypted_key_is_as_long_as_the_modulus(self) -> None:
        """MQQB-2.4.2-04: 140 bytes for a key of 1024 bits, and up to the confining length."""
        encrypted = private_key().public_key().encrypt(bytes(16), PKCS1v15())
        data = SimpleBlob(SessionKeyAlgorithm.RC4, encrypted).to_bytes()
        self.assertEqual(len(data), 140)
        reader = Reader(data + b"rubbish")
        with reader.confined(140, "EncryptionKeySize"):
            self.assertEqual(SimpleBlob.read(reader).encrypted_key, encrypted)
        for size in (64, 256):
            key = bytes(range(1, size + 1)[:255]) + bytes(size - 255 if size > 255 else 0)
            blob = SimpleBlob(SessionKeyAlgorithm.RC2, key)
            self.assertEqual(SimpleBlob.from_bytes(blob.to_bytes()), blob)

    def test_a_blob_without_a_key_is_malformed(self) -> None:
        """As is one that is cut off before it, or begins otherwise."""
        data = SimpleBlob(SessionKeyAlgorithm.RC4, b"k").to_bytes()
        for size in range(len(data)):
            self.assertRaises(RemoteProtocolError, SimpleBlob.from_bytes, data[:size])
        for offset in (0, 1, 8):
            damaged = bytearray(data)
            damaged[offset] ^= 4
            self.assertRaises(RemoteProtocolError, SimpleBlob.from_bytes, bytes(damaged))
        self.assertRaises(LocalProtocolError, SimpleBlob, SessionKeyAlgorithm.RC4, b"")

    @given(st.binary(max_size=30))
    def test_any_bytes_are_read_or_malformed(self, data: bytes) -> None:
        """No peer can cause any other error."""
        assert_only_remote_errors(SimpleBlob.read, data)


BASE = MqdsPublicKey(BASE_PROVIDER, ProviderType.PROV_RSA_FULL, PublicKeyBlob(MODULUS >> 512, 65537))
ENHANCED = MqdsPublicKey(ENHANCED_PROVIDER, ProviderType.PROV_RSA_FULL, BLOB)
AES = MqdsPublicKey(AES_PROVIDER, ProviderType.PROV_RSA_AES, BLOB)


class MqdsPublicKeyTests(SynchronousTestCase):
    """L{MqdsPublicKey}."""

    def test_is_three_numbers_a_name_and_a_key(self) -> None:
        """MQMQ-2.2.1-01: in this order, without padding."""
        for key in (BASE, ENHANCED, AES):
            name = (key.provider_name + "\0").encode("utf-16-le")
            blob = key.key.to_bytes()
            fixed = pack("<III", len(blob), len(name), key.provider_type)
            self.assertEqual(key.to_bytes(), fixed + name + blob)
            assert_read_three_ways(self, key)

    def test_says_how_long_the_key_is(self) -> None:
        """MQMQ-2.2.1-02: 148 bytes for 1024 bits, 84 for 512."""
        self.assertEqual(ENHANCED.to_bytes()[:4], pack("<I", 148))
        self.assertEqual(BASE.to_bytes()[:4], pack("<I", 84))
        data = pack("<I", 147) + ENHANCED.to_bytes()[4:]
        self.assertRaises(RemoteProtocolError, MqdsPublicKey.from_bytes, data)

    def test_says_how_long_the_name_is(self) -> None:
        """MQMQ-2.2.1-03: in bytes, with the NUL."""
        self.assertEqual(BASE.to_bytes()[4:8], pack("<I", 2 * (len(BASE_PROVIDER) + 1)))

    def test_there_are_two_provider_types(self) -> None:
        """MQMQ-2.2.1-04: 1 and 0x18; others are malformed."""
        self.assertEqual(BASE.to_bytes()[8:12], pack("<I", 1))
        self.assertEqual(AES.to_bytes()[8:12], pack("<I", 0x18))
        for number in (0, 2, 0x17, 0x18000000):
            data = BASE.to_bytes()
            data = data[:8] + pack("<I", number) + data[12:]
            error = self.assertRaises(RemoteProtocolError, MqdsPublicKey.from_bytes, data)
            self.assertEqual((error.field, error.offset), ("ulProviderType", 8))

    def test_the_name_ends_with_a_nul(self) -> None:
        """MQMQ-2.2.1-05: without it the structure is malformed."""
        data = bytearray(BASE.to_bytes())
        end = 12 + 2 * (len(BASE_PROVIDER) + 1)
        self.assertEqual(data[12:end], (BASE_PROVIDER + "\0").encode("utf-16-le"))
        data[end - 2 : end] = b"x\0"
        error = self.assertRaises(RemoteProtocolError, MqdsPublicKey.from_bytes, bytes(data))
        self.assertEqual(error.field, "sProviderName")

    def test_the_key_is_a_public_key_blob(self) -> None:
        """MQMQ-2.2.1-06: it begins with 06 02, key exchange and RSA1."""
        self.assertEqual(BASE.to_bytes()[-84:-72].hex(" "), "06 02 00 00 00 a4 00 00 52 53 41 31")

    @given(st.binary(max_size=60))
    def test_any_bytes_are_read_or_malformed(self, data: bytes) -> None:
        """No directory can cause any other error."""
        assert_only_remote_errors(MqdsPublicKey.read, data)


class MqdsPublicKeysTests(SynchronousTestCase):
    """L{MqdsPublicKeys}."""

    @given(
        st.lists(
            st.builds(
                MqdsPublicKey,
                st.text(st.characters(exclude_characters="\0", exclude_categories=()), max_size=10),
                st.sampled_from(ProviderType),
                public_key_blobs(),
            ),
            max_size=3,
        ).map(tuple)
    )
    def test_any_keys_are_read_back(self, keys: tuple[MqdsPublicKey, ...]) -> None:
        """In their order."""
        self.assertEqual(MqdsPublicKeys.from_bytes(MqdsPublicKeys(keys).to_bytes()).keys, keys)

    def test_says_how_long_it_is(self) -> None:
        """MQMQ-2.2.2-01: with its own two numbers; another length is malformed."""
        for keys in ((), (BASE,), (BASE, ENHANCED, AES)):
            structure = MqdsPublicKeys(keys)
            data = structure.to_bytes()
            self.assertEqual(data[:4], pack("<I", len(data)))
            assert_read_three_ways(self, structure)
            for length in (7, len(data) - 1, len(data) + 1):
                wrong = pack("<I", length) + data[4:]
                self.assertRaises(RemoteProtocolError, MqdsPublicKeys.from_bytes, wrong + b"\0")

    def test_says_how_many_keys_follow(self) -> None:
        """MQMQ-2.2.2-02: back to back; another count is malformed."""
        data = MqdsPublicKeys((BASE, AES)).to_bytes()
        self.assertEqual(data[4:], pack("<I", 2) + BASE.to_bytes() + AES.to_bytes())
        self.assertEqual(MqdsPublicKeys.from_bytes(data).keys, (BASE, AES))
        for count in (0, 1, 3, 0xFFFFFFFF):
            wrong = data[:4] + pack("<I", count) + data[8:]
            self.assertRaises(RemoteProtocolError, MqdsPublicKeys.from_bytes, wrong)
