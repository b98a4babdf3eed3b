"""RSA signatures and X.509 certificates by C{cryptography}; MD2 and MD4 by pycryptodome."""

from __future__ import annotations

import hmac
import warnings
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from types import MappingProxyType
from typing import Final, TypeVar

from Crypto.Hash import MD2, MD4
from Crypto.PublicKey import RSA
from Crypto.Signature import pkcs1_15
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from zope.interface import implementer

from msmq.interfaces.security.signing import CertificateFacts, Credentials, ISigning, Matching, Unusable
from msmq.security.certificate_files import parse_credentials
from msmq.security.hashes import DIGEST_INFOS, DIGESTS
from msmq.structures.algorithms import HashAlgorithm

T = TypeVar("T")

KEY_BITS: Final = 2048
"""Length of generated keys, in bits."""

LONGEST_KEY: Final = 8192
"""Limit on the bits of the key in a peer's certificate, which bounds the processor time of a check."""

LONGEST_EXPONENT: Final = 32
"""Maximum length of a public exponent in bits, as its field in [MS-MQMQ] 2.2.20.6; one as long as its
modulus takes two hundred times as long as the usual 65537.
"""

_HASHES: Final[Mapping[int, Callable[[], hashes.HashAlgorithm]]] = MappingProxyType(
    {
        HashAlgorithm.MD5: hashes.MD5,
        HashAlgorithm.SHA_1: hashes.SHA1,
        HashAlgorithm.SHA_256: hashes.SHA256,
        HashAlgorithm.SHA_512: hashes.SHA512,
    }
)
_RETIRED: Final[Mapping[int, Callable[[bytes], MD2.MD2Hash | MD4.MD4Hash]]] = MappingProxyType(
    {HashAlgorithm.MD2: MD2.new, HashAlgorithm.MD4: MD4.new}
)


@implementer(ISigning)
class LibrarySigning:
    """See L{ISigning}."""

    def facts(self, certificate: bytes) -> CertificateFacts | Unusable:
        """See L{ISigning.facts}."""
        return _facts_of(certificate)

    def verify(
        self, certificate: bytes, signature: bytes, algorithm: int, inputs: Iterable[bytes]
    ) -> Matching:
        """See L{ISigning.verify}."""
        digest = DIGESTS.get(algorithm)
        if digest is None:
            return Unusable(f"is made with the hash algorithm {algorithm:#06x}, which is unknown")
        key = _public_key(certificate)
        if isinstance(key, Unusable):
            return key
        recovered = _recovered(key, signature)
        if recovered is None:
            return None
        prefix = DIGEST_INFOS[algorithm]
        for index, data in enumerate(inputs):
            if hmac.compare_digest(recovered, prefix + digest(data)):
                return index
        return None

    def sign(self, credentials: Credentials, algorithm: int, data: bytes) -> bytes | Unusable:
        """See L{ISigning.sign}."""
        if credentials.private_key is None:
            return Unusable("has no private key here")
        if algorithm not in DIGESTS:
            return Unusable(f"cannot be used with the hash algorithm {algorithm:#06x}, which is unknown")
        try:
            return _signed(credentials.private_key, algorithm, data)[::-1]
        except Exception as error:
            # The error text of a library may contain part of a key.
            return Unusable(f"has a key that cannot sign: {type(error).__name__}")

    def create(self, common_name: str, not_before: float, not_after: float) -> Credentials:
        """See L{ISigning.create}."""
        key = rsa.generate_private_key(public_exponent=65537, key_size=KEY_BITS)
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common_name)])
        certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(datetime.fromtimestamp(not_before, UTC))
            .not_valid_after(datetime.fromtimestamp(not_after, UTC))
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .sign(key, hashes.SHA256())
        )
        return Credentials(
            certificate.public_bytes(serialization.Encoding.DER),
            key.private_bytes(
                serialization.Encoding.DER,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            ),
        )

    def parse(self, data: bytes, password: bytes | None = None) -> Credentials | Unusable:
        """See L{ISigning.parse}."""
        return parse_credentials(data, password)


def _guarded(read: Callable[[x509.Certificate], T], certificate: x509.Certificate, why: str) -> T | Unusable:
    """Parse a certificate by the library; any part of it may be malformed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return read(certificate)
    except Exception as error:
        return Unusable(f"{why} ({type(error).__name__})")


@lru_cache(maxsize=64)
def _certificate(data: bytes) -> x509.Certificate | Unusable:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return x509.load_der_x509_certificate(data)
    except Exception:
        return Unusable("is not an X.509 certificate")


@lru_cache(maxsize=64)
def _public_key(data: bytes) -> rsa.RSAPublicKey | Unusable:
    certificate = _certificate(data)
    if isinstance(certificate, Unusable):
        return certificate
    key = _guarded(lambda found: found.public_key(), certificate, "has a key that cannot be read")
    if isinstance(key, Unusable):
        return key
    if not isinstance(key, rsa.RSAPublicKey):
        return Unusable("has no RSA key")
    if key.key_size > LONGEST_KEY:
        return Unusable(f"has a key of {key.key_size} bits, more than {LONGEST_KEY}")
    exponent = key.public_numbers().e.bit_length()
    if exponent > LONGEST_EXPONENT:
        return Unusable(f"has a key with a public exponent of {exponent} bits, more than {LONGEST_EXPONENT}")
    return key


def _recovered(key: rsa.RSAPublicKey, signature: bytes) -> bytes | None:
    """Recover the signed block of a signature; C{None} if it is not a signature of this key.

    RFC 8017 8.2.2 step 1: a signature has the length of the modulus. The library would complete a
    shorter one with zeros.
    """
    if len(signature) != (key.key_size + 7) // 8:
        return None
    try:
        return key.recover_data_from_signature(signature[::-1], padding.PKCS1v15(), None)
    except Exception:
        # Mostly InvalidSignature and ValueError; any other error means the same.
        return None


@lru_cache(maxsize=16)
def _private_key(data: bytes) -> rsa.RSAPrivateKey:
    key = serialization.load_der_private_key(data, None)
    if not isinstance(key, rsa.RSAPrivateKey):
        raise TypeError("no RSA key")
    return key


def _signed(private_key: bytes, algorithm: int, data: bytes) -> bytes:
    retired = _RETIRED.get(algorithm)
    if retired is not None:
        return pkcs1_15.new(RSA.import_key(private_key)).sign(retired(data))
    return _private_key(private_key).sign(data, padding.PKCS1v15(), _HASHES[algorithm]())


@lru_cache(maxsize=64)
def _facts_of(data: bytes) -> CertificateFacts | Unusable:
    found = _certificate(data)
    return found if isinstance(found, Unusable) else _guarded(_facts, found, "says what cannot be read")


def _shown(read: Callable[[], x509.Name]) -> str:
    """The printable form of a name; only for display, so an unreadable one is not an error."""
    try:
        return read().rfc4514_string()
    except Exception:
        return ""


def _facts(certificate: x509.Certificate) -> CertificateFacts:
    key = certificate.public_key()
    numbers = key.public_numbers() if isinstance(key, rsa.RSAPublicKey) else None
    bits = key.key_size if isinstance(key, rsa.RSAPublicKey | ec.EllipticCurvePublicKey) else 0
    name = "RSA" if isinstance(key, rsa.RSAPublicKey) else type(key).__name__.removesuffix("PublicKey")
    return CertificateFacts(
        subject=_shown(lambda: certificate.subject),
        issuer=_shown(lambda: certificate.issuer),
        serial_number=certificate.serial_number,
        not_before=certificate.not_valid_before_utc.timestamp(),
        not_after=certificate.not_valid_after_utc.timestamp(),
        key_type=name,
        key_bits=bits,
        fingerprint=certificate.fingerprint(hashes.SHA256()).hex(),
        modulus=0 if numbers is None else numbers.n,
        public_exponent=0 if numbers is None else numbers.e,
    )
