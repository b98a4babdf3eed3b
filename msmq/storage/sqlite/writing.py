"""How a plan becomes statements, inside a transaction that is open."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from itertools import chain

import attrs

from msmq.queues.changes import PutMessage
from msmq.storage.identity import identity_of
from msmq.storage.sqlite.log_writing import Logs
from msmq.storage.sqlite.part_plan import Move, PartPlan, Stage
from msmq.storage.sqlite.plan import Plan
from msmq.storage.sqlite.statements import chunks, marks, pieces

GROUP_BYTES = 16 * 1024
"""About what a transaction writes beside its packets."""
MOVED_BYTES = 2048
"""About what is written for a message that moves or goes."""


@attrs.define
class MessageWriter:
    """Writes the messages of one part.

    @ivar part: the name of its database in the connection.
    @ivar next_packet: the number that the next packet gets.
    @ivar written: about how many bytes were written.
    """

    connection: sqlite3.Connection
    part: str
    next_packet: int
    written: int = 0

    def write(self, plan: PartPlan) -> None:
        """Write what is planned for this part."""
        for stage in plan.stages:
            for moves in pieces(stage.moves):
                self._move(moves)
            for aborts in pieces([(*place, aborts) for place, aborts in stage.aborts.items()]):
                self._put_aborts(aborts)
            self._write_messages(stage)

    def _write_messages(self, stage: Stage) -> None:
        for row, messages in stage.messages.items():
            put = [(lookup_id, message) for lookup_id, message in messages.items() if message is not None]
            for chunk in chunks(put, _size_of):
                self._put(row, chunk)
            gone = [lookup_id for lookup_id, message in messages.items() if message is None]
            for ids in pieces(gone):
                self.connection.execute(
                    f"DELETE FROM {self.part}.message WHERE queue = ? AND lookup_id IN {marks(len(ids), 1)}",
                    (row, *ids),
                )
            self.written += MOVED_BYTES * len(gone)

    def _put(self, row: int, messages: Sequence[tuple[int, PutMessage]]) -> None:
        first = self.next_packet
        self.next_packet += len(messages)
        count = len(messages)
        self.connection.execute(
            f"INSERT INTO {self.part}.packet VALUES {marks(2, count)}",
            tuple(
                chain.from_iterable((first + n, message.packet) for n, (_, message) in enumerate(messages))
            ),
        )
        self.connection.execute(
            f"INSERT INTO {self.part}.message VALUES {marks(9, count)}"
            " ON CONFLICT (queue, lookup_id) DO UPDATE SET size = excluded.size, arrived = excluded.arrived,"
            " packet = excluded.packet, due = excluded.due, aborts = excluded.aborts,"
            " moves = excluded.moves, identity = excluded.identity",
            tuple(
                chain.from_iterable(
                    (
                        row,
                        lookup_id,
                        len(message.packet),
                        message.arrived,
                        n,
                        message.due,
                        message.aborts,
                        message.moves,
                        identity_of(message.packet),
                    )
                    for n, (lookup_id, message) in enumerate(messages, first)
                )
            ),
        )
        self.written += sum(len(message.packet) for _, message in messages)

    def _move(self, moves: Sequence[Move]) -> None:
        self.written += MOVED_BYTES * len(moves)
        try:
            self._update(
                "(queue, lookup_id, target, new_lookup_id, due, aborts, moves)",
                "queue = change.target, lookup_id = change.new_lookup_id, due = change.due,"
                " aborts = change.aborts, moves = change.moves",
                moves,
            )
        except sqlite3.IntegrityError:
            # Something lies where one of them moves to, and nothing was done yet.
            if len(moves) == 1:
                self._make_room(moves[0])
            for move in moves:
                self._move([move])

    def _make_room(self, move: Move) -> None:
        self.connection.execute(
            f"DELETE FROM {self.part}.message WHERE queue = ? AND lookup_id = ?", move[2:4]
        )

    def _put_aborts(self, aborts: Sequence[tuple[int, int, int]]) -> None:
        self._update("(queue, lookup_id, aborts)", "aborts = change.aborts", aborts)
        self.written += MOVED_BYTES * len(aborts)

    def _update(self, columns: str, values: str, rows: Sequence[tuple[int | None, ...]]) -> None:
        self.connection.execute(
            f"WITH change {columns} AS (VALUES {marks(len(rows[0]), len(rows))})"
            f" UPDATE {self.part}.message AS kept SET {values} FROM change"
            " WHERE kept.queue = change.queue AND kept.lookup_id = change.lookup_id",
            tuple(chain.from_iterable(rows)),
        )


@attrs.define
class PlanWriter:
    """Writes plans, and remembers which numbers come next."""

    connection: sqlite3.Connection
    durable: MessageWriter
    express: MessageWriter
    logs: Logs

    @property
    def written(self) -> int:
        """About how many bytes were written since it was set to 0."""
        return self.durable.written + self.express.written + self.logs.written

    @written.setter
    def written(self, value: int) -> None:
        self.durable.written = self.express.written = self.logs.written = value

    def numbers(self) -> tuple[int, int, int, int]:
        """What L{restore} takes if a transaction fails."""
        return (
            self.durable.next_packet,
            self.express.next_packet,
            self.logs.last_entry,
            self.logs.last_event,
        )

    def restore(self, numbers: tuple[int, int, int, int]) -> None:
        """Go on with these numbers, since what was written is not kept."""
        (
            self.durable.next_packet,
            self.express.next_packet,
            self.logs.last_entry,
            self.logs.last_event,
        ) = numbers

    def write(self, plan: Plan) -> None:
        """Write a plan."""
        execute = self.connection.execute
        for row in plan.removed:
            execute("INSERT INTO removed_queue VALUES (?)", (row,))
            execute("DELETE FROM queue WHERE id = ?", (row,))
        if plan.removed:
            self.logs.forget(plan.removed)
        for row, (identifier, record) in plan.queues.items():
            execute(
                "INSERT INTO queue VALUES (?, ?, ?)"
                " ON CONFLICT (id) DO UPDATE SET definition = excluded.definition",
                (row, identifier, record),
            )
        self.durable.write(plan.durable)
        self.express.write(plan.express)
        for name, value in plan.state.items():
            if value is None:
                execute("DELETE FROM state WHERE name = ?", (name,))
            else:
                execute(
                    "INSERT INTO state VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                    (name, value),
                )
        self.logs.write(plan.logs)
        self.logs.write_events(plan.events)
        self.durable.written += GROUP_BYTES


def _size_of(row: tuple[int, PutMessage]) -> int:
    return len(row[1].packet)
