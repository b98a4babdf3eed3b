"""Writes a plan as SQLite statements, inside an open transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from functools import cache
from itertools import chain
from zlib import crc32

import attrs

from msmq.persistence.changes import PutMessage
from msmq.storage.checksums import message_sum, queue_checksum, record_checksum
from msmq.storage.identity import identity_of
from msmq.storage.part_plan import Move, PartPlan, Stage
from msmq.storage.plan import TransactionPlan
from msmq.storage.sqlite.integrity.sums import ABORTED, MOVED
from msmq.storage.sqlite.log_writer import Logs
from msmq.storage.sqlite.statements import STATEMENT_BYTES, marks, pieces

GROUP_BYTES = 16 * 1024
"""Estimate of what a transaction writes in addition to its packets."""
MOVED_BYTES = 2048
"""Estimated bytes written for a move or removal."""


@attrs.define
class PacketWriter:
    """Writer of the messages of one file.

    @ivar connection: the connection to the file.
    @ivar next_packet: the number of the next packet.
    @ivar written: about how many bytes were written.
    """

    connection: sqlite3.Connection
    next_packet: int = 1
    written: int = 0

    def write(self, plan: PartPlan) -> None:
        """Write the changes planned for this file."""
        for stage in plan.stages:
            if stage.moves:
                for moves in pieces(stage.moves):
                    self._move(moves)
            if stage.aborts:
                for aborts in pieces([(*place, aborts) for place, aborts in stage.aborts.items()]):
                    self._put_aborts(aborts)
            self._write_messages(stage)

    def _write_messages(self, stage: Stage) -> None:
        for row, messages in stage.messages.items():
            put = [(lookup_id, message) for lookup_id, message in messages.items() if message is not None]
            for piece in pieces(put):
                self._put(row, piece)
            if len(put) == len(messages):
                continue
            gone = [lookup_id for lookup_id, message in messages.items() if message is None]
            for ids in pieces(gone):
                self.connection.execute(
                    f"DELETE FROM message WHERE queue = ? AND lookup_id IN {marks(len(ids), 1)}",
                    (row, *ids),
                )
            self.written += MOVED_BYTES * len(gone)

    def _put(self, row: int, messages: Sequence[tuple[int, PutMessage]]) -> None:
        first, count = self.next_packet, len(messages)
        packets = [message.packet for _, message in messages]
        size = sum(map(len, packets))
        if size > STATEMENT_BYTES and count > 1:
            for single in messages:
                self._put(row, [single])
            return
        values: list[int | float | bytes | None] = [row, first]
        for number, (lookup_id, message) in enumerate(messages, first):
            packet, arrived = message.packet, message.arrived
            due, aborts, moves = message.due, message.aborts, message.moves
            length, checksum = len(packet), crc32(packet)
            values += (lookup_id, length, arrived, due, aborts, moves, identity_of(packet), checksum)
            values.append(message_sum(row, lookup_id, length, arrived, number, due, aborts, moves, checksum))
        self.connection.execute(_put_packets(count), (first, *packets))
        self.connection.execute(_put_messages(count), values)
        self.next_packet += count
        self.written += size

    def _move(self, moves: Sequence[Move]) -> None:
        self.written += MOVED_BYTES * len(moves)
        try:
            self._update(
                "(queue, lookup_id, target, new_lookup_id, due, aborts, moves)",
                "queue = change.target, lookup_id = change.new_lookup_id, due = change.due,"
                f" aborts = change.aborts, moves = change.moves, row_checksum = {MOVED}",
                moves,
            )
        except sqlite3.IntegrityError:
            # A target of a move is occupied, and nothing was changed yet.
            if len(moves) == 1:
                self._make_room(moves[0])
            for move in moves:
                self._move([move])

    def _make_room(self, move: Move) -> None:
        self.connection.execute("DELETE FROM message WHERE queue = ? AND lookup_id = ?", move[2:4])

    def _put_aborts(self, aborts: Sequence[tuple[int, int, int]]) -> None:
        self._update(
            "(queue, lookup_id, aborts)", f"aborts = change.aborts, row_checksum = {ABORTED}", aborts
        )
        self.written += MOVED_BYTES * len(aborts)

    def _update(self, columns: str, values: str, rows: Sequence[tuple[int | None, ...]]) -> None:
        self.connection.execute(
            f"WITH change {columns} AS (VALUES {marks(len(rows[0]), len(rows))})"
            f" UPDATE message AS kept SET {values} FROM change"
            " WHERE kept.queue = change.queue AND kept.lookup_id = change.lookup_id",
            tuple(chain.from_iterable(rows)),
        )


@attrs.frozen
class SqliteNumbers:
    """The next numbers to assign.

    @ivar durable: of a packet.
    @ivar express: of a packet of an express message.
    @ivar last_entry: of the newest entry of any message log.
    @ivar last_event: of the newest event.
    """

    durable: int
    express: int
    last_entry: int
    last_event: int


@attrs.define
class PlanWriter:
    """Writer of plans, with the next numbers to assign."""

    connection: sqlite3.Connection
    durable: PacketWriter
    express: PacketWriter
    logs: Logs

    @classmethod
    def found(cls, connection: sqlite3.Connection, express: sqlite3.Connection) -> PlanWriter:
        """Create a writer that continues after the numbers in the files.

        @raise sqlite3.Error: it cannot be read.
        """
        writer = cls(connection, PacketWriter(connection), PacketWriter(express), Logs(connection))
        # Every number continues after the last one in use.
        for part in (writer.durable, writer.express):
            (last,) = part.connection.execute("SELECT max(id) FROM packet").fetchone()
            part.next_packet = (last or 0) + 1
        writer.logs.find_numbers()
        return writer

    @property
    def written(self) -> int:
        """The approximate number of bytes written since it was set to 0."""
        return self.durable.written + self.express.written + self.logs.written

    @written.setter
    def written(self, value: int) -> None:
        self.durable.written = self.express.written = self.logs.written = value

    def numbers(self) -> SqliteNumbers:
        """The current numbers, for L{restore} after a failed transaction."""
        return SqliteNumbers(
            self.durable.next_packet,
            self.express.next_packet,
            self.logs.last_entry,
            self.logs.last_event,
        )

    def restore(self, numbers: SqliteNumbers) -> None:
        """Reset the numbers after a rollback."""
        self.durable.next_packet = numbers.durable
        self.express.next_packet = numbers.express
        self.logs.last_entry = numbers.last_entry
        self.logs.last_event = numbers.last_event

    def write(self, plan: TransactionPlan) -> None:
        """Write a plan except its express messages."""
        execute = self.connection.execute
        for row in plan.removed:
            execute("INSERT INTO removed_queue VALUES (?)", (row,))
            execute("DELETE FROM queue WHERE id = ?", (row,))
        if plan.removed:
            self.logs.forget(plan.removed)
        for row, (identifier, record) in plan.queues.items():
            execute(
                "INSERT INTO queue VALUES (?, ?, ?, ?)"
                " ON CONFLICT (id) DO UPDATE SET definition = excluded.definition,"
                " checksum = excluded.checksum",
                (row, identifier, record, queue_checksum(row, identifier, record)),
            )
        self.durable.write(plan.durable)
        for name, value in plan.state.items():
            if value is None:
                execute("DELETE FROM state WHERE name = ?", (name,))
            else:
                execute(
                    "INSERT INTO state VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE"
                    " SET value = excluded.value, checksum = excluded.checksum",
                    (name, value, record_checksum(name.encode(), value)),
                )
        if plan.logs:
            self.logs.write(plan.logs)
        if plan.events:
            self.logs.write_events(plan.events)
        self.durable.written += GROUP_BYTES


@cache
def _put_packets(count: int) -> str:
    """Statement whose parameters are the number of the first packet, and the packets."""
    rows = ", ".join(f"(?1 + {number}, ?{number + 2})" for number in range(count))
    return f"INSERT INTO packet VALUES {rows}"


@cache
def _put_messages(count: int) -> str:
    """Takes the row of the queue, the number of the first packet, and for each message: lookup_id, size,
    arrived, due, aborts, moves, identity, and the checksums of the packet and of the row.
    """
    # A mark without a number takes the next one after all that came before.
    others = "".join(f", (?1, ?, ?, ?, ?2 + {number}, ?, ?, ?, ?, ?, ?)" for number in range(1, count))
    return (
        f"INSERT INTO message VALUES (?1, ?3, ?, ?, ?2, ?, ?, ?, ?, ?, ?){others}"
        " ON CONFLICT (queue, lookup_id) DO UPDATE SET size = excluded.size, arrived = excluded.arrived,"
        " packet = excluded.packet, due = excluded.due, aborts = excluded.aborts,"
        " moves = excluded.moves, identity = excluded.identity, checksum = excluded.checksum,"
        " row_checksum = excluded.row_checksum"
    )
