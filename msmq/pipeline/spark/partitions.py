"""Input partitions of the data source, for Spark's tasks."""

from __future__ import annotations

from pyspark.sql.datasource import InputPartition

from msmq.pipeline.archive.parts import ArchiveSlice
from msmq.pipeline.reading.files import FileSlice
from msmq.pipeline.reading.slices import ReadSlice


class SlicePartition(InputPartition):
    """Input partition that is a slice of a store."""

    def __init__(self, part: ReadSlice) -> None:
        super().__init__(part)
        self.part = part


class FilePartition(InputPartition):
    """Input partition that is a slice of a file."""

    def __init__(self, part: FileSlice) -> None:
        super().__init__(part)
        self.part = part


class ArchivePartition(InputPartition):
    """Input partition that is a part of an archive and its store."""

    def __init__(self, part: ArchiveSlice) -> None:
        super().__init__(part)
        self.part = part
