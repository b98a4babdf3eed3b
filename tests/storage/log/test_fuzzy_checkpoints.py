"""Checkpoints of a record log that changes while they are written."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from uuid import UUID
from zlib import crc32

from twisted.trial.unittest import SynchronousTestCase

from msmq.persistence.changes import RemoveMessages
from msmq.storage.log.checkpoint_files import CheckpointWriter, FoundCheckpoint, find_checkpoints
from msmq.storage.log.core import checkpoint, records
from msmq.storage.log.core.checkpoint import BODY, CheckpointHeader, read_body, read_needed, tables
from msmq.storage.log.core.message_rows import MessageRows
from msmq.storage.log.core.plan import GroupPlan
from msmq.storage.log.core.records import EVENT_ROW, LOG_ROW, MESSAGE_ROW, read_records, replay
from msmq.storage.log.core.rows import rows_from
from msmq.storage.log.core.scan import Position
from msmq.storage.log.core.state import ALL_LOGS, State
from msmq.storage.log.system import LocalSystem
from tests import disk

QUEUE = UUID(int=1)
KINDS = (
    *("event", "trim events", "move event", "entry", "trim log", "move entry"),
    *("message", "messages", "remove", "failed removal", "value"),
)
MESSAGES = 40
"""Number of different LookupIdentifiers."""


def changes(chance: Random) -> list[tuple[str, int]]:
    """Up to five changes."""
    return [(chance.choice(KINDS), chance.randrange(13)) for _ in range(chance.randrange(6))]


class _Log:
    """A state and the records that led to it."""

    def __init__(self) -> None:
        self.state = State()
        self.written: list[bytes] = []
        self.number = 0
        self.write(records.queue_record(1, QUEUE, b"{}"))

    def write(self, record: bytes) -> None:
        """Commit a record."""
        self.written.append(record)
        for one in read_records(record):
            replay(one, self.state)

    def change(self, kind: str, count: int) -> None:
        """Make a change, of which C{count} chooses the object."""
        state, log = self.state, self.state.by_number[1].log
        self.number += 1
        event = EVENT_ROW.pack(self.number, 1, 2, 3.0, 0, b"")
        match kind:
            case "event":
                for _ in range(count):
                    self.write(records.event_record(state.last_event + 1, event))
            case "trim events":
                self.write(records.events_trimmed_record(min(state.events.first + count, state.events.end)))
            case "move event":
                if count < len(state.events):
                    self.write(records.event_record(state.events.first + count, event))
            case "entry":
                for _ in range(count):
                    # Queues share the numbers of log entries.
                    number = state.last_entry + 1 + count % 3
                    row = LOG_ROW.pack(number, number, self.number, number % 5, 2, 3.0)
                    self.write(records.log_record(1, number, row))
            case "trim log":
                if len(log):
                    self.write(records.log_trimmed_record(1, log.sequence(min(count, len(log) - 1)) + 1))
            case "move entry":
                if count < len(log):
                    number = log.sequence(count)
                    row = LOG_ROW.pack(number, number, self.number, number % 5, 2, 3.0)
                    self.write(records.log_record(1, number, row))
            case "message":
                row = MESSAGE_ROW.pack(self.number, 1, 2, 3.0, -1, 0, 0, b"")
                self.write(records.message_key(1, count) + row)
            case "messages":
                for lookup_id in range(count, min(3 * count + 1, MESSAGES)):
                    row = MESSAGE_ROW.pack(self.number, 1, 2, 3.0, -1, 0, 0, b"")
                    self.write(records.message_key(1, lookup_id) + row)
            case "remove":
                self.write(records.messages_gone_record(1, array("Q", [count])))
            case "failed removal":
                plan = GroupPlan(state, 0, 0)
                plan.add([RemoveMessages(QUEUE, tuple(range(count, 2 * count + 1)))])
                plan.rollback()
            case _:
                self.write(records.state_record(f"value {count}", b"%d" % self.number if count % 2 else None))

    def content(self) -> object:
        """All that a start would find."""
        state, kept = self.state, self.state.by_number[1]
        return (
            [state.events.row(number) for number in range(state.events.first, state.events.end)],
            state.events.end,
            [kept.log.row(place) for place in range(len(kept.log))],
            kept.log.size,
            {key: kept.messages.get(key) for key in range(MESSAGES)},
            state.values,
            (state.last_entry, state.last_event, state.next_queue),
        )


class FuzzyCheckpointTests(SynchronousTestCase):
    """A checkpoint, and the log from its position, give the state of the log.

    Tables have three rows, so that all changes come between any two of them, and most messages are packed.
    """

    def setUp(self) -> None:
        self.patch(checkpoint, "ROWS", 3)
        self.patch(MessageRows, "block", 3)
        self.patch(MessageRows, "young", 4)

    def start(self, log: _Log, steps: list[list[tuple[str, int]]], skipped: int = 0) -> _Log:
        """A start from a checkpoint that is written while the log changes.

        @param skipped: entries that it may leave out.
        """
        state = log.state
        numbers = state.next_queue, state.last_entry, state.last_event
        behind = len(log.written)
        body = b""
        for table in tables(state):
            body += checkpoint.chunk(table)
            for kind, count in steps.pop() if steps else ():
                log.change(kind, count)
        header = CheckpointHeader(b"", 1, Position(1, 0, 1, 0), *numbers, len(body), crc32(body))
        started = _Log()
        if skipped:
            read = lambda offset, size: body[offset : offset + size]  # noqa: E731
            started.state = read_needed(header, read, {QUEUE: skipped + 1})
        else:
            started.state = read_body(header, body)
        # Groups of one to six records: rows of one queue in a group are replayed together.
        size = 1 + len(log.written) % 6
        for first in range(behind, len(log.written), size):
            started.write(b"".join(log.written[first : first + size]))
        return started

    def test_any_changes(self) -> None:
        """Whatever is added, trimmed, moved and removed meanwhile."""
        for seed in range(300):
            chance = Random(seed)
            log = _Log()
            for _ in range(4):
                for kind, count in changes(chance):
                    log.change(kind, count)
            started = self.start(log, [changes(chance) for _ in range(20)])
            self.assertEqual(started.content(), log.content(), seed)

    def test_skipped_entries(self) -> None:
        """A start that may leave out the beginning of a message log has all of the rest, and its bounds."""
        left_out = 0
        for seed in range(300):
            chance = Random(seed)
            log = _Log()
            for _ in range(8):
                log.change("entry", chance.randrange(13))
            skipped = chance.randrange(2 * log.state.last_entry + 2)
            started = self.start(log, [changes(chance) for _ in range(20)], skipped)
            found, expected = started.state.by_number[1].log, log.state.by_number[1].log
            count = len(expected) - expected.after(skipped)
            self.assertEqual(
                found.chunk(found.after(skipped), count + 1),
                expected.chunk(expected.after(skipped), count),
                seed,
            )
            self.assertEqual((found.first, started.state.last_entry), (expected.first, log.state.last_entry))
            if len(expected):
                self.assertEqual(found.sequence(len(found) - 1), expected.sequence(len(expected) - 1), seed)
            left_out += len(expected) - len(found)
        self.assertGreater(left_out, 1000)

    def test_removal_that_fails_between_two_tables(self) -> None:
        """A removal that could not be written, as on a full disk, leaves its messages in the checkpoint."""
        log = _Log()
        log.change("messages", 0)
        for first in (4, 8, 12):
            log.change("messages", first)
        # The tables before are that of the queue and the first of its messages.
        started = self.start(log, [[], [], [("failed removal", 12)], []])
        self.assertEqual(started.content(), log.content())

    def test_events_trimmed_between_two_tables(self) -> None:
        """Events that the checkpoint has not reached are trimmed, and a later one was added before that."""
        log = _Log()
        log.change("event", 9)
        between = [("event", 1), ("trim events", 10)]
        # The tables before are those of the queue, its log, and where the events begin.
        started = self.start(log, [between, [], [], []])
        self.assertEqual(started.content(), log.content())
        self.assertEqual((len(started.state.events), started.state.events.end), (0, 11))


class SkippedRowsTests(SynchronousTestCase):
    """Rows of a message log whose beginning is skipped."""

    def test_any_order(self) -> None:
        """The one with the largest sequence is left of rows that are all skipped, wherever it is."""
        one, two, three = (LOG_ROW.pack(number, 0, 0, 0, 0, 1.0) for number in (1, 2, 3))
        for rows, start, left in (
            (one + three + two, 3, one + three + two),
            (one + three + two, 4, three),
            (three, 9, three),
            (b"", 9, b""),
        ):
            self.assertEqual(rows_from(rows, start), left)


class _ObservedReads(LocalSystem):
    """The system, with the bytes that were read, and what happens before a read of the body.

    @ivar bytes_read: how many.
    """

    def __init__(self, before: Callable[[], object] = lambda: None) -> None:
        self.bytes_read = 0
        self._before = before

    def read(self, descriptor: int, size: int, offset: int) -> bytes:
        """Count."""
        if offset > BODY:
            self._before()
        found = super().read(descriptor, size, offset)
        self.bytes_read += len(found)
        return found


class SkippedTablesTests(SynchronousTestCase):
    """A checkpoint file with message logs whose beginnings are skipped."""

    ENTRIES = 50_000
    OTHER = UUID(int=2)

    def setUp(self) -> None:
        """A checkpoint of two queues with a log, one after the other."""
        self.home = disk.directory(self)
        self.path = self.write(1, 1.0)

    def write(self, number: int, arrived: float) -> Path:
        """Write a checkpoint over the file."""
        state = State()
        for queue, first in ((QUEUE, 1), (self.OTHER, self.ENTRIES + 1)):
            state.put_queue(queue.int, queue, b"{}")
            rows = [LOG_ROW.pack(first + n, n, 0, 5, 0, arrived) for n in range(self.ENTRIES)]
            state.put_logs(queue.int, b"".join(rows))
        path = self.home / "checkpoint-a"
        writer = CheckpointWriter(path, 0)
        writer.begin()
        writer.append(list(tables(state)))
        header = CheckpointHeader(bytes(16), number, Position(), 3, 2 * self.ENTRIES, 0, 0, 0)
        self.size = writer.finish(header)
        writer.close()
        return path

    def found(
        self, starts: Mapping[UUID, int] = ALL_LOGS, system: LocalSystem | None = None
    ) -> FoundCheckpoint:
        """The checkpoint as it is found with these starts."""
        [found] = find_checkpoints(self.home, log_starts=starts, system=system or LocalSystem())
        return found

    def test_bytes_read(self) -> None:
        """Entries that are not needed are not read, however many there are."""
        system = _ObservedReads()
        state = self.found({QUEUE: self.ENTRIES - 9, self.OTHER: 2 * self.ENTRIES + 1}, system).state
        assert state is not None
        first, second = (state.by_number[number].log for number in (1, 2))
        self.assertEqual(first.chunk(first.after(self.ENTRIES - 10), 99).count(bytes(4) + b"\x05"), 10)
        # The end of a log is known also if all of it is skipped.
        self.assertEqual(second.sequence(len(second) - 1), 2 * self.ENTRIES)
        self.assertLess(system.bytes_read, self.size // 10)

    def test_overwritten_meanwhile(self) -> None:
        """What a server has overwritten during the read is not taken, though each table is intact."""
        before = [lambda: self.write(2, 2.0)]
        found = self.found({QUEUE: self.ENTRIES}, _ObservedReads(lambda: before and before.pop()()))
        self.assertIsNone(found.state)
        self.assertEqual(found.problem, "the checkpoint was overwritten while it was read")

    def test_damage(self) -> None:
        """What is needed is verified, and what is not read may be damaged."""
        starts = {QUEUE: self.ENTRIES, self.OTHER: 2 * self.ENTRIES + 1}
        content = self.path.read_bytes()
        for number, is_read in ((10, False), (self.ENTRIES, True), (2 * self.ENTRIES, True)):
            at = content.rindex(LOG_ROW.pack(number, (number - 1) % self.ENTRIES, 0, 5, 0, 1.0)) + 30
            self.path.write_bytes(content[:at] + b"\xff" + content[at + 1 :])
            self.assertEqual(self.found(starts).state is None, is_read, number)
            self.assertIsNone(self.found().state)
        # The sizes by which the tables are found are compared.
        at = content.index(LOG_ROW.pack(1001, 1000, 0, 5, 0, 1.0)) - 28
        self.path.write_bytes(content[:at] + b"\xff\xff" + content[at + 2 :])
        self.assertIsNone(self.found(starts).state)
