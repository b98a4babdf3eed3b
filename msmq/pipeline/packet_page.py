"""PacketPage: stored packets of one queue, with what the store knows of them as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

from msmq.pipeline.reading.slices import LEVEL
from msmq.pipeline.stored_packets import StoredPacket

if TYPE_CHECKING:
    from numpy.typing import NDArray


class PacketPage(Sequence[StoredPacket]):
    """See the module.

    @ivar packets: the packets.
    @ivar offsets: values of the column C{offset}; C{lookup_ids}, C{arrived}, C{aborts} and C{moves} likewise,
        the last two C{None} for entries of a log.
    """

    def __init__(self, packets: list[bytes], topic: str, rows: NDArray[Any], *, is_log: bool) -> None:
        self.packets = packets
        self.topic = topic
        self.lookup_ids = rows["lookup_id"]
        self.offsets = rows["offset"] if is_log else self.lookup_ids % LEVEL
        self.arrived = rows["arrived"]
        self.aborts = None if is_log else rows["aborts"]
        self.moves = None if is_log else rows["moves"]

    def __len__(self) -> int:
        return len(self.packets)

    @overload
    def __getitem__(self, index: int) -> StoredPacket: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[StoredPacket]: ...

    def __getitem__(self, index: int | slice) -> StoredPacket | Sequence[StoredPacket]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        return StoredPacket(
            self.packets[index],
            self.topic,
            int(self.offsets[index]),
            float(self.arrived[index]),
            int(self.lookup_ids[index]),
            None if self.aborts is None else int(self.aborts[index]),
            None if self.moves is None else int(self.moves[index]),
        )
