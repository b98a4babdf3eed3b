"""Encoding of a group of the record log, with its changes in memory and their rollback."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias
from zlib import crc32

from msmq.storage.log.core import records
from msmq.storage.log.core.format import BLOCK, GROUP_HEADER
from msmq.storage.log.core.message_rows import MessageRows
from msmq.storage.log.core.records import EXPRESS, PLACE
from msmq.storage.log.core.state import KeptQueue, State

Undo: TypeAlias = tuple[Any, Any, Any]
"""Undo entry: a mapping, a key and its former value, C{None} for none; or a function, its argument, and
C{None}."""
Mark: TypeAlias = tuple[int, ...]
_TABLE_SIZE: Final = 9
"""Index of the table size in a mark."""
_NOTHING: Final = (0,) * 13
"""The lengths and sizes of an empty group in a mark."""


class GroupContent:
    """Content of a group: its records and packets, and an undo log of its changes in memory.

    @param base: the location of the first packet.
    @param express_base: the location of the first express packet.
    @ivar packets: packets of the group, before the table; C{size} is their size in bytes.
    @ivar express: packets of express messages; C{express_size} is their size in bytes.
    @ivar table: the records, in pieces; C{table_size} is their size in bytes.
    @ivar dead: location and size of every packet that lost a reference of a row.
    @ivar added: number of rows that refer to packets of this group; C{added_size} is the size of these
        packets.
    @ivar added_express: the same for express packets.
    @ivar removed: removed queues, whose packets are garbage.
    @ivar settled: functions that free memory that a rollback would need.
    @ivar start: the savepoint before the first change.
    """

    def __init__(self, state: State, base: int, express_base: int) -> None:
        self.state = state
        self._base = base
        self._express_base = express_base | EXPRESS
        self.packets: list[bytes] = []
        self.size = 0
        self.express: list[bytes] = []
        self.express_size = 0
        self.table: list[bytes] = []
        self.table_size = 0
        self.dead: list[tuple[int, int]] = []
        self.added = 0
        self.added_size = 0
        self.added_express = 0
        self.removed: list[KeptQueue] = []
        self.settled: list[Callable[[], object]] = []
        self.undo: list[Undo] = []
        self._last: tuple[bytes | None, int, int] = None, 0, 0
        self.start: Mark = (*_NOTHING, state.next_queue, state.last_entry, state.last_event)

    @property
    def is_empty(self) -> bool:
        """Whether it writes nothing, neither to the log nor for express messages."""
        return not self.table and not self.express

    @property
    def needed(self) -> int:
        """Bytes of log space that it needs, with the record that seals a segment."""
        return GROUP_HEADER + self.size + self.table_size + 3 * BLOCK

    def is_written_since(self, mark: Mark) -> bool:
        """Whether changes after a mark write to the log, and not only to files of express messages."""
        return self.table_size > mark[_TABLE_SIZE]

    def mark(self) -> Mark:
        """Savepoint for L{rollback}."""
        state = self.state
        return (
            len(self.undo),
            len(self.table),
            len(self.packets),
            len(self.express),
            len(self.dead),
            len(self.removed),
            len(self.settled),
            self.size,
            self.express_size,
            self.table_size,
            self.added,
            self.added_size,
            self.added_express,
            state.next_queue,
            state.last_entry,
            state.last_event,
        )

    def rollback(self, mark: Mark | None = None) -> None:
        """Roll back all changes after a mark; by default all."""
        undo, table, packets, express, dead, removed, settled, *numbers = mark or self.start
        for where, key, old in reversed(self.undo[undo:]):
            if not isinstance(where, dict):
                where(key)
            elif old is None:
                where.pop(key, None)
            elif isinstance(where, MessageRows):
                where.restore(array("Q", [key]), old)
            else:
                where[key] = old
        del self.undo[undo:], self.table[table:], self.packets[packets:], self.express[express:]
        del self.dead[dead:], self.removed[removed:], self.settled[settled:]
        self.size, self.express_size, self.table_size, *numbers = numbers
        self.added, self.added_size, self.added_express, *numbers = numbers
        self.state.next_queue, self.state.last_entry, self.state.last_event = numbers
        self._last = None, 0, 0

    def settle(self) -> None:
        """Free the undo memory."""
        for settle in self.settled:
            settle()

    def packet(self, packet: bytes) -> tuple[int, int]:
        """Add a packet and return its location and checksum; consecutive equal packets are written once."""
        last, location, checksum = self._last
        if packet is not last:
            location, checksum = self._base + self.size, crc32(packet)
            self.packets.append(packet)
            self.size += len(packet)
            self._last = packet, location, checksum
        self.added += 1
        self.added_size += len(packet)
        return location, checksum

    def add_packets(self, packets: Sequence[bytes], size: int) -> None:
        """Add packets that have one row each.

        @param size: bytes of all of them.
        """
        self.packets += packets
        self.size += size
        self.added += len(packets)
        self.added_size += size
        self._last = None, 0, 0

    def express_packet(self, packet: bytes) -> tuple[int, int]:
        """Add a packet of an express message."""
        location = self._express_base + self.express_size
        self.express.append(packet)
        self.express_size += len(packet)
        self.added_express += 1
        return location, crc32(packet)

    def write(self, record: bytes) -> None:
        """Add a record to the table."""
        self.table.append(record)
        self.table_size += len(record)

    def put_row(self, kept: KeptQueue, lookup_id: int, row: bytes, is_express: bool) -> None:
        """Store the row of a message; the packet of a replaced row becomes garbage, unless it is the same."""
        rows = kept.express if is_express else kept.messages
        old = rows.get(lookup_id)
        if old is not None and old[: PLACE.size] != row[: PLACE.size]:
            self.dead.append(PLACE.unpack_from(old))
        self.undo.append((rows, lookup_id, old))
        rows[lookup_id] = row
        if not is_express:
            self.write(records.message_key(kept.number, lookup_id) + row)

    def seal(self, generation: int) -> None:
        """Seal the segment: the log continues in another one."""
        self.write(records.sealed_record(generation))
