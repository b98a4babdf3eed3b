"""An archive of a store with damaged packets, and of one whose queues were deleted."""

from __future__ import annotations

import json
import re
from typing import Any
from uuid import UUID

import attrs

from msmq.persistence.changes import AppendLog, PutQueue, RemoveQueue
from msmq.pipeline.archive.archiver import Archiver
from msmq.pipeline.archive.errors import ArchiveError
from msmq.pipeline.archive.missing import MOST_RANGES, MissingEntries
from msmq.pipeline.archive.upkeep import problems, summaries
from msmq.pipeline.files.exporter import store_at
from msmq.storage.checking.log_repair import rebuild_log
from msmq.storage.checking.sqlite_repair import rebuild
from tests.pipeline import stores
from tests.pipeline.archive.archive_case import NOW, ArchiveTestCase
from tests.pipeline.stores import ARRIVED, BILLS_JOURNAL, ORDERS

LOGGED = ".\\private$\\orders"


class DamageTests(ArchiveTestCase):
    """A changed bit in the store costs the archive one entry."""

    def spoil(self, number: int) -> None:
        """Change a bit of the packet with this number."""
        stores.spoil_log(self.data, f"message {number}".encode("utf-16-le"))

    def test_a_damaged_entry_is_left_out(self) -> None:
        """All others are archived, those of other queues too; it is named once, and by each check."""
        self.write(stores.log(40), stores.log(41), stores.log(42), stores.put(60, BILLS_JOURNAL))
        self.spoil(41)
        [line] = self.update().gaps
        said = f"{LOGGED}: the entry 22 is damaged in the store, and could not be archived"
        self.assertRegex(line, r"archived: .*, offset \d+: \d+ bytes are damaged; run msmq store check$")
        self.assertTrue(line.startswith(said), line)
        self.assertEqual([said], list(problems(self.archive)))
        self.write(stores.log(43))
        self.assertEqual((), self.update().gaps)
        found = self.archived()
        numbers = [number for stream, topic, number in found if (stream, topic) == ("log", LOGGED)]
        self.assertEqual([*range(1, 22), 23, 24], sorted(numbers))
        self.assertEqual(1, found["journal", ".\\private$\\Bills;journal", 60])
        [shown] = [each for each in summaries(self.archive) if (each.stream, each.topic) == ("log", LOGGED)]
        self.assertEqual(((22,), 1, ()), (shown.damaged, shown.missing, shown.gaps))

    def test_damage_at_the_ends_of_a_page(self) -> None:
        """The first and the last entry, and two that follow each other."""
        self.write(*map(stores.log, range(40, 46)))
        for number in (40, 42, 43, 45):
            self.spoil(number)
        self.assertEqual(4, len(self.update(pages=1).gaps))
        found = [number for stream, topic, number in self.archived() if (stream, topic) == ("log", LOGGED)]
        self.assertEqual([*range(1, 21), 22, 25], sorted(found))

    def test_damage_of_what_is_archived_is_no_restored_store(self) -> None:
        """Neither before nor after a repair has removed the entry, or replaced the event."""
        self.write(stores.log(40), attrs.evolve(stores.event(50), reason="the only one like it"))
        self.update()
        self.spoil(40)
        stores.spoil_log(self.data, b"the only one like it")
        self.update()
        rebuild_log(self.data / "msmq.log", self.data / "mark", lambda: NOW)
        self.write(stores.log(42))
        self.update()
        found = [number for stream, topic, number in self.archived() if (stream, topic) == ("log", LOGGED)]
        self.assertEqual([*range(1, 23)], sorted(found))

    def test_a_repaired_file_of_sqlite(self) -> None:
        """A repair of SQLite names what it has removed in another way."""
        self.data = self.data.with_name("sqlite")
        stores.write_sqlite(self.data, [*stores.estate(), stores.log(40)])
        self.update()
        path = self.data / "msmq.sqlite"
        content = stores.packet(40)
        path.write_bytes(path.read_bytes().replace(content, bytes([content[0] ^ 1]) + content[1:]))
        self.update()
        rebuild(path, self.data / "mark", lambda: NOW)
        stores.write_sqlite(self.data, [stores.log(42)])
        self.update()
        found = [number for stream, topic, number in self.archived() if (stream, topic) == ("log", LOGGED)]
        self.assertEqual([*range(1, 23)], sorted(found))

    def test_a_damaged_message_of_a_journal(self) -> None:
        """It is left out and named once; its server removes it when it reads it."""
        self.write(stores.put(60, BILLS_JOURNAL), stores.put(61, BILLS_JOURNAL))
        self.spoil(60)
        with store_at(str(self.data)) as store:
            archiver = Archiver(store, self.archive, clock=lambda: self.now, seconds=lambda: 0.0)
            [line] = archiver.run().gaps
            self.assertIn("Bills;journal: the message 0x", line)
            self.write(stores.put(62, BILLS_JOURNAL))
            self.assertEqual((), archiver.run().gaps)
        found = self.archived()
        journal = [number for stream, _, number in found if stream == "journal"]
        self.assertEqual([32, 61, 62], sorted(journal))


class DeletionTests(ArchiveTestCase):
    """What a deleted queue had logged, and the archive has not."""

    def test_a_deleted_queue_is_noted_once(self) -> None:
        """If it may have had entries since the archive was complete; those of other queues do not count."""
        with store_at(str(self.data)) as store:
            archiver = Archiver(store, self.archive, clock=lambda: self.now)
            archiver.run()
            self.write(stores.log(40))
            archiver.run()
            self.assertEqual((), archiver.run().gaps)
            bills = attrs.evolve(stores.BILLS, log=True)
            self.write(PutQueue(bills), stores.log(41), stores.log(42, bills))
            self.write(RemoveQueue(ORDERS.identifier))
            line = (
                f"{LOGGED}: the queue was deleted: at most 1 of its entries, between the numbers 22 and 23,"
                " are not archived"
            )
            self.assertEqual((line,), archiver.run().gaps)
            self.assertEqual((), archiver.run().gaps)
        self.assertEqual([line], list(problems(self.archive)))
        [shown] = [each for each in summaries(self.archive) if (each.stream, each.topic) == ("log", LOGGED)]
        self.assertEqual(((22, 23, 1), 0), (shown.deleted, shown.missing))

    def test_many_queues_are_deleted_at_once(self) -> None:
        """The logs that are left are counted once for all of them, not once for each."""
        queues = [
            attrs.evolve(ORDERS, identifier=UUID(int=0x1000 + number), path=f"private$\\q{number:02}")
            for number in range(60)
        ]
        gone, left = queues[:30], queues[30:]
        self.write(*map(PutQueue, queues), *(stores.log(40, each) for each in queues))
        self.update()
        self.write(*(stores.log(41, each) for pair in zip(gone, left, strict=True) for each in pair))
        self.write(*(RemoveQueue(each.identifier) for each in gone))
        calls = 0
        with store_at(str(self.data)) as store:
            log_cuts = store.log_cuts

            def counted(*arguments: Any) -> tuple[list[int], int]:
                nonlocal calls
                calls += 1
                return log_cuts(*arguments)

            self.patch(store, "log_cuts", counted)
            gaps = Archiver(store, self.archive, clock=lambda: self.now).run().gaps
        self.assertLess(calls, 10 * len(queues))
        ranges = [
            re.findall(r"at most (\d+) of its entries, between the numbers (\d+) and (\d+)", each)
            for each in gaps
        ]
        # After the archived entry of each, the numbers of the others that are gone are not known either.
        expected = [[(str(59 - number), str(22 + number), "140")] for number in range(30)]
        self.assertEqual(expected, ranges)

    def test_nothing_can_be_missing(self) -> None:
        """No entry was made since the archive was complete, or only in the queue that was made again."""
        self.update()
        self.write(RemoveQueue(ORDERS.identifier))
        other = attrs.evolve(ORDERS, identifier=stores.BILLS.identifier)
        self.write(PutQueue(other), AppendLog(other.identifier, 1, stores.packet(1), ARRIVED))
        self.assertEqual((), self.update().gaps)
        self.assertEqual([], list(problems(self.archive)))

    def test_entries_of_a_disabled_log_are_none_of_a_deleted_queue(self) -> None:
        """They are archived, and their numbers are not in doubt."""
        bills = attrs.evolve(stores.BILLS, log=True)
        self.write(PutQueue(bills), stores.log(40, bills))
        self.update()
        self.write(stores.log(41, bills), PutQueue(stores.BILLS), RemoveQueue(ORDERS.identifier))
        progress = self.update()
        self.assertEqual((1, ()), (progress.rows, progress.gaps))


class MissingTests(ArchiveTestCase):
    """The record of what is missing."""

    def test_its_size_has_a_limit(self) -> None:
        """A log that is trimmed at each pass for days is counted."""
        self.update()
        [manifest] = [each for each in self.archive.streams() if (each.stream, each.topic) == ("log", LOGGED)]
        missing = manifest.missing
        for number in range(0, 20 * MOST_RANGES, 10):
            missing.trim(number, number + 4)
            missing.damage(number + 5)
        self.assertEqual((MOST_RANGES, MOST_RANGES), (len(missing.trimmed), len(missing.damaged)))
        self.assertEqual(12 * MOST_RANGES, missing.numbers)
        self.archive.store(manifest)
        lines = list(problems(self.archive))
        self.assertEqual(2 * MOST_RANGES + 1, len(lines))
        self.assertIn(f"{6 * MOST_RANGES} numbers before these, in {2 * MOST_RANGES} ranges, were", lines[0])

    def test_manifests_of_earlier_versions(self) -> None:
        """They have the trimmed ranges alone; whether their queues are there is not known."""
        self.update()
        self.write(RemoveQueue(ORDERS.identifier), stores.log(1, stores.BILLS))
        for manifest in self.archive.streams():
            path = self.directory / "_streams" / f"{manifest.name}.json"
            record = attrs.asdict(MissingEntries())
            former = path.read_text().replace(
                '"missing":' + _compact(record), '"gaps":[[3,4]]' if manifest.stream == "log" else '"gaps":[]'
            )
            self.assertIn('"gaps"', former)
            path.write_text(former)
        self.assertEqual((), self.update().gaps)
        trimmed = f"{LOGGED}: the entries 3 to 4 were trimmed before they were archived"
        self.assertEqual([trimmed], list(problems(self.archive)))
        (self.directory / "_streams" / f"{manifest.name}.json").write_text('{"missing": {}}')
        self.assertRaises(ArchiveError, self.update)


def _compact(record: object) -> str:
    return json.dumps(record, separators=(",", ":"))
