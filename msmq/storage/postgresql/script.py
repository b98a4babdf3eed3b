"""SQL script of a plan, with as few statements as possible."""

from __future__ import annotations

from uuid import UUID

import attrs

from msmq.storage.checksums import queue_checksum, record_checksum
from msmq.storage.plan import TransactionPlan
from msmq.storage.postgresql.arrays import bigints, byte_strings, integers
from msmq.storage.postgresql.log_writer import LogNumbers, append_entries, trim_logs, write_events
from msmq.storage.postgresql.message_writer import write_messages
from msmq.storage.postgresql.statement import Statement


@attrs.frozen
class Script:
    """All statements of a transaction.

    @ivar statements: in execution order.
    @ivar numbers: the last assigned numbers after it.
    @ivar trimmed: rows of queues whose message logs have trimmed entries to delete.
    @ivar is_durable: whether it changes more than express messages.
    """

    statements: list[Statement]
    numbers: LogNumbers
    trimmed: frozenset[int]
    is_durable: bool


def script(
    plan: TransactionPlan,
    last: LogNumbers,
    session: UUID,
    *,
    may_replace: bool,
    leaves_rows: bool = False,
) -> Script:
    """The statements that write a plan.

    If another process has taken the schema over, the transaction fails with a C{NotNullViolation} of the
    table C{progress}, and changes nothing.

    @param last: the last assigned numbers before it.
    @param session: the owner of the schema that writes it.
    @param may_replace: whether a put may replace a stored message; otherwise it fails then, but costs a
        quarter less.
    @param leaves_rows: whether rows of removed messages stay, since the database cannot reach them.
    @raise ValueError: the database cannot store a value.
    @raise struct.error: likewise.
    """
    numbers = attrs.evolve(last, group=last.group + 1)
    statements: list[Statement] = []
    main = Statement()
    _queues(plan, statements)
    write_messages(
        "message", plan.durable, statements, main, may_replace=may_replace, leaves_rows=leaves_rows
    )
    if plan.express is not None:
        write_messages("express", plan.express, statements, main, may_replace=may_replace)
    _state(plan, main)
    appended = append_entries(plan.logs, numbers, statements, main)
    write_events(plan.events, numbers, main)
    main.add(
        "UPDATE progress SET number = CASE WHEN session = {4} THEN {0}::bigint END,"
        " last_entry = {1}, last_event = {2}, first_event = {3}",
        *(numbers.group, numbers.entry, numbers.event, numbers.first_event, session),
    )
    statements.append(main)
    trimmed = trim_logs(plan.logs, last.entry, appended, statements)
    return Script(statements, numbers, trimmed, is_durable=plan.is_durable)


def _queues(plan: TransactionPlan, statements: list[Statement]) -> None:
    if plan.removed:
        # A new queue may have the same identifier, in another row.
        gone = Statement()
        gone.add("DELETE FROM queue WHERE id = ANY({0})", integers(plan.removed))
        gone.add("DELETE FROM log_extent WHERE queue = ANY({0})", integers(plan.removed))
        gone.add(
            "INSERT INTO removed_queue SELECT unnest({0}) ON CONFLICT DO NOTHING", integers(plan.removed)
        )
        statements.append(gone)
    if plan.queues:
        put = Statement()
        put.add(
            "INSERT INTO queue SELECT id, encode(identifier, 'hex')::uuid, definition, checksum"
            " FROM unnest({0}, {1}, {2}, {3}) AS q (id, identifier, definition, checksum)"
            " ON CONFLICT (id) DO UPDATE SET definition = excluded.definition, checksum = excluded.checksum",
            integers(list(plan.queues)),
            byte_strings([identifier for identifier, _ in plan.queues.values()]),
            byte_strings([definition for _, definition in plan.queues.values()]),
            bigints([queue_checksum(row, *queue) for row, queue in plan.queues.items()]),
        )
        statements.append(put)


def _state(plan: TransactionPlan, main: Statement) -> None:
    put = {name: value for name, value in plan.state.items() if value is not None}
    if put:
        main.add(
            "INSERT INTO state SELECT * FROM unnest({0}, {1}, {2})"
            " ON CONFLICT (name) DO UPDATE SET value = excluded.value, checksum = excluded.checksum",
            byte_strings([name.encode() for name in put]),
            byte_strings(list(put.values())),
            bigints([record_checksum(name.encode(), value) for name, value in put.items()]),
        )
    gone = [name.encode() for name, value in plan.state.items() if value is None]
    if gone:
        main.add("DELETE FROM state WHERE name = ANY({0})", byte_strings(gone))
