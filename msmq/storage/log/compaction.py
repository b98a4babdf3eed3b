"""Compaction of the record log: copies live packets out of nearly empty segments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import repeat
from typing import Final, TypeAlias

import attrs
from twisted.internet.defer import Deferred

from msmq.interfaces.storage import StorageError
from msmq.storage.log.batches import WriteBatch
from msmq.storage.log.core.message_rows import row_columns
from msmq.storage.log.core.packet_owner import OwnerKind, PacketOwner
from msmq.storage.log.core.plan import GroupPlan
from msmq.storage.log.core.records import EVENT_ROW, LOG_ROW, MESSAGE_ROW
from msmq.storage.log.core.state import KeptQueue, State
from msmq.storage.log.engine import Engine
from msmq.storage.log.packet_fetcher import Damage, PacketFetcher, packet_location
from msmq.storage.log.system import LogWorker

STEP_ROWS: Final = 500
"""Rows examined per step."""
ROWS_AT_ONCE: Final = 32
"""Rows of other segments that count as one."""
STEP_BYTES: Final = 256 * 1024
"""Bytes of packets copied per batch of more than one packet."""

Copy: TypeAlias = Callable[[GroupPlan, bytes], None]
"""Appends a packet to a group, if its row still refers to the location that was read."""


@attrs.frozen
class Live:
    """A live packet to copy."""

    location: int
    size: int
    checksum: int
    copy: Copy
    owner: PacketOwner


def live_packets(state: State, victims: set[int] | None) -> Iterator[Live | None]:
    """Iterate over the live packets of these segments; C{None} after each other row, or a few at once.

    @param victims: generations; C{None} for all of them.

    The state may change between items.
    """
    for number in list(state.by_number):
        if (kept := state.by_number.get(number)) is None:
            continue
        for lookup_ids, packed in kept.messages.pages():
            if state.by_number.get(number) is not kept:
                # A removed queue: its rows stay for a while, but their segments may be gone.
                break
            if victims is None or not victims.isdisjoint(row_columns(lookup_ids, packed).generations):
                yield from _live_messages(state, kept, lookup_ids, victims)
            else:
                # Cheaper than examining each row.
                yield from repeat(None, 1 + len(lookup_ids) // ROWS_AT_ONCE)
        after = 0
        while state.by_number.get(number) is kept and (place := kept.log.after(after)) < len(kept.log):
            after, _, location, size, checksum, _ = LOG_ROW.unpack(kept.log.row(place))
            if victims is None or location >> 32 in victims:
                yield Live(
                    location,
                    size,
                    checksum,
                    partial(_copy_log, number, after, location),
                    PacketOwner(OwnerKind.LOG_ENTRY, number, after),
                )
            else:
                yield None
    sequence = state.events.first
    while (event := state.events.row(sequence)) is not None:
        location, size, checksum, *_ = EVENT_ROW.unpack(event)
        if victims is None or location >> 32 in victims:
            yield Live(
                location,
                size,
                checksum,
                partial(_copy_event, sequence, location),
                PacketOwner(OwnerKind.EVENT, 0, sequence),
            )
        else:
            yield None
        sequence = max(sequence + 1, state.events.first)


def _live_messages(
    state: State, kept: KeptQueue, lookup_ids: Iterable[int], victims: set[int] | None
) -> Iterator[Live | None]:
    number = kept.number
    for lookup_id in lookup_ids:
        row = kept.messages.get(lookup_id) if state.by_number.get(number) is kept else None
        if row is None:
            continue
        location, size, checksum, *_ = MESSAGE_ROW.unpack(row)
        if victims is None or location >> 32 in victims:
            yield Live(
                location,
                size,
                checksum,
                partial(_copy_message, number, lookup_id, location),
                PacketOwner(OwnerKind.MESSAGE, number, lookup_id),
            )
        else:
            yield None


def _copy_message(number: int, lookup_id: int, location: int, plan: GroupPlan, packet: bytes) -> None:
    kept = plan.state.by_number.get(number)
    row = None if kept is None else kept.messages.get(lookup_id)
    if kept is None or row is None:
        return
    found, size, checksum, *rest = MESSAGE_ROW.unpack(row)
    if found == location:
        place, _ = plan.packet(packet)
        plan.put_row(kept, lookup_id, MESSAGE_ROW.pack(place, size, checksum, *rest), False)


def _copy_log(number: int, sequence: int, location: int, plan: GroupPlan, packet: bytes) -> None:
    kept = plan.state.by_number.get(number)
    place = None if kept is None else kept.log.index(sequence)
    if kept is not None and place is not None:
        plan.move_log(kept, place, location, packet)


def _copy_event(sequence: int, location: int, plan: GroupPlan, packet: bytes) -> None:
    plan.move_event(sequence, location, packet)


class Compaction:
    """Compacts in passes over the index, in short steps.

    @param fetcher: used only in the thread of C{reading}.
    @param damaged: called with packets that cannot be read.
    @param resume: called when L{step} can do more, without a group in between.
    """

    def __init__(
        self,
        engine: Engine,
        reading: LogWorker,
        fetcher: PacketFetcher,
        damaged: Callable[[Damage, int, PacketOwner], object],
        resume: Callable[[], object],
    ) -> None:
        self._engine = engine
        self._reading = reading
        self._fetcher = fetcher
        self._damaged = damaged
        self._resume = resume
        self._rows: Iterator[Live | None] | None = None
        self._is_waiting = False
        # Whether the disk was full when the pass began; it may then use the space reserved for removals.
        self._is_short = False
        # Segments at the end of the last pass; without a change no new pass is needed.
        self._seen = 0

    @property
    def is_running(self) -> bool:
        """Whether a pass is running."""
        return self._rows is not None

    def step(self) -> bool:
        """Do one step; returns whether more work is pending."""
        if self._is_waiting:
            return False
        engine = self._engine
        if self._rows is None:
            if self._seen == engine.counters.segments + engine.counters.reclaimed:
                return False
            self._seen = engine.counters.segments + engine.counters.reclaimed
            self._is_short = engine.supply.is_short
            victims = engine.segments.victims(engine.position.generation, is_short=self._is_short)
            if not victims:
                return False
            self._rows = live_packets(engine.state, victims)
        found: list[Live] = []
        size = 0
        for _ in range(STEP_ROWS):
            live = next(self._rows, self)
            if live is self:
                self._rows = None
                break
            if isinstance(live, Live):
                found.append(live)
                size += live.size
                if size > STEP_BYTES:
                    break
        if found:
            self._copy(found)
        return not found and self._rows is not None

    def _copy(self, found: list[Live]) -> None:
        engine = self._engine
        locations = [
            packet_location(engine.directory, engine.segments, live.location, live.size, live.checksum)
            for live in found
        ]
        self._is_waiting = True
        self._reading.do(lambda: self._fetcher.fetch(locations), partial(self._read, found))

    def _read(self, found: list[Live], packets: list[bytes | Damage] | Exception) -> None:
        if isinstance(packets, Exception):
            self._is_waiting = False
            return
        copies: list[tuple[Live, bytes]] = []
        for live, packet in zip(found, packets, strict=True):
            if isinstance(packet, Damage):
                self._damaged(packet, live.location, live.owner)
            else:
                copies.append((live, packet))

        def work(plan: GroupPlan) -> None:
            for live, packet in copies:
                live.copy(plan, packet)

        done: Deferred[None] = Deferred()
        done.addCallbacks(lambda _: self._copied(copies), lambda failure: failure.trap(StorageError))
        done.addBoth(self._continue)
        self._engine.put(WriteBatch((), done, work=work, is_removing=self._is_short))

    def _copied(self, copies: list[tuple[Live, bytes]]) -> None:
        self._engine.counters.copied += len(copies)
        self._engine.counters.copied_bytes += sum(len(packet) for _, packet in copies)

    def _continue(self, _: object) -> None:
        self._is_waiting = False
        self._resume()
