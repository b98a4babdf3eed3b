"""Offset of a stream: how far the message logs of its queues were read, as a checkpoint of Spark has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

import attrs

from msmq.pipeline.reading.errors import ReadingError

VERSION: Final = 1


@attrs.frozen
class LogOffset:
    """Streaming offset: a position in the log.

    @ivar store: the GUID of the queue manager whose store it is.
    @ivar next: the number of the first unread entry.
    @ivar queues: the queues, each with the number of its first requested entry: where the batch that ends
        here begins with it. 0 in checkpoints of earlier versions, and of Spark that names no offset before.
    @ivar mark: an entry that the store had, by which one that was restored from a backup is recognised: its
        queue, its number and its checksum. Checkpoints of earlier versions have none.
    @ivar is_initial: whether it is where a query begins, and not the end of a batch. Spark does not store it,
        and asks again when it repeats the first batch: the log may have gone on since.
    """

    store: str
    next: int
    queues: Mapping[UUID, int] = attrs.field(factory=dict)
    mark: tuple[UUID, int, int] | None = None
    is_initial: bool = False

    @classmethod
    def read(cls, record: Mapping[str, Any]) -> LogOffset:
        """The offset in a checkpoint.

        @raise ReadingError: it is not an offset of this source.
        """
        try:
            if record["version"] != VERSION:
                raise ReadingError(
                    f"the checkpoint has offsets of version {record['version']}, this one knows {VERSION}"
                )
            queues = {UUID(name): int(first) for name, first in record["queues"].items()}
            mark = record.get("mark")
            if mark is not None:
                mark = UUID(mark[0]), int(mark[1]), int(mark[2])
            is_initial = bool(record.get("initial", False))
            return cls(str(record["store"]), int(record["next"]), queues, mark, is_initial)
        except (LookupError, TypeError, ValueError, AttributeError):
            raise ReadingError(f"the checkpoint has an offset of another source: {record}") from None

    def record(self) -> dict[str, Any]:
        """Encode the offset for a checkpoint, deterministically."""
        queues = {str(queue): first for queue, first in sorted(self.queues.items())}
        found = {"version": VERSION, "store": self.store, "next": self.next, "queues": queues}
        if self.mark is not None:
            queue, number, crc = self.mark
            found["mark"] = [str(queue), number, crc]
        if self.is_initial:
            found["initial"] = True
        return found

    def starts(self, firsts: Mapping[UUID, int]) -> dict[UUID, int]:
        """The first unread number of each of some queues.

        @param firsts: the first number that each log has: where a queue begins that was not read before.
        """
        return {
            queue: max(self.next, self.queues[queue]) if queue in self.queues else first
            for queue, first in firsts.items()
        }

    def begin(self, queue: UUID, end: LogOffset, *, is_replaced: bool = False) -> int:
        """The first unread number of a queue, of those to be read up to C{end}.

        @param is_replaced: whether the store was replaced since this offset.
        """
        planned = end.queues[queue]
        if queue not in self.queues or is_replaced:
            # In a store that was replaced the numbers start again.
            return planned
        if self.is_initial:
            # The batch may be repeated, and begins where it did.
            return planned or max(self.next, self.queues[queue])
        # A batch ends before its start also if it reads what a new queue has from before that.
        return planned if self.next > end.next else max(self.next, self.queues[queue])
