"""Checkpoint format: the state at a log position, so that recovery reads only later groups.

Rows are copied in steps while the log is written to, so some of them may be newer than the position.
Since every record assigns a value to its key, replaying the log from the position gives the same state as an
atomic copy would.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from struct import Struct
from typing import Final
from uuid import UUID
from zlib import crc32

import attrs

from msmq.storage.log.core import records
from msmq.storage.log.core.format import VERSION, Malformed, check_version
from msmq.storage.log.core.records import KEY, LOG_ROW, Kind, read_records, replay
from msmq.storage.log.core.scan import Position
from msmq.storage.log.core.state import ALL_LOGS, State

MAGIC: Final = b"MSMQCKP\n"
BODY: Final = 4096
"""Offset of the body of a checkpoint."""
ROWS: Final = 1000
"""Rows copied per step; of packed messages a whole block."""
LARGE: Final = 64 * 1024
"""Bytes of state values or definitions per step."""

_HEADER: Final = Struct("<8sI16sQQQQIIQQQI")
_CHUNK: Final = Struct("<II")
_CRC: Final = Struct("<I")
_SEQUENCE: Final = Struct("<Q")
_AHEAD: Final = _CHUNK.size + KEY.size
"""Bytes of a table by which it is known what it has."""


@attrs.frozen
class CheckpointHeader:
    """Header of a checkpoint, written last.

    @ivar number: consecutive over the checkpoints of a store.
    @ivar position: where replay begins.
    @ivar size: bytes of the body.
    @ivar checksum: of the body.
    """

    store: bytes
    number: int
    position: Position
    next_queue: int
    last_entry: int
    last_event: int
    size: int
    checksum: int

    def to_bytes(self) -> bytes:
        """The header, with its own checksum."""
        head = _HEADER.pack(
            MAGIC,
            VERSION,
            self.store,
            self.number,
            self.position.generation,
            self.position.offset,
            self.position.sequence,
            self.position.chain,
            self.next_queue,
            self.last_entry,
            self.last_event,
            self.size,
            self.checksum,
        )
        return head + _CRC.pack(crc32(head))


def read_checkpoint_header(head: bytes) -> CheckpointHeader:
    """Read the first bytes of a checkpoint.

    @raise Malformed: they are not a header of this version.
    """
    if len(head) < _HEADER.size + _CRC.size:
        raise Malformed(f"the file has {len(head)} bytes, less than its header")
    magic, version, store, number, *place, next_queue, entry, event, size, checksum = _HEADER.unpack_from(
        head
    )
    if magic != MAGIC:
        raise Malformed("not a checkpoint of an msmq log")
    check_version(version)
    if _CRC.unpack_from(head, _HEADER.size)[0] != crc32(head[: _HEADER.size]):
        raise Malformed("the checksum of the checkpoint header does not match")
    return CheckpointHeader(store, number, Position(*place), next_queue, entry, event, size, checksum)


def chunk(table: bytes) -> bytes:
    """Encode a table of the body."""
    return _CHUNK.pack(len(table), crc32(table)) + table


def read_body(header: CheckpointHeader, body: bytes) -> State:
    """Read the state in the body of a checkpoint.

    @raise Malformed: it does not match its header.
    """
    if len(body) < header.size:
        raise Malformed(f"the checkpoint has {len(body)} of {header.size} bytes")
    body = body[: header.size]
    if crc32(body) != header.checksum:
        raise Malformed("the checksum of the checkpoint does not match")
    state = _empty(header, ALL_LOGS)
    offset = 0
    while offset < len(body):
        size, checksum = _CHUNK.unpack_from(body, offset)
        table = body[offset + _CHUNK.size : offset + _CHUNK.size + size]
        _replay(table, offset, checksum, state)
        offset += _CHUNK.size + size
    return state


def read_needed(
    header: CheckpointHeader, read: Callable[[int, int], bytes], log_starts: Mapping[UUID, int]
) -> State:
    """Read the state in the body of a checkpoint, without tables that only have entries of message logs which
    are not needed.

    They are neither read nor verified, except the last one of each log that has no later entries: it has the
    end of the log.

    @param read: reads bytes of the body, by offset and size; fewer at its end.
    @param log_starts: as of L{State}.
    @raise Malformed: what was read does not match its checksums.
    """
    state = _empty(header, log_starts)
    offset, head = 0, read(0, _AHEAD)
    # The last table that was left out: its log, offset, size and checksum.
    left_out: tuple[int, int, int, int] | None = None

    def replay_left_out() -> None:
        if left_out is not None:
            _, at, size, checksum = left_out
            _replay(read(at + _CHUNK.size, size), at, checksum, state)

    while offset < header.size:
        size, checksum = _CHUNK.unpack_from(head.ljust(_CHUNK.size, b"\0"))
        at, end = offset + _CHUNK.size, offset + _CHUNK.size + size
        if end > header.size:
            raise Malformed(f"the checkpoint is damaged at offset {BODY + offset}")
        log = _log_of(head, size)
        if left_out is not None and left_out[0] != log:
            replay_left_out()
        left_out = None
        kept = None if log is None else state.by_number.get(log)
        if log is not None and kept is not None and (needed := log_starts.get(kept.identifier)) is not None:
            # The entries of a log are in order.
            ending = read(end - LOG_ROW.size, LOG_ROW.size + _AHEAD)
            if len(ending) >= LOG_ROW.size and _SEQUENCE.unpack_from(ending)[0] < needed:
                left_out = log, offset, size, checksum
                offset, head = end, ending[LOG_ROW.size :]
                continue
        found = read(at, size + _AHEAD)
        _replay(found[:size], offset, checksum, state)
        offset, head = end, found[size:]
    replay_left_out()
    return state


def _empty(header: CheckpointHeader, log_starts: Mapping[UUID, int]) -> State:
    return State(
        next_queue=header.next_queue,
        last_entry=header.last_entry,
        last_event=header.last_event,
        log_starts=log_starts,
    )


def _log_of(head: bytes, size: int) -> int | None:
    """The number of the queue, if a table of this size is one record of entries of a message log."""
    if len(head) < _AHEAD or size <= KEY.size:
        return None
    kind, record_size, number, _ = KEY.unpack_from(head, _CHUNK.size)
    return number if kind == Kind.LOGS and record_size == size else None


def _replay(table: bytes, offset: int, checksum: int, state: State) -> None:
    if crc32(table) != checksum:
        raise Malformed(f"the checkpoint is damaged at offset {BODY + offset}")
    for record in read_records(table):
        replay(record, state)


def tables(state: State) -> Iterator[bytes]:
    """Iterate over the tables of a checkpoint; the state may change between them."""
    for number in list(state.by_number):
        if (kept := state.by_number.get(number)) is None:
            continue
        yield records.queue_record(number, kept.identifier, kept.record)
        for lookup_ids, packed in kept.messages.pages(ROWS):
            yield records.messages_record(number, lookup_ids, packed)
        yield records.log_trimmed_record(number, kept.log.first)
        after = -1
        while (place := kept.log.after(after)) < len(kept.log):
            rows = kept.log.chunk(place, ROWS)
            after = kept.log.sequence(min(place + ROWS, len(kept.log)) - 1)
            yield records.logs_record(number, rows)
    yield from _values(state)
    yield records.events_trimmed_record(state.events.first)
    sequence = state.events.first
    while sequence < state.events.end:
        first, sequence = sequence, min(sequence + ROWS, state.events.end)
        yield records.events_record(first, state.events.chunk(first, ROWS))
        sequence = max(sequence, state.events.first)


def _values(state: State) -> Iterator[bytes]:
    piece: list[bytes] = []
    size = 0
    for name in list(state.values):
        if (value := state.values.get(name)) is not None:
            piece.append(records.state_record(name, value))
            size += len(piece[-1])
        if size > LARGE:
            yield b"".join(piece)
            piece, size = [], 0
    if piece:
        yield b"".join(piece)
