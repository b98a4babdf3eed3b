"""Our ciphers keep the contract, and do what openssl does."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from msmq.interfaces.security.ciphers import CipherError, ICiphers
from msmq.security.ciphers import LibraryCiphers
from msmq.security.keys import KeyRing
from msmq.structures.directory.public_key_blob import PublicKeyBlob
from msmq.structures.directory.public_keys import AES_PROVIDER, BASE_PROVIDER, ENHANCED_PROVIDER
from msmq.structures.directory.simple_blob import SessionKeyAlgorithm, SimpleBlob
from msmq.testing.ciphers import MemoryCiphers
from msmq.testing.contracts.ciphers import CiphersContract
from tests.security.openssl import legacy, openssl

KEY = bytes(range(1, 33))
BODY = b"The quick brown fox jumps over the lazy dog"


@cache
def _ring(name: str, weak: bool) -> KeyRing:
    return KeyRing(None, weak=weak, bits=1024)


class MemoryCiphersTests(CiphersContract, SynchronousTestCase):
    """L{MemoryCiphers}."""

    def make_ciphers(self, name: str, *, weak: bool = True) -> ICiphers:
        """With keys of their own for each name."""
        return MemoryCiphers(name, weak=weak)


class LibraryCiphersTests(CiphersContract, SynchronousTestCase):
    """L{LibraryCiphers}; tests of the contract prove MQMQ-2.2.19.3-22 and MQQB-3.1.7.1.5-11."""

    def make_ciphers(self, name: str, *, weak: bool = True) -> ICiphers:
        """With real keys, which are made once for all tests, since that takes its time."""
        return LibraryCiphers(_ring(name, weak))


class VectorTests(SynchronousTestCase):
    """The same bytes as openssl."""

    def setUp(self) -> None:
        self.ciphers = LibraryCiphers(_ring("alpha", True))
        self.ciphers.open()

    def check(self, algorithm: int, size: int, name: str, *, is_legacy: bool, iv: int) -> None:
        """Encrypt with openssl and with ours, and decrypt what it has encrypted."""
        run = legacy if is_legacy else openssl
        key = KEY[:size]
        vector = ["enc", f"-{name}", "-K", key.hex()]
        if iv:
            vector += ["-iv", "00" * iv]
        for body in (b"", b"x", b"0123456789abcdef", BODY, os.urandom(5000)):
            theirs = run(*vector, data=body)
            self.assertEqual(self.ciphers.encrypt(algorithm, key, body), theirs)
            self.assertEqual(self.ciphers.decrypt(algorithm, key, theirs), body)
            ours = self.ciphers.encrypt(algorithm, key, body)
            self.assertEqual(run(*vector, "-d", data=ours), body)

    def test_aes(self) -> None:
        """MQQB-3.1.5.8.3-18 MQQB-3.1.7.1.5-13: AES in CBC, zero IV and PKCS5 padding, all three lengths.

        MQMQ-2.2.19.3-25: so it is of RC2, beneath.
        """
        self.check(0x660E, 16, "aes-128-cbc", is_legacy=False, iv=16)
        self.check(0x660F, 24, "aes-192-cbc", is_legacy=False, iv=16)
        self.check(0x6610, 32, "aes-256-cbc", is_legacy=False, iv=16)

    def test_rc2(self) -> None:
        """MQDMPR-3.1.1.12-45: RC2 in the same way, with as many effective bits as the key has: 40 and 128.

        What openssl encrypts with 40 bits has no salt, and is the second variant, or the only one.
        """
        for body in (b"", b"x", BODY):
            theirs = legacy("enc", "-rc2-40-cbc", "-K", KEY[:5].hex(), "-iv", "00" * 8, data=body)
            self.assertEqual(self.ciphers.decrypt_variants(0x6602, KEY[:5], theirs)[-1], body)
            ours = self.ciphers.encrypt(0x6602, KEY[:5], body)
            self.assertNotEqual(ours, theirs)
            # With salt, a key of 128 bits with 40 effective bits.
            self.assertIn(body, self.ciphers.decrypt_variants(0x6602, KEY[:5] + bytes(11), ours))
        self.check(0x6602, 16, "rc2-cbc", is_legacy=True, iv=8)

    def test_rc4(self) -> None:
        """RC4 as a plain key stream: 128 bits, and 40 with or without eleven zero bytes."""
        self.check(0x6801, 16, "rc4", is_legacy=True, iv=0)
        salted = KEY[:5] + bytes(11)
        theirs = legacy("enc", "-rc4", "-K", salted.hex(), data=BODY)
        self.assertEqual(self.ciphers.encrypt(0x6801, KEY[:5], BODY), theirs)
        self.assertEqual(self.ciphers.decrypt_variants(0x6801, KEY[:5], theirs)[0], BODY)
        plain = legacy("enc", "-rc4-40", "-K", KEY[:5].hex(), data=BODY)
        self.assertEqual(self.ciphers.decrypt_variants(0x6801, KEY[:5], plain)[1], BODY)
        self.assertEqual(len(self.ciphers.decrypt_variants(0x6801, salted, theirs)), 1)

    def test_padding_garbage(self) -> None:
        """A text that openssl encrypted without padding is reported as having invalid padding."""
        for tail in (b"\0" * 16, b"\x11" * 16, b"x" * 15 + b"\x00", b"x" * 14 + b"\x02\x03"[::-1]):
            text = openssl("enc", "-aes-256-cbc", "-K", KEY.hex(), "-iv", "00" * 16, "-nopad", data=tail)
            with self.assertRaises(CipherError) as caught:
                self.ciphers.decrypt(0x6610, KEY, text)
            self.assertIn("AES_256", str(caught.exception))

    def test_session_key_by_openssl(self) -> None:
        """MQQB-3.1.5.8.3-15: what openssl has encrypted for our key is the session key, reversed."""
        directory = Path(self.mktemp())
        directory.mkdir()
        ring = KeyRing(directory, weak=True, bits=2048)
        ring.open()
        ciphers = LibraryCiphers(ring)
        secrets = ((BASE_PROVIDER, "base", 5), (ENHANCED_PROVIDER, "enhanced", 16), (AES_PROVIDER, "aes", 32))
        for provider, name, size in secrets:
            secret = os.urandom(size)
            encrypted = openssl(
                "pkeyutl", "-encrypt", "-inkey", str(directory / f"encryption-{name}.pem"), data=secret
            )
            algorithm = SessionKeyAlgorithm.AES_256 if size == 32 else SessionKeyAlgorithm.RC4
            blob = SimpleBlob(algorithm, encrypted).to_bytes()
            self.assertEqual(blob[12:], encrypted[::-1])
            self.assertEqual(ciphers.recover_session_key(provider, blob).key, secret)

    def test_session_key_for_openssl(self) -> None:
        """MQQB-2.4.2-03: openssl gets our session key back with the private key, the bytes reversed."""
        directory = Path(self.mktemp())
        directory.mkdir()
        path = directory / "key.pem"
        openssl("genrsa", "-out", str(path), "2048")
        text = openssl("rsa", "-in", str(path), "-noout", "-modulus").decode().strip().partition("=")[2]
        public_key = PublicKeyBlob(int(text, 16), 65537)
        made = self.ciphers.make_session_key(0x6610, 256, 256, public_key)
        self.assertEqual(
            openssl("pkeyutl", "-decrypt", "-inkey", str(path), data=made.encrypted[12:][::-1]), made.key
        )
