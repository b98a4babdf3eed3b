"""The store in a schema of a PostgreSQL database: durable, with group commit, kept by somebody else."""

from msmq.storage.postgresql.factory import PostgresqlStorageFactory

__all__ = ["PostgresqlStorageFactory"]
