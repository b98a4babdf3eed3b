"""Certificates and their private keys in a directory that only its owner can read."""

from __future__ import annotations

import base64
import hashlib
import json
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Final

from twisted.logger import Logger
from zope.interface import implementer

from msmq.durable import make_directory, sync, write_durably
from msmq.interfaces.security.signing import (
    CertificateStoreError,
    Credentials,
    ICertificateStore,
    KeptCertificate,
)
from msmq.wire.sid import format_sid, parse_sid

_SUFFIX: Final = ".json"


@implementer(ICertificateStore)
class FileCertificateStore:
    """See L{ICertificateStore}.

    One file for each certificate, named by its sequence number and its SHA-256; mode
    0600, in a directory of mode 0700. Access by other users to a file is removed when it is read.

    @param directory: created with the first certificate.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def load(self) -> Sequence[KeptCertificate]:
        """See L{ICertificateStore.load}."""
        found = []
        for path in self._paths():
            found.append(_read(path))
            if _restrict_access(path):
                self.log.warn("{path} could be read by others; it has mode 0600 now", path=path)
        return found

    def add(self, kept: KeptCertificate) -> None:
        """See L{ICertificateStore.add}."""
        paths = self._paths()
        name = hashlib.sha256(kept.credentials.certificate).hexdigest()
        if any(path.stem.partition("-")[2] == name for path in paths):
            return
        number = 1 + max((int(path.stem.partition("-")[0]) for path in paths), default=0)
        key = kept.credentials.private_key
        content = {
            "security_identifier": format_sid(kept.security_identifier),
            "is_internal": kept.is_internal,
            "certificate": base64.b64encode(kept.credentials.certificate).decode(),
            "private_key": None if key is None else base64.b64encode(key).decode(),
        }
        _write(self._directory / f"{number:06}-{name}{_SUFFIX}", json.dumps(content).encode())

    def remove(self, certificate: bytes) -> None:
        """See L{ICertificateStore.remove}."""
        name = hashlib.sha256(certificate).hexdigest()
        for path in self._paths():
            if path.stem.partition("-")[2] == name:
                try:
                    path.unlink(missing_ok=True)
                    sync(self._directory)
                except OSError as error:
                    raise CertificateStoreError(f"{path}: {error.strerror}") from error

    def _paths(self) -> list[Path]:
        try:
            found = [path for path in self._directory.iterdir() if path.suffix == _SUFFIX]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise CertificateStoreError(f"{self._directory}: {error.strerror}") from error
        for path in found:
            if not path.stem.partition("-")[0].isdecimal():
                raise CertificateStoreError(f"{path}: no certificate of a queue manager is called so")
        return sorted(found)


def _read(path: Path) -> KeptCertificate:
    try:
        match json.loads(path.read_bytes()):
            case {
                "security_identifier": str(sid),
                "is_internal": bool(is_internal),
                "certificate": str(certificate),
                "private_key": str() | None as private,
            }:
                key = None if private is None else base64.b64decode(private, validate=True)
                credentials = Credentials(base64.b64decode(certificate, validate=True), key)
                return KeptCertificate(credentials, parse_sid(sid), is_internal)
    except OSError as error:
        raise CertificateStoreError(f"{path}: {error.strerror}") from error
    except (ValueError, RecursionError):
        # The error text may contain part of a key.
        pass
    raise CertificateStoreError(f"{path}: the file is damaged")


def _restrict_access(path: Path) -> bool:
    """Remove access by other users; returns whether there was any."""
    try:
        if not stat.S_IMODE(path.stat().st_mode) & 0o077:
            return False
        path.chmod(0o600)
    except OSError as error:
        raise CertificateStoreError(f"{path}: {error.strerror}") from error
    return True


def _write(path: Path, content: bytes) -> None:
    """Write the file atomically and durably."""
    try:
        make_directory(path.parent)
        write_durably(path, content)
    except OSError as error:
        raise CertificateStoreError(f"{path}: {error.strerror}") from error
