"""Delivery records, and their stored form.

A block has the records of one commit, a page those of many blocks, compressed.
Both begin with an index, so a start reads no records, and a search reads only blocks that may contain the
message.
"""

from __future__ import annotations

import enum
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from struct import Struct
from struct import error as StructError
from typing import Final

import attrs

from msmq.persistence.state_records import StateError

_VERSION: Final = 1
_BLOCK: Final = 0
_PAGE: Final = 1

# Version, kind, messages, first and last time in milliseconds, entries of the index.
_HEAD: Final = Struct("<BBIQQH")
# SourceQueueManager, the smallest and the largest MessageID.
_RANGE: Final = Struct("<16sII")
# Places, records.
_COUNTS: Final = Struct("<HI")
# QueueManager, when the session opened in milliseconds, bytes of the address and of the queue.
_PLACE: Final = Struct("<16sQHH")
# Step, class, place, entry of the index, time, TxSequenceID, runs.
_RECORD: Final = Struct("<BHHHQQI")
# MessageID of the first, how many, number in the session and in the sequence, milliseconds since it was sent.
_RUN: Final = Struct("<IIIII")
_SIZE: Final = Struct("<I")

MOST_SOURCES: Final = 1_000
"""Limit on the source queue managers of one block; a page has at most 65535."""

LARGEST_PAGE: Final = 1 << 20
"""Limit on the bytes of a page before compression."""

_LONGEST_TEXT: Final = 2_000
_LONGEST_WAIT: Final = 0xFFFFFFFF
NO_GUID: Final = bytes(16)


class DeliveryStep(enum.IntEnum):
    """A step in the delivery of a message to another queue manager.

    HANDED_OVER: the next hop has it: the session's acknowledgement came ([MS-MQQB] 3.1.5.5.2).
    ORDERED: its receiver has it in order: an OrderAck came (3.1.5.6).
    SETTLED: its receiver reported its result: a FinalAck came (3.1.5.7).
    ANSWERED: an administration acknowledgement of it arrived in a queue here (3.1.5.8.10).
    """

    HANDED_OVER = 1
    ORDERED = 2
    SETTLED = 3
    ANSWERED = 4


@attrs.frozen
class DeliveryTarget:
    """The peer, session and queue of a hand-over or an acknowledgement.

    @ivar peer: the GUID of that queue manager as it stands in a packet; zeros if it is unknown.
    @ivar address: its address; empty if it is unknown.
    @ivar opened: when the session opened, seconds since 1970-01-01 UTC; 0 if that is unknown.
    @ivar queue: the outgoing queue, or the administration queue.
    """

    peer: bytes
    address: str
    opened: float
    queue: str


@attrs.frozen
class MessageRun:
    """Messages with consecutive MessageIDs that went together.

    @ivar first: MessageID of the first.
    @ivar number: which message of its session the first was, from 1; 0 if that is unknown.
    @ivar sequence_number: TxSequenceNumber of the first; 0 outside a sequence.
    @ivar sent: when they were sent, seconds since 1970-01-01 UTC; 0 if that is unknown.
    """

    first: int
    count: int
    number: int = 0
    sequence_number: int = 0
    sent: float = 0.0


@attrs.frozen
class DeliveryRecord:
    """One step of some messages.

    @ivar time: when the acknowledgement came, seconds since 1970-01-01 UTC.
    @ivar source: the GUID of SourceQueueManager of the messages, as it stands in a packet.
    @ivar sequence: TxSequenceID as a number; 0 outside a sequence.
    @ivar message_class: of a final or an administration acknowledgement; else 0.
    """

    step: DeliveryStep
    time: float
    where: DeliveryTarget
    source: bytes
    runs: Sequence[MessageRun]
    sequence: int = 0
    message_class: int = 0

    @property
    def count(self) -> int:
        """The number of its messages."""
        return sum(run.count for run in self.runs)

    def about(self, message_id: int) -> Iterator[DeliveryRecord]:
        """The record reduced to one message; C{None} if it does not contain that."""
        for run in self.runs:
            offset = message_id - run.first
            if 0 <= offset < run.count:
                number = run.number + offset if run.number else 0
                place = run.sequence_number + offset if run.sequence_number else 0
                yield attrs.evolve(self, runs=(MessageRun(message_id, 1, number, place, run.sent),))


@attrs.frozen
class DeliveryIndex:
    """What a block or a page has.

    @ivar messages: the number of steps of messages.
    @ivar first: the time of the oldest, seconds since 1970-01-01 UTC.
    @ivar last: that of the newest.
    @ivar ranges: the smallest and the largest MessageID of each queue manager whose messages it has.
    """

    messages: int
    first: float
    last: float
    ranges: Mapping[bytes, tuple[int, int]]

    def may_have(self, source: bytes, message_id: int) -> bool:
        """Whether there may be a record of a message."""
        found = self.ranges.get(source)
        return found is not None and found[0] <= message_id <= found[1]

    @classmethod
    def joined(cls, parts: Iterable[DeliveryIndex]) -> DeliveryIndex:
        """The joined index of several."""
        each = list(parts)
        ranges: dict[bytes, tuple[int, int]] = {}
        for part in each:
            for source, (low, high) in part.ranges.items():
                known = ranges.get(source)
                if known is not None:
                    low, high = min(low, known[0]), max(high, known[1])
                ranges[source] = low, high
        return cls(
            sum(part.messages for part in each),
            min(part.first for part in each),
            max(part.last for part in each),
            ranges,
        )


def write_block(records: Sequence[DeliveryRecord]) -> bytes:
    """The bytes of some records, of messages of at most L{MOST_SOURCES} queue managers."""
    ranges: dict[bytes, tuple[int, int]] = {}
    places: dict[DeliveryTarget, int] = {}
    sources: dict[bytes, int] = {}
    body: list[bytes] = []
    messages = 0
    for record in records:
        runs = record.runs
        low = min(run.first for run in runs)
        high = max(run.first + run.count - 1 for run in runs)
        messages += record.count
        known = ranges.get(record.source)
        ranges[record.source] = (low, high) if known is None else (min(low, known[0]), max(high, known[1]))
        time = _milliseconds(record.time)
        body.append(
            _RECORD.pack(
                record.step,
                record.message_class,
                places.setdefault(record.where, len(places)),
                sources.setdefault(record.source, len(sources)),
                time,
                record.sequence,
                len(runs),
            )
        )
        for run in runs:
            waited = min(max(0, time - _milliseconds(run.sent)), _LONGEST_WAIT - 1) + 1 if run.sent else 0
            body.append(_RUN.pack(run.first, run.count, run.number & 0xFFFFFFFF, run.sequence_number, waited))
    times = [record.time for record in records]
    index = DeliveryIndex(messages, min(times), max(times), ranges)
    return b"".join(
        (
            _head(_BLOCK, index),
            _COUNTS.pack(len(places), len(records)),
            *map(_place, places),
            *body,
        )
    )


def write_page(parts: Sequence[bytes], index: DeliveryIndex) -> bytes:
    """The bytes of some blocks and pages together.

    @param index: theirs, joined.
    """
    content = b"".join(
        piece for part in parts for block in _blocks("", part) for piece in (_SIZE.pack(len(block)), block)
    )
    return b"".join((_head(_PAGE, index), _SIZE.pack(len(content)), zlib.compress(content, 1)))


def read_index(name: str, data: bytes) -> DeliveryIndex:
    """What a block or a page has.

    @param name: of the value, for the error.
    @raise StateError: it is damaged.
    """
    return _index(name, data)[1]


def content_size(name: str, data: bytes) -> int:
    """Bytes of a block, or of those in a page before they were compressed.

    @param name: of the value, for the error.
    @raise StateError: it is damaged.
    """
    kind, _, end = _index(name, data)
    return len(data) if kind == _BLOCK else _content_size(name, data, end)


def read_records(name: str, data: bytes, source: bytes, message_id: int) -> Iterator[DeliveryRecord]:
    """The records of one message in a block or a page, in the order in which they were written.

    @param name: of the value, for the error.
    @param source: the GUID of its SourceQueueManager as it stands in a packet.
    @raise StateError: it is damaged.
    """
    for block in _blocks(name, data):
        if _index(name, block)[1].may_have(source, message_id):
            for record in _records(name, block):
                if record.source == source:
                    yield from record.about(message_id)


def _head(kind: int, index: DeliveryIndex) -> bytes:
    first, last = _milliseconds(index.first), _milliseconds(index.last)
    head = _HEAD.pack(_VERSION, kind, index.messages, first, last, len(index.ranges))
    ranges = [_RANGE.pack(source, low, high) for source, (low, high) in index.ranges.items()]
    return b"".join((head, *ranges))


def _index(name: str, data: bytes) -> tuple[int, DeliveryIndex, int]:
    """Kind, index, and where it ends."""
    try:
        version, kind, messages, first, last, count = _HEAD.unpack_from(data)
        if version != _VERSION or kind not in (_BLOCK, _PAGE):
            raise StateError(name, f"is of version {version}, where this program knows {_VERSION}")
        end = _HEAD.size + count * _RANGE.size
        ranges = {source: (low, high) for source, low, high in _RANGE.iter_unpack(data[_HEAD.size : end])}
    except StructError as error:
        raise StateError(name, f"its index is cut short at {len(data)} bytes") from error
    if len(data) < end or len(ranges) != count:
        raise StateError(name, f"its index is cut short at {len(data)} bytes")
    return kind, DeliveryIndex(messages, first / 1000, last / 1000, ranges), end


def _blocks(name: str, data: bytes) -> Iterator[bytes]:
    kind, _, end = _index(name, data)
    if kind == _BLOCK:
        yield data
        return
    packed, expected = zlib.decompressobj(), _content_size(name, data, end)
    try:
        content = packed.decompress(data[end + _SIZE.size :], expected + 1)
    except zlib.error as error:
        raise StateError(name, f"cannot be decompressed: {error}") from error
    if len(content) != expected or not packed.eof:
        raise StateError(name, f"has not the {expected} bytes that it states")
    position = 0
    while position < len(content):
        start = position + _SIZE.size
        size = int.from_bytes(content[position:start], "little")
        position = start + size
        if position > len(content):
            raise StateError(name, f"a block of {size} bytes is cut short")
        yield content[start:position]


def _content_size(name: str, data: bytes, end: int) -> int:
    size = int.from_bytes(data[end : end + _SIZE.size], "little")
    if not 0 < size <= LARGEST_PAGE:
        raise StateError(name, f"states {size} bytes of content, and {LARGEST_PAGE} are the most")
    return size


def _records(name: str, data: bytes) -> Iterator[DeliveryRecord]:
    _, index, position = _index(name, data)
    sources = list(index.ranges)
    try:
        place_count, record_count = _COUNTS.unpack_from(data, position)
        position += _COUNTS.size
        places = []
        for _ in range(place_count):
            peer, opened, address_size, queue_size = _PLACE.unpack_from(data, position)
            position += _PLACE.size
            address = data[position : position + address_size].decode("utf-8", "replace")
            position += address_size
            queue = data[position : position + queue_size].decode("utf-8", "replace")
            position += queue_size
            places.append(DeliveryTarget(peer, address, opened / 1000, queue))
        for _ in range(record_count):
            step, message_class, place, source, time, sequence, run_count = _RECORD.unpack_from(
                data, position
            )
            position += _RECORD.size
            runs = []
            for _ in range(run_count):
                first, count, number, in_sequence, waited = _RUN.unpack_from(data, position)
                position += _RUN.size
                sent = (time - waited + 1) / 1000 if waited else 0.0
                runs.append(MessageRun(first, count, number, in_sequence, sent))
            yield DeliveryRecord(
                DeliveryStep(step), time / 1000, places[place], sources[source], runs, sequence, message_class
            )
    except (StructError, IndexError, ValueError) as error:
        raise StateError(name, f"the record at offset {position} is damaged") from error


def _place(place: DeliveryTarget) -> bytes:
    address = _text(place.address)
    queue = _text(place.queue)
    return _PLACE.pack(place.peer, _milliseconds(place.opened), len(address), len(queue)) + address + queue


def _text(text: str) -> bytes:
    """Of names that peers chose the beginning; a search needs none of them."""
    return text.encode("utf-8", "replace")[:_LONGEST_TEXT]


def _milliseconds(seconds: float) -> int:
    return max(0, int(seconds * 1000 + 0.5))
