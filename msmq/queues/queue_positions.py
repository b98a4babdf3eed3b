"""The messages of a queue by LookupIdentifier, and those of a deleted queue, of which some are packed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, ItemsView, Iterable, Iterator, KeysView, ValuesView

from msmq.queues.ordered_positions import P, PackedChunk


class QueuePositions(dict[int, P]):
    """The messages of a queue by their LookupIdentifiers, of which some are packed.

    What is asked for by its LookupIdentifier becomes an object; iteration makes all of them objects.

    @ivar packed: how many are packed.
    @param load: makes packed messages objects, as L{msmq.queues.queue.Queue.load}.
    """

    __slots__ = ("_load", "packed")

    def __init__(self, load: Callable[[int | None], None]) -> None:
        super().__init__()
        self._load = load
        self.packed = 0

    def __len__(self) -> int:
        return dict.__len__(self) + self.packed

    def __bool__(self) -> bool:
        return self.packed > 0 or dict.__len__(self) > 0

    def __contains__(self, lookup_id: object) -> bool:
        return isinstance(lookup_id, int) and self.get(lookup_id) is not None

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
            self._load(lookup_id)
            position = dict.get(self, lookup_id)
        return default if position is None else position

    def __iter__(self) -> Iterator[int]:
        self._load_all()
        return dict.__iter__(self)

    def keys(self) -> KeysView[int]:  # type: ignore[override]
        """The LookupIdentifiers."""
        self._load_all()
        return dict.keys(self)

    def values(self) -> ValuesView[P]:  # type: ignore[override]
        """The messages."""
        self._load_all()
        return dict.values(self)

    def items(self) -> ItemsView[int, P]:  # type: ignore[override]
        """Both."""
        self._load_all()
        return dict.items(self)

    def loaded(self) -> Collection[P]:
        """Those that are objects; all others are available, stored, and not in memory."""
        return dict.values(self)

    def _load_all(self) -> None:
        if self.packed:
            self._load(None)


class RemovedPositions(deque[P]):
    """The messages of a deleted queue; packed ones become objects when their turn comes.

    @ivar packed: the packed ones, which come first.
    """

    def __init__(self, positions: Iterable[P] = ()) -> None:
        super().__init__(positions)
        self.packed: deque[PackedChunk[P]] = deque()

    def __len__(self) -> int:
        return super().__len__() + sum(map(len, self.packed))

    def __bool__(self) -> bool:
        return bool(self.packed) or super().__len__() > 0

    def __iter__(self) -> Iterator[P]:
        while self.packed:
            self.extendleft(reversed(self.packed.pop().objects()))
        return super().__iter__()

    def loaded(self) -> Iterator[P]:
        """Those that are objects."""
        return super().__iter__()

    def popleft(self) -> P:
        """Remove the first."""
        if self.packed:
            self.extendleft(reversed(self.packed.popleft().objects()))
        return super().popleft()

    def join(self, other: RemovedPositions[P]) -> None:
        """Have the messages of another queue too."""
        self.extend(other.loaded())
        self.packed.extend(other.packed)
