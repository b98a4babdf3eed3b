"""Logs that lose entries between the plan of a batch and its reading."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
from twisted.trial.unittest import SynchronousTestCase

from msmq.persistence.changes import Change, PutQueue, PutState, RemoveQueue, TrimEvents, TrimLog
from msmq.pipeline.reading.errors import DataLost
from msmq.pipeline.reading.options import read_options
from msmq.pipeline.reading.row_selection import wanted_columns
from msmq.pipeline.reading.slices import ReadSlice, RowSpan
from msmq.pipeline.reading.stores import StoreScan
from msmq.storage.readers.shape import LOG_PLACE
from tests.builders import ALPHA
from tests.pipeline.stores import ARRIVED, ORDERS, event, log, write_log, write_sqlite

PAGE = 2000

if TYPE_CHECKING:
    Case = SynchronousTestCase
else:
    # The tests of the contract run in the classes of the stores alone.
    Case = object


class TrimmedLogContract(Case):
    """Whatever selects its rows, a batch has all of them, or says that it has not."""

    write_store: ClassVar[Callable[..., Path]]

    def write(self, *changes: Change) -> None:
        """Let the store change, as its server does it."""
        type(self).write_store(self.data, changes)

    def begin(self, entries: int = 10) -> None:
        """Write a new store with this number of log entries, and events."""
        self.data = Path(self.mktemp()).absolute()
        numbers = range(1, entries + 1)
        self.write(PutState("queue_manager", ALPHA.bytes), PutQueue(ORDERS), *map(log, numbers))
        self.write(*map(event, range(1, 11)))

    def scan(self, since: float | None, until: float | None, **options: str) -> StoreScan:
        """A batch of the log, with the times that a filter selects."""
        found = read_options({"path": str(self.data), "stream": "log", **options})
        wanted = attrs.evolve(wanted_columns(("offset",), found), since=since, until=until)
        return StoreScan(found, wanted, found.stream)

    def planned(self, scan: StoreScan) -> list[ReadSlice]:
        """The slices of a batch."""
        return scan.slices()

    def test_trimmed_before_it_is_read(self) -> None:
        """It is an error, unless the loss of data is accepted."""
        for since, until in ((None, None), (None, ARRIVED + 8), (ARRIVED + 1, None)):
            with self.subTest(since=since, until=until):
                self.begin()
                strict, lenient = self.scan(since, until), self.scan(since, until, failOnDataLoss="false")
                parts, lenient_parts = self.planned(strict), self.planned(lenient)
                self.write(TrimLog(ORDERS.identifier, ARRIVED + 2.5, None))
                error = self.assertRaises(DataLost, offsets, strict, parts)
                self.assertIn(r".\private$\orders between the offsets 1 and 11", str(error))
                found = offsets(lenient, lenient_parts)
                self.assertEqual([*range(3, 8 if until else 11)], found)

    def test_trimmed_before_the_selected_time(self) -> None:
        """It is no loss, since nothing of that was to be read."""
        self.begin()
        scan = self.scan(ARRIVED + 5, None)
        parts = self.planned(scan)
        self.write(TrimLog(ORDERS.identifier, ARRIVED + 2.5, None))
        self.assertEqual([*range(5, 11)], offsets(scan, parts))

    def test_deleted_queue(self) -> None:
        """A queue that was deleted with its log is a loss too."""
        for until in (None, ARRIVED + 8):
            with self.subTest(until=until):
                self.begin()
                scan = self.scan(None, until)
                parts = self.planned(scan)
                self.write(RemoveQueue(ORDERS.identifier))
                self.assertRaises(DataLost, offsets, scan, parts)

    def test_trimmed_events(self) -> None:
        """So are events."""
        self.begin()
        options = read_options({"path": str(self.data), "stream": "events"})
        scan = StoreScan(options, wanted_columns(("offset",), options), "events")
        [part] = scan.slices()
        self.write(TrimEvents(keep=3))
        error = self.assertRaises(DataLost, list, scan.event_pages(part))
        self.assertIn("7 rows of events between the offsets 1 and 11 were trimmed", str(error))

    def test_trimmed_events_before_the_selected_time(self) -> None:
        """That is no loss of events either."""
        self.begin()
        scan = self.scan(ARRIVED + 5, None, stream="events")
        [part] = scan.slices()
        self.write(TrimEvents(keep=7))
        found = [one.sequence for page in scan.event_pages(part) for one in page]
        self.assertEqual([*range(5, 11)], found)

    def test_trimmed_after_it_was_read(self) -> None:
        """Nothing is lost if the entries of a page go while the next one is read."""
        for until in (None, ARRIVED + PAGE + 50):
            with self.subTest(until=until):
                self.begin(PAGE + 100)
                scan = self.scan(None, until)
                [part] = scan.slices()
                pages = scan.pages(part)
                first = next(pages)
                self.write(TrimLog(ORDERS.identifier, ARRIVED + 1000.5, None))
                found = [row.offset for row in chain(first, *pages)]
                self.assertEqual([*range(1, PAGE + (50 if until else 101))], found)


def with_places(parts: Sequence[ReadSlice], places: Callable[[RowSpan], bytes]) -> list[ReadSlice]:
    """These slices with other places."""
    return [
        attrs.evolve(part, spans=tuple(attrs.evolve(span, places=places(span)) for span in part.spans))
        for part in parts
    ]


def moved(row: tuple[Any, ...]) -> bytes:
    """The place of a packet, in a segment that does not exist."""
    sequence, lookup_id, location, *rest = row
    return LOG_PLACE.pack(sequence, lookup_id, location + (1000 << 32), *rest)


def offsets(scan: StoreScan, parts: Sequence[ReadSlice]) -> list[int]:
    """The offsets of the rows of slices."""
    return [row.offset for part in parts for page in scan.pages(part) for row in page]


class LogTests(TrimmedLogContract, SynchronousTestCase):
    """The record log, of so many rows that they are read by their numbers."""

    write_store = staticmethod(write_log)

    def planned(self, scan: StoreScan) -> list[ReadSlice]:
        """The slices without the places of the packets."""
        return with_places(scan.slices(), lambda span: b"")


class PlacedLogTests(TrimmedLogContract, SynchronousTestCase):
    """The record log, whose server has reused the space of the packets."""

    write_store = staticmethod(write_log)

    def planned(self, scan: StoreScan) -> list[ReadSlice]:
        """The slices with places in a segment that is gone."""
        return with_places(
            scan.slices(), lambda span: b"".join(map(moved, LOG_PLACE.iter_unpack(span.places)))
        )


class SqliteTests(TrimmedLogContract, SynchronousTestCase):
    """SQLite."""

    write_store = staticmethod(write_sqlite)
