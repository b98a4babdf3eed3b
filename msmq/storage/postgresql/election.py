"""Election of the active server among those that share a schema; blocking, in a thread of its own."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event, Thread
from typing import ClassVar, Final
from uuid import UUID
from zlib import crc32

import attrs
import psycopg
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.interfaces import IReactorFromThreads
from twisted.logger import Logger
from zope.interface import implementer

from msmq.interfaces.standby import Elected, IElection, StandbyReport, StandbyState
from msmq.interfaces.storage import StorageError
from msmq.storage.postgresql.address import Address
from msmq.storage.postgresql.connection import PostgresqlConnection, connect
from msmq.storage.postgresql.failures import DatabaseUnreachable, away, failure, is_lost, is_passing
from msmq.storage.postgresql.schema_ownership import LockHolder, fence, holder_of, schema_key, stored_owner
from msmq.storage.reading_thread import no_thread

POLL_SECONDS: Final = 0.5
"""Seconds between two looks at the locks."""

_WAITING: Final = "wait for the schema"
_CANDIDATE: Final = 0x4D534D53
"""Upper half of the number of the lock of the next server; the lower half is a checksum of the schema."""


@attrs.define
class Silence:
    """Measures for how long the holder of a lock shows no sign of life.

    Only the time between successful looks counts, and none of it for more than twice its interval: a database
    or a standby that stood still itself says nothing about the holder.
    """

    seconds: float = 0.0
    _holder: LockHolder | None = None
    _looked_at: float = 0.0

    def observe(self, holder: LockHolder | None, now: float) -> float:
        """Record a look, and return the seconds of silence."""
        since, self._looked_at = now - self._looked_at, now
        if holder is None or holder != self._holder or holder.is_working:
            self._holder = holder
            self.seconds = 0.0
        else:
            self.seconds += min(since, 2 * POLL_SECONDS)
        return self.seconds


@implementer(IElection)
class SchemaElection:
    """Election by the lock of a schema.

    One standby at a time holds a second lock, that of the next server, and waits for the schema's. A holder
    of either that is silent for the lease is disconnected by the database.
    The elected server changes the session in C{progress} before it releases the schema's lock to its own
    store: from then on a transaction of an earlier owner fails.

    @param lease: seconds.
    @param report: called in the reactor's thread.
    @param reactor: in whose thread everything is reported.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(
        self,
        address: Address,
        lease: float,
        report: Callable[[StandbyReport], object],
        reactor: IReactorFromThreads,
    ) -> None:
        self.address = address
        self._lease = lease
        self._report = report
        self._call = reactor.callFromThread
        self._reported: StandbyReport | None = None
        self._is_ending = Event()
        self._is_settled = Event()
        self._done: Deferred[Elected] = Deferred()
        self._ended: Deferred[None] = Deferred()
        self._thread: Thread | None = None
        self._silences = {False: Silence(), True: Silence()}

    def elected(self) -> Deferred[Elected]:
        """See L{IElection.elected}."""
        thread = Thread(target=self._run, name="msmq postgresql election", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            return fail(no_thread(self.address.text, _WAITING, error))
        self._thread = thread
        return self._done

    def settled(self) -> None:
        """See L{IElection.settled}."""
        self._is_settled.set()

    def close(self) -> Deferred[None]:
        """See L{IElection.close}."""
        self._is_ending.set()
        self._is_settled.set()
        return succeed(None) if self._thread is None else self._ended

    def _run(self) -> None:
        link: PostgresqlConnection | None = None
        try:
            while not self._is_ending.is_set():
                try:
                    if link is None:
                        link = connect(self.address)
                    elected = self._look(link)
                except DatabaseUnreachable as error:
                    self._tell(StandbyReport(StandbyState.UNREACHABLE, problem=str(error)))
                except psycopg.Error as error:
                    assert link is not None
                    if is_lost(link, error):
                        link.close()
                        link = None
                        problem = str(away(self.address, error))
                    elif is_passing(error):
                        problem = str(failure(self.address, _WAITING, error))
                    else:
                        raise
                    self._tell(StandbyReport(StandbyState.UNREACHABLE, problem=problem))
                else:
                    if elected is not None:
                        self._call(self._fire, elected)
                        self._is_settled.wait()
                        return
                self._is_ending.wait(POLL_SECONDS)
        except Exception as error:
            self._call(self._fire, failure(self.address, _WAITING, error))
        finally:
            if link is not None:
                link.close()
            self._call(self._ended.callback, None)

    def _look(self, link: PostgresqlConnection) -> Elected | None:
        """Look at the locks once, and take what is free.

        @raise psycopg.Error: it failed.
        """
        candidate = (_CANDIDATE << 32) | crc32(self.address.schema.encode())
        if not _has(link, candidate) and not _try_lock(link, candidate):
            self._wait_for(link, candidate, is_schema=False)
            return None
        key = schema_key(link, self.address)
        if key is None:
            return Elected(None, "the schema does not exist yet")
        if not _try_lock(link, key):
            self._wait_for(link, key, is_schema=True)
            return None
        try:
            fence(link, self.address)
            owner = stored_owner(link, self.address)
        finally:
            link.rows("SELECT pg_advisory_unlock($1)", [key])
        holder = "" if self._reported is None else self._reported.holder
        reason = f"{holder} holds it no longer" if holder else "it was free"
        return Elected(None if owner is None else UUID(bytes=owner), reason)

    def _wait_for(self, link: PostgresqlConnection, key: int, *, is_schema: bool) -> None:
        """Report the holder of a lock; disconnect it after the lease."""
        holder = holder_of(link, key)
        silent = self._silences[is_schema].observe(holder, time.monotonic())
        state = StandbyState.ACTIVE_ELSEWHERE if is_schema else StandbyState.BEHIND_STANDBY
        self._tell(StandbyReport(state, "" if holder is None else holder.text, silent))
        if holder is not None and silent >= self._lease:
            self.log.warn(
                "{place}: {holder} has shown no sign of life for {seconds} s and is disconnected",
                place=self.address.text,
                holder=holder.text,
                seconds=round(silent),
            )
            link.rows("SELECT pg_terminate_backend($1)", [holder.backend.pid])

    def _tell(self, report: StandbyReport) -> None:
        if report != self._reported:
            self._reported = report
            self._call(self._report, report)

    def _fire(self, result: Elected | StorageError) -> None:
        if self._is_ending.is_set():
            return
        if isinstance(result, Elected):
            self._done.callback(result)
        else:
            self._done.errback(result)


def _has(link: PostgresqlConnection, key: int) -> bool:
    """Whether this connection has a lock."""
    rows = link.rows(
        "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid = pg_backend_pid()"
        " AND objsubid = 1 AND classid::bigint = $1 AND objid::bigint = $2",
        [key >> 32, key & 0xFFFFFFFF],
    )
    return bool(rows)


def _try_lock(link: PostgresqlConnection, key: int) -> bool:
    return bool(link.row("SELECT pg_try_advisory_lock($1)", [key])[0])
