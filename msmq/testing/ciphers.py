"""Ciphers without cryptography that detect tampering, for tests."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Mapping, Sequence
from typing import Final

from zope.interface import implementer

from msmq.errors import RemoteProtocolError
from msmq.interfaces.security.ciphers import CipherError, ICiphers, SessionKey
from msmq.quoting import quoted
from msmq.structures.algorithms import EncryptionAlgorithm
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

_SIZES: Final[Mapping[int, tuple[int, ...]]] = {
    EncryptionAlgorithm.RC2: (5, 16),
    EncryptionAlgorithm.RC4: (5, 16),
    EncryptionAlgorithm.AES_128: (16,),
    EncryptionAlgorithm.AES_192: (24,),
    EncryptionAlgorithm.AES_256: (32,),
}
_BLOCKS: Final = {EncryptionAlgorithm.RC2: 8, EncryptionAlgorithm.RC4: 1}
_BITS: Final = {BASE_PROVIDER: 512, ENHANCED_PROVIDER: 1024, AES_PROVIDER: 2048}


@implementer(ICiphers)
class MemoryCiphers:
    """Fast ciphers without security: anyone can read what they encrypt.

    Keys are sequential, so that a test is reproducible.
    """

    def __init__(self, name: str, *, weak: bool = True) -> None:
        """Ciphers of one queue manager.

        @param name: a unique name in the test, from which its keys are derived.
        @param weak: whether it has keys for the Base and the Enhanced provider.
        """
        self._providers = (BASE_PROVIDER, ENHANCED_PROVIDER, AES_PROVIDER) if weak else (AES_PROVIDER,)
        self._name = name
        self._numbers = itertools.count(1)
        self.encryption_keys = MqdsPublicKeys()
        self.signing_keys = MqdsPublicKeys()
        self.recovered = 0
        """The number of decrypted session keys, which is costly with real cryptography."""

    def open(self) -> None:
        """See L{ICiphers.open}."""
        self.encryption_keys = self._public(KeyAlgorithm.KEY_EXCHANGE)
        self.signing_keys = self._public(KeyAlgorithm.SIGNATURE)

    def make_session_key(
        self, algorithm: int, key_bits: int, padded_bits: int, public_key: PublicKeyBlob
    ) -> SessionKey:
        """See L{ICiphers.make_session_key}."""
        secret = _stream(f"{self._name} {next(self._numbers)}".encode(), key_bits // 8)
        key = secret.ljust(padded_bits // 8, b"\0")
        _check(algorithm, key)
        room = public_key.bit_length // 8
        if public_key.modulus < 2 or len(key) > room - 11:
            raise CipherError(f"the receiver's key of {public_key.bit_length} bits cannot be used")
        encrypted = _mixed(b"\0" * (room - len(key) - 1) + bytes((len(key),)) + key, _lock(public_key))
        blob = SimpleBlob(SessionKeyAlgorithm(algorithm), encrypted)
        return SessionKey(algorithm, key, blob.to_bytes())

    def recover_session_key(self, provider_name: str, encrypted: bytes) -> SessionKey:
        """See L{ICiphers.recover_session_key}."""
        self.recovered += 1
        try:
            blob = SimpleBlob.from_bytes(encrypted)
        except RemoteProtocolError as error:
            raise CipherError(f"EncryptionKey: {error.field}: {error.rule}") from error
        if provider_name not in self._providers:
            raise CipherError(f"this queue manager has no key of the provider {quoted(provider_name)}")
        public_key = self._public_key(provider_name, KeyAlgorithm.KEY_EXCHANGE)
        if len(blob.encrypted_key) != public_key.bit_length // 8:
            raise CipherError("EncryptionKey was made for another")
        clear = _mixed(blob.encrypted_key, _lock(public_key))
        size, key = clear.lstrip(b"\0")[:1], clear.lstrip(b"\0")[1:]
        if size != bytes((len(key) & 0xFF,)):
            raise CipherError("EncryptionKey holds no key of its cipher")
        _check(blob.algorithm, key)
        return SessionKey(blob.algorithm, key, encrypted)

    def encrypt(self, algorithm: int, key: bytes, body: bytes) -> bytes:
        """See L{ICiphers.encrypt}."""
        _check(algorithm, key)
        block = _BLOCKS.get(EncryptionAlgorithm(algorithm), 16)
        if block > 1:
            fill = block - len(body) % block
            body += bytes((fill,)) * fill
        return _mixed(body, key)

    def decrypt(self, algorithm: int, key: bytes, body: bytes) -> bytes:
        """See L{ICiphers.decrypt}."""
        _check(algorithm, key)
        block = _BLOCKS.get(EncryptionAlgorithm(algorithm), 16)
        clear = _mixed(body, key)
        if block == 1:
            return clear
        fill = clear[-1] if clear else 0
        if len(clear) % block or not 1 <= fill <= block or clear[-fill:] != bytes((fill,)) * fill:
            raise CipherError("the body is nothing under its key")
        return clear[:-fill]

    def decrypt_variants(self, algorithm: int, key: bytes, body: bytes) -> Sequence[bytes]:
        """See L{ICiphers.decrypt_variants}; there is one for each key."""
        return [self.decrypt(algorithm, key, body)]

    def _public(self, purpose: KeyAlgorithm) -> MqdsPublicKeys:
        return MqdsPublicKeys(
            tuple(
                MqdsPublicKey(
                    provider,
                    ProviderType.PROV_RSA_AES if provider == AES_PROVIDER else ProviderType.PROV_RSA_FULL,
                    self._public_key(provider, purpose),
                )
                for provider in self._providers
            )
        )

    def _public_key(self, provider: str, purpose: KeyAlgorithm) -> PublicKeyBlob:
        size = _BITS[provider] // 8
        modulus = b"\xc1" + _stream(f"{self._name} {provider} {purpose.name}".encode(), size - 1)
        return PublicKeyBlob(int.from_bytes(modulus, "big"), 65537, algorithm=purpose)


def _check(algorithm: int, key: bytes) -> None:
    if algorithm not in _SIZES:
        raise CipherError(f"there is no cipher 0x{algorithm:04X}")
    if len(key) not in _SIZES[algorithm]:
        raise CipherError(f"{len(key)} bytes are not a key of {EncryptionAlgorithm(algorithm).name}")


def _lock(public_key: PublicKeyBlob) -> bytes:
    return public_key.modulus.to_bytes(public_key.bit_length // 8, "big")


def _stream(seed: bytes, size: int) -> bytes:
    return hashlib.shake_256(seed).digest(size)


def _mixed(data: bytes, key: bytes) -> bytes:
    stream = _stream(key, len(data))
    return bytes(left ^ right for left, right in zip(data, stream, strict=True))
