"""Sizes at which values of delivery records are merged, to the byte."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from msmq.transfer.deliveries.flight import RunBuilder
from msmq.transfer.deliveries.records import (
    LARGEST_PAGE,
    DeliveryRecord,
    DeliveryStep,
    DeliveryTarget,
    read_index,
    write_block,
    write_page,
)
from msmq.transfer.deliveries.table import MERGED, MERGED_BYTES, DeliveryTable
from tests.transfer.deliveries.test_records import OWN

LEAST, RUN = 200, 20


def block(size: int) -> bytes:
    """A block of this size: one record, of many runs, for a queue whose name fills the rest."""
    builder = RunBuilder()
    for number in range((size - LEAST) // RUN):
        builder.add(10 * number)
    runs = builder.finish()

    def made(queue: str) -> bytes:
        where = DeliveryTarget(bytes(16), "", 0.0, queue)
        return write_block([DeliveryRecord(DeliveryStep.ORDERED, 1.0, where, OWN, runs)])

    data = made("q" * (size - len(made(""))))
    assert len(data) == size
    return data


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
