"""Which signatures and certificates are accepted, by the policy of the operator. [MS-MQQB] 3.1.5.8.3.

[MS-MQDMPR] 5.1 suggests SHA-512; by default SHA-256 is accepted too.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final, Protocol

import attrs

from msmq.quoting import quoted
from msmq.structures.algorithms import AuthenticationLevel, HashAlgorithm
from msmq.structures.packet.message_class import MessageClass
from msmq.transfer.security.message_requirements import SecurityFault

HASH_NAMES: Final[Mapping[HashAlgorithm, str]] = MappingProxyType(
    {
        HashAlgorithm.MD2: "md2",
        HashAlgorithm.MD4: "md4",
        HashAlgorithm.MD5: "md5",
        HashAlgorithm.SHA_1: "sha1",
        HashAlgorithm.SHA_256: "sha256",
        HashAlgorithm.SHA_512: "sha512",
    }
)
"""The names of hash algorithms in C{[security] hashes}."""

VERSION_NAMES: Final[Mapping[AuthenticationLevel, str]] = MappingProxyType(
    {
        AuthenticationLevel.SIG_1_0: "1.0",
        AuthenticationLevel.SIG_2_0: "2.0",
        AuthenticationLevel.SIG_3_0: "3.0",
    }
)
"""The names of versions in C{[security] signatures}."""

STRONG_HASHES: Final = frozenset({HashAlgorithm.SHA_256, HashAlgorithm.SHA_512})

SMALLEST_KEY: Final = 1024
"""Bits of the shortest key that is accepted by default; every Windows generates keys of at least this."""

PROVIDERS: Final = frozenset(
    {
        "Microsoft Base Cryptographic Provider v1.0",
        "Microsoft Enhanced Cryptographic Provider v1.0",
        "Microsoft Strong Cryptographic Provider",
        "Microsoft Enhanced RSA and AES Cryptographic Provider",
        "Microsoft Enhanced RSA and AES Cryptographic Provider (Prototype)",
        "Microsoft AES Cryptographic Provider",
    }
)
"""The providers of Windows whose signatures are RSA over the hashes above, so that they are equivalent."""


@attrs.frozen
class SigningPolicy:
    """The signatures that the operator accepts.

    @ivar hashes: the accepted hash algorithms.
    @ivar smallest_key: bits of the shortest accepted RSA key.
    @ivar versions: the accepted signature formats.  Each covers concatenated fields, so a signature of 2.0
    for one queue can be converted into one of 1.0 for any, with a longer body, and sometimes into one of 3.0.
    @ivar accepts_expired: whether a certificate that has expired is accepted. Windows does not look at its
    dates; without this an estate whose certificates were never renewed cannot be served.
    """

    hashes: frozenset[HashAlgorithm] = STRONG_HASHES
    smallest_key: int = SMALLEST_KEY
    versions: frozenset[AuthenticationLevel] = frozenset(VERSION_NAMES)
    accepts_expired: bool = False


class SigningCertificate(Protocol):
    """The facts about a certificate; times are seconds since 1970-01-01 UTC."""

    @property
    def subject(self) -> str: ...

    @property
    def fingerprint(self) -> str: ...

    @property
    def key_type(self) -> str: ...

    @property
    def key_bits(self) -> int: ...

    @property
    def not_before(self) -> float: ...

    @property
    def not_after(self) -> float: ...


def signature_fault(reason: str) -> SecurityFault:
    """The refusal of a signature that proves nothing."""
    return SecurityFault(MessageClass.NACK_BAD_SIGNATURE, reason)


def method_fault(
    policy: SigningPolicy,
    *,
    has_certificate: bool,
    is_default_provider: bool,
    provider_name: str | None,
    hash_algorithm: int,
) -> SecurityFault | None:
    """Why the way in which a message is signed is refused.

    @param provider_name: of ProviderInfo; C{None} without it.
    @param hash_algorithm: HashAlgorithm of the MessagePropertiesHeader.
    """
    if not has_certificate:
        return signature_fault("it is signed without a certificate")
    if not is_default_provider:
        if provider_name is None:
            return signature_fault(
                "it was signed by a provider other than the default one, and does not name it"
            )
        if provider_name not in PROVIDERS:
            return SecurityFault(
                MessageClass.NACK_UNSUPPORTED_CRYPTO_PROVIDER,
                f"it was signed by the provider {quoted(provider_name[:64])}, which is unknown",
            )
    try:
        algorithm = HashAlgorithm(hash_algorithm)
    except ValueError:
        return signature_fault(
            f"its signature is made with the hash algorithm {hash_algorithm:#06x}, which is unknown"
        )
    if algorithm not in policy.hashes:
        name = HASH_NAMES[algorithm]
        return signature_fault(
            f'its signature is made with {name}, and [security] hashes does not have "{name}"'
        )
    return None


def certificate_fault(
    certificate: SigningCertificate, policy: SigningPolicy, now: float
) -> SecurityFault | None:
    """The reason to refuse a certificate, for any owner.

    @param now: seconds since 1970-01-01 UTC.
    """
    shown = certificate_text(certificate)
    if certificate.key_type != "RSA":
        return signature_fault(f"its certificate {shown} has a key of {certificate.key_type}, not of RSA")
    if certificate.key_bits < policy.smallest_key:
        return signature_fault(
            f"its certificate {shown} has a key of {certificate.key_bits} bits,"
            f" and [security] smallest_key is {policy.smallest_key}"
        )
    if now < certificate.not_before:
        return signature_fault(f"its certificate {shown} is not valid before {_time(certificate.not_before)}")
    if now > certificate.not_after and not policy.accepts_expired:
        return signature_fault(
            f"its certificate {shown} expired at {_time(certificate.not_after)},"
            " and [security] expired_certificates is false"
        )
    return None


def version_fault(
    level: AuthenticationLevel | None, certificate: str, policy: SigningPolicy
) -> SecurityFault | None:
    """Why a signature is refused after its verification (reading 71).

    @param level: the version of its format; C{None} if the signature is invalid.
    @param certificate: the certificate as text.
    """
    if level is None:
        return signature_fault(
            f"its signature is not that of its certificate {certificate} over the message:"
            " one of them belongs to another message, or was changed in transit"
        )
    if level not in policy.versions:
        name = VERSION_NAMES[level]
        return signature_fault(
            f'its signature is that of MSMQ {name}, and [security] signatures does not have "{name}"'
        )
    return None


def certificate_text(certificate: SigningCertificate) -> str:
    """A certificate as text; a name in it may be of any length."""
    return f"{quoted(certificate.subject[:100])} ({certificate.fingerprint[:16]})"


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
