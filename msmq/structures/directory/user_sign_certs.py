"""The signing certificates of a user, in the directory. [MS-MQMQ] 2.2.21 and 2.2.22."""

from __future__ import annotations

import hashlib
from typing import ClassVar, Self
from uuid import UUID

import attrs

from msmq.errors import LocalProtocolError
from msmq.wire.reader import Reader
from msmq.wire.structure import Structure, WholeStructure
from msmq.wire.writer import Writer


@attrs.frozen
class MqUserSignCert(Structure):
    """MQUSERSIGNCERT: one certificate. [MS-MQMQ] 2.2.22.

    @ivar digest: the sixteen bytes by which the certificate is looked up: its MD5.
    @ivar identifier: assigned by the registrant of the certificate.
    @ivar certificate: X.509 in DER.
    """

    SECTION: ClassVar[str] = "[MS-MQMQ] 2.2.22"
    DIGEST_SIZE: ClassVar[int] = 16

    digest: bytes
    identifier: UUID
    certificate: bytes = attrs.field(repr=False)

    def __attrs_post_init__(self) -> None:
        if len(self.digest) != self.DIGEST_SIZE:
            raise LocalProtocolError(f"Digest: {len(self.digest)} bytes where there should be 16")

    @classmethod
    def of(cls, certificate: bytes, identifier: UUID) -> Self:
        """The entry that registers C{certificate}."""
        return cls(digest_of(certificate), identifier, certificate)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Read one certificate; the digest is not verified."""
        with reader.header("MQUSERSIGNCERT", cls.SECTION):
            digest = reader.bytes(cls.DIGEST_SIZE, "Digest")
            identifier = reader.guid("Identifier")
            length = reader.u32("CertificateLength")
            return cls(digest, identifier, reader.bytes(length, "Certificate"))

    def write(self, writer: Writer) -> None:
        """Write one certificate."""
        writer.bytes(self.digest)
        writer.guid(self.identifier)
        writer.u32(len(self.certificate), "CertificateLength")
        writer.bytes(self.certificate)


@attrs.frozen
class MqUserSignCerts(WholeStructure):
    """MQUSERSIGNCERTS: all the certificates of a user, back to back. [MS-MQMQ] 2.2.21."""

    NAME: ClassVar[str] = "MQUSERSIGNCERTS"
    SECTION: ClassVar[str] = "[MS-MQMQ] 2.2.21"
    END_FIELD: ClassVar[str] = "CertificateCount"

    certificates: tuple[MqUserSignCert, ...] = ()

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Read the structure."""
        with reader.header(cls.NAME, cls.SECTION):
            count = reader.u32("CertificateCount")
            return cls(tuple(MqUserSignCert.read(reader) for _ in range(count)))

    def write(self, writer: Writer) -> None:
        """Write the structure."""
        writer.u32(len(self.certificates), "CertificateCount")
        for certificate in self.certificates:
            certificate.write(writer)


def digest_of(certificate: bytes) -> bytes:
    """Digest: the MD5 of a certificate; it is an index, not a protection. [MS-MQMQ] 2.2.22."""
    return hashlib.md5(certificate, usedforsecurity=False).digest()
