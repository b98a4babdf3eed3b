"""Deletes the tables of a store from its schema; blocking."""

from __future__ import annotations

import re
from typing import Final

import psycopg

from msmq.storage.postgresql.address import Address
from msmq.storage.postgresql.connection import connect
from msmq.storage.postgresql.failures import failure
from msmq.storage.postgresql.schema import SCHEMA
from msmq.storage.postgresql.schema_ownership import lock

_CREATED: Final = re.compile(r"CREATE (?:UNLOGGED )?TABLE (\w+)")


def has_store(address: Address) -> bool:
    """Whether the schema has the tables of a store.

    @raise StorageError: it cannot be determined.
    """
    link = connect(address, reads_only=True)
    try:
        return bool(link.rows("SELECT 1 WHERE to_regclass('msmq_version') IS NOT NULL"))
    except psycopg.Error as error:
        raise failure(address, "read", error) from None
    finally:
        link.close()


def erase_store(address: Address) -> None:
    """Delete the tables, all or none; the schema stays.

    @raise StorageError: a queue manager uses them, or the database refuses.
    """
    link = connect(address)
    try:
        lock(link, address)
        tables = [found.group(1) for statement in SCHEMA.tables if (found := _CREATED.match(statement))]
        with link.transaction():
            for table in tables:
                link.execute(f"DROP TABLE IF EXISTS {table}".encode())
    except psycopg.Error as error:
        raise failure(address, "delete", error) from None
    finally:
        link.close()
