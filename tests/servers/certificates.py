"""Certificates for servers that tests start."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from functools import cache

import attrs
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_BEGIN = datetime(2020, 1, 1, tzinfo=UTC)
_END = _BEGIN + timedelta(days=365 * 100)


@attrs.frozen
class Credentials:
    """PEM of an authority, of a certificate for C{localhost} and one address, and of its key."""

    authority: bytes
    certificate: bytes
    key: bytes = attrs.field(repr=False)


@cache
def _authority(name: str) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key, issuer = ec.generate_private_key(ec.SECP256R1()), _named(name)
    root = _builder(issuer, issuer, _END).public_key(key.public_key())
    root = root.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    return key, root.sign(key, hashes.SHA256())


@cache
def make_credentials(
    authority: str = "An authority",
    address: str = "127.0.0.1",
    *,
    is_expired: bool = False,
    is_early: bool = False,
) -> Credentials:
    """Credentials of an authority of this name; there is one authority of each name.

    @param is_expired: the certificate has expired; the authority has not.
    @param is_early: the certificate is not valid yet.
    """
    root_key, root = _authority(authority)
    key = ec.generate_private_key(ec.SECP256R1())
    end = _BEGIN + timedelta(days=365) if is_expired else _END
    begin = _END - timedelta(days=1) if is_early else _BEGIN
    leaf = _builder(root.subject, _named("localhost"), end, begin).public_key(key.public_key())
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address(address))]
    leaf = leaf.add_extension(x509.SubjectAlternativeName(names), critical=False)
    pem = serialization.Encoding.PEM
    return Credentials(
        root.public_bytes(pem),
        leaf.sign(root_key, hashes.SHA256()).public_bytes(pem),
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(
    issuer: x509.Name, subject: x509.Name, end: datetime, begin: datetime = _BEGIN
) -> x509.CertificateBuilder:
    made = x509.CertificateBuilder().issuer_name(issuer).subject_name(subject)
    return made.serial_number(x509.random_serial_number()).not_valid_before(begin).not_valid_after(end)
