# Generated from msmq/interfaces/ciphers.py by `make stubs`; do not edit.
from __future__ import annotations
from typing import Protocol as _Protocol
import attrs
from zope.interface import Attribute, Interface
from msmq.errors import MsmqError
from msmq.structures.directory.public_key_blob import PublicKeyBlob
from msmq.structures.directory.public_keys import MqdsPublicKeys

class CipherError(MsmqError):
    ...

@attrs.frozen
class SessionKey:
    algorithm: int
    key: bytes = attrs.field(repr=False)
    encrypted: bytes = attrs.field(repr=False)

class ICiphers(Interface, _Protocol):

    @property
    def encryption_keys(self) -> MqdsPublicKeys:
        ...

    @property
    def signing_keys(self) -> MqdsPublicKeys:
        ...

    def open(self) -> None:
        ...

    def make_session_key(self, algorithm: int, key_bits: int, padded_bits: int, public_key: PublicKeyBlob) -> SessionKey:
        ...

    def recover_session_key(self, provider_name: str, encrypted: bytes) -> SessionKey:
        ...

    def encrypt(self, algorithm: int, key: bytes, body: bytes) -> bytes:
        ...

    def decrypt(self, algorithm: int, key: bytes, body: bytes) -> bytes:
        ...
