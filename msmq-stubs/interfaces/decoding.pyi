# Generated from msmq/interfaces/decoding.py by `make stubs`; do not edit.
from __future__ import annotations
from typing import Protocol as _Protocol
from collections.abc import Mapping
from typing import Any
import attrs
from twisted.plugin import IPlugin
from zope.interface import Attribute
from msmq.errors import MsmqError

class BodyNotDecoded(MsmqError):
    ...

def _deepest_allowed(instance: object, attribute: attrs.Attribute[int], value: int) -> None:
    ...

@attrs.frozen
class Limits:
    size: int = 16 << 20
    depth: int = attrs.field(default=100, validator=_deepest_allowed)
    items: int = 1000000
    characters: int = 16 << 20

@attrs.frozen
class Body:
    data: bytes
    body_type: int = 0
    extension: bytes = b''

@attrs.frozen
class DecodedBody:
    format: str | None
    reading: str
    value: Any
    envelope: str | None = None
    headers: Mapping[str, Any] | None = None
    error: str = ''

    def as_json(self) -> dict[str, Any]:
        ...

class IBodyDecoder(IPlugin, _Protocol):

    @property
    def name(self) -> str:
        ...

    def recognises(self, body: Body) -> bool:
        ...

    def decode(self, body: Body, limits: Limits) -> DecodedBody:
        ...
