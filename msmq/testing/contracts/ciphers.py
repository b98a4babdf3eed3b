"""Contract of every L{ICiphers}."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from msmq.interfaces.security.ciphers import CipherError, ICiphers, SessionKey
from msmq.structures.algorithms import EncryptionAlgorithm
from msmq.structures.directory.public_key_blob import KeyAlgorithm, PublicKeyBlob
from msmq.structures.directory.public_keys import (
    AES_PROVIDER,
    BASE_PROVIDER,
    ENHANCED_PROVIDER,
    MqdsPublicKeys,
)
from msmq.structures.directory.simple_blob import SimpleBlob

if TYPE_CHECKING:
    _Base = SynchronousTestCase
else:
    _Base = object

CIPHERS = (
    (EncryptionAlgorithm.RC2, 40, 40, BASE_PROVIDER, 8),
    (EncryptionAlgorithm.RC2, 40, 128, ENHANCED_PROVIDER, 8),
    (EncryptionAlgorithm.RC2, 128, 128, ENHANCED_PROVIDER, 8),
    (EncryptionAlgorithm.RC4, 40, 40, BASE_PROVIDER, 1),
    (EncryptionAlgorithm.RC4, 128, 128, ENHANCED_PROVIDER, 1),
    (EncryptionAlgorithm.AES_128, 128, 128, AES_PROVIDER, 16),
    (EncryptionAlgorithm.AES_192, 192, 192, AES_PROVIDER, 16),
    (EncryptionAlgorithm.AES_256, 256, 256, AES_PROVIDER, 16),
)
"""Cipher, bits of the key, bits with the zeros, provider, block size."""

BODIES = (b"", b"x", b"fifteen bytes..", b"sixteen bytes...", bytes(range(256)) * 5)


class CiphersContract(_Base):
    """Mixin for a C{TestCase} that creates the ciphers under test."""

    def make_ciphers(self, name: str, *, weak: bool = True) -> ICiphers:
        """Create the ciphers of one queue manager, not yet open; the same keys for the same name."""
        raise NotImplementedError

    def opened(self, name: str = "alpha", *, weak: bool = True) -> ICiphers:
        """Ciphers that are open."""
        ciphers = self.make_ciphers(name, weak=weak)
        ciphers.open()
        return ciphers

    def public_key(self, of: ICiphers, provider: str) -> PublicKeyBlob:
        """The public key with which other queue managers encrypt for these keys."""
        return next(key.key for key in of.encryption_keys.keys if key.provider_name == provider)

    def refused(self, call: Callable[..., Any], *arguments: Any) -> str:
        """The reason of a refusal, which is always the error of the interface."""
        with self.assertRaises(CipherError) as caught:
            call(*arguments)
        return str(caught.exception)

    def test_interface(self) -> None:
        """It has the methods of the interface."""
        self.assertTrue(verifyObject(ICiphers, self.opened()))

    def test_lists_of_keys(self) -> None:
        """MQQB-3.1.7.1.5-04: one key of each provider, of 512 and 1024 bits the old ones; for both uses."""
        ciphers = self.opened()
        for keys, algorithm in (
            (ciphers.encryption_keys, KeyAlgorithm.KEY_EXCHANGE),
            (ciphers.signing_keys, KeyAlgorithm.SIGNATURE),
        ):
            names = [key.provider_name for key in keys.keys]
            self.assertEqual(names, [BASE_PROVIDER, ENHANCED_PROVIDER, AES_PROVIDER])
            self.assertEqual([key.provider_type for key in keys.keys], [1, 1, 0x18])
            self.assertEqual([key.key.bit_length for key in keys.keys[:2]], [512, 1024])
            self.assertGreaterEqual(keys.keys[2].key.bit_length, 1024)
            self.assertEqual({key.key.algorithm for key in keys.keys}, {algorithm})
            self.assertEqual(MqdsPublicKeys.from_bytes(keys.to_bytes()), keys)
        self.assertNotEqual(
            self.public_key(ciphers, AES_PROVIDER).modulus, ciphers.signing_keys.keys[2].key.modulus
        )

    def test_without_weak_algorithms_there_is_one_key(self) -> None:
        """No key is published for a cipher that is refused."""
        ciphers = self.opened("strong", weak=False)
        self.assertEqual([key.provider_name for key in ciphers.encryption_keys.keys], [AES_PROVIDER])
        peer = self.opened("beta")
        encrypted = peer.make_session_key(0x6801, 40, 40, self.public_key(peer, BASE_PROVIDER)).encrypted
        self.assertIn(BASE_PROVIDER, self.refused(ciphers.recover_session_key, BASE_PROVIDER, encrypted))

    def test_keys_stay(self) -> None:
        """The keys are the same after a restart."""
        ciphers = self.make_ciphers("alpha")
        ciphers.open()
        before = ciphers.encryption_keys, ciphers.signing_keys
        ciphers.open()
        self.assertEqual((ciphers.encryption_keys, ciphers.signing_keys), before)

    def test_every_cipher_there_and_back(self) -> None:
        """MQMQ-2.2.19.3-22: each of the five numbers, with keys of each length."""
        alpha, beta = self.opened("alpha"), self.opened("beta")
        for algorithm, bits, padded, provider, block in CIPHERS:
            sent = alpha.make_session_key(algorithm, bits, padded, self.public_key(beta, provider))
            self.assertEqual(len(sent.key), padded // 8)
            self.assertFalse(any(sent.key[bits // 8 :]))
            received = beta.recover_session_key(provider, sent.encrypted)
            self.assertEqual((received.algorithm, received.key), (algorithm, sent.key))
            for body in BODIES:
                cipher_text = alpha.encrypt(algorithm, sent.key, body)
                size = len(body) if block == 1 else len(body) // block * block + block
                self.assertEqual(len(cipher_text), size)
                self.assertTrue(len(body) < 8 or body not in cipher_text)
                self.assertEqual(beta.decrypt(algorithm, received.key, cipher_text), body)
                self.assertEqual(beta.decrypt_variants(algorithm, received.key, cipher_text)[0], body)

    def test_blob(self) -> None:
        """MQQB-3.1.7.1.5-11: a SIMPLEBLOB as long as the modulus of the receiver, and 12 bytes."""
        alpha, beta = self.opened("alpha"), self.opened("beta")
        for provider, size in ((BASE_PROVIDER, 64), (ENHANCED_PROVIDER, 128)):
            key = alpha.make_session_key(0x6801, 40, 40, self.public_key(beta, provider))
            self.assertEqual(len(key.encrypted), 12 + size)
            self.assertEqual(SimpleBlob.from_bytes(key.encrypted).algorithm, 0x6801)

    def test_new_keys_are_new(self) -> None:
        """All generated session keys are different."""
        alpha = self.opened()
        public_key = self.public_key(alpha, AES_PROVIDER)
        keys = {alpha.make_session_key(0x6610, 256, 256, public_key).key for _ in range(5)}
        self.assertEqual(len(keys), 5)

    def test_wrong_key(self) -> None:
        """MQDMPR-3.1.1.12-53: another key decrypts no body."""
        alpha, beta, gamma = self.opened("alpha"), self.opened("beta"), self.opened("gamma")
        sent = alpha.make_session_key(0x6610, 256, 256, self.public_key(beta, AES_PROVIDER))
        cipher_text = alpha.encrypt(0x6610, sent.key, b"for beta alone")
        try:
            found = gamma.recover_session_key(AES_PROVIDER, sent.encrypted)
        except CipherError:
            return
        self.assertNotEqual(found.key, sent.key)
        self.refused(gamma.decrypt, 0x6610, found.key, cipher_text)

    def test_key_of_another_provider(self) -> None:
        """A key of another provider is detected by its length."""
        alpha, beta = self.opened("alpha"), self.opened("beta")
        sent = alpha.make_session_key(0x6801, 128, 128, self.public_key(beta, ENHANCED_PROVIDER))
        self.refused(beta.recover_session_key, BASE_PROVIDER, sent.encrypted)
        self.refused(beta.recover_session_key, "An Unknown Provider", sent.encrypted)

    def test_invalid_blobs(self) -> None:
        """Truncated blobs, trailing bytes, other constants and other ciphers are refused."""
        alpha = self.opened()
        public_key = self.public_key(alpha, BASE_PROVIDER)
        blob = alpha.make_session_key(0x6801, 40, 40, public_key).encrypted
        for size in range(len(blob)):
            self.refused(alpha.recover_session_key, BASE_PROVIDER, blob[:size])
        self.refused(alpha.recover_session_key, BASE_PROVIDER, blob + b"\0")
        for offset in range(12):
            changed = bytearray(blob)
            changed[offset] ^= 0x5A
            if offset not in (2, 3):
                self.refused(alpha.recover_session_key, BASE_PROVIDER, bytes(changed))
        # Of 40 bits: AES has no such key.
        self.refused(alpha.recover_session_key, BASE_PROVIDER, blob[:4] + b"\x10\x66\0\0" + blob[8:])

    def test_tampered_blob(self) -> None:
        """A blob with a changed bit gives another key or is refused."""
        alpha = self.opened()
        sent = alpha.make_session_key(0x6610, 256, 256, self.public_key(alpha, AES_PROVIDER))
        for offset in range(12, len(sent.encrypted), 37):
            changed = bytearray(sent.encrypted)
            changed[offset] ^= 0x01
            try:
                found: SessionKey | None = alpha.recover_session_key(AES_PROVIDER, bytes(changed))
            except CipherError:
                found = None
            self.assertNotEqual(found and found.key, sent.key)

    def test_invalid_bodies(self) -> None:
        """Bodies of wrong lengths, and empty ones, are refused: a block cipher has at least one block."""
        alpha = self.opened()
        for algorithm, _, padded, _, block in CIPHERS:
            if block == 1:
                continue
            key = bytes(range(1, padded // 8 + 1))
            cipher_text = alpha.encrypt(algorithm, key, b"a body of some length")
            for size in range(len(cipher_text)):
                if size % block or not size:
                    self.refused(alpha.decrypt, algorithm, key, cipher_text[:size])
            self.refused(alpha.decrypt, algorithm, key, cipher_text + b"\0")

    def test_keys_that_do_not_fit(self) -> None:
        """A session key of a wrong length, or for no known cipher, is refused."""
        alpha = self.opened()
        for algorithm in (0x6602, 0x6801, 0x660E, 0x660F, 0x6610):
            for size in (0, 1, 4, 6, 15, 17, 33, 200):
                self.refused(alpha.encrypt, algorithm, bytes(size), b"body")
                self.refused(alpha.decrypt, algorithm, bytes(size), bytes(16))
        for algorithm in (0, 0x6601, 0x6603, 0xFFFFFFFF):
            self.refused(alpha.encrypt, algorithm, bytes(16), b"body")
            self.refused(alpha.decrypt, algorithm, bytes(16), bytes(16))

    def test_invalid_public_keys(self) -> None:
        """Invalid public keys from a directory are refused."""
        alpha = self.opened()
        for modulus, length in ((0, 1024), (1, 1024), (0, 0), ((1 << 64) - 1, 64), ((1 << 128) - 1, 128)):
            blob = PublicKeyBlob(modulus, 65537, length)
            self.refused(alpha.make_session_key, 0x6610, 256, 256, blob)

    def test_nothing_secret_is_shown(self) -> None:
        """Neither a C{repr} nor an error shows a key."""
        alpha = self.opened()
        key = alpha.make_session_key(0x6610, 256, 256, self.public_key(alpha, AES_PROVIDER))
        self.assertNotIn(repr(key.key)[2:-1], repr(key))
        self.assertNotIn(key.key.hex(), repr(alpha))
        text = self.refused(alpha.decrypt, 0x6610, key.key, b"12345")
        self.assertNotIn(key.key.hex(), text)
