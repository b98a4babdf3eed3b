"""An archive of a store whose content is migrated to another provider."""

from __future__ import annotations

from pathlib import Path

from twisted.trial.unittest import TestCase

from msmq.pipeline.archive.archiver import Archiver
from msmq.pipeline.archive.following import follow
from msmq.pipeline.archive.manifest import Archive
from msmq.pipeline.archive.plan import plan_archive
from msmq.pipeline.archive.scan import ArchiveScan
from msmq.pipeline.archive.upkeep import problems
from msmq.pipeline.files.exporter import store_at
from msmq.pipeline.reading.errors import ReadingError
from msmq.pipeline.reading.options import read_options
from msmq.pipeline.reading.row_selection import wanted_columns
from msmq.pipeline.rows import PLAIN
from msmq.storage.migration.store_locations import store_location_of
from msmq.storage.readers import StoreMoved
from tests.pipeline import stores
from tests.pipeline.stores import DEAD
from tests.storage.migration.support import migrated


class MigratedStoreTests(TestCase):
    """The archive begins with one store, and goes on with the other one."""

    def setUp(self) -> None:
        """A data directory and the directory of an archive."""
        root = Path(self.mktemp()).absolute()
        self.data, self.archive = root / "data", Archive(root / "archive")

    async def migrate(self, source: str, target: str) -> None:
        """Move the store of the data directory, as C{msmq store migrate} does it."""
        await migrated(store_location_of(source, self.data), store_location_of(target, self.data))

    def update(self) -> int:
        """Archive what is new; returns how many rows that was."""
        with store_at(str(self.data)) as store:
            return Archiver(store, self.archive).run().rows

    def offsets(self, stream: str, **given: str) -> list[int]:
        """The numbers of the rows in the archive and its store."""
        options = read_options({"path": str(self.archive.directory), "stream": stream, **given})
        wanted = wanted_columns(("offset",), options)
        scan = ArchiveScan(options, wanted, stream, PLAIN, False)
        found: list[int] = []
        for part in plan_archive(options, wanted, stream):
            for batch in scan.batches(part):
                found += batch.column("offset").to_pylist()
        return sorted(found)

    async def test_the_former_store_is_not_read(self) -> None:
        """Until the archive names the new one: rows that have arrived since would be missing."""
        expected = {"log": [*range(1, 23)], "dead_letter": [35, 50, 51], "events": [*range(1, 8)]}
        stores.write_log(self.data, stores.estate())
        self.update()
        stores.write_log(self.data, [stores.log(40), stores.put(50, DEAD)])
        await self.migrate("log", "sqlite")
        stores.write_sqlite(self.data, [stores.log(41), stores.put(51, DEAD), stores.event(7)])
        for stream, numbers in expected.items():
            error = str(self.assertRaises(ReadingError, self.offsets, stream))
            self.assertIn(f"was moved to {self.data / 'msmq.sqlite'}", error)
            self.assertEqual(numbers, self.offsets(stream, store=str(self.data)))
        self.assertEqual(6, self.update())
        for stream, numbers in expected.items():
            self.assertEqual(numbers, self.offsets(stream))
        self.assertEqual([], list(problems(self.archive)))

    async def test_a_follower_ends(self) -> None:
        """It would archive nothing from then on, and show that nothing is left to be archived."""
        for source, target, write in (
            ("log", "sqlite", stores.write_log),
            ("sqlite", "log", stores.write_sqlite),
        ):
            self.data = self.data.with_name(f"data of {source}")
            self.archive = Archive(self.data.with_name(f"archive of {source}"))
            write(self.data, stores.estate())
            with store_at(str(self.data)) as store:
                archiver = Archiver(store, self.archive)
                self.assertEqual(29, archiver.run().rows)
                await self.migrate(source, target)
                nothing: list[object] = []
                error = self.assertRaises(
                    StoreMoved, follow, archiver, lambda: True, nothing.append, nothing.append
                )
                self.assertIn("was moved to", str(error))
            self.assertEqual([], nothing)
            # The migration is an event.
            self.assertEqual(1, self.update())
