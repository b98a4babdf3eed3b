"""AwaitingFinalACKTable: delivered messages that wait for their FinalAck. [MS-MQQB] 3.1.1.3.1."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Container, Iterator, Mapping, Sequence
from itertools import count, islice
from struct import Struct
from typing import Final
from uuid import UUID

import attrs

from msmq.persistence.state_records import StateChange, numbered, reading
from msmq.structures.internal.final_ack import FinalAck
from msmq.transfer.stream_changes import Disposal, M, SettledMessage, UnorderedMessage
from msmq.wire.writer import Writer

PREFIX: Final = "tx/awaiting/"
"""Prefix of the names of stored values; a number follows."""

_VERSION: Final = 1
_RECORD: Final = Struct("<QIIBQ")


@attrs.define(eq=False)
class AwaitingPage:
    """Entries that were added in one batch, as one value of the store.

    It is never rewritten: an entry is obsolete when its message is no longer in the queue.

    @ivar change: the change to store with the moves of these messages.
    @ivar evicted: the oldest entries beyond the limit, which are dropped.
    @ivar left: how many of its messages the store has.
    @ivar is_closed: the removal of the value is to be stored, or is being stored.
    @ivar early: messages of the page whose FinalAcks came before it was stored.
    @ivar sequences: the sequences of its messages, in order.
    @ivar first: the lowest LookupIdentifier of its messages; no other page has any between it and C{last}.
    """

    change: StateChange
    is_stored: bool = False
    is_closed: bool = False
    left: int = 0
    evicted: list[SettledMessage[int]] = attrs.field(factory=list)
    early: list[SettledMessage[int]] = attrs.field(factory=list)
    sequences: dict[int, None] = attrs.field(factory=dict)
    first: int = 1 << 64
    last: int = 0


class AwaitingFinalAcks:
    """Finds the message of a FinalAck among those that were order-acknowledged.

    The messages themselves are in a queue of its own, and are identified by their LookupIdentifiers
    there.

    @param limit: limit on entries; beyond it the oldest are dropped.
    """

    def __init__(self, identifier: UUID, limit: int) -> None:
        self._identifier = identifier
        self._limit = limit
        # There may be a million, so keys and entries are plain numbers.
        self._entries: dict[int, int] = {}
        self._pages: dict[int, AwaitingPage] = {}
        # The sequence and page of each settled message, by LookupIdentifier, until the store has removed it.
        self._leaving: dict[int, tuple[int, AwaitingPage]] = {}
        self._leaving_by_sequence: Counter[int] = Counter()
        self._numbers = count(1)
        self._by_sequence: Counter[int] = Counter()
        # The pages of each sequence that have messages, the oldest first.
        self._pages_of: dict[int, OrderedDict[int, AwaitingPage]] = {}
        self._closed: list[StateChange] = []

    def __len__(self) -> int:
        return len(self._entries)

    def in_sequence(self, sequence: int) -> int:
        """The number of waiting messages of a sequence ([MS-MQQB] 3.1.5.6 EodNoReadCount)."""
        return self._by_sequence.get(sequence, 0)

    def sequences(self) -> Iterator[int]:
        """The sequences with waiting messages; the table must not change meanwhile."""
        return iter(self._by_sequence)

    def pages(self, sequence: int) -> Iterator[AwaitingPage]:
        """The pages that have messages of a sequence, the oldest first; the table must not change meanwhile.

        They may be settled, and not yet removed.
        """
        return iter(self._pages_of.get(sequence, {}).values())

    def __contains__(self, sequence: object) -> bool:
        """Whether the store has any message of a sequence that waits, or that is settled and not removed."""
        return sequence in self._by_sequence or sequence in self._leaving_by_sequence

    def configure(self, limit: int) -> None:
        """Apply another limit from the next message on."""
        self._limit = limit

    def load(self, state: Mapping[str, bytes], kept: Container[int]) -> list[StateChange]:
        """Load the stored state; returns the removal of obsolete values.

        @param kept: LookupIdentifiers of the messages in the queue.
        @raise StateError: a value is damaged.
        """
        changes: list[StateChange] = []
        last = 0
        for number, name, value in numbered(state, PREFIX):
            last = number
            page = AwaitingPage((name, value), is_stored=True)
            with reading(name, value, _VERSION) as reader:
                for _ in range(reader.u32("Count")):
                    sequence, place, message_id, wanted, lookup_id = reader.unpack(_RECORD, "TxSequenceID")
                    if lookup_id in kept:
                        self._put(sequence, place, _entry(number, lookup_id, message_id, wanted), page)
            if page.left:
                self._pages[number] = page
            else:
                changes.append((name, None))
        self._numbers = count(last + 1)
        return changes

    def add(self, transfers: Sequence[UnorderedMessage[M]], lookup_ids: Sequence[int]) -> AwaitingPage:
        """Add messages that were order-acknowledged and are about to be moved.

        @param lookup_ids: their new LookupIdentifiers.
        """
        number = next(self._numbers)
        writer = Writer()
        writer.u8(_VERSION, "Version")
        writer.u32(len(transfers), "Count")
        for transfer, lookup_id in zip(transfers, lookup_ids, strict=True):
            record = transfer.sequence, transfer.number, transfer.message_id, transfer.wanted, lookup_id
            writer.bytes(_RECORD.pack(*record))
        page = self._pages[number] = AwaitingPage((f"{PREFIX}{number}", writer.getvalue()))
        for transfer, lookup_id in zip(transfers, lookup_ids, strict=True):
            entry = _entry(number, lookup_id, transfer.message_id, transfer.wanted)
            self._put(transfer.sequence, transfer.number, entry, page)
        excess = len(self._entries) - self._limit
        if excess > 0:
            for key in list(islice(self._entries, excess)):
                page.evicted += self._settle(key, 0)
        return page

    def stored(self, page: AwaitingPage) -> list[SettledMessage[int]]:
        """The page and its moves are stored; returns messages whose FinalAcks came meanwhile."""
        page.is_stored = True
        early, page.early = page.early, []
        return early

    def final_acknowledged(self, ack: FinalAck) -> list[SettledMessage[int]] | None:
        """A FinalAck came: returns its message, which is settled. [MS-MQQB] 3.1.5.7.

        C{None} if it matches no message (reading 59).
        Empty if the move of the message is not stored yet; L{stored} reports it then.
        """
        key = ack.tx_sequence_id.value << 32 | ack.tx_sequence_number
        entry = self._entries.get(key)
        if entry is None or ack.source_guid != self._identifier or _message_id(entry) != ack.message_id:
            return None
        return self._settle(key, ack.message_class)

    def take_changes(self, lookup_id: int) -> list[StateChange]:
        """The removal of obsolete values, to be stored together with the removal of a settled message.

        A value is obsolete with its last message, and not before all others are removed: without it a restart
        would find none of them.

        @param lookup_id: of the message.
        """
        leaving = self._leaving.get(lookup_id)
        if leaving is not None and leaving[1].left == 1:
            self._close(leaving[1])
        closed, self._closed = self._closed, []
        return closed

    def removed(self, lookup_id: int) -> None:
        """The store has removed a settled message."""
        if lookup_id in self._leaving:
            sequence, page = self._leaving.pop(lookup_id)
            _decrement(self._leaving_by_sequence, sequence)
            page.left -= 1
            if not page.left and not page.is_closed:
                self._close(page)

    def _put(self, sequence: int, number: int, entry: int, page: AwaitingPage) -> None:
        self._entries[sequence << 32 | number] = entry
        self._by_sequence[sequence] += 1
        if sequence not in page.sequences:
            page.sequences[sequence] = None
            self._pages_of.setdefault(sequence, OrderedDict())[entry >> _PAGE_SHIFT] = page
        lookup_id = _lookup_id(entry)
        if lookup_id < page.first:
            page.first = lookup_id
        if lookup_id > page.last:
            page.last = lookup_id
        page.left += 1

    def _settle(self, key: int, message_class: int) -> list[SettledMessage[int]]:
        entry = self._entries.pop(key)
        sequence = key >> 32
        _decrement(self._by_sequence, sequence)
        page = self._pages[entry >> _PAGE_SHIFT]
        lookup_id = _lookup_id(entry)
        settlement = SettledMessage(lookup_id, message_class, Disposal.of(message_class, entry & _WANTED))
        self._leaving[lookup_id] = sequence, page
        self._leaving_by_sequence[sequence] += 1
        if not page.is_stored:
            page.early.append(settlement)
            return []
        return [settlement]

    def _close(self, page: AwaitingPage) -> None:
        page.is_closed = True
        name = page.change[0]
        number = int(name.removeprefix(PREFIX))
        del self._pages[number]
        for sequence in page.sequences:
            pages = self._pages_of[sequence]
            del pages[number]
            if not pages:
                del self._pages_of[sequence]
        self._closed.append((name, None))


_WANTED_BITS: Final = 3
_WANTED: Final = 7
_LOOKUP_SHIFT: Final = _WANTED_BITS + 32
_PAGE_SHIFT: Final = _LOOKUP_SHIFT + 64


def _entry(page: int, lookup_id: int, message_id: int, wanted: int) -> int:
    return page << _PAGE_SHIFT | lookup_id << _LOOKUP_SHIFT | message_id << _WANTED_BITS | wanted & _WANTED


def _decrement(numbers: Counter[int], key: int) -> None:
    numbers[key] -= 1
    if not numbers[key]:
        del numbers[key]


def _lookup_id(entry: int) -> int:
    return entry >> _LOOKUP_SHIFT & 0xFFFFFFFFFFFFFFFF


def _message_id(entry: int) -> int:
    return entry >> _WANTED_BITS & 0xFFFFFFFF
