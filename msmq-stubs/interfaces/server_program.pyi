# Generated from msmq/interfaces/server_program.py by `make stubs`; do not edit.
from __future__ import annotations
from typing import Protocol as _Protocol
from collections.abc import Awaitable
from typing import Any
from twisted.internet.defer import Deferred
from zope.interface import Attribute, Interface

class IServerProgram(Interface, _Protocol):

    @property
    def session_protocol(self) -> Any:
        ...

    def prepare(self, manager: Any) -> Awaitable[None]:
        ...

    def begin(self) -> None:
        ...

    def end(self) -> Deferred[None]:
        ...
