"""WaitingMessageReadOperation, and Wait For New Message. [MS-MQDMPR] 3.1.1.10 and 3.1.7.3.1."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Sequence
from heapq import heapify, heappop, heappush
from typing import Final, TypeAlias

import attrs

from msmq.errors import LocalProtocolError
from msmq.queues.queue import MessagePosition, Queue
from msmq.queues.reading.cursor import Cursor
from msmq.queues.reading.descriptor import OpenQueueDescriptor
from msmq.quoting import quoted

ENDED_AT_ONCE: Final = 500
"""The number of expired waits that end in one step."""

OnTaken: TypeAlias = Callable[[Sequence[MessagePosition]], None]
"""Called with messages when they are locked for a read."""


@attrs.define(eq=False)
class WaitingReader:
    """A read, waiting or about to begin. [MS-MQDMPR] 3.1.1.10.

    @ivar tag: Tag, which identifies it to its caller; unique among waiting reads.
    @ivar is_peek: the opposite of DestructiveRead.
    @ivar count: the maximum number of messages.
    @ivar deadline: when it stops waiting, in seconds of the monotonic clock; C{None} for never.
    @ivar owner: the owner of the locks on its messages: its tag, or a transaction.
    @ivar is_owned: the owner is not the tag.
    @ivar allow_peek: AllowPeekWhenLocked of the messages that it locks.
    @ivar on_taken: called with the messages that it locks; if it raises an L{MQError}, they are released and
        the read fails with that status.
    @ivar cursor: CursorReference; the read is of one message then.
    @ivar descriptor: its handle; the read ends when that is closed.
    @ivar size: bytes that its messages may have together, unless one has more; C{None} for no limit.
    @ivar after: of a peek without a cursor, the LookupIdentifier after which it begins; -1 for the front.
    @ivar is_cut_short: it found only expired messages, which are removed; there may be more after them.
    @raise LocalProtocolError: C{count} is below 1, or a peek has an owner for locks.
    """

    tag: Hashable
    queue: Queue = attrs.field(repr=False)
    is_peek: bool = False
    count: int = 1
    deadline: float | None = None
    owner: Hashable = None
    allow_peek: bool = False
    on_taken: OnTaken | None = attrs.field(default=None, repr=False)
    cursor: Cursor | None = None
    descriptor: OpenQueueDescriptor | None = attrs.field(default=None, repr=False)
    size: int | None = None
    after: int = -1
    is_cut_short: bool = attrs.field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        if self.count < 1:
            raise LocalProtocolError(f"a read is of at least one message, not {self.count}")
        if self.is_peek and (self.owner is not None or self.on_taken is not None):
            raise LocalProtocolError(
                "a peek locks no messages, neither for a transaction nor for another owner"
            )
        if self.owner is None:
            self.owner = self.tag

    @property
    def is_owned(self) -> bool:
        """Whether its locks belong to another owner than its tag."""
        return self.owner is not self.tag

    def room(self, found: Sequence[MessagePosition]) -> int | None:
        """The bytes that its messages may have after these; C{None} for no limit."""
        if self.size is None or not found:
            return self.size
        return self.size - sum(position.size for position in found)

    def may_take(self, found: Sequence[MessagePosition]) -> int:
        """The number of messages that it may take after these."""
        room = self.room(found)
        return self.count - len(found) if room is None or room > 0 else 0

    def may_wait(self, now: float) -> bool:
        """Whether its deadline has not passed.

        @param now: seconds of the monotonic clock.
        """
        return self.deadline is None or self.deadline > now


@attrs.define(eq=False)
class WaitingReaders:
    """All waiting reads, by tag and by deadline."""

    by_tag: dict[Hashable, WaitingReader] = attrs.field(factory=dict)
    cut_short: dict[Hashable, WaitingReader] = attrs.field(factory=dict)
    _by_owner: dict[Hashable, dict[Hashable, WaitingReader]] = attrs.field(factory=dict, init=False)
    _deadlines: list[tuple[float, int, WaitingReader]] = attrs.field(factory=list, init=False)
    _numbers: itertools.count[int] = attrs.field(factory=itertools.count, init=False)

    def check(self, tag: Hashable) -> None:
        """Check that no read waits under this tag.

        @raise LocalProtocolError: one does.
        """
        if tag in self.by_tag:
            raise LocalProtocolError(f"a reader waits under the tag {quoted(tag)} already")

    def add(self, reader: WaitingReader) -> None:
        """Append a waiting read; its tag must be unique. [MS-MQDMPR] 3.1.7.3.4."""
        tag = reader.tag
        self.by_tag[tag] = reader
        reader.queue.readers[tag] = None
        if reader.descriptor is not None:
            reader.descriptor.waiting[tag] = None
        if reader.cursor is not None:
            reader.cursor.waiting = (tag,)
        if reader.is_owned:
            self._by_owner.setdefault(reader.owner, {})[tag] = reader
        if reader.is_cut_short:
            self.cut_short[tag] = reader
        if reader.deadline is not None:
            heappush(self._deadlines, (reader.deadline, next(self._numbers), reader))
            self._forget_stale()

    def discard(self, reader: WaitingReader) -> None:
        """End a wait, with its timer. [MS-MQDMPR] 3.1.7.3.5."""
        tag = reader.tag
        del self.by_tag[tag]
        del reader.queue.readers[tag]
        self.cut_short.pop(tag, None)
        if reader.descriptor is not None:
            del reader.descriptor.waiting[tag]
        if reader.cursor is not None:
            reader.cursor.waiting = ()
        if reader.is_owned:
            owned = self._by_owner[reader.owner]
            del owned[tag]
            if not owned:
                del self._by_owner[reader.owner]

    def owned(self, owner: Hashable) -> list[WaitingReader]:
        """The reads that would lock messages for this owner."""
        return list(self._by_owner.get(owner, {}).values())

    def deadline(self) -> float | None:
        """When the next reader stops waiting, in seconds of the monotonic clock."""
        deadlines = self._deadlines
        while deadlines and not self._is_waiting(deadlines[0][2]):
            heappop(deadlines)
        return deadlines[0][0] if deadlines else None

    def due(self, now: float) -> Iterable[WaitingReader]:
        """The expired reads, earliest first; each has to be discarded before the next is taken."""
        for _ in range(ENDED_AT_ONCE):
            deadline = self.deadline()
            if deadline is None or deadline > now:
                return
            yield heappop(self._deadlines)[2]

    def _is_waiting(self, reader: WaitingReader) -> bool:
        return self.by_tag.get(reader.tag) is reader

    def _forget_stale(self) -> None:
        # Completed reads leave their deadlines behind; most of them are never due.
        if len(self._deadlines) > 2 * len(self.by_tag) + 64:
            self._deadlines = [entry for entry in self._deadlines if self._is_waiting(entry[2])]
            heapify(self._deadlines)
