"""Input partitions of the data source, for Spark's tasks."""

from __future__ import annotations

from pyspark.sql.datasource import InputPartition

from msmq.pipeline.reading.files import FileSlice
from msmq.pipeline.reading.slices import ReadSlice


class SlicePartition(InputPartition):
    """A part of a store, which one task reads."""

    def __init__(self, part: ReadSlice) -> None:
        super().__init__(part)
        self.part = part


class FilePartition(InputPartition):
    """A part of a file, which one task reads."""

    def __init__(self, part: FileSlice) -> None:
        super().__init__(part)
        self.part = part
