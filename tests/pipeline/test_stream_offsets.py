"""Offsets of a stream: where a query that reads what there is ends, and stores that were replaced."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StructType
from twisted.trial.unittest import SynchronousTestCase

from msmq.persistence.changes import Change, PutQueue, PutState
from msmq.pipeline.reading.options import read_options
from msmq.pipeline.spark.partitions import SlicePartition
from msmq.pipeline.spark.streaming import MsmqStreamReader
from tests.builders import ALPHA
from tests.pipeline.stores import ORDERS, log, write_log

OWNER = PutState("queue_manager", ALPHA.bytes)


def ranges(partitions: Sequence[InputPartition]) -> list[tuple[int, int]]:
    """The numbers that partitions read: the first of each span, and the one after its last."""
    return [
        (span.begin, span.end)
        for one in partitions
        if isinstance(one, SlicePartition)
        for span in one.part.spans
    ]


class OffsetCase(SynchronousTestCase):
    """A store whose log grows, and readers of it as Spark's driver has them."""

    def setUp(self) -> None:
        self.directory = Path(self.mktemp()).absolute()
        self.directory.mkdir()
        self.store = self.directory / "data"
        self.write(OWNER, PutQueue(ORDERS))

    def write(self, *changes: Change) -> None:
        """Let the store change, as its server does it."""
        write_log(self.store, changes)

    def reader(self, **options: str) -> MsmqStreamReader:
        """That of a query."""
        given = {"path": str(self.store), "startingOffsets": "earliest", **options}
        reader = MsmqStreamReader(read_options(given), StructType().add("label", "string"))
        self.addCleanup(reader.stop)
        return reader

    def read_all(self) -> dict[str, Any]:
        """The offset of a query that has read what there is."""
        reader = self.reader()
        return reader.latestOffset(reader.initialOffset(), ReadAllAvailable())


class AvailableNowTests(OffsetCase):
    """Queries that read what there is when they begin."""

    def test_more_arrives_meanwhile(self) -> None:
        """The query ends where the store ended, and does not go on while messages arrive."""
        self.write(log(1), log(2))
        reader = self.reader()
        reader.prepareForTriggerAvailableNow()
        self.write(log(3))
        first = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
        self.assertEqual([(1, 3)], ranges(reader.partitions(reader.initialOffset(), first)))
        self.write(log(4))
        # Another offset would be one more batch, and so on as long as messages arrive.
        self.assertEqual(first, reader.latestOffset(first, ReadAllAvailable()))

    def test_a_replaced_store_that_grows(self) -> None:
        """With C{failOnDataLoss} off, a store that was replaced by one with fewer entries is read, also if it
        grows before the first batch.
        """
        self.write(*(log(number) for number in range(1, 11)))
        former = self.read_all()
        self.store = self.directory / "other"
        self.write(OWNER, PutQueue(ORDERS), log(1), log(2))
        reader = self.reader(failOnDataLoss="false")
        reader.prepareForTriggerAvailableNow()
        self.write(log(3))
        found = reader.latestOffset(former, ReadAllAvailable())
        self.assertEqual([(1, 3)], ranges(reader.partitions(former, found)))
        self.write(log(4))
        self.assertEqual(found, reader.latestOffset(found, ReadAllAvailable()))
