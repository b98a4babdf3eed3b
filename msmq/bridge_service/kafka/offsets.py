"""Positions in the partitions of a topic: what is delivered, acknowledged, and to be committed."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

Partition = tuple[str, int]
"""A topic, and the number of one of its partitions."""


@attrs.define
class ConsumedOffsets:
    """Offsets by the tags of their deliveries.

    The offset of a partition that is committed is that of the first record that is not acknowledged.
    """

    _of: dict[int, tuple[Partition, int, int]] = attrs.field(factory=dict, init=False)
    _pending: dict[Partition, dict[int, bool]] = attrs.field(factory=dict, init=False)
    # The sizes of records of lost partitions, which the route still has.
    _lost: dict[int, int] = attrs.field(factory=dict, init=False)
    _last_tag: int = attrs.field(default=0, init=False)
    _size: int = attrs.field(default=0, init=False)

    @property
    def outstanding(self) -> int:
        """Records that are delivered and not acknowledged, also those of lost partitions."""
        return len(self._of) + len(self._lost)

    @property
    def outstanding_bytes(self) -> int:
        """The bytes of these records."""
        return self._size

    def deliver(self, partition: Partition, offset: int, size: int) -> int:
        """A record of C{size} bytes is delivered; returns its tag."""
        self._last_tag += 1
        self._of[self._last_tag] = (partition, offset, size)
        self._size += size
        self._pending.setdefault(partition, {})[offset] = False
        return self._last_tag

    def acknowledge(self, tags: Iterable[int]) -> dict[Partition, int]:
        """Records need not be delivered again; returns the offsets that have moved, to commit."""
        touched: dict[Partition, None] = {}
        for tag in tags:
            self._size -= self._lost.pop(tag, 0)
            found = self._of.pop(tag, None)
            if found is not None:
                partition, offset, size = found
                self._size -= size
                self._pending[partition][offset] = True
                touched[partition] = None
        moved = {}
        for partition in touched:
            pending = self._pending[partition]
            for offset in list(pending):
                if not pending[offset]:
                    break
                del pending[offset]
                moved[partition] = offset + 1
        return moved

    def lose(self, partitions: Iterable[Partition]) -> None:
        """Partitions belong to another consumer now: nothing is committed of them any more.

        Their records count until they are acknowledged: while a queue is full, each new assignment would
        deliver as many again.
        """
        lost = set(partitions)
        for partition in lost:
            self._pending.pop(partition, None)
        for tag, (partition, _, size) in list(self._of.items()):
            if partition in lost:
                del self._of[tag]
                self._lost[tag] = size
