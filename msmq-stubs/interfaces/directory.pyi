# Generated from msmq/interfaces/directory.py by `make stubs`; do not edit.
from __future__ import annotations
from typing import Protocol as _Protocol
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID
import attrs
from twisted.internet.defer import Deferred
from zope.interface import Attribute, Interface
from msmq.membership.attributes import DirectoryObject
from msmq.membership.entry import DirectoryEntry
from msmq.membership.enumerations import DirectoryError, DirectoryOperationResult
from msmq.membership.queries import AttributeFilter, SortOrder
from msmq.membership.requests import Attributes
from msmq.structures.names.format_name import DistributionListFormatName, FormatName
__all__ = ['DirectoryCondition', 'DirectoryError', 'DirectoryOperationResult', 'IAddressBook', 'IConditionalDirectory', 'IControlBook', 'IDirectory', 'IObservedDirectory', 'IServedDirectory', 'IWatchedDirectory']

@attrs.frozen(kw_only=True)
class DirectoryCondition:
    source: str
    is_reached: bool = True
    since: float | None = None
    read: float | None = None
    problem: str = ''

class IDirectory(Interface, _Protocol):

    @property
    def name(self) -> str:
        ...

    def open(self) -> Deferred[None]:
        ...

    def create(self, created: DirectoryObject, attributes: Attributes=None) -> Deferred[UUID]:
        ...

    def delete(self, deleted: DirectoryObject) -> Deferred[None]:
        ...

    def read(self, of: type[DirectoryObject], filters: Sequence[AttributeFilter]=(), attributes: Attributes=None) -> Deferred[DirectoryEntry[Any]]:
        ...

    def begin_read(self, of: type[DirectoryObject], filters: Sequence[AttributeFilter]=(), attributes: Attributes=None, order: Sequence[SortOrder]=()) -> Deferred[int]:
        ...

    def read_next(self, handle: int) -> Deferred[DirectoryEntry[Any]]:
        ...

    def end_read(self, handle: int) -> Deferred[None]:
        ...

    def write(self, written: DirectoryObject, attributes: Attributes=None) -> Deferred[None]:
        ...

    def resolve_distribution_list(self, name: DistributionListFormatName) -> Deferred[Sequence[FormatName]]:
        ...

    def object_sid(self, computer_name: str) -> Deferred[bytes]:
        ...

    def close(self) -> Deferred[None]:
        ...

class IConditionalDirectory(Interface, _Protocol):

    def write_if_unchanged(self, written: DirectoryObject, former: DirectoryEntry[Any], attributes: Sequence[str]) -> Deferred[bool]:
        ...

class IAddressBook(Interface, _Protocol):

    def address_of(self, computer_name: str) -> str | None:
        ...

class IControlBook(Interface, _Protocol):

    def control_of(self, computer_name: str) -> str | None:
        ...

    def controlled(self) -> Sequence[str]:
        ...

class IWatchedDirectory(Interface, _Protocol):

    def watch(self, changed: Callable[[], None]) -> None:
        ...

class IObservedDirectory(Interface, _Protocol):

    @property
    def condition(self) -> DirectoryCondition:
        ...

    def observe(self, changed: Callable[[DirectoryCondition], None]) -> None:
        ...

class IServedDirectory(Interface, _Protocol):

    @property
    def servers(self) -> Sequence[str]:
        ...

    def add_servers(self, names: Sequence[str]) -> None:
        ...

    def find_servers(self) -> Deferred[None]:
        ...
