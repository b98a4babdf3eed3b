"""The store in one SQLite file: durable, with group commit, and nothing to install.

The names are imported lazily: a reader of a store, which each worker of Spark starts, needs no writer.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from msmq.storage.sqlite.store import SqliteMessageStore, SqliteStorageFactory

_HOME = "msmq.storage.sqlite.store"

__all__ = ["SqliteMessageStore", "SqliteStorageFactory"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
