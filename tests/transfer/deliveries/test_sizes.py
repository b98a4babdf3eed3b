"""Sizes at which values of delivery records are merged, to the byte."""

from __future__ import annotations

import attrs
from twisted.trial.unittest import SynchronousTestCase

from msmq.transfer.deliveries.flight import RunBuilder
from msmq.transfer.deliveries.records import (
    LARGEST_PAGE,
    MOST_SOURCES,
    DeliveryRecord,
    DeliveryStep,
    DeliveryTarget,
    MessageRun,
    read_index,
    write_block,
    write_page,
)
from msmq.transfer.deliveries.table import MERGED, MERGED_BYTES, DeliveryTable
from tests.transfer.deliveries.test_records import OWN

LEAST, RUN = 200, 20


def record(size: int) -> DeliveryRecord:
    """A record that is a block of this size: of many runs, for a queue whose name fills the rest."""
    builder = RunBuilder()
    for number in range((size - LEAST) // RUN):
        builder.add(10 * number)
    runs = builder.finish()

    def made(queue: str) -> DeliveryRecord:
        where = DeliveryTarget(bytes(16), "", 0.0, queue)
        return DeliveryRecord(DeliveryStep.ORDERED, 1.0, where, OWN, runs)

    found = made("q" * (size - len(write_block([made("")]))))
    assert len(write_block([found])) == size
    return found


def block(size: int) -> bytes:
    return write_block([record(size)])


class SizeTests(SynchronousTestCase):
    """What is merged after a start from these values."""

    def left(self, *values: bytes) -> int:
        """How many values of these there are after the next commit."""
        state: dict[str, bytes] = {f"x/{number}": value for number, value in enumerate(values)}
        table = DeliveryTable("x/", 100_000_000)
        table.load(state)
        for name, value in table.take():
            if value is None:
                del state[name]
            else:
                state[name] = value
        return len(state)

    def test_blocks(self) -> None:
        """Two are a page as soon as they have so many bytes together."""
        half = MERGED_BYTES // 2
        self.assertEqual(self.left(block(half), block(half - 1)), 2)
        self.assertEqual(self.left(block(half), block(half)), 1)

    def test_the_largest_page(self) -> None:
        """What would be larger stays as it is; a page has the size of each block too."""
        half = LARGEST_PAGE // 2 - 4
        self.assertEqual(self.left(block(half), block(half + 1)), 2)
        self.assertEqual(self.left(block(half), block(half)), 1)

    def test_pages(self) -> None:
        """Small ones are merged after a start, and larger ones are not."""
        least = MERGED_BYTES // MERGED[1]
        for size, left in ((least, 1), (least + 1, MERGED[1])):
            data = block(size - 4)
            page = write_page([data], read_index("", data))
            self.assertEqual(self.left(*[page] * MERGED[1]), left)
            self.assertEqual(self.left(*[page] * (MERGED[1] - 1)), MERGED[1] - 1)

    def test_blocks_after_a_start(self) -> None:
        """They are merged when there are as many as without it."""
        data = block(300)
        self.assertEqual(self.left(*[data] * (MERGED[0] - 1)), MERGED[0] - 1)
        self.assertEqual(self.left(*[data] * MERGED[0]), 1)


class CommitTests(SynchronousTestCase):
    """What is merged with each commit."""

    def setUp(self) -> None:
        self.table = DeliveryTable("x/", 100_000_000)
        self.names: set[str] = set()

    def store(self, *records: DeliveryRecord) -> int:
        """How many values there are after a commit with these records."""
        for each in records:
            self.table.add(each)
        for name, value in self.table.take():
            if value is None:
                self.names.remove(name)
            else:
                self.names.add(name)
        return len(self.names)

    def test_blocks_after_a_large_one(self) -> None:
        """It is left out of what is counted for the next page."""
        half = MERGED_BYTES // 2
        left = [self.store(record(size)) for size in (MERGED_BYTES, half, half - 1, half)]
        self.assertEqual(left, [1, 2, 3, 2])

    def test_pages(self) -> None:
        """Two are merged as soon as they have so many bytes together."""
        each = MERGED_BYTES // 2 // MERGED[0] - 4
        for least, left in ((each - 1, 2), (each, 1)):
            self.setUp()
            for size in (least, *[each] * (2 * MERGED[0] - 1)):
                self.store(record(size))
            self.assertEqual(len(self.names), left)

    def test_pages_after_a_large_value(self) -> None:
        """It is not merged with them."""
        self.assertEqual(self.store(record(MERGED_BYTES)), 1)
        for _ in range(MERGED[0] * (MERGED[1] - 1)):
            self.store(record(220))
        self.assertEqual(len(self.names), MERGED[1])

    def test_names(self) -> None:
        """They begin with 0, and after a start behind the last one."""
        self.store(record(300))
        self.assertEqual(self.names, {"x/0"})
        self.table.load({"x/3": block(300)})
        self.store(record(300))
        self.assertEqual(self.names, {"x/0", "x/4"})

    def test_sources(self) -> None:
        """A block has those of a thousand queue managers, and no more."""
        records = [attrs.evolve(record(300), source=number.to_bytes(16)) for number in range(MOST_SOURCES)]
        self.assertEqual(self.store(*records), 1)
        self.setUp()
        self.assertEqual(self.store(*records, record(300)), 2)

    def test_places(self) -> None:
        """A block has as many as its format can count."""
        one = DeliveryTarget(bytes(16), "", 0.0, "q")
        records = [
            DeliveryRecord(
                DeliveryStep.ORDERED, 1.0, attrs.evolve(one, opened=float(number)), OWN, (MessageRun(1, 1),)
            )
            for number in range(0x10000)
        ]
        self.assertEqual(self.store(*records), 2)
        self.assertEqual(self.table.messages, 0x10000)
