"""The store in PostgreSQL by its description; psycopg is needed only once one is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import attrs
from zope.interface import implementer

from msmq.interfaces.plugins import IStorageFactory, IStorageProbe
from msmq.interfaces.storage import IMessageStore

if TYPE_CHECKING:
    from msmq.storage.postgresql.address import Address


@implementer(IStorageFactory, IStorageProbe)
@attrs.frozen
class PostgresqlStorageFactory:
    """C{postgresql://USER@HOST:PORT/DATABASE}: a schema of its own in a database."""

    name: str = "postgresql"
    description: str = "in a schema of a PostgreSQL database; survives what the database survives"

    def open_store(self, argument: str, data: Path) -> IMessageStore:
        """See L{IStorageFactory.open_store}."""
        address = _address(argument)
        from msmq.storage.postgresql.store import PostgresqlMessageStore

        return PostgresqlMessageStore(address)

    def probe(self, argument: str, data: Path) -> None:
        """See L{IStorageProbe.probe}."""
        address = _address(argument)
        from msmq.storage.postgresql.schema_ownership import probe

        probe(address)


def _address(argument: str) -> Address:
    try:
        from msmq.storage.postgresql.address import parse_address
    except ImportError as error:
        raise ValueError(f"it needs psycopg, which msmq[postgresql] installs: {error}") from error
    return parse_address(argument)
