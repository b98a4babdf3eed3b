"""Writer of the PostgreSQL store: group commit, reconnection; blocking, used by one thread."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import ClassVar, Final, NoReturn
from uuid import uuid4

import attrs
import psycopg
from twisted.logger import Logger

from msmq.interfaces.storage import StorageError
from msmq.persistence.changes import AppendEvent, Change
from msmq.persistence.definition import QueueDefinition
from msmq.persistence.snapshot import Snapshot, StoredMessage
from msmq.storage.damage import DamagePolicy
from msmq.storage.loss_check import LossCheck
from msmq.storage.plan import TransactionPlan
from msmq.storage.postgresql.address import Address
from msmq.storage.postgresql.checksum_fill import SchemaChecksumFill, fill_in_small_tables
from msmq.storage.postgresql.cleanup import PendingCleanup
from msmq.storage.postgresql.connection import PostgresqlConnection, connect
from msmq.storage.postgresql.database_mark import DatabaseMark
from msmq.storage.postgresql.failures import DatabaseUnreachable, StatementRefused, away, failure, is_lost
from msmq.storage.postgresql.log_writer import LogNumbers
from msmq.storage.postgresql.schema import SCHEMA, ServerSchema
from msmq.storage.postgresql.schema_ownership import (
    CommitProgress,
    backend,
    is_at_work,
    lock,
    mark_express,
    prepare,
    progress,
    take_over,
)
from msmq.storage.postgresql.script import Script, script
from msmq.storage.postgresql.start_check import check_small_tables, take_damaged_messages
from msmq.storage.postgresql.verification import is_damage
from msmq.storage.records import lookup_id_of, read_definition

Outcomes = list[StorageError | None]
"""The error of each batch."""

RETRY_SECONDS: Final = 0.5
"""Seconds between reconnection attempts."""

BEAT_SECONDS: Final = 1.0
"""Seconds between the queries of an idle connection, by which a standby knows that its client lives."""

_ROWS: Final = (
    "SELECT id FROM queue UNION ALL SELECT id FROM removed_queue UNION ALL SELECT queue FROM unreachable"
)
"""The rows of queues that a new one must not get."""
_FETCHED: Final = 5000
"""Rows per fetch."""


@attrs.frozen
class _Attempt:
    """A group that was sent to the database."""

    plan: TransactionPlan
    script: Script
    outcomes: Outcomes
    reports_express_loss: bool


class ServerDatabase:
    """One schema, from L{ServerDatabase.__init__} to L{close}.

    When the connection is lost, L{reconnect} makes another one; ownership of the schema by another process in
    the meantime is detected.

    @ivar address: the location of the schema.
    @param policy: handling of damage and loss.
    @ivar damaged: the number of damaged messages that were quarantined when it was opened.
    @raise StorageError: it cannot be used; the text is the reason.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(self, address: Address, policy: DamagePolicy, *, schema: ServerSchema = SCHEMA) -> None:
        self.address = address
        self.damaged = 0
        loss = LossCheck(address.text, policy)
        self._session = uuid4()
        self._doubt: _Attempt | None = None
        self._refusal: StatementRefused | None = None
        self._absence: DatabaseUnreachable | None = None
        self._next_attempt = 0.0
        self._next_beat = 0.0
        self._has_express = False
        self._lost_express = False
        link = connect(address)
        try:
            prepare(link, address, schema, loss)
            store, number, is_checked = link.row("SELECT store, number, is_checked FROM progress")
            loss.check(store.bytes, number, "the database")
            self._mark = DatabaseMark(store.bytes, policy.mark)
            if not is_checked:
                fill_in_small_tables(link)
            self._fill = SchemaChecksumFill(is_checked)
            check_small_tables(link, address)
            taken = take_damaged_messages(link, address, policy.quarantine)
            found = take_over(link, self._session)
            self._numbers = LogNumbers(found.number, found.last_entry, found.last_event, found.first_event)
            self._known: dict[int, int] = {
                identifier.int: row for row, identifier in link.rows("SELECT id, identifier FROM queue")
            }
            self._next_queue: int = 1 + max(
                (row for (row,) in link.rows(_ROWS)),
                default=0,
            )
            self._remains = PendingCleanup.found(link)
            self._warn_of(link)
            self._keep(link)
            self._sure = self._found = found.number
            self._mark.write(found.number)
            for one in taken:
                self.log.error("{problem}; it is in quarantine", problem=f"{one.what}; {one.problem}")
            self.damaged = len(taken)
            events = [*loss.events(), *(one.event(policy.now()) for one in taken)]
            if events:
                self._raise_first(self.write([events]))
        except psycopg.Error as error:
            link.close()
            raise failure(address, "open", error) from None
        except BaseException:
            link.close()
            raise

    @property
    def is_doubtful(self) -> bool:
        """Whether the result of the last commit is unknown until the database is queried."""
        return self._doubt is not None

    @property
    def refusal(self) -> StatementRefused | None:
        """Why nothing is written any more, if the database has another owner or was replaced."""
        return self._refusal

    def close(self) -> None:
        """Release the schema."""
        self._mark.write(self._sure)
        self._link.close()

    def snapshot(self) -> Snapshot:
        """Read the index of the schema, without packets.

        @raise StorageError: it cannot be read.
        """
        queues: list[tuple[int, QueueDefinition]] = []
        messages: dict[int, list[StoredMessage]] = {}
        link = self._link
        try:
            for row, record in link.rows("SELECT id, definition FROM queue ORDER BY id"):
                queues.append((row, read_definition(record)))
            with link.transaction(), link.cursor("messages") as cursor:
                link.execute(b"SET LOCAL enable_seqscan TO on")
                cursor.execute(
                    b"SELECT queue, lookup_id, size, arrived, due, aborts, moves FROM message AS m"
                    b" WHERE queue IN (SELECT id FROM queue) AND NOT EXISTS (SELECT 1 FROM unreachable AS u"
                    b" WHERE u.queue = m.queue AND u.lookup_id = m.lookup_id) ORDER BY queue, lookup_id",
                    binary=True,
                )
                while fetched := cursor.fetchmany(_FETCHED):
                    for row, entries in groupby(fetched, itemgetter(0)):
                        messages.setdefault(row, []).extend(
                            (lookup_id_of(stored), *others) for _, stored, *others in entries
                        )
            state = {name.decode(): value for name, value in link.rows("SELECT name, value FROM state")}
        except (psycopg.Error, ValueError) as error:
            raise failure(self.address, "read", error) from None
        return Snapshot(
            tuple(definition for _, definition in queues),
            {definition.identifier: messages[row] for row, definition in queues if row in messages},
            state,
        )

    def write(self, batches: Sequence[Sequence[Change]]) -> Outcomes:
        """Write these batches in order, each atomically, as one transaction.

        @raise DatabaseUnreachable: L{is_doubtful} says whether they may have been committed nevertheless.
        @raise StorageError: the transaction failed and was rolled back.
        """
        link = self._present()
        assert self._doubt is None
        plan = TransactionPlan(self._known, self._next_queue)
        outcomes: Outcomes = []
        if self._lost_express:
            plan.add([_loss()])
        for changes in batches:
            try:
                plan.add(changes)
            except Exception as error:
                outcomes.append(failure(self.address, "write", error))
            else:
                outcomes.append(None)
        try:
            if not plan.is_empty:
                self._perform(link, plan, outcomes)
        except psycopg.errors.NotNullViolation as error:
            if error.diag.table_name != "progress":
                raise failure(self.address, "write", error) from None
            self._refuse(self._taken_over())
        except Exception as error:
            raise failure(self.address, "write", error) from None
        return outcomes

    def reconnect(self) -> None:
        """Reconnect after a lost connection, at a limited rate.

        @raise DatabaseUnreachable: it failed, or it is too early for another attempt.
        @raise Refused: the database is no longer what it was when the store was opened.
        """
        if self._refusal is not None:
            raise self._refusal
        if self._absence is not None and time.monotonic() < self._next_attempt:
            raise self._absence
        try:
            self._try_to_reconnect()
        except StatementRefused as error:
            self._refuse(error)
        except Exception as error:
            self._absence = DatabaseUnreachable(str(failure(self.address, "connect again", error)))
            raise self._absence from None
        finally:
            self._next_attempt = time.monotonic() + RETRY_SECONDS

    def settle(self) -> Outcomes | None:
        """After L{reconnect}: the result of the group in doubt; C{None} if it was not committed."""
        attempt, self._doubt = self._doubt, None
        if attempt is None or self._found < attempt.script.numbers.group:
            return None
        self._finish(attempt)
        return attempt.outcomes

    def check(self) -> None:
        """Check the connection, with a query every L{BEAT_SECONDS}.

        @raise DatabaseUnreachable: the connection is lost.
        @raise Refused: it is reachable, but unusable.
        """
        link = self._present()
        if time.monotonic() < self._next_beat:
            return
        self._next_beat = time.monotonic() + BEAT_SECONDS
        try:
            # The server shows a waiting standby when this connection last executed a statement.
            link.execute(b"SELECT 1")
        except psycopg.Error as error:
            if is_lost(link, error):
                raise self._lose(error) from None
            raise failure(self.address, "check the connection", error) from None

    def cleanup(self) -> bool:
        """Delete some obsolete rows; returns whether more work is pending.

        @raise StorageError: it failed, and nothing was changed.
        """
        link = self._present()
        try:
            return self._remains.step(link) or self._fill.step(link)
        except psycopg.Error as error:
            if is_lost(link, error):
                raise self._lose(error) from None
            raise failure(self.address, "delete obsolete rows", error) from None

    def _perform(self, link: PostgresqlConnection, plan: TransactionPlan, outcomes: Outcomes) -> None:
        try:
            self._try_to_perform(link, plan, outcomes, may_replace=False)
        except psycopg.errors.UniqueViolation:
            self._try_to_perform(link, plan, outcomes, may_replace=True)
        except psycopg.Error as error:
            if self._doubt is not None or not is_damage(error) or len(outcomes) > 1 or plan.puts:
                raise
            # Rows of removed messages are no longer accessible, and no longer count.
            self._try_to_perform(link, plan, outcomes, may_replace=False, leaves_rows=True)

    def _try_to_perform(
        self,
        link: PostgresqlConnection,
        plan: TransactionPlan,
        outcomes: Outcomes,
        *,
        may_replace: bool,
        leaves_rows: bool = False,
    ) -> None:
        script_ = script(plan, self._numbers, self._session, may_replace=may_replace, leaves_rows=leaves_rows)
        attempt = _Attempt(plan, script_, outcomes, self._lost_express)
        try:
            _execute(link, script_)
        except Exception as error:
            if is_lost(link, error):
                self._doubt = attempt
                raise self._lose(error) from None
            with suppress(psycopg.Error):
                link.rollback()
            raise
        self._finish(attempt)

    def _finish(self, attempt: _Attempt) -> None:
        """Record the effects of a committed transaction."""
        plan, script_ = attempt.plan, attempt.script
        plan.apply_to(self._known)
        self._next_queue = plan.next_queue
        self._remains.trimmed |= script_.trimmed
        self._remains.has_removed |= bool(plan.removed)
        self._remains.has_events |= script_.numbers.first_event > self._numbers.first_event
        self._numbers = script_.numbers
        if script_.is_durable:
            self._sure = script_.numbers.group
            self._mark.confirmed(self._sure)
        self._has_express |= plan.express is not None
        self._lost_express &= not attempt.reports_express_loss

    def _present(self) -> PostgresqlConnection:
        if self._refusal is not None:
            raise self._refusal
        if self._absence is None and not self._link.is_alive():
            self._lose(psycopg.OperationalError("the connection was lost"))
        if self._absence is not None:
            raise self._absence
        return self._link

    def _lose(self, error: Exception) -> DatabaseUnreachable:
        """Mark the connection as unusable."""
        assert isinstance(error, psycopg.Error)
        self._link.close()
        self._absence = away(self.address, error)
        return self._absence

    def _try_to_reconnect(self) -> None:
        link = connect(self.address)
        try:
            self._check_owner(progress(link))
            try:
                lock(link, self.address, self._backend)
            except StatementRefused as error:
                # Another process may be opening the schema; if it succeeds, the next attempt detects that.
                raise DatabaseUnreachable(str(error)) from None
            found = progress(link)
            self._check_owner(found)
            if mark_express(link) and self._had_express(found.number):
                self._lost_express = True
                self.log.error(
                    "{place}: the database crashed, and its express messages are lost",
                    place=self.address.text,
                )
            self._found = found.number
            self._keep(link)
        except BaseException:
            link.close()
            raise

    def _had_express(self, number: int) -> bool:
        """Whether express messages were stored, by the group in doubt too if it was committed."""
        doubt = self._doubt
        if doubt is None or doubt.plan.express is None:
            return self._has_express
        return self._has_express or number >= doubt.script.numbers.group

    def _warn_of(self, link: PostgresqlConnection) -> None:
        """Warn if committed data is not durable there."""
        for name, risk in (
            ("fsync", "what is committed there may be lost in a power cut"),
            ("full_page_writes", "what is committed there may be lost in a power cut"),
            ("data_checksums", "damage to its files may hide messages without a trace"),
        ):
            if link.row("SELECT current_setting($1)", [name]) == ("off",):
                self.log.warn("{place}: {name} is off: {risk}", place=self.address.text, name=name, risk=risk)

    def _raise_first(self, outcomes: Outcomes) -> None:
        for outcome in outcomes:
            if outcome is not None:
                raise outcome

    def _check_owner(self, found: CommitProgress) -> None:
        if found.session != self._session:
            raise self._taken_over()
        if found.number < self._sure:
            raise StatementRefused(
                f"{self.address.text}: the database has lost what it had committed (group {self._sure}, it is"
                f" at {found.number}); what is in it now shows only after a restart"
            )

    def _taken_over(self) -> StatementRefused:
        return StatementRefused(
            f"{self.address.text}: another queue manager has taken it over meanwhile, or it was restored"
            " from a backup; what is in it now shows only after a restart"
        )

    def _refuse(self, error: StatementRefused) -> NoReturn:
        """Write nothing any more."""
        self._refusal = error
        self.log.critical("{error}", error=error)
        raise error

    def _keep(self, link: PostgresqlConnection) -> None:
        self._backend = backend(link)
        link.supervise(partial(is_at_work, self.address, self._backend.pid))
        self._link = link
        self._absence = None


def _execute(link: PostgresqlConnection, script_: Script) -> None:
    """Execute a transaction; a single statement needs no explicit one."""
    if len(script_.statements) == 1 and script_.is_durable:
        [main] = script_.statements
        link.execute(str(main).encode(), main.parameters, prepare=True)
        return
    with link.pipeline():
        link.execute(b"BEGIN")
        if not script_.is_durable:
            link.execute(b"SET LOCAL synchronous_commit TO off")
        for statement in script_.statements:
            link.execute(str(statement).encode(), statement.parameters, prepare=True)
        link.execute(b"COMMIT")


def _loss() -> AppendEvent:
    return AppendEvent(
        time.time(),
        b"",
        "express_lost",
        "the database crashed; the express messages that it held are gone",
    )
