"""ISigning and related interfaces: signatures, certificates, stores of signing keys."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import attrs
from zope.interface import Interface


@attrs.frozen
class Unusable:
    """What a library made of bytes that are none of what they should be: a verdict, and no exception.

    @ivar reason: part of a sentence, such as C{is not an X.509 certificate}; nothing secret is in it.
    """

    reason: str


@attrs.frozen
class CertificateFacts:
    """Facts about a certificate.

    @ivar subject: the subject, and C{issuer} the issuer, as RFC 4514 names; empty if they cannot be
        read.
    @ivar serial_number: of its issuer.
    @ivar not_before: seconds since 1970-01-01 UTC from which on it is valid.
    @ivar not_after: the same, until which it is.
    @ivar key_type: C{RSA}, or what else its key is.
    @ivar key_bits: how long the key is; 0 if that means nothing.
    @ivar fingerprint: the SHA-256 of the certificate, in hex digits.
    @ivar modulus: of an RSA key, as is C{public_exponent}; else 0.
    """

    subject: str
    issuer: str
    serial_number: int
    not_before: float
    not_after: float
    key_type: str
    key_bits: int
    fingerprint: str
    modulus: int = attrs.field(repr=False)
    public_exponent: int = attrs.field(repr=False)


@attrs.frozen
class Credentials:
    """A certificate, with its private key if that is known.

    @ivar certificate: X.509 in DER.
    @ivar private_key: PKCS#8 in DER, not encrypted; C{None} if only the certificate is known.
    """

    certificate: bytes = attrs.field(repr=False)
    private_key: bytes | None = attrs.field(default=None, repr=False)


@attrs.frozen
class KeptCertificate:
    """[MS-MQDMPR] 3.1.1.19 a certificate that messages can be signed with here.

    @ivar credentials: with a private key.
    @ivar security_identifier: the SID of the user whose it is, as bytes.
    @ivar is_internal: whether it was generated here.
    """

    credentials: Credentials
    security_identifier: bytes
    is_internal: bool


Matching: TypeAlias = int | Unusable | None
"""Which of some inputs a signature was made over, C{None} for none, or why that is unknown."""


class ISigning(Interface):
    """The arithmetic of signatures and certificates, which is never our own.

    Nothing that is given to it makes it raise: what it cannot use is L{Unusable}, and says why.
    """

    def facts(certificate: bytes) -> CertificateFacts | Unusable:
        """What a certificate in DER says."""

    def verify(certificate: bytes, signature: bytes, algorithm: int, inputs: Iterable[bytes]) -> Matching:
        """[MS-MQQB] 3.1.5.8.3 find what a signature was made over.

        @param certificate: of the signer, in DER.
        @param signature: as SecurityData has it: the number of PKCS#1 v1.5, least significant byte first.
        @param algorithm: HashAlgorithm.
        @param inputs: what it may have been made over; consumed only as far as needed.
        """

    def sign(credentials: Credentials, algorithm: int, data: bytes) -> bytes | Unusable:
        """[MS-MQQB] 3.1.7.1.4 the signature of C{data}, as L{verify} takes it."""

    def create(common_name: str, not_before: float, not_after: float) -> Credentials:
        """[MS-MQDMPR] 3.1.1.19 a new RSA key and a certificate that it has signed itself; it takes a while.

        @param common_name: of the subject; at most 64 characters.
        @param not_before: seconds since 1970-01-01 UTC, and C{not_after}: for how long it is valid.
        """

    def parse(data: bytes, password: bytes | None = None) -> Credentials | Unusable:
        """What a file holds: PEM, DER or PKCS#12.

        @param password: of the private key or the whole file.
        """


class CertificateStoreError(Exception):
    """The certificates cannot be read or kept; says which file and why, and nothing secret."""


class ICertificateStore(Interface):
    """Where a queue manager keeps the certificates that it signs with, and their keys.

    Each method may raise L{CertificateStoreError}.
    """

    def load() -> Sequence[KeptCertificate]:
        """All of them, in the order in which they came."""

    def add(kept: KeptCertificate) -> None:
        """Keep one more, durably; one that is there already stays as it is."""

    def remove(certificate: bytes) -> None:
        """Forget one, and its key; one that is not there is no error."""
