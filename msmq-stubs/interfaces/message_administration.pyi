# Generated from msmq/interfaces/message_administration.py by `make stubs`; do not edit.
from __future__ import annotations
from typing import Protocol as _Protocol
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any
import attrs
from zope.interface import Attribute, Interface
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.status import MQError

@attrs.frozen
class MessageChange:
    lookup_id: int
    identifier: MessageIdentifier | None
    new: MessageIdentifier | None = None
    error: MQError | None = None

class IMessageAdministration(Interface, _Protocol):

    @property
    def last_sequential(self) -> int:
        ...

    def remove(self, queue: str, lookup_ids: Sequence[int]) -> Awaitable[Sequence[MessageChange]]:
        ...

    def move(self, queue: str, lookup_ids: Sequence[int], target: str) -> Awaitable[Sequence[MessageChange]]:
        ...

    def copy(self, queue: str, lookup_ids: Sequence[int], destination: str, *, in_clear: bool=False) -> Awaitable[Sequence[MessageChange]]:
        ...

    def requeue(self, queue: str, lookup_ids: Sequence[int], *, to: str | None=None, edited: Mapping[str, Any] | None=None) -> Awaitable[Sequence[MessageChange]]:
        ...
