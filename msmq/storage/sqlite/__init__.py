"""The store in one SQLite file: durable, with group commit, and nothing to install.

The names are imported lazily: a reader of a store, which each worker of Spark starts, needs no writer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msmq.lazy_imports import lazy_attributes

if TYPE_CHECKING:
    from msmq.storage.sqlite.store import SqliteMessageStore, SqliteStorageFactory

__all__ = ["SqliteMessageStore", "SqliteStorageFactory"]

_MODULES: Final = {
    "msmq.storage.sqlite.store": ("SqliteMessageStore", "SqliteStorageFactory"),
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_attributes(__name__, _MODULES)
