"""Counts the messages that wait for FinalAcks by their outgoing queues. [MS-MQQB] 3.1.1.3.1."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import ClassVar, Final

import attrs
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from msmq.manager.performer import Performer
from msmq.queues.outgoing import OutgoingQueue
from msmq.queues.queue import MessagePosition
from msmq.structures.names.format_name import FormatName
from msmq.structures.status import MQError
from msmq.transfer.awaiting_final_acks import AwaitingFinalAcks

READ: Final = 100
"""Messages that are read together after a start."""

MOST_READ: Final = 10_000
"""Limit on sequences whose destination is read after a start; others count for the queue manager alone."""

_EXAMINED: Final = 100
"""Pages of a sequence in which a waiting message is looked for."""

_SWEPT: Final = 16
"""Sequences that are examined for each new one, so that ended ones are forgotten."""


@attrs.frozen
class AwaitingMessages:
    """Messages that wait for FinalAcks.

    @ivar since: when the oldest was sent, in seconds since 1970-01-01 UTC; C{None} without any.
    """

    count: int
    since: float | None


class AwaitedDestinations:
    """The destinations of the sequences that have messages waiting for FinalAcks.

    All messages of a sequence have one destination.
    The store has it only in their packets, so after a start one packet of each sequence is read.

    @param table: the waiting messages.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(self, performer: Performer, table: AwaitingFinalAcks) -> None:
        self._performer = performer
        self._table = table
        self._destinations: dict[int, FormatName] = {}
        self._sequences: dict[FormatName, dict[int, None]] = {}

    def all(self) -> AwaitingMessages:
        """All waiting messages."""
        return AwaitingMessages(len(self._table), self._performer.model.collection.awaiting.oldest_arrival)

    def of(self, destination: FormatName) -> AwaitingMessages:
        """The waiting messages for a destination."""
        sequences = self._sequences.get(destination, ())
        found = (self._first(sequence) for sequence in sequences)
        since = min((position.arrived for position in found if position is not None), default=None)
        return AwaitingMessages(self.count(destination), since)

    def start(self) -> None:
        """Begin to read the destinations of stored messages."""
        Deferred.fromCoroutine(self._read()).addErrback(
            lambda failure: self.log.failure("the destinations of waiting messages were not read", failure)
        )

    def add(self, sequences: Iterable[int], key: object) -> None:
        """Messages of these sequences wait.

        @param key: their outgoing queue, as the key of their stream.
        """
        if isinstance(key, OutgoingQueue):
            self._add(sequences, key.destination)

    def _add(self, sequences: Iterable[int], destination: FormatName) -> None:
        new = set(sequences) - self._destinations.keys()
        for sequence in list(islice(self._destinations, _SWEPT * len(new))):
            found = self._destinations.pop(sequence)
            if self._table.in_sequence(sequence):
                # To the end, so that others are examined next.
                self._destinations[sequence] = found
            else:
                self._forget(sequence, found)
        for sequence in new:
            self._destinations[sequence] = destination
            self._sequences.setdefault(destination, {})[sequence] = None

    def count(self, destination: FormatName) -> int:
        """The number of waiting messages for a destination."""
        return sum(map(self._table.in_sequence, self._sequences.get(destination, ())))

    async def _read(self) -> None:
        unknown = [each for each in self._table.sequences() if each not in self._destinations][:MOST_READ]
        while unknown and not self._performer.is_stopped:
            # Their messages may have been acknowledged meanwhile.
            some = [(each, found) for each in unknown[:READ] if (found := self._first(each)) is not None]
            del unknown[:READ]
            try:
                views = await self._performer.load([position for _, position in some])
            except MQError:
                # A damaged packet is reported when its FinalAck comes; until then these destinations show
                # too few messages.
                continue
            for (sequence, _), view in zip(some, views, strict=True):
                if self._table.in_sequence(sequence) and (name := view.destination_format_name()) is not None:
                    self._add([sequence], name)

    def _first(self, sequence: int) -> MessagePosition | None:
        """The first message of the oldest page of a sequence; all of a page have one destination."""
        awaiting = self._performer.model.collection.awaiting
        for page in islice(self._table.pages(sequence), _EXAMINED):
            # The move of a page may not be stored yet, and its messages may be leaving.
            found = awaiting.page(page.first - 1, 1)
            if found and found[0].lookup_id <= page.last:
                return found[0]
        return None

    def _forget(self, sequence: int, destination: FormatName) -> None:
        sequences = self._sequences[destination]
        del sequences[sequence]
        if not sequences:
            del self._sequences[destination]
