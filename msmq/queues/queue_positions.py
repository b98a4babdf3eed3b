"""The messages of a queue by LookupIdentifier, and those of a deleted queue, of which some are packed."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from itertools import chain
from typing import Any, Generic, Protocol

from msmq.queues.ordered_positions import P, P_co, PackedChunk


class PackedMessages(Protocol[P_co]):
    """The packed messages of a queue."""

    def load(self, lookup_id: int) -> None:
        """Make the chunk of a message objects, if it is packed."""

    def is_packed(self, lookup_id: int) -> bool:
        """Whether a message is packed."""

    def packed_chunks(self) -> Iterator[PackedChunk[P_co]]:
        """The packed chunks."""


class QueuePositions(dict[int, P]):
    """The messages of a queue by their LookupIdentifiers, of which some are packed.

    A message that is requested by its LookupIdentifier becomes an object, with its chunk.
    Iteration leaves packed messages packed: of these it has objects that are not those of the queue.

    @ivar packed: how many are packed.
    """

    __slots__ = ("_messages", "packed")

    def __init__(self, messages: PackedMessages[P]) -> None:
        super().__init__()
        self._messages = messages
        self.packed = 0

    def __len__(self) -> int:
        return dict.__len__(self) + self.packed

    def __bool__(self) -> bool:
        return self.packed > 0 or dict.__len__(self) > 0

    def __contains__(self, lookup_id: object) -> bool:
        if dict.__contains__(self, lookup_id):
            return True
        return self.packed > 0 and isinstance(lookup_id, int) and self._messages.is_packed(lookup_id)

    def __missing__(self, lookup_id: int) -> P:
        if (position := self.get(lookup_id)) is None:
            raise KeyError(lookup_id)
        return position

    def get(  # type: ignore[override]
        self, lookup_id: int, default: P | None = None
    ) -> P | None:
        """The message of a LookupIdentifier."""
        position = dict.get(self, lookup_id)
        if position is None and self.packed:
            self._messages.load(lookup_id)
            position = dict.get(self, lookup_id)
        return default if position is None else position

    def __iter__(self) -> Iterator[int]:
        return chain(dict.__iter__(self), (position.lookup_id for position in self._packed_objects()))

    def keys(self) -> Any:
        """The LookupIdentifiers, in no order."""
        return iter(self)

    def values(self) -> Any:
        """The messages, in the same order; those that are packed are copies."""
        return chain(dict.values(self), self._packed_objects())

    def items(self) -> Any:
        """Both."""
        return ((position.lookup_id, position) for position in self.values())

    def loaded(self) -> Collection[P]:
        """Those that are objects; all others are available, stored, and not in memory."""
        return dict.values(self)

    def _packed_objects(self) -> Iterator[P]:
        return chain.from_iterable(chunk.objects() for chunk in self._messages.packed_chunks())


class RemovedPositions(Generic[P]):
    """The messages of a deleted queue; packed ones become objects when they are taken.

    @ivar packed: the packed ones, which come first.
    """

    __slots__ = ("_objects", "_unpacked", "packed")

    def __init__(self, positions: Iterable[P] = ()) -> None:
        self._objects = deque(positions)
        self.packed: deque[PackedChunk[P]] = deque()
        self._unpacked: deque[P] = deque()

    def __len__(self) -> int:
        return len(self._objects) + len(self._unpacked) + sum(map(len, self.packed))

    def __bool__(self) -> bool:
        return bool(self.packed) or bool(self._unpacked) or bool(self._objects)

    def __iter__(self) -> Iterator[P]:
        packed = chain.from_iterable(chunk.objects() for chunk in self.packed)
        return chain(self._unpacked, packed, self._objects)

    def loaded(self) -> Iterator[P]:
        """Those that are objects."""
        return chain(self._unpacked, self._objects)

    def take(self, count: int) -> list[P]:
        """Remove the first C{count}, or as many as there are; one chunk is unpacked at a time."""
        taken: list[P] = []
        while len(taken) < count and self:
            if not self._unpacked and self.packed:
                self._unpacked.extend(self.packed.popleft().objects())
            source = self._unpacked or self._objects
            remove = source.popleft
            taken += [remove() for _ in range(min(count - len(taken), len(source)))]
        return taken

    def join(self, other: RemovedPositions[P]) -> None:
        """Have the messages of another queue too."""
        self._objects.extend(other.loaded())
        self.packed.extend(other.packed)
