"""ISigning and related interfaces: signatures, certificates, stores of signing keys."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import attrs
from zope.interface import Interface


@attrs.frozen
class Unusable:
    """The verdict about unusable bytes, in place of an exception of a library.

    @ivar reason: part of a sentence, such as C{is not an X.509 certificate}; without secrets.
    """

    reason: str


@attrs.frozen
class CertificateFacts:
    """Facts about a certificate.

    @ivar subject: the subject, and C{issuer} the issuer, as RFC 4514 names; empty if they cannot be
        read.
    @ivar serial_number: of its issuer.
    @ivar not_before: the start of its validity, seconds since 1970-01-01 UTC.
    @ivar not_after: the end of its validity.
    @ivar key_type: C{RSA}, or another type.
    @ivar key_bits: the length of the key; 0 if not applicable.
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
    """A certificate that messages can be signed with here. [MS-MQDMPR] 3.1.1.19.

    @ivar credentials: with a private key.
    @ivar security_identifier: the SID of its user, as bytes.
    @ivar is_internal: whether it was generated here.
    """

    credentials: Credentials
    security_identifier: bytes
    is_internal: bool


Matching: TypeAlias = int | Unusable | None
"""The index of the signed input, C{None} for none, or the verdict that the bytes are unusable."""


class ISigning(Interface):
    """Signatures and certificates, implemented by a library.

    It does not raise for any input: unusable bytes are L{Unusable}, with the reason.
    """

    def facts(certificate: bytes) -> CertificateFacts | Unusable:
        """The facts of a certificate in DER."""

    def verify(certificate: bytes, signature: bytes, algorithm: int, inputs: Iterable[bytes]) -> Matching:
        """Find the input over which a signature was made. [MS-MQQB] 3.1.5.8.3.

        @param certificate: of the signer, in DER.
        @param signature: as SecurityData has it: the number of PKCS#1 v1.5, least significant byte first.
        @param algorithm: HashAlgorithm.
        @param inputs: the candidates; consumed only as far as needed.
        """

    def sign(credentials: Credentials, algorithm: int, data: bytes) -> bytes | Unusable:
        """The signature of C{data}, as L{verify} takes it. [MS-MQQB] 3.1.7.1.4."""

    def create(common_name: str, not_before: float, not_after: float) -> Credentials:
        """A new RSA key and a self-signed certificate; may take seconds. [MS-MQDMPR] 3.1.1.19.

        @param common_name: of the subject; at most 64 characters.
        @param not_before: seconds since 1970-01-01 UTC, and C{not_after}: for how long it is valid.
        """

    def parse(data: bytes, password: bytes | None = None) -> Credentials | Unusable:
        """Parse a file: PEM, DER or PKCS#12.

        @param password: of the private key or the whole file.
        """


class CertificateStoreError(Exception):
    """The certificates cannot be read or stored; names the file and the reason, without secrets."""


class ICertificateStore(Interface):
    """Store of a queue manager's signing certificates and keys.

    Each method may raise L{CertificateStoreError}.
    """

    def load() -> Sequence[KeptCertificate]:
        """All certificates, in the order in which they were added."""

    def add(kept: KeptCertificate) -> None:
        """Store a certificate durably; an existing one is not changed."""

    def remove(certificate: bytes) -> None:
        """Delete a certificate and its key; an unknown one is not an error."""
