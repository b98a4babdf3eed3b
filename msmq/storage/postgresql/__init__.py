"""The store in a schema of a PostgreSQL database: durable, with group commit, on a database server."""

from msmq.storage.postgresql.factory import PostgresqlStorageFactory

__all__ = ["PostgresqlStorageFactory"]
