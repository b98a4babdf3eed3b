"""Encryption of message bodies: RC2, RC4, AES and RSA from libraries. [MS-MQQB] 3.1.7.1.5.

RC2 and RC4 are broken; the caller decides whether they may be used at all.
RSA is that of C{cryptography}, which returns a random key for a wrong padding, so that refusals reveal
nothing to an attacker: a wrong key is detected only when the body is decrypted with it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import attrs
from Crypto.Cipher import ARC2
from cryptography.hazmat.decrepit.ciphers.algorithms import ARC4
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicNumbers
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC
from cryptography.hazmat.primitives.padding import PKCS7
from zope.interface import implementer

from msmq.errors import RemoteProtocolError
from msmq.interfaces.security.ciphers import CipherError, ICiphers, SessionKey
from msmq.quoting import quoted
from msmq.security.keys import KeyRing
from msmq.structures.algorithms import EncryptionAlgorithm
from msmq.structures.directory.public_key_blob import PublicKeyBlob
from msmq.structures.directory.public_keys import MqdsPublicKeys
from msmq.structures.directory.simple_blob import SessionKeyAlgorithm, SimpleBlob

MAXIMUM_MODULUS_BITS: Final = 16_384
"""Maximum length of a public key for encryption; longer ones only cost time."""


SHORT_KEY: Final = 5
"""Bytes of a key of 40 bits."""

_SALT: Final = bytes(11)
"""The salt of a key of 40 bits, which the providers of Windows append by default (reading 110)."""


def _stream(key: bytes, body: bytes) -> bytes:
    return Cipher(ARC4(key), mode=None).encryptor().update(body)


def _salted_stream(key: bytes, body: bytes) -> bytes:
    return _stream(key + _SALT if len(key) == SHORT_KEY else key, body)


def _aes(key: bytes) -> Cipher[Any]:
    return Cipher(AES(key), CBC(bytes(16)))


def _encrypt_aes(key: bytes, body: bytes) -> bytes:
    encryptor = _aes(key).encryptor()
    return encryptor.update(_padded(body, 128)) + encryptor.finalize()


def _decrypt_aes(key: bytes, body: bytes) -> bytes:
    decryptor = _aes(key).decryptor()
    return _unpadded(decryptor.update(body) + decryptor.finalize(), 128)


def _rc2(key: bytes, effective_bits: int) -> Any:
    return ARC2.new(key, ARC2.MODE_CBC, iv=bytes(8), effective_keylen=effective_bits)


def _salted_rc2(key: bytes) -> Any:
    return _rc2(key + _SALT if len(key) == SHORT_KEY else key, len(key) * 8)


def _encrypt_rc2(key: bytes, body: bytes) -> bytes:
    return bytes(_salted_rc2(key).encrypt(_padded(body, 64)))


def _decrypt_rc2(key: bytes, body: bytes) -> bytes:
    return _unpadded(bytes(_salted_rc2(key).decrypt(body)), 64)


def _decrypt_short_rc2(key: bytes, body: bytes) -> bytes:
    return _unpadded(bytes(_rc2(key, 8 * SHORT_KEY).decrypt(body)), 64)


def _padded(body: bytes, block_bits: int) -> bytes:
    padder = PKCS7(block_bits).padder()
    return padder.update(body) + padder.finalize()


def _unpadded(body: bytes, block_bits: int) -> bytes:
    unpadder = PKCS7(block_bits).unpadder()
    return unpadder.update(body) + unpadder.finalize()


@attrs.frozen
class _BodyCipher:
    """A cipher for bodies.

    @ivar key_sizes: the valid lengths of a key, in bytes.
    @ivar decrypt_short: the other variant for a key of 40 bits, or of 40 bits and 88 zero bits.
    """

    encrypt: Callable[[bytes, bytes], bytes]
    decrypt: Callable[[bytes, bytes], bytes]
    key_sizes: tuple[int, ...]
    decrypt_short: Callable[[bytes, bytes], bytes] | None = None


_CIPHERS: Final[Mapping[int, _BodyCipher]] = {
    EncryptionAlgorithm.RC2: _BodyCipher(_encrypt_rc2, _decrypt_rc2, (5, 16), _decrypt_short_rc2),
    EncryptionAlgorithm.RC4: _BodyCipher(_salted_stream, _salted_stream, (5, 16), _stream),
    EncryptionAlgorithm.AES_128: _BodyCipher(_encrypt_aes, _decrypt_aes, (16,)),
    EncryptionAlgorithm.AES_192: _BodyCipher(_encrypt_aes, _decrypt_aes, (24,)),
    EncryptionAlgorithm.AES_256: _BodyCipher(_encrypt_aes, _decrypt_aes, (32,)),
}


@implementer(ICiphers)
class LibraryCiphers:
    """Ciphers and RSA of C{cryptography}; RC2 of C{pycryptodome}, which alone supports effective key bits."""

    def __init__(self, keys: KeyRing) -> None:
        """Decrypt with these keys, which L{open} loads."""
        self._keys = keys

    def __repr__(self) -> str:
        return "<LibraryCiphers>"

    @property
    def encryption_keys(self) -> MqdsPublicKeys:
        """See L{ICiphers.encryption_keys}."""
        return self._keys.encryption_keys

    @property
    def signing_keys(self) -> MqdsPublicKeys:
        """See L{ICiphers.signing_keys}."""
        return self._keys.signing_keys

    def open(self) -> None:
        """See L{ICiphers.open}."""
        self._keys.open()

    def make_session_key(
        self, algorithm: int, key_bits: int, padded_bits: int, public_key: PublicKeyBlob
    ) -> SessionKey:
        """See L{ICiphers.make_session_key}."""
        secret = os.urandom(key_bits // 8)
        key = secret.ljust(padded_bits // 8, b"\0")
        _cipher(algorithm, key)
        if public_key.bit_length > MAXIMUM_MODULUS_BITS:
            raise CipherError(f"the receiver's key has {public_key.bit_length} bits, which is too long")
        try:
            numbers = RSAPublicNumbers(public_key.public_exponent, public_key.modulus)
            encrypted = numbers.public_key().encrypt(key, PKCS1v15())
        except Exception as error:
            raise CipherError(f"the receiver's key of {public_key.bit_length} bits cannot be used") from error
        blob = SimpleBlob(SessionKeyAlgorithm(algorithm), encrypted)
        return SessionKey(algorithm, key, blob.to_bytes())

    def recover_session_key(self, provider_name: str, encrypted: bytes) -> SessionKey:
        """See L{ICiphers.recover_session_key}."""
        try:
            blob = SimpleBlob.from_bytes(encrypted)
        except RemoteProtocolError as error:
            raise CipherError(f"EncryptionKey: {error.field}: {error.rule}") from error
        key = self._keys.decrypt(provider_name, blob.encrypted_key)
        try:
            _cipher(blob.algorithm, key)
        except CipherError as error:
            raise CipherError(
                "EncryptionKey holds no key of its cipher: it was made for another key than ours of"
                f" {quoted(provider_name)}, or was tampered with"
            ) from error
        return SessionKey(blob.algorithm, key, encrypted)

    def encrypt(self, algorithm: int, key: bytes, body: bytes) -> bytes:
        """See L{ICiphers.encrypt}."""
        cipher = _cipher(algorithm, key)
        try:
            return cipher.encrypt(key, body)
        except Exception as error:
            raise CipherError(f"{len(body)} bytes cannot be encrypted") from error

    def decrypt(self, algorithm: int, key: bytes, body: bytes) -> bytes:
        """See L{ICiphers.decrypt}."""
        return _decrypted(_cipher(algorithm, key).decrypt, algorithm, key, body)

    def decrypt_variants(self, algorithm: int, key: bytes, body: bytes) -> Sequence[bytes]:
        """See L{ICiphers.decrypt_variants}."""
        cipher = _cipher(algorithm, key)
        other = cipher.decrypt_short
        is_short = len(key) == SHORT_KEY or (algorithm == EncryptionAlgorithm.RC2 and key.endswith(_SALT))
        if other is None or not is_short:
            return [self.decrypt(algorithm, key, body)]
        found = []
        with suppress(CipherError):
            found.append(self.decrypt(algorithm, key, body))
        try:
            found.append(_decrypted(other, algorithm, key, body))
        except CipherError:
            if not found:
                raise
        return found


def _decrypted(decrypt: Callable[[bytes, bytes], bytes], algorithm: int, key: bytes, body: bytes) -> bytes:
    try:
        return decrypt(key, body)
    except Exception as error:
        raise CipherError(
            f"its {len(body)} bytes are no {EncryptionAlgorithm(algorithm).name} under its key: the key"
            " or the body was tampered with"
        ) from error


def _cipher(algorithm: int, key: bytes) -> _BodyCipher:
    """The cipher of an algorithm, for a key of valid length.

    @raise CipherError: there is no such cipher, or the key has another length.
    """
    cipher = _CIPHERS.get(algorithm)
    if cipher is None:
        raise CipherError(f"there is no cipher 0x{algorithm:04X}")
    if len(key) not in cipher.key_sizes:
        raise CipherError(f"{len(key)} bytes are not a key of {EncryptionAlgorithm(algorithm).name}")
    return cipher
