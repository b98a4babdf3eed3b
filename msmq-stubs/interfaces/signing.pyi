# Generated from msmq/interfaces/signing.py by `make stubs`; do not edit.
from __future__ import annotations
from typing import Protocol as _Protocol
from collections.abc import Iterable, Sequence
from typing import TypeAlias
import attrs
from zope.interface import Interface

@attrs.frozen
class Unusable:
    reason: str

@attrs.frozen
class CertificateFacts:
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
    certificate: bytes = attrs.field(repr=False)
    private_key: bytes | None = attrs.field(default=None, repr=False)

@attrs.frozen
class KeptCertificate:
    credentials: Credentials
    security_identifier: bytes
    is_internal: bool
Matching: TypeAlias = int | Unusable | None

class ISigning(Interface, _Protocol):

    def facts(self, certificate: bytes) -> CertificateFacts | Unusable:
        ...

    def verify(self, certificate: bytes, signature: bytes, algorithm: int, inputs: Iterable[bytes]) -> Matching:
        ...

    def sign(self, credentials: Credentials, algorithm: int, data: bytes) -> bytes | Unusable:
        ...

    def create(self, common_name: str, not_before: float, not_after: float) -> Credentials:
        ...

    def parse(self, data: bytes, password: bytes | None=None) -> Credentials | Unusable:
        ...

class CertificateStoreError(Exception):
    ...

class ICertificateStore(Interface, _Protocol):

    def load(self) -> Sequence[KeptCertificate]:
        ...

    def add(self, kept: KeptCertificate) -> None:
        ...

    def remove(self, certificate: bytes) -> None:
        ...
