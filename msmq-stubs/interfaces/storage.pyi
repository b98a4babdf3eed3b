# Generated from msmq/interfaces/storage.py by `make stubs`; do not edit.
from __future__ import annotations
from typing import Protocol as _Protocol
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID
import attrs
from twisted.internet.defer import Deferred
from zope.interface import Attribute, Interface
from msmq.errors import MsmqError
from msmq.persistence.changes import AppendEvent, Change
from msmq.persistence.snapshot import Snapshot

class StorageError(MsmqError):
    ...

class StorageFull(StorageError):
    ...

class StoreIncomplete(StorageError):
    ...

class StoreNotOpen(StorageError):
    ...

class UnknownQueue(StorageError):

    def __init__(self, queue: UUID) -> None:
        ...

class MessageNotStored(StorageError):

    def __init__(self, queue: UUID, lookup_id: int) -> None:
        ...

@attrs.frozen
class LogEntry:
    sequence: int
    lookup_id: int
    arrived: float
    packet: bytes = attrs.field(repr=False)

@attrs.frozen
class LogExtent:
    first: int = 0
    last: int = 0
    entries: int = 0
    size: int = 0

@attrs.frozen
class StoredEvent:
    sequence: int
    event: AppendEvent

class IStoreFiles(Interface, _Protocol):

    def files(self) -> Sequence[Path]:
        ...

class IMessageRuns(Interface, _Protocol):
    ...

class IStoreVerification(Interface, _Protocol):

    def verified_bytes(self) -> int:
        ...

    def damaged(self) -> int:
        ...

class IMessageStore(Interface, _Protocol):

    @property
    def name(self) -> str:
        ...

    @property
    def durable(self) -> bool:
        ...

    def open(self) -> Deferred[Snapshot]:
        ...

    def commit(self, changes: Sequence[Change]) -> Deferred[None]:
        ...

    def read(self, queue: UUID, lookup_ids: Sequence[int]) -> Deferred[Sequence[bytes]]:
        ...

    def find(self, identity: bytes) -> Deferred[Sequence[tuple[UUID, int]]]:
        ...

    def read_log(self, queue: UUID, after: int, limit: int) -> Deferred[Sequence[LogEntry]]:
        ...

    def log_extent(self, queue: UUID) -> Deferred[LogExtent]:
        ...

    def read_events(self, after: int, limit: int, identity: bytes | None=None) -> Deferred[Sequence[StoredEvent]]:
        ...

    def close(self) -> Deferred[None]:
        ...
