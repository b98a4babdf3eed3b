"""Manifests of deleted queues are removed with the last rows, and what they have counted is kept."""

from __future__ import annotations

import shutil
from functools import partial
from itertools import count
from pathlib import Path

import attrs

from msmq.persistence.changes import AppendLog, PutQueue, RemoveQueue, TrimLog
from msmq.persistence.definition import QueueDefinition
from msmq.pipeline.archive.archiver import Archiver
from msmq.pipeline.archive.erasures import ErasureRecord, ErasuresSummary
from msmq.pipeline.archive.manifest import Archive, StreamManifest
from msmq.pipeline.archive.removed_manifests import RemovedCounts, RemovedManifests
from msmq.pipeline.archive.selection import ArchiveSelection
from msmq.pipeline.archive.upkeep import erase, problems
from msmq.pipeline.archive.where import parse_condition
from msmq.pipeline.files.exporter import store_at
from msmq.pipeline.files.format import EVENTS
from tests.pipeline import stores
from tests.pipeline.archive.archive_case import DAY, NOW, ArchiveTestCase, killed
from tests.pipeline.stores import ARRIVED, BILLS_JOURNAL, ORDERS


class _RemovedMeanwhile(Archive):
    """An archive of which an archiver removes manifests after a reader has read them."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.manifests: list[StreamManifest] = []

    def streams(self) -> list[StreamManifest]:
        """The manifests, of which these are removed then."""
        found = super().streams()
        while self.manifests:
            RemovedManifests(Archive(self.directory)).remove(self.manifests.pop())
        return found


class RemovedManifestsTests(ArchiveTestCase):
    """A queue with a log, and a journal, which are deleted."""

    def test_manifests_of_deleted_queues(self) -> None:
        """They are removed when no row is left; what they have counted is counted at any moment that the
        process is killed, and a queue that is created again has another manifest.
        """
        self.update()
        erase(self.archive, parse_condition("label = 'message 3'"), self.now)
        self.write(stores.log(40), stores.log(41))
        self.write(TrimLog(ORDERS.identifier, before=ARRIVED + 40.5, keep_bytes=None))
        self.update()
        self.write(stores.log(42), RemoveQueue(ORDERS.identifier), RemoveQueue(BILLS_JOURNAL.identifier))
        self.now += 30 * DAY
        self.update(keep_days=10)
        numbers = self.directory / "_erased" / f"{self.manifest_of(ORDERS).name}.parquet"
        numbers.parent.mkdir()
        numbers.touch()
        counted, summary = self.counted(), ErasureRecord(self.archive).summary()
        self.assertEqual((1, 1, 1), (counted.missing, counted.uncertain, counted.erased))
        self.now += DAY
        before = self.directory.with_name("before")
        shutil.copytree(self.directory, before)
        for moment in count(1):
            is_killed = killed(lambda: self.update(keep_days=10), self.directory, moment)
            self.assertEqual(counted, self.counted())
            self.update(keep_days=10)
            self.assertEqual((counted, summary), (self.counted(), ErasureRecord(self.archive).summary()))
            left = {each.stream for each in self.archive.streams()}
            self.assertEqual({EVENTS, "dead_letter", "dead_letter_transactional", "source_journal"}, left)
            self.assertFalse(numbers.exists())
            if not is_killed:
                break
            shutil.rmtree(self.directory)
            shutil.copytree(before, self.directory)
        self.assertGreater(moment, 10)
        [line] = problems(self.archive)
        self.assertIn("1 numbers of their logs were trimmed or damaged", line)
        self.write(PutQueue(ORDERS), AppendLog(ORDERS.identifier, 43, stores.packet(43), self.now))
        self.update(keep_days=10)
        self.assertEqual(1, self.manifest_of(ORDERS).rows)
        self.assertEqual(counted, self.counted())

    def test_queues_that_are_not_selected_any_more(self) -> None:
        """Their manifests are removed too, and their deletion is no gap of the archive."""
        self.update()
        self.write(stores.log(40), RemoveQueue(ORDERS.identifier), RemoveQueue(BILLS_JOURNAL.identifier))
        selection, gaps = ArchiveSelection(queues=("other",)), list[str]()
        for days in (0, 30, 31):
            self.now = NOW + days * DAY
            with store_at(str(self.data)) as store:
                archiver = Archiver(
                    store, self.archive, clock=lambda: self.now, keep_days=10, selection=selection
                )
                gaps += archiver.run().gaps
        self.assertFalse({each.stream for each in self.archive.streams()} & {"journal", "log"})
        removed = RemovedManifests(self.archive).counts()
        self.assertEqual(([], RemovedCounts(manifests=2, expired=21)), (gaps, removed))

    def test_another_process_that_is_killed_during_a_removal(self) -> None:
        """What it has removed is counted, also when this pass goes on to remove others."""
        self.update()
        self.write(RemoveQueue(ORDERS.identifier), RemoveQueue(BILLS_JOURNAL.identifier))
        self.now += 30 * DAY
        self.update(keep_days=10)
        counted = self.counted()
        self.now += DAY

        def kill(rows: int) -> None:
            for journal in [each for each in self.archive.streams() if each.stream == "journal"]:
                remove = partial(RemovedManifests(self.archive).remove, journal)
                for moment in count(1):
                    self.assertTrue(killed(remove, self.directory, moment))
                    if self.archive.load(journal.name) is None:
                        break

        with store_at(str(self.data)) as store:
            Archiver(store, self.archive, clock=lambda: self.now, keep_days=10, on_step=kill).run()
        self.assertFalse({each.stream for each in self.archive.streams()} & {"journal", "log"})
        self.assertEqual(counted, self.counted())

    def test_a_removal_while_the_manifests_are_read(self) -> None:
        """What was erased is counted once, so that a report says of no row that its identifier is unknown."""
        self.update()
        erase(self.archive, parse_condition("label = 'message 32'"), self.now)
        expected = ErasureRecord(self.archive).summary()
        [manifest] = [each for each in self.archive.streams() if each.stream == "journal"]
        reading = _RemovedMeanwhile(self.directory)
        reading.manifests.append(manifest)
        self.assertEqual(ErasuresSummary(1, 0, 0), expected)
        self.assertEqual(expected, ErasureRecord(reading).summary())
        self.assertIsNone(self.archive.load(manifest.name))

    def test_damaged_counts(self) -> None:
        """A check names them, and goes on to the files."""
        self.update()
        path = self.directory / "_removed.json"
        path.write_text("{}")
        [damaged, *_] = [*self.archive.directory.rglob("*.arrow")]
        damaged.write_bytes(b"")
        self.assertEqual(
            [str(path), str(damaged)], [line.partition(": ")[0] for line in problems(self.archive)]
        )
        path.unlink()
        self.assertEqual([str(damaged)], [line.partition(": ")[0] for line in problems(self.archive)])

    def manifest_of(self, queue: QueueDefinition) -> StreamManifest:
        """The manifest of the log of a queue."""
        return next(each for each in self.archive.streams() if each.queue == queue.identifier.hex)

    def counted(self) -> RemovedCounts:
        """What all manifests have counted, also those that were removed."""
        total = RemovedManifests(self.archive).counts()
        for each in self.archive.streams():
            total = total.plus(RemovedCounts.of(each))
        return attrs.evolve(total, manifests=0)

    def test_an_erasure_keeps_the_manifest_of_a_deleted_queue(self) -> None:
        """As long as it keeps the identifiers of the messages."""
        self.update()
        self.write(RemoveQueue(ORDERS.identifier))
        self.update()
        erase(self.archive, parse_condition("topic = '.\\private$\\orders'"), self.now)
        self.now += DAY
        self.update()
        self.assertEqual(20, self.manifest_of(ORDERS).erased)
        self.now += 30 * DAY
        self.update(keep_days=10)
        self.assertFalse(any(each.stream == "log" for each in self.archive.streams()))
        self.assertFalse(list((self.directory / "_erased_identifiers").iterdir()))
