"""Record log store: append-only segments, group commit with one forced write per group.

The names are imported lazily: a reader of a store, which each worker of Spark starts, needs the format of the
log, and neither its writer nor the interfaces of plugins.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from msmq.storage.log.factory import LogStorageFactory
    from msmq.storage.log.store import LogMessageStore

_HOMES = {
    "LogMessageStore": "msmq.storage.log.store",
    "LogStorageFactory": "msmq.storage.log.factory",
}

__all__ = ["LogMessageStore", "LogStorageFactory"]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
