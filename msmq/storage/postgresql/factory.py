"""Factory of PostgreSQL stores; psycopg is imported only when a store is created."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
from twisted.internet.interfaces import IReactorFromThreads
from zope.interface import implementer

from msmq.interfaces.plugins import ILossAcceptance, IStorageFactory, IStorageProbe
from msmq.interfaces.standby import IElection, IStandbyStorage, StandbyReport
from msmq.interfaces.storage import IMessageStore
from msmq.storage.damage import DamagePolicy
from msmq.storage.scrub_policy import SCRUBBING

if TYPE_CHECKING:
    from msmq.storage.postgresql.address import Address


@implementer(IStorageFactory, IStorageProbe, ILossAcceptance, IStandbyStorage)
@attrs.frozen
class PostgresqlStorageFactory:
    """C{postgresql://USER@HOST:PORT/DATABASE}: a schema of its own in a database."""

    name: str = "postgresql"
    description: str = "in a schema of a PostgreSQL database; survives what the database survives"

    def open_store(self, argument: str, data: Path) -> IMessageStore:
        """See L{IStorageFactory.open_store}."""
        return self._store(argument, data, accepts_loss=False)

    def open_with_loss(self, argument: str, data: Path) -> IMessageStore:
        """See L{ILossAcceptance.open_with_loss}."""
        return self._store(argument, data, accepts_loss=True)

    def probe(self, argument: str, data: Path) -> None:
        """See L{IStorageProbe.probe}."""
        address = _address(argument)
        from msmq.storage.postgresql.schema_ownership import probe

        probe(address)

    def make_election(
        self, argument: str, lease: float, report: Callable[[StandbyReport], object]
    ) -> IElection:
        """See L{IStandbyStorage.make_election}."""
        address = _address(argument)
        from twisted.internet import reactor

        from msmq.storage.postgresql.election import SchemaElection

        return SchemaElection(address, lease, report, IReactorFromThreads(reactor))

    def _store(self, argument: str, data: Path, *, accepts_loss: bool) -> IMessageStore:
        address = _address(argument)
        from msmq.storage.postgresql.store import PostgresqlMessageStore

        policy = DamagePolicy(data / database_mark_name(address), accepts_loss, time.time, SCRUBBING)
        return PostgresqlMessageStore(address, policy)


def database_mark_name(address: Address) -> str:
    """Name of the mark file of a schema in the data directory."""
    database = re.sub(r"[^A-Za-z0-9_]", "_", address.parameters.get("dbname", ""))
    return f"postgresql-{database}-{address.schema}-mark"


def _address(argument: str) -> Address:
    try:
        from msmq.storage.postgresql.address import parse_address
    except ImportError as error:
        raise ValueError(f"it needs psycopg, which msmq[postgresql] installs: {error}") from error
    return parse_address(argument)
