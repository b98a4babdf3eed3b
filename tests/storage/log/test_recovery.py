"""The recovery of a record log: every history of a small one, up to a bound."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import attrs
from twisted.trial.unittest import SynchronousTestCase

from msmq.interfaces.storage import StoreIncomplete
from msmq.persistence.changes import AppendEvent, PutMessage, PutQueue, PutState, RemoveUnread
from msmq.storage.log.core.format import BLOCK, FIRST
from msmq.storage.log.core.recovery import Recovered, recover
from msmq.storage.log.core.scan import Position, Read
from msmq.storage.log.core.state import State
from msmq.storage.log.failures import StoreDamaged
from tests.faults import IS_THOROUGH
from tests.storage.log.model import BLOCKS, NOWHERE, QUEUE, Blocks, Machine, Numbers, Written

DEPTH = 3 if IS_THOROUGH else 2


def _reader(content: bytes) -> Read:
    return lambda offset, size: content[offset : offset + size]


def subsets(count: int) -> Iterator[tuple[int, ...]]:
    """Every subset of this number of blocks."""
    for size in range(count + 1):
        yield from combinations(range(count), size)


class EveryHistoryTests(SynchronousTestCase):
    """Writes that succeed, fail in any part, and are cut off by a crash in any part."""

    def setUp(self) -> None:
        self.crashes = 0

    def explore(self, machine: Machine, attempts: Sequence[Written], depth: int) -> None:
        """Crash here in every way, then go on in every way."""
        self.crash(machine, attempts)
        if not depth:
            return
        for is_large in (False, True):
            twin = machine.copy()
            twin.confirm(twin.group(is_large=is_large))
            self.explore(twin, [], depth - 1)
            for parts in subsets(3 if is_large else 1):
                for is_neutralized in (True, False):
                    twin = machine.copy()
                    group = twin.group(is_large=is_large)
                    twin.write(group, parts)
                    if is_neutralized:
                        twin.neutralize(group)
                    self.explore(twin, [*attempts, group], depth - 1)

    def crash(self, machine: Machine, attempts: Sequence[Written]) -> None:
        """Assert that recovery finds the confirmed batches, and the pending one if it is complete."""
        for is_large in (False, True):
            for parts in subsets(3 if is_large else 1):
                twin = machine.copy()
                group = twin.group(is_large=is_large)
                twin.write(group, parts)
                last = twin.complete([*attempts, group])
                expected = twin.confirmed + ([] if last is None else [last])
                self.crashes += 1
                self.assertEqual(twin.recovered(), expected)

    def test_new_segment(self) -> None:
        """In a segment of zeros, nothing that was confirmed is lost and nothing else is found."""
        self.explore(Machine(), [], DEPTH)
        self.assertGreater(self.crashes, 5000)

    def test_recycled_segment(self) -> None:
        """Where the groups of an earlier use are at the same positions, none of them is found."""
        self.explore(Machine(is_recycled=True), [], DEPTH - 1)
        self.assertGreater(self.crashes, 200)

    def test_going_on_in_another_segment(self) -> None:
        """A crash at any step of the change to another segment, recycled or not, loses nothing."""
        for is_recycled in (False, True):
            machine = Machine(is_recycled=is_recycled)
            machine.confirm(machine.group(is_large=True))
            self.crash(machine, [])
            # Its header may be there or not, since nothing refers to it yet.
            machine.segments[3] = Blocks.of(3, machine.segments[2] if is_recycled else None)
            self.crash(machine, [])
            seal = machine.group(is_large=False, sealed=3)
            self.assertEqual(machine.recovered(), machine.confirmed)
            machine.confirm(seal)
            self.assertEqual(machine.recovered(), machine.confirmed)
            self.explore(machine, [], 1)

    def test_report_of_a_cut(self) -> None:
        """A write that was begun is reported as cut off; the earlier content of a segment is not."""
        for is_recycled in (False, True):
            machine = Machine(is_recycled=is_recycled)
            machine.confirm(machine.group(is_large=True))
            self.assertFalse(self.is_cut(machine))
            machine.write(machine.group(is_large=True), [0])
            self.assertTrue(self.is_cut(machine))

    def is_cut(self, machine: Machine) -> bool:
        """Whether a start reports that a write was cut off."""
        sources = {generation: one.source() for generation, one in machine.segments.items()}
        return recover(NOWHERE, sources, Position(generation=2), Numbers()).is_cut

    def test_damage_before_a_cut(self) -> None:
        """A damaged packet does not make the last group a torn write, if another one was begun after it."""
        for is_recycled in (False, True):
            machine = Machine(is_recycled=is_recycled)
            machine.confirm(machine.group(is_large=True))
            group = machine.group(is_large=True)
            machine.confirm(group)
            machine.segments[2].content[group.offset + 600] ^= 1
            self.assertEqual(machine.recovered(), [1])
            machine.write(machine.group(is_large=True), [0])
            self.assertEqual(machine.recovered(), [1, 2])

    def test_every_byte(self) -> None:
        """A write that is cut off behind any of its bytes is there whole or not at all."""
        for is_recycled in (False, True):
            machine = Machine(is_recycled=is_recycled)
            machine.confirm(machine.group(is_large=True))
            group = machine.group(is_large=True)
            needed = len(group.data.rstrip(b"\0"))
            before = bytes(machine.segments[2].content)
            for length in range(len(group.data) + 1):
                content = machine.segments[2].content
                content[:] = before
                content[group.offset : group.offset + length] = group.data[:length]
                self.assertEqual(machine.recovered(), [1, 2] if length >= needed else [1], length)

    def test_events_of_many_removals(self) -> None:
        """A write is torn, too, where only the packet that its events share is incomplete."""
        machine = Machine()
        machine.confirm(machine.group(is_large=True))
        machine.number += 1
        reported = AppendEvent(1.0, b"", "purged", "x" * 3 * BLOCK, 7, "private$\\q")
        group = machine.encode(
            [
                PutState("number", b"%d" % machine.number),
                PutMessage(QUEUE.identifier, 1, b"m", 1.0),
                RemoveUnread(QUEUE.identifier, (1,), reported),
            ]
        )
        for missing in range(1, group.blocks):
            twin = machine.copy()
            twin.write(group, [part for part in range(group.blocks) if part != missing])
            self.assertEqual(twin.recovered(), [1], missing)
        machine.confirm(group)
        self.assertEqual(machine.recovered(), [1, 2])

    def test_missing_segment(self) -> None:
        """The last segment cannot be taken away unnoticed: the one before it names it."""
        machine = Machine()
        machine.segments[3] = Blocks.of(3)
        machine.confirm(machine.group(is_large=False, sealed=3))
        machine.confirm(machine.group(is_large=True))
        for generation in (2, 3):
            twin = machine.copy()
            del twin.segments[generation]
            error = self.assertRaises(StoreIncomplete, twin.recovered)
            self.assertIn(f"the segment of generation {generation} is missing", str(error))


class DamageTests(SynchronousTestCase):
    """Bits that change long after they were written."""

    def setUp(self) -> None:
        self.machine = Machine()
        for is_large in (True, False, True, False):
            self.machine.confirm(self.machine.group(is_large=is_large))
        self.end = self.machine.position.offset

    def outcome(self, machine: Machine) -> str | tuple[list[int], list[str]]:
        """The error of a start, or the state that it finds."""
        state = State()
        sources = {generation: one.source() for generation, one in machine.segments.items()}
        try:
            recover(NOWHERE, sources, Position(generation=2), state)
        except StoreDamaged as error:
            return str(error)
        messages = [row.hex() for kept in state.queues.values() for row in kept.messages.values()]
        return [int(state.values["number"])], messages

    def test_every_bit(self) -> None:
        """A bit that flips anywhere before the last group is harmless, or refused with file and offset."""
        whole = self.outcome(self.machine)
        last = self.end - BLOCK
        refused = 0
        for offset in range(FIRST, last):
            twin = self.machine.copy()
            twin.segments[2].content[offset] ^= 1 << offset % 8
            found = self.outcome(twin)
            if isinstance(found, str):
                refused += 1
                self.assertRegex(found, r"^log/segment-000002, offset \d+: group \d+ is damaged")
            else:
                self.assertEqual(found, whole)
        self.assertGreater(refused, 250)

    def test_every_bit_of_the_last_group(self) -> None:
        """A flipped bit in the last group looks like a write that was cut off: it is whole or gone."""
        whole = self.outcome(self.machine)
        for offset in range(self.end - BLOCK, self.end):
            twin = self.machine.copy()
            twin.segments[2].content[offset] ^= 1 << offset % 8
            found = self.outcome(twin)
            if found != whole:
                self.assertEqual(found[0], [3])

    def test_groups_that_a_packet_imitates(self) -> None:
        """A packet that is a copy of a group is never taken for one."""
        machine = Machine()
        imitation = machine.copy()
        imitation.number = 665
        # At the second block of the next group, with the sequence that would be expected there.
        imitation.position = Position(2, FIRST + 2 * BLOCK, 2, 0)
        forged = imitation.group(is_large=False)
        machine.number += 1
        packet = bytes(BLOCK * 2 - 36) + forged.data
        group = machine.encode(
            [
                PutState("number", b"1"),
                PutQueue(QUEUE),
                PutMessage(QUEUE.identifier, 1, packet, 1.0),
            ]
        )
        for parts in subsets(group.blocks):
            twin = machine.copy()
            twin.write(group, parts)
            try:
                found = twin.recovered()
            except StoreDamaged:
                # A writer that knows the checksum of the header, which is secret, can do that and no more.
                continue
            self.assertIn(found, ([], [1]))

    def test_older_segment(self) -> None:
        """A checkpoint that is ahead of the log is refused, and so is one of another log."""
        position = self.machine.position
        segment = self.machine.segments[2]
        older = bytes(segment.content[: self.end - BLOCK]).ljust(len(segment.content), b"\0")
        for content, chain, is_refused in (
            (bytes(segment.content), position.chain, False),
            (older, position.chain, True),
            (bytes(segment.content), position.chain ^ 1, True),
        ):
            source = attrs.evolve(segment.source(), read=_reader(content))
            after = attrs.evolve(position, chain=chain)
            if not is_refused:
                found = recover(NOWHERE, {2: source}, after, State())
                self.assertEqual(found, Recovered(position, False, None))
                continue
            error = self.assertRaises(StoreDamaged, recover, NOWHERE, {2: source}, after, State())
            self.assertIn("group 4, the last one of the checkpoint, is missing: an older copy", str(error))

    def test_truncated_segment(self) -> None:
        """A file that was cut is refused with what is left of it."""
        source = self.machine.segments[2].source()
        error = self.assertRaises(
            StoreDamaged,
            recover,
            NOWHERE,
            {2: attrs.evolve(source, size=FIRST + BLOCK)},
            Position(generation=2),
            State(),
        )
        size = FIRST + BLOCKS * BLOCK
        self.assertIn(f"offset {FIRST + BLOCK}: the file has {FIRST + BLOCK} of {size} bytes", str(error))
