"""Certificates and private keys from files: PEM, DER and PKCS#12."""

from __future__ import annotations

import warnings
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import pkcs12

from msmq.interfaces.security.signing import Credentials, Unusable

LARGEST: Final = 1024 * 1024
"""Maximum size of a file, in bytes."""


def parse_credentials(data: bytes, password: bytes | None) -> Credentials | Unusable:
    """See L{msmq.interfaces.security.signing.ISigning.parse}; errors contain no part of a key."""
    if len(data) > LARGEST:
        return Unusable(f"has {len(data)} bytes, more than {LARGEST}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if b"-----BEGIN " in data:
                return _pem(data, password)
            try:
                certificate = x509.load_der_x509_certificate(data)
            except ValueError:
                return _pkcs12(data, password)
            return _credentials(certificate, None)
    except Exception as error:
        return Unusable(f"cannot be read as PEM, DER or PKCS#12 ({type(error).__name__})")


def _pem(data: bytes, password: bytes | None) -> Credentials | Unusable:
    if b"-----BEGIN CERTIFICATE-----" not in data:
        return Unusable("holds no certificate")
    certificate = x509.load_pem_x509_certificates(data)[0]
    start = data.find(b"PRIVATE KEY-----")
    if start < 0:
        return _credentials(certificate, None)
    begin = data.rfind(b"-----BEGIN ", 0, start)
    block = data[begin:]
    try:
        key = serialization.load_pem_private_key(block, password)
    except (TypeError, ValueError):
        return _locked(password)
    return _credentials(certificate, key)


def _pkcs12(data: bytes, password: bytes | None) -> Credentials | Unusable:
    try:
        key, certificate, _ = pkcs12.load_key_and_certificates(data, password)
    except (TypeError, ValueError):
        # The library does not distinguish a wrong password from another kind of file.
        if data[:1] != b"\x30":
            return Unusable("is neither PEM nor DER nor PKCS#12")
        return _locked(password)
    if certificate is None:
        return Unusable("holds no certificate")
    return _credentials(certificate, key)


def _locked(password: bytes | None) -> Unusable:
    if password is None:
        return Unusable("needs a password, or is damaged")
    return Unusable("does not open with this password, or is damaged")


def _credentials(certificate: x509.Certificate, key: PrivateKeyTypes | None) -> Credentials | Unusable:
    encoded = certificate.public_bytes(serialization.Encoding.DER)
    if key is None:
        return Credentials(encoded)
    if not isinstance(key, rsa.RSAPrivateKey):
        return Unusable("has no RSA key")
    public = certificate.public_key()
    if (
        not isinstance(public, rsa.RSAPublicKey)
        or public.public_numbers() != key.public_key().public_numbers()
    ):
        return Unusable("has a private key that is not that of its certificate")
    return Credentials(
        encoded,
        key.private_bytes(
            serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ),
    )
