"""RSA keys of a queue manager: generated once, stored permanently in the data directory. [MS-MQDMPR] 3.1.3.

The directory publishes the public keys; messages encrypted with them can only be decrypted with the private
ones. So a damaged file is never replaced by a new key.
"""

from __future__ import annotations

import base64
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from Crypto.Util.number import getPrime
from cryptography.hazmat.backends.openssl.backend import backend
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import (
    RSAPrivateKey,
    RSAPrivateNumbers,
    RSAPublicNumbers,
    generate_private_key,
    rsa_crt_dmp1,
    rsa_crt_dmq1,
    rsa_crt_iqmp,
    rsa_recover_private_exponent,
)
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from twisted.logger import Logger

from msmq.durable import make_directory, write_durably
from msmq.interfaces.security.ciphers import CipherError
from msmq.quoting import quoted
from msmq.structures.directory.public_key_blob import KeyAlgorithm, PublicKeyBlob
from msmq.structures.directory.public_keys import (
    AES_PROVIDER,
    BASE_PROVIDER,
    ENHANCED_PROVIDER,
    MqdsPublicKey,
    MqdsPublicKeys,
    ProviderType,
)

EXPONENT: Final = 65537

BASE_BITS: Final = 512
"""The length of the key of the Base provider. [MS-MQQB] 3.1.7.1.5."""

ENHANCED_BITS: Final = 1024
"""The length of the key of the Enhanced provider. [MS-MQQB] 3.1.7.1.5."""

LEAST_BITS: Final = 1024
"""The shortest key that the library generates; shorter ones are built from primes."""

_FILES: Final[Mapping[str, str]] = {
    BASE_PROVIDER: "base",
    ENHANCED_PROVIDER: "enhanced",
    AES_PROVIDER: "aes",
}
_TYPES: Final[Mapping[str, ProviderType]] = {
    BASE_PROVIDER: ProviderType.PROV_RSA_FULL,
    ENHANCED_PROVIDER: ProviderType.PROV_RSA_FULL,
    AES_PROVIDER: ProviderType.PROV_RSA_AES,
}
_PURPOSES: Final[Mapping[KeyAlgorithm, str]] = {
    KeyAlgorithm.KEY_EXCHANGE: "encryption",
    KeyAlgorithm.SIGNATURE: "signing",
}

OPENSSL_3_2: Final = 0x30200000
"""OPENSSL_VERSION_NUMBER of the first OpenSSL with implicit rejection."""

PUBLIC_FILE: Final = "encryption-keys.txt"
"""The file of the public keys, in the format of an enterprise file."""

KEY_FILES: Final = frozenset(
    {PUBLIC_FILE, *(f"{purpose}-{name}.pem" for purpose in _PURPOSES.values() for name in _FILES.values())}
)
"""The names of all files that a L{KeyRing} makes in its directory."""


def make_key(bits: int) -> RSAPrivateKey:
    """Generate an RSA key, by the library; a length that it no longer supports, from primes of a library.

    @param bits: of the modulus.
    """
    if bits >= LEAST_BITS:
        return generate_private_key(EXPONENT, bits)
    while True:
        p, q = getPrime(bits // 2), getPrime(bits - bits // 2)
        if p == q or (p * q).bit_length() != bits or not (p - 1) % EXPONENT or not (q - 1) % EXPONENT:
            continue
        d = rsa_recover_private_exponent(EXPONENT, p, q)
        return RSAPrivateNumbers(
            p,
            q,
            d,
            rsa_crt_dmp1(d, p),
            rsa_crt_dmq1(d, q),
            rsa_crt_iqmp(p, q),
            RSAPublicNumbers(EXPONENT, p * q),
        ).private_key()


def check_library(version: int) -> None:
    """Check that RSA decryption by the library does not reveal whether a padding was valid.

    OpenSSL answers a wrong PKCS #1 v1.5 padding with a random value from version 3.2 on (implicit rejection).
    With an older one, refusals and their time would let a peer decrypt captured keys.

    @param version: of OpenSSL, as C{OPENSSL_VERSION_NUMBER}.
    @raise CipherError: it is older than 3.2.
    """
    if version < OPENSSL_3_2:
        found = f"{version >> 28}.{version >> 20 & 0xFF}"
        raise CipherError(
            f"the package cryptography is linked with OpenSSL {found}, and encrypted bodies need 3.2 or"
            " later: install a current cryptography"
        )


class KeyRing:
    """The private keys of one queue manager, two of each provider.

    Without weak algorithms there is only the provider for AES, since the others serve only RC2 and RC4; so
    the directory has no key for encryption that this queue manager refuses.
    """

    log = Logger()

    def __init__(
        self,
        directory: Path | None,
        *,
        weak: bool = False,
        bits: int = 2048,
        make: Callable[[int], RSAPrivateKey] = make_key,
    ) -> None:
        """Keep keys in a directory, which L{open} creates.

        @param directory: C{None} keeps the keys in memory, until the process ends.
        @param weak: whether there are keys of the Base and the Enhanced provider.
        @param bits: the length of new keys of the provider for AES.
        @param make: generates a key of the given number of bits.
        """
        check_library(backend.openssl_version_number())
        self._directory = directory
        self._make = make
        self._lengths = {AES_PROVIDER: bits}
        if weak:
            self._lengths = {BASE_PROVIDER: BASE_BITS, ENHANCED_PROVIDER: ENHANCED_BITS, AES_PROVIDER: bits}
        self._keys: dict[tuple[KeyAlgorithm, str], RSAPrivateKey] = {}
        self.encryption_keys = MqdsPublicKeys()
        """PublicEncryptionKeyList. [MS-MQDMPR] 3.1.1.1."""
        self.signing_keys = MqdsPublicKeys()
        """PublicSigningKeyList. [MS-MQDMPR] 3.1.1.1."""

    def __repr__(self) -> str:
        return f"<KeyRing of {len(self._keys)} keys>"

    def open(self) -> None:
        """Load the existing keys; generate and store the missing ones.

        @raise CipherError: a file is damaged, or cannot be read or written.
        """
        if self._directory is not None:
            try:
                make_directory(self._directory)
            except OSError as error:
                raise CipherError(f"{self._directory}: {error.strerror}") from error
        for purpose in _PURPOSES:
            for name, bits in self._lengths.items():
                self._keys[purpose, name] = self._load_or_make(purpose, name, bits)
        self.encryption_keys = self._public(KeyAlgorithm.KEY_EXCHANGE)
        self.signing_keys = self._public(KeyAlgorithm.SIGNATURE)
        if self._directory is not None:
            text = base64.b64encode(self.encryption_keys.to_bytes()) + b"\n"
            path = self._directory / PUBLIC_FILE
            try:
                is_current = path.exists() and path.read_bytes() == text
            except OSError as error:
                raise CipherError(f"{path}: {error.strerror}") from error
            if not is_current:
                _write(path, text, 0o644)

    def decrypt(self, provider_name: str, encrypted: bytes) -> bytes:
        """Decrypt by RSAES-PKCS1-v1_5 with the key of a provider; invalid padding results in a random value.

        @raise CipherError: there is no such key, or the data have another length than its modulus.
        """
        key = self._keys.get((KeyAlgorithm.KEY_EXCHANGE, provider_name))
        if key is None:
            raise CipherError(f"this queue manager has no key of the provider {quoted(provider_name)}")
        size = key.key_size // 8
        if len(encrypted) != size:
            raise CipherError(
                f"EncryptionKey holds {len(encrypted)} bytes under RSA, and our key of"
                f" {quoted(provider_name)} has"
                f" {size}: it was made for another"
            )
        try:
            return key.decrypt(encrypted, PKCS1v15())
        except Exception as error:
            raise CipherError(f"EncryptionKey is nothing under our key of {quoted(provider_name)}") from error

    def private_key(self, purpose: KeyAlgorithm, provider_name: str) -> RSAPrivateKey | None:
        """The private key for signatures of the queue manager."""
        return self._keys.get((purpose, provider_name))

    def _public(self, purpose: KeyAlgorithm) -> MqdsPublicKeys:
        keys = []
        for name in self._lengths:
            numbers = self._keys[purpose, name].public_key().public_numbers()
            blob = PublicKeyBlob(numbers.n, numbers.e, algorithm=purpose)
            keys.append(MqdsPublicKey(name, _TYPES[name], blob))
        return MqdsPublicKeys(tuple(keys))

    def _load_or_make(self, purpose: KeyAlgorithm, name: str, bits: int) -> RSAPrivateKey:
        if self._directory is None:
            return self._keys.get((purpose, name)) or self._make(bits)
        path = self._directory / f"{_PURPOSES[purpose]}-{_FILES[name]}.pem"
        try:
            content = path.read_bytes()
            self._guard(path)
        except FileNotFoundError:
            key = self._make(bits)
            _write(path, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), 0o600)
            return key
        except OSError as error:
            raise CipherError(f"{path}: {error.strerror}") from error
        try:
            loaded = load_pem_private_key(content, None)
        except Exception as error:
            raise _damaged(path) from error
        if not isinstance(loaded, RSAPrivateKey):
            raise _damaged(path)
        return loaded

    def _guard(self, path: Path) -> None:
        """Remove access by other users to a key, and warn, since it may have been read before."""
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            self.log.warn("{path} could be read by others; it has mode 0600 now", path=path)
            path.chmod(0o600)


def _damaged(path: Path) -> CipherError:
    return CipherError(
        f"{path} is damaged: it must hold an RSA key in PEM. Restore it from a backup; if it is removed, a"
        " new key is made, and what was encrypted for the old one cannot be read any more"
    )


def _write(path: Path, content: bytes, mode: int) -> None:
    """Write a file atomically and durably.

    @raise CipherError: the file cannot be written.
    """
    try:
        write_durably(path, content, mode)
    except OSError as error:
        raise CipherError(f"{path}: {error.strerror}") from error
