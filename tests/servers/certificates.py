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
def make_credentials(authority: str = "An authority", address: str = "127.0.0.1") -> Credentials:
    """Credentials that an authority of this name, and no other of the same name, has signed."""
    root_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, authority)])
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])

    def builder(name: x509.Name) -> x509.CertificateBuilder:
        number = x509.random_serial_number()
        made = x509.CertificateBuilder().issuer_name(issuer).subject_name(name).serial_number(number)
        return made.not_valid_before(_BEGIN).not_valid_after(_END)

    root = builder(issuer).public_key(root_key.public_key())
    root = root.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address(address))]
    leaf = builder(subject).public_key(key.public_key())
    leaf = leaf.add_extension(x509.SubjectAlternativeName(names), critical=False)
    pem = serialization.Encoding.PEM
    return Credentials(
        root.sign(root_key, hashes.SHA256()).public_bytes(pem),
        leaf.sign(root_key, hashes.SHA256()).public_bytes(pem),
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )
