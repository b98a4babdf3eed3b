"""Writes messages to PostgreSQL, one statement for each kind of change."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal, TypeAlias
from zlib import crc32

from msmq.persistence.changes import PutMessage
from msmq.storage.identity import identity_of
from msmq.storage.part_plan import Move, PartPlan, Stage
from msmq.storage.postgresql.arrays import bigints, byte_strings, floats, integers, nullable_bigints
from msmq.storage.postgresql.statement import Statement, chunks
from msmq.storage.postgresql.sums import ABORTED, MOVED, SUM

Table = Literal["message", "express"]

Put: TypeAlias = tuple[int, int, PutMessage]
"""The row of the queue, the LookupIdentifier as it is stored, the message."""


def write_messages(
    table: Table,
    part: PartPlan,
    statements: list[Statement],
    main: Statement,
    *,
    may_replace: bool,
    leaves_rows: bool = False,
) -> None:
    """Add the statements for the messages of a part of a plan.

    @param statements: receives statements that must be executed in order, before C{main}.
    @param main: receives the other clauses.
    @param may_replace: see L{msmq.storage.postgresql.script.script}, as for C{leaves_rows}.
    """
    for stage in part.stages[:-1]:
        statement = Statement()
        _stage(table, stage, statements, statement, may_replace=True)
        if statement.clauses:
            statements.append(statement)
    # A message that moved to a location before may be replaced there.
    has_moves = any(stage.moves for stage in part.stages)
    may_replace = may_replace or has_moves
    _stage(table, part.stages[-1], statements, main, may_replace=may_replace, leaves_rows=leaves_rows)


def _stage(
    table: Table,
    stage: Stage,
    statements: list[Statement],
    main: Statement,
    *,
    may_replace: bool,
    leaves_rows: bool = False,
) -> None:
    for moves in _disjoint(stage.moves):
        _move(table, moves, statements)
    # Later puts and removals of the same message make the change unnecessary.
    aborts = {
        place: count
        for place, count in stage.aborts.items()
        if place[1] not in stage.messages.get(place[0], ())
    }
    if aborts:
        main.add(
            f"UPDATE {table} AS m SET aborts = a.aborts, row_checksum = {ABORTED}"
            " FROM unnest({0}, {1}, {2}) AS a (queue, lookup_id, aborts)"
            " WHERE m.queue = a.queue AND m.lookup_id = a.lookup_id",
            integers([row for row, _ in aborts]),
            bigints([lookup_id for _, lookup_id in aborts]),
            bigints(list(aborts.values())),
        )
    put: list[Put] = []
    gone: list[tuple[int, int]] = []
    for row, messages in stage.messages.items():
        for lookup_id, message in messages.items():
            if message is None:
                gone.append((row, lookup_id))
            else:
                put.append((row, lookup_id, message))
    if gone:
        main.add(
            "INSERT INTO unreachable SELECT * FROM unnest({0}, {1}) ON CONFLICT DO NOTHING"
            if leaves_rows
            else f"DELETE FROM {table} AS m USING unnest({{0}}, {{1}}) AS g (queue, lookup_id)"
            " WHERE m.queue = g.queue AND m.lookup_id = g.lookup_id",
            integers([row for row, _ in gone]),
            bigints([lookup_id for _, lookup_id in gone]),
        )
    *others, last = list(chunks(put, _size_of)) or [[]]
    for chunk in others:
        statement = Statement()
        _put(table, chunk, statement, may_replace=may_replace)
        statements.append(statement)
    if last:
        _put(table, last, main, may_replace=may_replace)


def _put(table: Table, messages: Sequence[Put], statement: Statement, *, may_replace: bool) -> None:
    arrived = [message.arrived for _, _, message in messages]
    if math.isnan(sum(arrived)):
        raise ValueError("an ArrivalTime is not a number")
    packets = [message.packet for _, _, message in messages]
    statement.add(
        f"INSERT INTO {table} SELECT u.*, {SUM} FROM"
        " unnest({0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}, {8}, {9}) AS u (queue, lookup_id, size, arrived,"
        " due, aborts, moves, identity, packet, checksum)" + (_REPLACE if may_replace else ""),
        integers([row for row, _, _ in messages]),
        bigints([lookup_id for _, lookup_id, _ in messages]),
        integers([len(packet) for packet in packets]),
        floats(arrived),
        nullable_bigints([message.due for _, _, message in messages]),
        bigints([message.aborts for _, _, message in messages]),
        bigints([message.moves for _, _, message in messages]),
        byte_strings([identity_of(packet) for packet in packets]),
        byte_strings(packets),
        bigints([crc32(packet) for packet in packets]),
    )


_REPLACE: Final = (
    " ON CONFLICT (queue, lookup_id) DO UPDATE SET size = excluded.size, arrived = excluded.arrived,"
    " due = excluded.due, aborts = excluded.aborts, moves = excluded.moves, identity = excluded.identity,"
    " packet = excluded.packet, checksum = excluded.checksum, row_checksum = excluded.row_checksum"
)


def _disjoint(moves: Iterable[Move]) -> Iterator[Sequence[Move]]:
    """Pieces without repeated locations, so that their order does not matter."""
    piece: list[Move] = []
    places: set[tuple[int, int]] = set()
    for move in moves:
        both = {move[0:2], move[2:4]}
        if places & both:
            yield piece
            piece, places = [], set()
        piece.append(move)
        places |= both
    if piece:
        yield piece


def _move(table: Table, moves: Sequence[Move], statements: list[Statement]) -> None:
    """Remove messages at the targets of moves first, if there are moves."""
    queues, lookup_ids, targets, new_lookup_ids, due, aborts, counts = zip(*moves, strict=True)
    places = integers(queues), bigints(lookup_ids), integers(targets), bigints(new_lookup_ids)
    gone = Statement()
    gone.add(
        f"DELETE FROM {table} AS m USING {table} AS s,"
        " unnest({0}, {1}, {2}, {3}) AS v (queue, lookup_id, target, new_lookup_id)"
        " WHERE s.queue = v.queue AND s.lookup_id = v.lookup_id"
        " AND m.queue = v.target AND m.lookup_id = v.new_lookup_id"
        " AND (v.queue, v.lookup_id) <> (v.target, v.new_lookup_id)",
        *places,
    )
    moved = Statement()
    moved.add(
        f"UPDATE {table} AS m SET queue = v.target, lookup_id = v.new_lookup_id, due = v.due,"
        f" aborts = v.aborts, moves = v.moves, row_checksum = {MOVED}"
        " FROM unnest({0}, {1}, {2}, {3}, {4}, {5}, {6})"
        " AS v (queue, lookup_id, target, new_lookup_id, due, aborts, moves)"
        " WHERE m.queue = v.queue AND m.lookup_id = v.lookup_id",
        *places,
        nullable_bigints(due),
        bigints(aborts),
        bigints(counts),
    )
    statements += gone, moved


def _size_of(put: Put) -> int:
    return len(put[2].packet)
