"""Signing without cryptography, with volatile certificates, for tests.

A certificate is a line of JSON with the hash of its private key, a text; a signature is a hash over that hash
and the data: anyone with the certificate can forge signatures.
"""

from __future__ import annotations

import hashlib
import hmac
import itertools
import json
from collections.abc import Iterable, Sequence
from typing import Final

import attrs
from zope.interface import implementer

from msmq.interfaces.security.signing import (
    CertificateFacts,
    Credentials,
    ICertificateStore,
    ISigning,
    KeptCertificate,
    Matching,
    Unusable,
)
from msmq.structures.algorithms import HashAlgorithm

_ALGORITHMS: Final = frozenset(HashAlgorithm)
_UNKNOWN: Final = "which is unknown"


@implementer(ISigning)
class MemorySigning:
    """See L{ISigning}."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def facts(self, certificate: bytes) -> CertificateFacts | Unusable:
        """See L{ISigning.facts}."""
        try:
            match json.loads(certificate):
                case [str(name), int(number), int(first), int(last), str(key)]:
                    fingerprint = hashlib.sha256(certificate).hexdigest()
                    name = f"CN={name}"
                    return CertificateFacts(
                        name, name, number, first, last, "RSA", 2048, fingerprint, int(key, 16), 65537
                    )
        except (ValueError, RecursionError):
            pass
        return Unusable("is not an X.509 certificate")

    def verify(
        self, certificate: bytes, signature: bytes, algorithm: int, inputs: Iterable[bytes]
    ) -> Matching:
        """See L{ISigning.verify}."""
        if algorithm not in _ALGORITHMS:
            return Unusable(f"is made with the hash algorithm {algorithm:#06x}, {_UNKNOWN}")
        facts = self.facts(certificate)
        if isinstance(facts, Unusable):
            return facts
        key = json.loads(certificate)[4].encode()
        for index, data in enumerate(inputs):
            if hmac.compare_digest(signature, _mark(key, algorithm, data)):
                return index
        return None

    def sign(self, credentials: Credentials, algorithm: int, data: bytes) -> bytes | Unusable:
        """See L{ISigning.sign}."""
        if credentials.private_key is None:
            return Unusable("has no private key here")
        if algorithm not in _ALGORITHMS:
            return Unusable(f"cannot be used with the hash algorithm {algorithm:#06x}, {_UNKNOWN}")
        return _mark(_public(credentials.private_key), algorithm, data)

    def create(self, common_name: str, not_before: float, not_after: float) -> Credentials:
        """See L{ISigning.create}."""
        number = next(self._numbers)
        private = f"private key {number} of {common_name}".encode()
        fields = [common_name, number, int(not_before), int(not_after), _public(private).decode()]
        return Credentials(json.dumps(fields).encode(), private)

    def parse(self, data: bytes, password: bytes | None = None) -> Credentials | Unusable:
        """See L{ISigning.parse}; the certificate, and behind a line feed its key."""
        certificate, _, private = data.partition(b"\n")
        if isinstance(self.facts(certificate), Unusable):
            return Unusable("holds no certificate")
        if private and json.loads(certificate)[4].encode() != _public(private):
            return Unusable("has a private key that is not that of its certificate")
        return Credentials(certificate, private or None)


def _public(private: bytes) -> bytes:
    return hashlib.sha256(private).hexdigest().encode()


def _mark(key: bytes, algorithm: int, data: bytes) -> bytes:
    return hmac.new(key, algorithm.to_bytes(4, "little") + data, hashlib.sha256).digest()


@implementer(ICertificateStore)
@attrs.define
class MemoryCertificateStore:
    """See L{ICertificateStore}; in memory only."""

    _kept: dict[bytes, KeptCertificate] = attrs.field(factory=dict, repr=False)

    def load(self) -> Sequence[KeptCertificate]:
        """See L{ICertificateStore.load}."""
        return tuple(self._kept.values())

    def add(self, kept: KeptCertificate) -> None:
        """See L{ICertificateStore.add}."""
        self._kept.setdefault(kept.credentials.certificate, kept)

    def remove(self, certificate: bytes) -> None:
        """See L{ICertificateStore.remove}."""
        self._kept.pop(certificate, None)
