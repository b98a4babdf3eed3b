"""An archive of each kind of store, and of stores that were restored or replaced."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from itertools import count
from uuid import UUID

import attrs

from msmq.persistence.changes import AppendLog, PutQueue, PutState, RemoveMessages, RemoveQueue, TrimLog
from msmq.pipeline.archive.archiver import Archiver
from msmq.pipeline.archive.errors import ArchiveError
from msmq.pipeline.archive.manifest import Archive
from msmq.pipeline.archive.upkeep import problems, rows
from msmq.pipeline.files.exporter import store_at
from tests.builders import BETA
from tests.pipeline import stores
from tests.pipeline.archive.archive_case import DAY, NOW, ArchiveTestCase
from tests.pipeline.stores import ARRIVED, BILLS_JOURNAL, DEAD, ORDERS


class StoreTests(ArchiveTestCase):
    """What happens to the store."""

    def test_a_message_of_a_late_transaction_is_archived(self) -> None:
        """Its number is smaller than those in the archive."""
        self.write(stores.put(90, BILLS_JOURNAL))
        self.update()
        self.write(stores.put(80, BILLS_JOURNAL), stores.put(33, BILLS_JOURNAL, priority=7))
        self.update()
        journal = ".\\private$\\Bills;journal"
        self.assert_complete(*(("journal", journal, number) for number in (90, 80, 33)))

    def test_a_queue_that_was_made_again_is_another_one(self) -> None:
        """The rows of both are archived."""
        self.update()
        again = attrs.evolve(ORDERS, identifier=UUID(int=0x77))
        self.write(RemoveQueue(ORDERS.identifier))
        self.write(PutQueue(again), stores.log(1, again))
        self.update()
        self.assert_complete(("log", ".\\private$\\orders", 21))

    def test_a_clock_that_was_set_back_changes_nothing(self) -> None:
        """Neither that of the server nor that of the archive."""
        self.update()
        self.now -= 3 * DAY
        self.write(*(AppendLog(ORDERS.identifier, n, stores.packet(n), NOW - n * DAY) for n in (41, 42)))
        self.update()
        self.now -= DAY
        self.update()
        self.compact()
        self.assert_complete(*(("log", ".\\private$\\orders", number) for number in (21, 22)))

    def test_numbers_of_two_dates_may_be_mixed(self) -> None:
        """A clock that is set back over midnight repeats no entry; a file that is named twice does."""
        times = enumerate((30, DAY, 31, DAY, 32), 41)
        self.write(*(AppendLog(ORDERS.identifier, n, stores.packet(n), ARRIVED + time) for n, time in times))
        self.update()
        self.now += 3 * DAY
        self.compact()
        orders = ".\\private$\\orders"
        self.assert_complete(*(("log", orders, number) for number in range(21, 26)))
        [manifest] = [each for each in self.archive.streams() if each.topic == orders]
        mixed = next(file for file in manifest.files if file.first == 22)
        manifest.files.insert(0, mixed)
        self.archive.store(manifest)
        path = self.archive.path(mixed)
        self.assertEqual([f"{path}: entries before 24 are there twice"], list(problems(self.archive)))

    def test_trimmed_entries_are_named(self) -> None:
        """Once when they are noticed, and whenever the archive is shown or checked."""
        self.update()
        self.write(stores.log(40), stores.log(41), stores.log(42))
        self.write(TrimLog(ORDERS.identifier, before=ARRIVED + 41.5, keep_bytes=None))
        line = ".\\private$\\orders: the entries 21 to 22 were trimmed before they were archived"
        self.assertEqual((line,), self.update().gaps)
        self.assertEqual((), self.update().gaps)
        self.assertEqual([line], list(problems(self.archive)))
        self.assertEqual(1, self.archived()["log", ".\\private$\\orders", 23])

    def test_the_first_entries_of_a_log_that_are_trimmed_are_named(self) -> None:
        """Also if the archive has none of this log yet, and if all of them were trimmed."""
        bills = attrs.evolve(stores.BILLS, log=True)
        self.write(PutQueue(bills))
        line = "the entries {} to {} were trimmed before they were archived"
        with store_at(str(self.data)) as store:
            archiver = Archiver(store, self.archive, clock=lambda: self.now)
            self.assertEqual((), archiver.run().gaps)
            self.write(*(stores.log(number, bills) for number in (40, 41, 42)))
            self.write(TrimLog(bills.identifier, before=ARRIVED + 41.5, keep_bytes=None))
            self.assertEqual((f".\\private$\\Bills: {line.format(21, 22)}",), archiver.run().gaps)
            self.assertEqual((), archiver.run().gaps)
            later = attrs.evolve(bills, identifier=UUID(int=0x78), path="private$\\later")
            self.write(PutQueue(later), stores.log(43, later))
            self.write(TrimLog(later.identifier, before=ARRIVED + 50, keep_bytes=None))
            self.assertEqual((f".\\private$\\later: {line.format(24, 24)}",), archiver.run().gaps)
            self.assertEqual((), archiver.run().gaps)
        self.assertEqual(1, self.archived()["log", ".\\private$\\Bills", 23])

    def test_entries_that_are_trimmed_during_a_pass_are_named(self) -> None:
        """Whenever the store removes them, each entry is archived or in a gap."""
        self.update()
        bills = attrs.evolve(stores.BILLS, log=True)
        self.write(PutQueue(bills), stores.log(40), stores.log(41, bills), *map(stores.log, range(42, 46)))
        orders = ".\\private$\\orders"
        outcomes: set[bool] = set()
        for moment in count(1):
            data, left = self.data, moment
            self.data = self.data.with_name(f"data-{moment}")
            archive = Archive(self.directory.with_name(f"archive-{moment}"))
            shutil.copytree(data, self.data)
            shutil.copytree(self.directory, archive.directory)

            def trimming(call: Callable[..., object]) -> Callable[..., object]:
                def trim(*arguments: object, **named: object) -> object:
                    nonlocal left
                    left -= 1
                    if not left:
                        self.write(TrimLog(ORDERS.identifier, before=ARRIVED + 43.5, keep_bytes=None))
                    return call(*arguments, **named)

                return trim

            with store_at(str(self.data)) as store:
                for name in ("log_bounds", "log_after", "log"):
                    self.patch(store, name, trimming(getattr(store, name)))
                gaps = Archiver(store, archive, clock=lambda: self.now).run().gaps
            found = [
                row
                for batch in rows(archive, "log", ("topic", "offset"))
                for row in batch.to_pylist()
                if row["topic"] == orders and row["offset"] > 20
            ]
            numbers = [row["offset"] for row in found]
            if gaps:
                line = f"{orders}: the entries 21 to 24 were trimmed before they were archived"
                self.assertEqual(([25, 26], (line,)), (numbers, gaps), moment)
            else:
                self.assertEqual([21, 23, 24, 25, 26], numbers, moment)
            outcomes.add(bool(gaps))
            self.data = data
            if left > 0:
                self.assertEqual({True, False}, outcomes)
                return

    def test_what_was_trimmed_after_it_was_archived_is_no_gap(self) -> None:
        """Nor is what was trimmed before there was an archive."""
        self.write(TrimLog(ORDERS.identifier, before=ARRIVED + 3.5, keep_bytes=None))
        self.update()
        self.write(TrimLog(ORDERS.identifier, before=ARRIVED + 30, keep_bytes=None))
        self.write(stores.log(40))
        self.assertEqual((), self.update().gaps)
        orders = ".\\private$\\orders"
        self.assert_complete(("log", orders, 21), without=[("log", orders, number) for number in (1, 2, 3)])

    def test_a_restored_store_is_noticed(self) -> None:
        """Whether it is still behind the archive, or has used the same numbers again."""
        backup = self.data.with_name("backup")
        shutil.copytree(self.data, backup)
        self.write(stores.log(40))
        self.update()
        shutil.rmtree(self.data)
        shutil.copytree(backup, self.data)
        error = self.assertRaises(ArchiveError, self.update)
        self.assertIn("orders: the store is not the one that was archived, it ends before 21", str(error))
        self.write(stores.log(41), stores.log(42))
        error = self.assertRaises(ArchiveError, self.update)
        self.assertIn("its entry 21 is another one", str(error))

    def test_a_restored_store_is_noticed_between_two_passes(self) -> None:
        """Also by an archiver that has the store open; the numbers of queues may be others by then."""
        for name, write in (("log", stores.write_log), ("sqlite", stores.write_sqlite)):
            with self.subTest(store=name):
                self.data, backup = (self.data.with_name(f"{name}-{which}") for which in ("data", "backup"))
                archive = Archive(self.directory.with_name(f"{name}-archive"))
                write(self.data, stores.estate())
                shutil.copytree(self.data, backup)
                with store_at(str(self.data)) as store:
                    archiver = Archiver(store, archive, clock=lambda: self.now)
                    write(self.data, [stores.log(40)])
                    archiver.run()
                    shutil.rmtree(self.data)
                    shutil.copytree(backup, self.data)
                    error = self.assertRaises(ArchiveError, archiver.run)
                    self.assertIn("is not the one that was archived, it ends before 21", str(error))
                    shutil.rmtree(self.data)
                    write(self.data, [stores.estate()[0], PutQueue(DEAD), PutQueue(ORDERS), stores.log(41)])
                    write(self.data, [*map(stores.log, range(42, 62))])
                    error = self.assertRaises(ArchiveError, archiver.run)
                    self.assertIn("its entry 21 is another one", str(error))

    def test_a_journal_of_a_restored_store_has_its_new_messages_archived(self) -> None:
        """Although they have the numbers of others."""
        self.update()
        journal = attrs.evolve(stores.put(32, BILLS_JOURNAL), arrived=NOW)
        self.write(journal)
        self.update()
        self.assertEqual(2, self.archived()["journal", ".\\private$\\Bills;journal", 32])

    def test_messages_that_an_older_store_has_again(self) -> None:
        """They are archived once, also by an archiver that has the store open."""
        for name, write in (("log", stores.write_log), ("sqlite", stores.write_sqlite)):
            with self.subTest(store=name):
                self.data, backup = (self.data.with_name(f"{name}-{which}") for which in ("data", "backup"))
                self.archive = Archive(self.directory.with_name(f"{name}-archive"))
                write(self.data, stores.estate())
                shutil.copytree(self.data, backup)
                with store_at(str(self.data)) as store:
                    archiver = Archiver(store, self.archive, clock=lambda: self.now, seconds=lambda: 0.0)
                    archiver.run()
                    write(self.data, [RemoveMessages(BILLS_JOURNAL.identifier, (stores.lookup_id(32),))])
                    archiver.run()
                    shutil.rmtree(self.data)
                    backup.rename(self.data)
                    archiver.run()
                self.assert_complete()

    def test_another_store_is_refused(self) -> None:
        """One line names both queue managers."""
        self.update()
        self.write(PutState("queue_manager", BETA.bytes))
        error = self.assertRaises(ArchiveError, self.update)
        self.assertIn("select another directory", str(error))
