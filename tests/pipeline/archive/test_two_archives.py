"""Two archives of one store, with all that happens to either while reads are under way."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

from twisted.trial.unittest import SynchronousTestCase

from msmq.persistence.changes import PutQueue, PutState, TrimLog
from msmq.pipeline.archive.archiver import Archiver
from msmq.pipeline.archive.manifest import Archive
from msmq.pipeline.archive.plan import plan_archive
from msmq.pipeline.archive.scan import ArchiveScan
from msmq.pipeline.archive.upkeep import compact, erase, problems
from msmq.pipeline.archive.where import parse_condition
from msmq.pipeline.files.exporter import store_at
from msmq.pipeline.reading.options import read_options
from msmq.pipeline.reading.row_selection import wanted_columns
from msmq.pipeline.rows import PLAIN
from tests.builders import ALPHA
from tests.pipeline import stores
from tests.pipeline.archive.archive_case import NOW
from tests.pipeline.stores import ARRIVED, ORDERS


class _ObservedArchive:
    """An archive, and what it has to have.

    @ivar archived: the offsets that it has had; C{erased}: those that were erased from it.
    @ivar reads: planned reads, each with the rows that it has to have unless they are erased meanwhile.
    """

    def __init__(self, directory: Path) -> None:
        self.archive = Archive(directory)
        self.archived: set[int] = set()
        self.erased: set[int] = set()
        self.reads: list[tuple[Callable[[], list[int]], set[int]]] = []

    def update(self, data: Path, stored: set[int]) -> None:
        """Archive what is new."""
        with store_at(str(data)) as store:
            Archiver(store, self.archive, clock=lambda: NOW).run()
        self.archived |= stored

    def erase(self, first: int, last: int) -> None:
        """Erase a range of offsets."""
        erase(self.archive, parse_condition(f"offset >= {first} and offset <= {last}"), NOW)
        self.erased |= self.archived & {*range(first, last + 1)}

    def expected(self, stored: set[int]) -> set[int]:
        """The offsets in the archive and its store."""
        return (self.archived | stored) - self.erased

    def read(self) -> Callable[[], list[int]]:
        """Plan a read; returns what ends it."""
        options = read_options({"path": str(self.archive.directory), "stream": "log"})
        wanted = wanted_columns(("offset",), options)
        scan = ArchiveScan(options, wanted, "log", PLAIN, False)
        parts = plan_archive(options, wanted, "log")
        return lambda: [
            offset
            for part in parts
            for batch in scan.batches(part)
            for offset in batch.column("offset").to_pylist()
        ]


class TwoArchivesTests(SynchronousTestCase):
    """Each row is read once from each archive, whatever happens in any order."""

    def test_any_order(self) -> None:
        """Entries come and are trimmed, archives are written, compacted and erased from, reads end later."""
        for seed in range(10):
            self.run_steps(Random(seed), f"seed {seed}")

    def run_steps(self, chance: Random, what: str) -> None:
        """Some steps in one data directory."""
        root = Path(self.mktemp())
        data, number, stored = root / "data", 0, set[int]()
        write = chance.choice((stores.write_log, stores.write_sqlite))
        write(data, [PutState("queue_manager", ALPHA.bytes), PutQueue(ORDERS)])
        both = [_ObservedArchive(root / name) for name in ("first", "second")]
        for one in both:
            one.update(data, stored)
        for _ in range(25):
            one = chance.choice(both)
            match chance.choice(("add", "add", "update", "compact", "trim", "erase", "plan", "end")):
                case "add":
                    count = chance.choice((1, 3, 40))
                    write(data, [stores.log(number + 1 + each) for each in range(count)])
                    stored |= {*range(number + 1, number + 1 + count)}
                    number += count
                case "update":
                    one.update(data, stored)
                case "compact":
                    compact(one.archive, NOW)
                case "trim":
                    # What either archive lacks would be reported as missing.
                    if trimmable := sorted(stored & both[0].archived & both[1].archived):
                        last = chance.choice(trimmable)
                        write(
                            data, [TrimLog(ORDERS.identifier, before=ARRIVED + last + 0.5, keep_bytes=None)]
                        )
                        stored = {each for each in stored if each > last}
                case "erase":
                    first = chance.randrange(number + 1)
                    one.erase(first, first + chance.randrange(5))
                case "plan":
                    one.reads.append((one.read(), one.expected(stored)))
                case _ if one.reads:
                    end, expected = one.reads.pop(chance.randrange(len(one.reads)))
                    found = end()
                    self.assertEqual(len(set(found)), len(found), what)
                    self.assertLessEqual(set(found), expected, what)
                    self.assertLessEqual(expected - one.erased, set(found), what)
                case _:
                    pass
        for one in both:
            self.assertEqual(sorted(one.expected(stored)), sorted(one.read()()), what)
            self.assertEqual([], list(problems(one.archive)), what)
        shutil.rmtree(root)
