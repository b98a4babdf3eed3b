"""Which messages of a queue are in the archive, for queues whose messages have no order of arrival.

A transaction that commits late adds a message with a smaller number than others that are archived already, so
the numbers of a journal are compared one by one: 17 bytes of memory for each message that it holds now.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from uuid import UUID

import numpy

from msmq.pipeline.archive.manifest import Archive, StreamManifest
from msmq.pipeline.files.format import read_file
from msmq.pipeline.rows import microseconds
from msmq.pipeline.stored_packets import signed
from msmq.storage.readers import StoreReader


class KeptRows:
    """The messages that a queue has now, and which of them are archived.

    A message is identified by LookupIdentifier and time of arrival: a store that was restored from a backup
    gives the same numbers to other messages.

    @ivar serial: of the manifest that this was read from; C{erased} likewise.
    @ivar scanned: when the latest scan began, in seconds of the monotonic clock.
    @ivar rest_until: when the queue may be scanned again, in seconds of the monotonic clock.
    """

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self.forget()
        self.serial = -1
        self.erased = 0
        self.rest_until = 0.0
        self.scanned = 0.0

    def forget(self) -> None:
        """Let the next calls read everything again: an older store may have messages again."""
        self._numbers = self._times = numpy.empty(0, numpy.int64)
        self._archived = numpy.empty(0, numpy.bool_)
        self._is_read = False

    def list_messages(self, store: StoreReader, queue: UUID) -> None:
        """Read which messages the queue has.

        @raise StorageError: the store cannot be read.
        """
        known = self._numbers[self._archived], self._times[self._archived]
        numbers: list[Any] = []
        times: list[Any] = []
        begin: int | None = 0
        while begin is not None:
            page = store.message_rows(queue, begin)
            numbers.append(numpy.array([signed(row[0]) for row in page.rows], numpy.int64))
            times.append(numpy.array([microseconds(row[1]) or 0 for row in page.rows], numpy.int64))
            begin = page.next
        found = numpy.concatenate(numbers)
        order = numpy.argsort(found)
        self._numbers, self._times = found[order], numpy.concatenate(times)[order]
        self._archived = numpy.zeros(len(found), numpy.bool_)
        self._mark(*known)

    def mark_archived(self, manifest: StreamManifest) -> None:
        """Note which of these messages need no archiving, unless a former call has read the files.

        @raise FilesError: an archived file cannot be read.
        """
        if self._is_read or not len(self._numbers):
            self._is_read = True
            return
        for file in manifest.files:
            if file.last < self._numbers[0] or file.first > self._numbers[-1]:
                continue
            for batch in read_file(self._archive.path(file), ("lookup_id", "timestamp")):
                moments = batch.column("timestamp").cast("int64").fill_null(0)
                self._mark(batch.column("lookup_id").to_numpy(), moments.to_numpy())
        if manifest.skipped:
            self._mark(*(numpy.array(part, numpy.int64) for part in zip(*manifest.skipped, strict=True)))
        self._is_read = True

    def add(self, rows: Sequence[tuple[int, int]]) -> None:
        """Note messages as archived."""
        self._mark(*(numpy.array(part, numpy.int64) for part in zip(*rows, strict=True)))

    def leave_out(self, number: int) -> None:
        """Note the message with this number as one that needs no archiving."""
        self._archived[self._numbers == number] = True

    def has(self, number: int, moment: int) -> bool:
        """Whether a message needs no archiving: it is archived, or was not there in the scan."""
        place = int(numpy.searchsorted(self._numbers, number))
        is_there = place < len(self._numbers) and self._numbers[place] == number
        return not is_there or self._times[place] != moment or bool(self._archived[place])

    def missing(self) -> Iterator[tuple[int, int]]:
        """The ranges of LookupIdentifiers that have a message to archive, and none that is archived."""
        wanted = ~self._archived
        if not wanted.any():
            return
        edges = numpy.flatnonzero(numpy.diff(numpy.concatenate(([0], wanted.view(numpy.int8), [0]))))
        for first, end in edges.reshape(-1, 2).tolist():
            yield int(self._numbers[first]) % (1 << 64), int(self._numbers[end - 1]) % (1 << 64)

    def wanted(self) -> tuple[Any, Any]:
        """The LookupIdentifiers of the messages that are not archived, and their times of arrival."""
        return self._numbers[~self._archived], self._times[~self._archived]

    def prune(self, manifest: StreamManifest) -> bool:
        """Forget the skipped messages that have left the queue; return whether there were any."""
        left = [row for row in manifest.skipped if self._holds(*row)]
        is_less = len(left) < len(manifest.skipped)
        manifest.skipped = left
        return is_less

    def _holds(self, number: int, moment: int) -> bool:
        place = int(numpy.searchsorted(self._numbers, number))
        return bool(
            place < len(self._numbers) and self._numbers[place] == number and self._times[place] == moment
        )

    def _mark(self, numbers: Any, times: Any) -> None:
        if not len(self._numbers) or not len(numbers):
            return
        places = numpy.minimum(numpy.searchsorted(self._numbers, numbers), len(self._numbers) - 1)
        same = (self._numbers[places] == numbers) & (self._times[places] == times)
        self._archived[places[same]] = True
