# Generated from msmq/interfaces/tls.py by `make stubs`; do not edit.
from __future__ import annotations
from typing import Protocol as _Protocol
from collections.abc import Callable
from pathlib import Path
import attrs
from twisted.internet.interfaces import IOpenSSLClientConnectionCreator, IOpenSSLServerConnectionCreator
from zope.interface import Interface
from msmq.errors import MsmqError

class TlsError(MsmqError):
    ...

@attrs.frozen
class TlsIdentity:
    certificate: Path
    private_key: Path

class ITls(Interface, _Protocol):

    def server(self, identity: TlsIdentity, pins: frozenset[str]) -> IOpenSSLServerConnectionCreator:
        ...

    def client(self, identity: TlsIdentity | None, pins: frozenset[str]) -> IOpenSSLClientConnectionCreator:
        ...

class IReloadableTls(Interface, _Protocol):

    def read_again(self) -> Callable[[], None]:
        ...
