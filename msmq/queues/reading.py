"""[MS-MQDMPR] 3.1.1.10, 3.1.7.2.2 and 3.1.7.3.1: readers that wait for a message."""

from __future__ import annotations

import itertools
from collections.abc import Hashable
from heapq import heapify, heappop, heappush

import attrs

from msmq.errors import LocalProtocolError
from msmq.queues.effects import Effect, ReadCompleted
from msmq.queues.position import MessagePosition
from msmq.queues.queue import Queue


@attrs.define(eq=False)
class WaitingReader:
    """[MS-MQDMPR] 3.1.1.10 WaitingMessageReadOperation.

    @ivar tag: Tag, by which its caller knows it.
    @ivar is_peek: the opposite of DestructiveRead.
    @ivar count: the most messages that it takes when there are some.
    @ivar deadline: when it stops waiting, in seconds of the monotonic clock; C{None} for never.
    """

    tag: Hashable
    queue: Queue = attrs.field(repr=False)
    is_peek: bool
    count: int
    deadline: float | None


@attrs.define(eq=False)
class WaitingReaders:
    """Every reader that waits anywhere, by tag, and when the next one stops waiting."""

    by_tag: dict[Hashable, WaitingReader] = attrs.field(factory=dict)
    _deadlines: list[tuple[float, int, WaitingReader]] = attrs.field(factory=list, init=False)
    _numbers: itertools.count[int] = attrs.field(factory=itertools.count, init=False)

    def add(self, reader: WaitingReader) -> None:
        """Let a reader wait behind those that wait already.

        @raise LocalProtocolError: a reader waits under the same tag.
        """
        if reader.tag in self.by_tag:
            raise LocalProtocolError(f"a reader waits under the tag {reader.tag!r} already")
        self.by_tag[reader.tag] = reader
        reader.queue.readers[reader.tag] = reader
        if reader.deadline is not None:
            heappush(self._deadlines, (reader.deadline, next(self._numbers), reader))
            self._forget_stale()

    def discard(self, tag: Hashable) -> WaitingReader | None:
        """End a wait; C{None} if nobody waits under this tag."""
        reader = self.by_tag.pop(tag, None)
        if reader is not None:
            del reader.queue.readers[tag]
        return reader

    def deadline(self) -> float | None:
        """When the next reader stops waiting, in seconds of the monotonic clock."""
        deadlines = self._deadlines
        while deadlines and not self._is_waiting(deadlines[0][2]):
            heappop(deadlines)
        return deadlines[0][0] if deadlines else None

    def due(self, now: float) -> list[WaitingReader]:
        """End the waits whose time is over, and answer them in that order."""
        ended: list[WaitingReader] = []
        while (deadline := self.deadline()) is not None and deadline <= now:
            reader = heappop(self._deadlines)[2]
            self.discard(reader.tag)
            ended.append(reader)
        return ended

    def serve(self, queue: Queue) -> list[Effect]:
        """[MS-MQDMPR] 3.1.7.2.2 give what is available to those who wait, in the order in which they came.

        Each gets one message, or a look at it; what is left then goes to the same receivers, up to
        the count that each asked for.
        """
        if not queue.readers:
            return []
        served: list[tuple[WaitingReader, list[MessagePosition]]] = []
        while queue.readers:
            reader = next(iter(queue.readers.values()))
            found = queue.peek(reader.count) if reader.is_peek else queue.take(1, reader.tag)
            if not found:
                break
            self.discard(reader.tag)
            served.append((reader, found))
        for reader, found in served:
            if not reader.is_peek and len(found) < reader.count:
                found += queue.take(reader.count - len(found), reader.tag)
        return [ReadCompleted(reader.tag, found) for reader, found in served]

    def _is_waiting(self, reader: WaitingReader) -> bool:
        return self.by_tag.get(reader.tag) is reader

    def _forget_stale(self) -> None:
        # Readers that found a message leave their deadlines behind; most never come due.
        if len(self._deadlines) > 2 * len(self.by_tag) + 64:
            self._deadlines = [entry for entry in self._deadlines if self._is_waiting(entry[2])]
            heapify(self._deadlines)
