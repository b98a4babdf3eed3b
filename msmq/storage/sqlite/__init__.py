"""The store in one SQLite file: durable, with group commit, and nothing to install."""

from msmq.storage.sqlite.store import SqliteMessageStore, SqliteStorageFactory

__all__ = ["SqliteMessageStore", "SqliteStorageFactory"]
