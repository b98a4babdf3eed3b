"""Encoding of a group of the record log, with its changes in memory and their rollback."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias
from zlib import crc32

from msmq.storage.log.core import records
from msmq.storage.log.core.format import BLOCK, GROUP_HEADER
from msmq.storage.log.core.records import EXPRESS, PLACE
from msmq.storage.log.core.state import KeptQueue, State

Undo: TypeAlias = tuple[Any, Any, Any]
"""A mapping, a key and what it had, C{None} for nothing; or a function, its argument, and C{None}."""
Mark: TypeAlias = tuple[int, ...]
_TABLE_SIZE: Final = 9
"""Its offset in a mark."""


class GroupContent:
    """What a group writes, and has changed in memory already.

    @param base: the location of the first packet.
    @param express_base: the location of the first express packet.
    @ivar packets: what stands before the table; C{size} has their bytes.
    @ivar express: packets that need not survive the process; C{express_size} has their bytes.
    @ivar table: the records, in pieces; C{table_size} has their bytes.
    @ivar dead: location and size of every packet that a row has lost.
    @ivar added: rows that name packets of this group; C{added_size} has their bytes.
    @ivar added_express: the same of express packets.
    @ivar removed: queues whose rows have lost their packets.
    @ivar settled: what frees memory that a rollback would need.
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
        self._start = self.mark()

    @property
    def is_empty(self) -> bool:
        """Whether nothing is written, to the log or for express messages."""
        return not self.table and not self.express

    @property
    def needed(self) -> int:
        """Bytes of the log that it takes, with what ends a segment after it."""
        return GROUP_HEADER + self.size + self.table_size + 3 * BLOCK

    def is_written_since(self, mark: Mark) -> bool:
        """Whether what came after a mark writes to the log, and not only to files of express messages."""
        return self.table_size > mark[_TABLE_SIZE]

    def mark(self) -> Mark:
        """How far it has come."""
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
        """Take everything back that came after a mark; by default everything."""
        undo, table, packets, express, dead, removed, settled, *numbers = mark or self._start
        for where, key, old in reversed(self.undo[undo:]):
            if not isinstance(where, dict):
                where(key)
            elif old is None:
                where.pop(key, None)
            else:
                where[key] = old
        del self.undo[undo:], self.table[table:], self.packets[packets:], self.express[express:]
        del self.dead[dead:], self.removed[removed:], self.settled[settled:]
        self.size, self.express_size, self.table_size, *numbers = numbers
        self.added, self.added_size, self.added_express, *numbers = numbers
        self.state.next_queue, self.state.last_entry, self.state.last_event = numbers
        self._last = None, 0, 0

    def settle(self) -> None:
        """Free the memory that only a rollback would have needed."""
        for settle in self.settled:
            settle()

    def packet(self, packet: bytes) -> tuple[int, int]:
        """Location and checksum of a packet that is to be written; the same one is written once in a row."""
        last, place, checksum = self._last
        if packet is not last:
            place, checksum = self._base + self.size, crc32(packet)
            self.packets.append(packet)
            self.size += len(packet)
            self._last = packet, place, checksum
        self.added += 1
        self.added_size += len(packet)
        return place, checksum

    def add_packets(self, packets: Sequence[bytes], size: int) -> None:
        """Have packets written, each of which has a row of its own.

        @param size: bytes of all of them.
        """
        self.packets += packets
        self.size += size
        self.added += len(packets)
        self.added_size += size
        self._last = None, 0, 0

    def express_packet(self, packet: bytes) -> tuple[int, int]:
        """The same for an express message."""
        place = self._express_base + self.express_size
        self.express.append(packet)
        self.express_size += len(packet)
        self.added_express += 1
        return place, crc32(packet)

    def write(self, record: bytes) -> None:
        """Have a record in the table."""
        self.table.append(record)
        self.table_size += len(record)

    def put_row(self, kept: KeptQueue, lookup_id: int, row: bytes, is_express: bool) -> None:
        """Store the row of a message; the packet of a replaced one is garbage, unless it is the same."""
        rows = kept.express if is_express else kept.messages
        old = rows.get(lookup_id)
        if old is not None and old[: PLACE.size] != row[: PLACE.size]:
            self.dead.append(PLACE.unpack_from(old))
        self.undo.append((rows, lookup_id, old))
        rows[lookup_id] = row
        if not is_express:
            self.write(records.message_key(kept.number, lookup_id) + row)

    def seal(self, generation: int) -> None:
        """The log goes on in another segment."""
        self.write(records.sealed_record(generation))
