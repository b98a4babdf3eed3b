"""PostgreSQL connections with time-outs for unresponsive servers; blocking."""

from __future__ import annotations

import logging
import select
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any, Final, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.conninfo import make_conninfo
from psycopg.rows import TupleRow
from psycopg.waiting import Ready, Wait

from msmq.interfaces.storage import StorageError
from msmq.storage.postgresql.address import Address
from msmq.storage.postgresql.arrays import DUMPERS
from msmq.storage.postgresql.failures import Stalled, away

# psycopg's warnings follow from an error that is already reported.
logging.getLogger("psycopg").addHandler(logging.NullHandler())

OLDEST_SERVER: Final = 130000
"""Minimum server_version_num."""

CONNECT_SECONDS: Final = 5
"""Default time-out of a connection attempt, in seconds."""

_LAST_MILLISECONDS: Final = 100

_RESULT = TypeVar("_RESULT")


class PostgresqlConnection(psycopg.Connection[TupleRow]):
    """A connection in autocommit mode, whose statements name their parameters C{$1}, C{$2} ...

    A statement over its time-out raises L{Stalled}, unless the database is still working on it
    (L{supervise}); the connection is unusable afterwards.
    """

    _patience: float = 30.0
    _asks: Callable[[], bool] = staticmethod(lambda: False)
    _has_stalled = False

    def wait_at_most(self, patience: float) -> None:
        """Set the time-out for an answer, in seconds."""
        self._patience = patience

    def supervise(self, is_working: Callable[[], bool]) -> None:
        """Checks whether the database is still working on a statement, before it counts as stalled."""
        self._asks = is_working

    def wait(self, gen: PQGen[_RESULT], interval: float = 0.1, timeout: float | None = None) -> _RESULT:
        """Run a generator of psycopg to its end; psycopg calls this for everything except connecting."""
        poll = select.poll()
        socket = self.pgconn.socket
        try:
            wanted = next(gen)
            poll.register(socket, _EVENTS[wanted])
            while True:
                events = poll.poll(0 if self._has_stalled else self._patience * 1000)
                if not events and not self._is_working():
                    # The answer may have arrived in the meantime.
                    events = poll.poll(0 if self._has_stalled else _LAST_MILLISECONDS)
                    if not events:
                        self._has_stalled = True
                        raise Stalled(f"it did not answer within {self._patience:g} s")
                before, wanted = wanted, gen.send(_ready(events))
                if wanted != before:
                    poll.modify(socket, _EVENTS[wanted])
        except StopIteration as end:
            result: _RESULT = end.value
            return result
        except BaseException:
            # Its cleanup would fail on the lost connection.
            with suppress(Exception):
                gen.close()
            raise

    def _is_working(self) -> bool:
        return not self._has_stalled and self._asks()

    def is_alive(self) -> bool:
        """Whether the connection is still open, as far as is known without a query."""
        if self.closed:
            return False
        poll = select.poll()
        poll.register(self.pgconn.socket, select.POLLIN)
        if not poll.poll(0):
            return True
        try:
            # It may be a notice; the end of the connection is an error.
            self.pgconn.consume_input()
        except psycopg.OperationalError:
            return False
        return not poll.poll(0)

    def rows(self, statement: str, parameters: Sequence[object] = (), *, binary: bool = True) -> list[Any]:
        """Execute a statement and fetch all of its rows."""
        return self.execute(statement.encode(), parameters, binary=binary).fetchall()

    def row(self, statement: str, parameters: Sequence[object] = ()) -> Any:
        """Execute a statement and fetch its one row."""
        (row,) = self.rows(statement, parameters)
        return row


_EVENTS: Final = {
    Wait.R: select.POLLIN,
    Wait.W: select.POLLOUT,
    Wait.RW: select.POLLIN | select.POLLOUT,
}


def _ready(events: Sequence[tuple[int, int]]) -> Ready:
    ready = 0
    for _, event in events:
        # Errors are reported by the next read or write.
        ready |= (Ready.R if event & ~select.POLLOUT else 0) | (Ready.W if event & ~select.POLLIN else 0)
    return Ready(ready)


def connect(address: Address, *, reads_only: bool = False) -> PostgresqlConnection:
    """Connect without implicit transactions.

    @param reads_only: whether the connection is only for reads.
    @raise DatabaseUnreachable: the database cannot be reached, or refuses the connection.
    @raise StorageError: the server version is too old.
    """
    defaults = {
        "connect_timeout": str(CONNECT_SECONDS),
        "application_name": "msmq reader" if reads_only else "msmq",
        # Of several servers the one that accepts writes, never a read-only one.
        "target_session_attrs": "read-write",
        "keepalives_idle": "10",
        "keepalives_interval": "5",
        "keepalives_count": "3",
        "tcp_user_timeout": str(int(address.wait * 1000)),
    }
    parameters = {**defaults, **address.parameters}
    if "options" in parameters:
        # The first statement is libpq's own check whether the server accepts writes; of a setting that is
        # given twice the last one applies. Without options of the user none are sent: poolers refuse them.
        parameters["options"] = f"{parameters['options']} -c statement_timeout=0"
    try:
        link = PostgresqlConnection.connect(
            make_conninfo(**parameters),
            autocommit=True,
            cursor_factory=psycopg.RawCursor,
        )
    except psycopg.Error as error:
        raise away(address, error) from None
    try:
        link.wait_at_most(address.wait)
        for type_, dumper in DUMPERS:
            link.adapters.register_dumper(type_, dumper)
        _set_up(link, address, reads_only)
    except psycopg.Error as error:
        link.close()
        raise away(address, error) from None
    except BaseException:
        link.close()
        raise
    return link


def _set_up(link: PostgresqlConnection, address: Address, reads_only: bool) -> None:
    version = link.info.server_version
    if version < OLDEST_SERVER:
        raise StorageError(
            f"{address.text}: PostgreSQL {version // 10000} is too old; {OLDEST_SERVER // 10000} is needed"
        )
    settings: dict[str, str] = {
        "search_path": f'"{address.schema}"',
        "statement_timeout": "0",
        "idle_in_transaction_session_timeout": "0",
        # A lock on our tables by another client becomes an error in time, not a lost database.
        "lock_timeout": str(int(address.wait * 1000)),
        # So that the server detects the loss of this machine, and releases its lock.
        "tcp_keepalives_idle": "10",
        "tcp_keepalives_interval": "5",
        "tcp_keepalives_count": "3",
    }
    if version >= 140000:
        settings["idle_session_timeout"] = "0"
    if reads_only:
        settings["default_transaction_read_only"] = "on"
        # The number of rows to read, and the size of the table, differ from read to read.
        link.prepare_threshold = None
    else:
        # A statement that was planned for an empty table stays prepared, and must find its rows by their
        # keys in a large one too.
        settings |= dict.fromkeys(("enable_seqscan", "enable_hashjoin", "enable_mergejoin", "jit"), "off")
        if link.row("SELECT current_setting('synchronous_commit')") == ("off",):
            settings["synchronous_commit"] = "on"
    names = ", ".join(f"set_config(${n}, ${n + 1}, false)" for n in range(1, 2 * len(settings), 2))
    link.row(f"SELECT {names}", tuple(chain.from_iterable(settings.items())))
