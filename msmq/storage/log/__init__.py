"""Record log store: append-only segments, group commit with one forced write per group.

The names are imported lazily: a reader of a store, which each worker of Spark starts, needs the format of the
log, and neither its writer nor the interfaces of plugins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msmq.lazy_imports import lazy_attributes

if TYPE_CHECKING:
    from msmq.storage.log.factory import LogStorageFactory
    from msmq.storage.log.store import LogMessageStore

__all__ = ["LogMessageStore", "LogStorageFactory"]

_MODULES: Final = {
    "msmq.storage.log.factory": ("LogStorageFactory",),
    "msmq.storage.log.store": ("LogMessageStore",),
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_attributes(__name__, _MODULES)
