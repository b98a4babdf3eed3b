"""Certificates and keys for TLS, as files."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import attrs
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@attrs.frozen
class TlsFiles:
    """A self-signed certificate.

    @ivar pin: its fingerprint.
    """

    certificate: Path
    private_key: Path
    pin: str

    @property
    def arguments(self) -> str:
        """As an endpoint description names them."""
        return f"certificate={self.certificate}:privateKey={self.private_key}"

    @classmethod
    def make(cls, directory: Path, name: str, *, days: int = 30, passphrase: bytes | None = None) -> TlsFiles:
        """Create a certificate that is valid for this number of days; negative if it has expired."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        end = datetime.now(UTC) + timedelta(days=days)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(end - timedelta(days=60))
            .not_valid_after(end)
            .sign(key, hashes.SHA256())
        )
        files = cls(
            directory / f"{name}.pem",
            directory / f"{name}.key",
            certificate.fingerprint(hashes.SHA256()).hex(),
        )
        files.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        protection = (
            serialization.NoEncryption()
            if passphrase is None
            else serialization.BestAvailableEncryption(passphrase)
        )
        files.private_key.write_bytes(
            key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, protection)
        )
        return files
