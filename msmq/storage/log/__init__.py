"""A record log: append-only segments, one forced write a group."""

from msmq.storage.log.factory import LogStorageFactory
from msmq.storage.log.store import LogMessageStore

__all__ = ["LogMessageStore", "LogStorageFactory"]
