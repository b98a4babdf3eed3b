"""StoreReader: read-only access to a store by another process, and its pages.

All calls block; a reader is used only by the thread that created it.
Every call is one short transaction; therefore rows are returned in pages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from struct import Struct
from typing import Any, Final, Protocol, TypeAlias
from uuid import UUID
from zlib import crc32

import attrs

from msmq.errors import RemoteProtocolError
from msmq.interfaces.storage import StorageError, StoredEvent
from msmq.persistence.changes import AppendEvent
from msmq.persistence.definition import QueueDefinition
from msmq.persistence.migration_mark import MigrationRole, read_mark
from msmq.storage.checksums import entry_checksum
from msmq.storage.records import lookup_id_of
from msmq.structures.packet.user_message_view import UserMessageView

PAGE_ROWS: Final = 2000
"""Maximum number of rows of a page."""
PAGE_BYTES: Final = 4 * 1024 * 1024
"""Bytes of packets in a page, if it has more than one row."""
LARGE: Final = 32 * 1024
"""Minimum size of packets whose bodies are read only on demand."""
HEAD: Final = 8 * 1024
"""Bytes read of such a packet."""
LAST: Final = (1 << 63) - 1
"""The largest number in a database."""
VERIFY: Final = "run msmq store check"
"""What an operator can do about a damaged row: it lists all of them, and names the repair."""

LOG_PLACE: Final = Struct("<QQQIId")
"""Sequence, LookupIdentifier, location, size, checksum, ArrivalTime."""
MESSAGE_PLACE: Final = Struct("<QQIIdII")
"""LookupIdentifier, location, size, checksum, ArrivalTime, AbortCount, MoveCount."""

Row: TypeAlias = tuple[Any, ...]
"""Of a message: LookupIdentifier, ArrivalTime, AbortCount, MoveCount, when it is due, packet.
Of an entry of a message log: sequence, LookupIdentifier, ArrivalTime, packet."""


@attrs.frozen
class RowPage:
    """Some rows, in the order of their numbers.

    @ivar next: the first number of the next page; C{None} after the last page.
    """

    rows: Sequence[Row] = attrs.field(repr=False)
    next: int | None


class StoreContents(Protocol):
    """Reader of the whole content of a store, for copies; the rules of L{StoreReader} apply."""

    def queues(self) -> list[QueueDefinition]:
        """See L{StoreReader.queues}."""

    def values(self) -> dict[str, bytes]:
        """See L{StoreReader.values}."""

    def messages(
        self, queue: UUID, begin: int, end: int, *, since: float | None, until: float | None, bodies: bool
    ) -> RowPage:
        """See L{StoreReader.messages}."""

    def log(
        self, queue: UUID, begin: int, end: int, *, since: float | None, until: float | None, bodies: bool
    ) -> RowPage:
        """See L{StoreReader.log}."""

    def events(self, begin: int, end: int) -> tuple[Sequence[StoredEvent], int | None]:
        """See L{StoreReader.events}."""

    def log_bounds(self, queue: UUID) -> tuple[int, int]:
        """See L{StoreReader.log_bounds}."""

    def event_bounds(self) -> tuple[int, int]:
        """See L{StoreReader.event_bounds}."""

    def log_end(self) -> int:
        """See L{StoreReader.log_end}."""


class PacketDamage(StorageError):
    """A packet does not match its checksum."""


class RowDamaged(PacketDamage):
    """A stored message, log entry or event does not match its checksum; all others can be read.

    @ivar number: the LookupIdentifier of the message, or the sequence of the entry or event.
    """

    def __init__(self, problem: str, number: int) -> None:
        super().__init__(problem)
        self.number = number

    def __reduce__(self) -> tuple[type[RowDamaged], tuple[str, int]]:
        return type(self), (str(self), self.number)


class StoreMoved(StorageError):
    """The whole content of a store was migrated to another one, which has to be opened instead."""


class MomentGone(StorageError):
    """The server has reused space that a held reader has not read yet; hold the reader again."""


class StoreReader(StoreContents, Protocol):
    """Reader of a store, with or without a running server.

    C{begin} is the first requested number, C{end} the number after the last.
    C{since} excludes rows that arrived earlier, C{until} those that arrived then or later; both in seconds
    since 1970-01-01 UTC.
    Every method raises a L{StorageError<msmq.interfaces.StorageError>} if the store cannot be read.

    @ivar text: readable name, without secrets.
    @ivar bytes_read: the number of bytes of packets that were read.
    """

    text: str
    bytes_read: int

    def hold(self) -> None:
        """Let all calls read the present state, until L{close}; afterwards each reads the current one again.

        A call raises L{MomentGone} if the server has removed data that it needs, and reused its space.

        @raise StorageError: the store is damaged, so that its present state cannot be read whole.
        """

    def skip_logged(self, starts: Mapping[UUID, int]) -> None:
        """Answer from then on without entries of message logs that precede these, where that saves work.

        Bounds stay what they are; any other answer about earlier entries may lack some of them.

        @param starts: the first entry that is needed, by queue.
        """

    def identifier(self) -> str:
        """The GUID of the queue manager that it belongs to; empty if none has opened it yet."""

    def queues(self) -> list[QueueDefinition]:
        """Every stored queue, including journals, system queues and outgoing queues."""

    def values(self) -> dict[str, bytes]:
        """The state values of the queue manager, by name."""

    def messages(
        self, queue: UUID, begin: int, end: int, *, since: float | None, until: float | None, bodies: bool
    ) -> RowPage:
        """Messages in a queue, by LookupIdentifier, except express ones.

        @param bodies: whether to read bodies; otherwise the body of a large packet may be zeros.
        """

    def message_rows(self, queue: UUID, begin: int) -> RowPage:
        """The same messages without their packets: the last value of a row is the size of its packet."""

    def log(
        self, queue: UUID, begin: int, end: int, *, since: float | None, until: float | None, bodies: bool
    ) -> RowPage:
        """Entries of the message log of a queue, by sequence."""

    def events(self, begin: int, end: int) -> tuple[Sequence[StoredEvent], int | None]:
        """Entries of the event log, by sequence, and the first number of the next page as in L{RowPage}."""

    def message_cuts(self, queue: UUID, begin: int, end: int, rows: int) -> tuple[list[int], int]:
        """The boundaries of pieces of this number of rows in a range, and the size of the last piece."""

    def log_cuts(self, queue: UUID, begin: int, end: int, rows: int) -> tuple[list[int], int]:
        """The same for a message log."""

    def places(self, kind: str, queue: UUID, begin: int, end: int) -> bytes:
        """The rows of a range with the places of their packets, as L{LOG_PLACE} or L{MESSAGE_PLACE}.

        Empty if packets cannot be read by their places.

        @param kind: C{log} or C{messages}.
        """

    def packets(self, places: Sequence[tuple[int, int, int]], bodies: bool) -> list[bytes]:
        """The packets at the locations, with the sizes and checksums, that L{places} has returned.

        @raise MomentGone: the server has reused the space of one.
        """

    def log_bounds(self, queue: UUID) -> tuple[int, int]:
        """The first number that is not trimmed, and the one after the last entry; 1 and 1 without a log."""

    def event_bounds(self) -> tuple[int, int]:
        """The same for the event log."""

    def log_end(self) -> int:
        """The first number that was never assigned to an entry of a message log."""

    def log_since(self, queue: UUID, time: float) -> int | None:
        """The first entry that arrived then or later; C{None} if there is none."""

    def event_since(self, time: float) -> int | None:
        """The first event that happened then or later."""

    def log_after(
        self, queues: Sequence[UUID], begin: int, rows: int | None, size: int | None = None
    ) -> int | None:
        """The number after this number of entries of these logs; C{None} if there are no further ones.

        @param rows: the number of entries; C{None} for no limit.
        @param size: the maximum number of bytes of their packets, if there is more than one entry.
        """

    def is_reusable(self) -> bool:
        """Whether what earlier calls have read is still so, and spares later calls work.

        If not, L{close} the reader, and open another one: it may be the reader of a store that an older copy,
        or another store, has replaced.
        """

    def close(self) -> None:
        """Release its resources until the next call."""


def one_page(sizes: Sequence[tuple[int, int]], bodies: bool) -> tuple[int, bool]:
    """The number of these rows that fit in a page, and whether there are more.

    @param sizes: the number and the size of each row.
    @param bodies: as of L{StoreReader.messages}.
    """
    total = 0
    for count, (_, size) in enumerate(sizes[:PAGE_ROWS]):
        total += size if bodies or size < LARGE else HEAD
        if count and total > PAGE_BYTES:
            return count, True
    return min(len(sizes), PAGE_ROWS), len(sizes) > PAGE_ROWS


def first_beyond(entries: Iterable[tuple[int, int]], rows: int | None, size: int) -> int | None:
    """The number of the first of these entries that exceeds a limit; C{None} if there is none.

    @param entries: the number and the size of each.
    @param rows: the maximum number of entries; C{None} for no limit.
    @param size: the maximum of the sum of their sizes, if there is more than one entry.
    """
    total = 0
    for count, (number, bytes_) in enumerate(entries):
        total += bytes_
        if count == rows or (count and total > size):
            return number
    return None


def events_of(rows: Sequence[Row], text_of: Callable[[Any], str]) -> tuple[Sequence[StoredEvent], int | None]:
    """The events of a page, of which one more was asked for, and the number from which the next goes on.

    @param text_of: decodes a stored text.
    """
    events = [
        StoredEvent(
            sequence,
            AppendEvent(time, whose, text_of(event), text_of(reason), number, text_of(queue)),
        )
        for sequence, time, whose, event, reason, number, queue in rows[:PAGE_ROWS]
    ]
    return events, rows[PAGE_ROWS][0] if len(rows) > PAGE_ROWS else None


def check_packet(
    store: str,
    queue: int,
    row: Row,
    size: int,
    checksum: int | None,
    *,
    is_log: bool,
    is_sound: bool,
    is_whole: bool,
) -> None:
    """Verify the checksums of a row of a database, and of its packet if that was read completely.

    @param store: its name, for people.
    @param queue: the row of the queue.
    @param row: as the table has it: the LookupIdentifier in stored form, or the sequence; the packet is last.
    @param checksum: the stored checksum; C{None} for a row from before checksums existed.
    @param is_log: whether it is an entry of a message log, and not a message.
    @param is_sound: whether the other values of the row match their checksum.
    @raise RowDamaged: they do not match.
    """
    number, *_, packet = row
    if is_log:
        where = f"{store}, table log, sequence {number}"
    else:
        number = lookup_id_of(number)
        where = f"{store}, table message, lookup id {number:#018x}"
    if not is_sound:
        raise RowDamaged(f"{where}: the checksum of the row does not match; {VERIFY}", number)
    # Of a packet without its body only the row can be verified.
    is_intact = not is_whole or checksum is None or checksum == _checksum(queue, row, is_log)
    if len(packet) != size or not is_intact:
        raise RowDamaged(f"{where}: the checksum of the packet does not match; {VERIFY}", number)


def _checksum(queue: int, row: Row, is_log: bool) -> int:
    if not is_log:
        return crc32(row[-1])
    sequence, lookup_id, arrived, packet = row
    return entry_checksum(queue, sequence, lookup_id, arrived, packet)


def stored(number: int) -> int:
    """A LookupIdentifier, or the number after the largest one, in stored form, which is signed."""
    return max(~LAST, min(int(number) + ~LAST, LAST))


def within(begin: int, end: int) -> tuple[int, int]:
    """Both bounds, limited to the numbers of databases."""
    return max(0, min(begin, LAST)), max(0, min(end, LAST))


def other_version(where: object, version: int, ours: int) -> StorageError:
    """Create the error about a store of another version, for the caller to raise."""
    which = "a newer" if version > ours else "an older"
    return StorageError(
        f"{where}: written by {which} version of msmq (schema {version}, this one knows {ours})"
    )


def refuse_moved(store: str, value: bytes | None) -> None:
    """Refuse a store that a migration has left.

    @param store: its name, for people.
    @param value: its state value C{MARK}.
    @raise StoreMoved: it is one.
    @raise StorageError: the mark cannot be read.
    """
    try:
        mark = read_mark(value)
    except ValueError as error:
        raise StorageError(f"{store}: {error}") from error
    if mark is not None and mark.role is MigrationRole.MOVED:
        raise StoreMoved(f"{store}: this store was moved to {mark.other}, which has to be named")


def without_body(head: bytes, size: int) -> bytes | None:
    """A packet of this size with this beginning and a body of zeros; C{None} if it cannot be determined.

    It cannot if other data follows the body, if the body begins after the head, or if it is damaged.
    """
    packet = head + bytes(size - len(head))
    try:
        view = UserMessageView(packet)
    except RemoteProtocolError:
        return None
    # An upper bound of the offset of the body.
    return packet if size - view.body_size <= len(head) else None
