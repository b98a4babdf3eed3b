"""Record log store: append-only segments, group commit with one forced write per group."""

from msmq.storage.log.factory import LogStorageFactory
from msmq.storage.log.store import LogMessageStore

__all__ = ["LogMessageStore", "LogStorageFactory"]
