"""Errors of PostgreSQL and libpq as store errors, without secrets."""

from __future__ import annotations

from typing import Final

import psycopg

from msmq.interfaces.storage import StorageError, StorageFull
from msmq.storage.postgresql.address import Address

_DISK_FULL: Final = "53100"
_LOCKED: Final = "55P03"
_ENDED_BY_SERVER: Final = ("57P01", "57P02", "57P03", "57P04", "57P05")
"""SQLSTATE codes: shutdown, crash, start, dropped database, idle session ended by the server."""
_PASSING: Final = ("40", "53", "55", "57", "58")
"""SQLSTATE classes: conflicts, exhausted resources, locks, cancellation by an operator, the system."""


class DatabaseUnreachable(StorageError):
    """The database cannot be reached, or was lost; it may come back."""


class StatementRefused(StorageError):
    """The database is reachable but unusable: it has another owner, or was restored or replaced."""


class TablesLocked(StorageError):
    """Another client has had a lock on the tables for as long as a commit may wait."""


class Stalled(psycopg.OperationalError):
    """The database did not answer in time, and is not executing the statement."""


def failure(address: Address, doing: str, error: Exception) -> StorageError:
    """The store error for an exception.

    @param doing: the attempted operation, such as C{"write"}.
    """
    if isinstance(error, StorageError):
        return error
    if isinstance(error, psycopg.Error):
        if error.sqlstate == _DISK_FULL:
            return StorageFull(
                f"{address.text}: cannot {doing}: there is no space left: {_error_text(address, error)}"
            )
        kind = TablesLocked if error.sqlstate == _LOCKED else StorageError
        return kind(f"{address.text}: cannot {doing}: {_error_text(address, error)}")
    said = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
    return StorageError(f"{address.text}: cannot {doing}: {address.without_secrets(said)}")


def away(address: Address, error: psycopg.Error) -> DatabaseUnreachable:
    """The store error for an unreachable database."""
    return DatabaseUnreachable(f"{address.text}: no connection: {_error_text(address, error)}")


def is_lost(connection: psycopg.Connection[tuple[object, ...]], error: Exception) -> bool:
    """Whether the connection is unusable after this error.

    A connection may still seem to be open: the last message of a server is read before the end of its stream,
    and libpq may have an error of its own about what is missing.
    The transaction may then have been committed: only an error that the server reports for a statement, or
    that psycopg raises before it sends anything, proves that it was not.
    """
    if not isinstance(error, psycopg.Error):
        return False
    if connection.closed or connection.broken or error.sqlstate in _ENDED_BY_SERVER:
        return True
    return isinstance(error, psycopg.OperationalError) and error.sqlstate is None


def is_passing(error: psycopg.Error) -> bool:
    """Whether a statement that was refused may succeed later without a change of msmq or of rights."""
    return error.sqlstate is not None and error.sqlstate[:2] in _PASSING


def _error_text(address: Address, error: psycopg.Error) -> str:
    """The error in one line, with the details of the server and the SQLSTATE."""
    primary = error.diag.message_primary
    if primary is None:
        text = " ".join(str(error).split())
        text = text.removeprefix("connection failed: ") or type(error).__name__
    else:
        detail = error.diag.message_detail
        text = f"{primary}{f' ({detail})' if detail else ''} [{error.sqlstate}]"
    return address.without_secrets(text)
