"""An archive has every row of its store once, whatever happens to the writer, the disk and the store."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from uuid import UUID

import attrs
import pyarrow.parquet
from twisted.trial.unittest import SynchronousTestCase

from msmq.persistence.changes import AppendLog, Change, PutQueue, PutState, RemoveQueue, TrimLog
from msmq.pipeline.archive.archiver import ArchiveProgress, Archiver, ArchiveSelection
from msmq.pipeline.archive.errors import ArchiveError
from msmq.pipeline.archive.following import follow
from msmq.pipeline.archive.manifest import FRESH, MANIFESTS, Archive
from msmq.pipeline.archive.upkeep import compact, erase, problems, rows, summaries
from msmq.pipeline.archive.where import parse_condition
from msmq.pipeline.files.errors import FileUnwritable
from msmq.pipeline.files.exporter import store_at
from msmq.pipeline.rows import message_batch
from msmq.pipeline.schema import EXPORTED_COLUMNS, names_of
from msmq.pipeline.stored_packets import StoredPacket
from tests.builders import ALPHA, BETA
from tests.pipeline import stores
from tests.pipeline.stores import ARRIVED, BILLS_JOURNAL, DEAD, ORDERS

DAY = 86_400.0
NOW = ARRIVED + 100
Row = tuple[str, str, int]


class ArchiveTestCase(SynchronousTestCase):
    """A store, and its archive."""

    def setUp(self) -> None:
        root = Path(self.mktemp())
        self.data, self.directory = root / "data", root / "archive"
        self.archive = Archive(self.directory)
        self.now = NOW
        self.write(*stores.estate())

    def write(self, *changes: Change) -> None:
        """Let the store change, as its server does it."""
        stores.write_log(self.data, changes)

    def update(self, *, keep_days: int = 0, pages: int = 8) -> ArchiveProgress:
        """Archive what is new."""
        with store_at(str(self.data)) as store:
            return Archiver(
                store, self.archive, clock=lambda: self.now, keep_days=keep_days, pages=pages
            ).run()

    def compact(self) -> None:
        """Write everything as Parquet."""
        compact(self.archive, self.now)

    def archived(self) -> Counter[Row]:
        """Every row of the archive: its stream, topic and number."""
        found: Counter[Row] = Counter()
        for stream in {each.stream for each in self.archive.streams()}:
            for batch in rows(self.archive, stream, ("topic", "offset")):
                found.update((stream, row["topic"], row["offset"]) for row in batch.to_pylist())
        return found

    def assert_complete(self, *more: Row, without: Sequence[Row] = ()) -> None:
        """The archive has each row of the estate, and these, once, and verifies."""
        expected = Counter(
            [
                *(("log", ".\\private$\\orders", number) for number in range(1, 21)),
                ("journal", ".\\private$\\Bills;journal", 32),
                ("dead_letter", ".\\system$;deadletter", 35),
                ("dead_letter_transactional", ".\\system$;deadxact", 36),
                ("source_journal", ".\\system$;journal", 37),
                *(("events", "events", number) for number in range(1, 6)),
                *more,
            ]
        )
        expected.subtract(without)
        self.assertEqual(+expected, self.archived())
        self.assertEqual([], list(problems(self.archive)))


class ContentTests(ArchiveTestCase):
    """What is archived, and how."""

    def test_each_row_is_archived_once_however_often_it_is_updated(self) -> None:
        """With new rows in between, by the same process and by others."""
        self.assertEqual(ArchiveProgress(29, 0), self.update())
        self.assertEqual(ArchiveProgress(0, 0), self.update())
        self.write(stores.log(40), stores.put(50, DEAD), stores.event(6))
        with store_at(str(self.data)) as store:
            archiver = Archiver(store, self.archive, clock=lambda: self.now, seconds=lambda: 0.0)
            self.assertEqual(3, archiver.run().rows)
            self.write(stores.log(41), stores.put(51, BILLS_JOURNAL))
            self.assertEqual(2, archiver.run().rows)
        self.assertEqual(0, self.update().rows)
        more = [
            *(("log", ".\\private$\\orders", number) for number in (21, 22)),
            ("dead_letter", ".\\system$;deadletter", 50),
            ("journal", ".\\private$\\Bills;journal", 51),
            ("events", "events", 6),
        ]
        self.assert_complete(*more)
        self.compact()
        self.assert_complete(*more)

    def test_a_large_journal_is_not_scanned_all_the_time(self) -> None:
        """A scan is followed by a rest that is twenty times as long; logs are archived meanwhile."""
        seconds = 0.0

        def clock() -> float:
            nonlocal seconds
            seconds += 1
            return seconds

        with store_at(str(self.data)) as store:
            archiver = Archiver(store, self.archive, clock=lambda: self.now, seconds=clock)
            archiver.run()
            self.write(stores.log(41), stores.put(51, BILLS_JOURNAL))
            self.assertEqual(1, archiver.run().rows)
            seconds += 40
            self.assertEqual(1, archiver.run().rows)

    def test_rows_are_those_that_the_data_source_reads(self) -> None:
        """Fresh and compacted, in every column; a damaged packet is a row too."""
        self.write(
            stores.put(60, DEAD, content=stores.DAMAGED),
            stores.put(61, DEAD, content=stores.packet(61, b"\0\xff")),
        )
        with store_at(str(self.data)) as store:
            page = store.messages(DEAD.identifier, 0, 1 << 63, since=None, until=None, bodies=True)
        expected = message_batch(
            [
                StoredPacket(
                    packet, ".\\system$;deadletter", number % (1 << 56), arrived, number, aborts, moves
                )
                for number, arrived, aborts, moves, _, packet in page.rows
            ],
            names_of(EXPORTED_COLUMNS),
        ).to_pylist()
        self.update()
        for is_compact in (False, True):
            if is_compact:
                self.compact()
            [batch] = rows(self.archive, "dead_letter")
            self.assertEqual(expected, batch.to_pylist())

    def test_parquet_says_what_its_columns_are(self) -> None:
        """Comments, which columns are never null, and dictionaries for names."""
        self.update()
        self.compact()
        [path] = (self.directory / "messages" / "stream=dead_letter").rglob("*.parquet")
        schema = pyarrow.parquet.read_schema(path)
        self.assertEqual(b"1", schema.metadata[b"msmq.record_format"])
        topic = schema.field("topic")
        self.assertTrue(pyarrow.types.is_dictionary(topic.type))
        self.assertFalse(topic.nullable)
        self.assertTrue(schema.field("label").nullable, "a damaged packet has no label")
        self.assertIn(b"the path of the queue", topic.metadata[b"comment"])

    def test_what_is_archived_can_be_selected(self) -> None:
        """By stream, and by the queue of a log or a journal."""
        self.write(PutQueue(attrs.evolve(ORDERS, identifier=UUID(int=0x78), path="private$\\other")))
        self.write(AppendLog(UUID(int=0x78), 1, stores.packet(1), NOW))
        for queues, streams in (
            (("*",), {"log": 21, "journal": 1}),
            (("ord*",), {"log": 20}),
            (("private$\\BILLS",), {"journal": 1}),
            ((".\\private$\\o*", "bills"), {"log": 21, "journal": 1}),
            (("order", "s"), {}),
        ):
            self.archive = Archive(self.directory.with_name(f"selected-{'-'.join(queues).encode().hex()}"))
            with store_at(str(self.data)) as store:
                selection = ArchiveSelection(("log", "journal"), queues)
                progress = Archiver(store, self.archive, clock=lambda: NOW, selection=selection).run()
            found = Counter[str]()
            for (stream, _, _), times in self.archived().items():
                found[stream] += times
            self.assertEqual((streams, 0), (dict(found), progress.behind), queues)

    def test_small_files_are_merged(self) -> None:
        """So that an update every few seconds does not fill the directory; readers keep their files."""
        more = []
        with store_at(str(self.data)) as store:
            archiver = Archiver(store, self.archive, clock=lambda: self.now)
            for number in range(40, 60):
                self.write(stores.log(number))
                archiver.run()
                more.append(("log", ".\\private$\\orders", number - 19))
        self.assert_complete(*more)
        [log] = [each for each in summaries(self.archive) if each.stream == "log"]
        self.assertLess(log.files, 8)
        retired = [path for each in self.archive.streams() for path, _ in each.retired]
        self.assertTrue(retired)
        self.now += 3600
        self.update()
        self.assertFalse(any((self.directory / path).exists() for path in retired))
        self.assert_complete(*more)

    def test_past_dates_become_parquet(self) -> None:
        """Without being asked for; of today only what is large."""
        self.update()
        self.assertEqual([], list(self.directory.rglob("*.parquet")))
        self.now += DAY
        self.update()
        self.assertEqual(6, len(list(self.directory.rglob("*.parquet"))))
        self.assert_complete()

    def test_old_dates_are_removed(self) -> None:
        """And are not archived again, although the queues still have them."""
        self.update()
        self.now += 10 * DAY
        self.write(AppendLog(ORDERS.identifier, 70, stores.packet(70), self.now))
        self.update(keep_days=3)
        self.update(keep_days=3)
        self.assertEqual({("log", ".\\private$\\orders", 21): 1}, self.archived())
        self.assertEqual(29, sum(each.expired for each in summaries(self.archive)))


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

    def test_another_store_is_refused(self) -> None:
        """One line names both queue managers."""
        self.update()
        self.write(PutState("queue_manager", BETA.bytes))
        error = self.assertRaises(ArchiveError, self.update)
        self.assertIn("select another directory", str(error))


class FaultTests(ArchiveTestCase):
    """What happens to the writer and its disk."""

    def test_a_kill_at_any_moment_loses_and_repeats_nothing(self) -> None:
        """While rows are added, merged, compacted and removed from the disk."""
        self.data = self.data.with_name("kills")
        self.write(PutState("queue_manager", ALPHA.bytes), PutQueue(ORDERS), PutQueue(DEAD))
        with store_at(str(self.data)) as store:
            archiver = Archiver(store, self.archive, clock=lambda: self.now)
            for number in range(1, 8):
                self.write(stores.log(number))
                archiver.run()
        self.write(stores.log(8), stores.put(9, DEAD))
        self.now += DAY
        begun = self.directory.with_name("begun")
        shutil.copytree(self.directory, begun)
        expected = Counter({("log", ".\\private$\\orders", number): 1 for number in range(1, 9)})
        expected["dead_letter", ".\\system$;deadletter", 9] = 1
        for moment in count(1):
            is_killed = killed(self.update, self.directory, moment)
            self.update()
            self.assertEqual(expected, self.archived())
            self.assertEqual([], list(problems(self.archive)))
            if not is_killed:
                self.assertGreater(moment, 20)
                return
            shutil.rmtree(self.directory)
            shutil.copytree(begun, self.directory)

    def test_a_manifest_is_durable_before_other_files_are_removed(self) -> None:
        """A killed process may have renamed it without synchronising its directory."""
        self.update()
        unnamed = self.directory / FRESH / "left.arrow"
        unnamed.write_bytes(b"")
        manifests = (self.directory / MANIFESTS).stat().st_ino
        was_there: dict[int, bool] = {}
        fsync = os.fsync

        def observed(descriptor: int) -> None:
            fsync(descriptor)
            was_there.setdefault(os.fstat(descriptor).st_ino, unnamed.exists())

        self.patch(os, "fsync", observed)
        self.update()
        self.assertFalse(unnamed.exists())
        self.assertEqual(was_there.get(manifests), True)

    def test_a_full_disk_is_an_error_and_nothing_is_lost(self) -> None:
        """The archive stays as it was, and continues when there is room."""
        self.update()
        self.write(*(stores.log(number) for number in range(40, 60)), stores.event(6))
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        more = [
            *(("log", ".\\private$\\orders", number) for number in range(21, 41)),
            ("events", "events", 6),
        ]
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
            error = self.assertRaises(FileUnwritable, self.update)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        self.assertIn("cannot be written", str(error))
        self.assert_complete()
        self.update()
        self.assert_complete(*more)

    def test_a_follower_goes_on_after_faults(self) -> None:
        """A disk that was full and a store that was away; each is reported once."""
        self.update()
        self.write(stores.log(40), stores.put(81, DEAD))
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        self.addCleanup(resource.setrlimit, resource.RLIMIT_FSIZE, limits)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
        away = self.data.with_name("away")
        lines: list[str] = []
        passes = 0

        def is_over() -> bool:
            nonlocal passes
            passes += 1
            if passes == 2:
                resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            elif passes == 3:
                store.close()
                self.data.rename(away)
            elif passes == 5:
                away.rename(self.data)
                self.write(stores.log(41), stores.put(82, DEAD))
            return passes == 6

        with store_at(str(self.data)) as store:
            archiver = Archiver(store, self.archive, clock=lambda: self.now, seconds=lambda: 0.0)
            follow(archiver, is_over, lambda progress: lines.append(str(progress.rows)), lines.append)
        self.assertEqual(["archiving again", "2", "archiving again", "2"], [lines[1], lines[2], *lines[4:]])
        self.assertIn("cannot be written", lines[0])
        self.assertIn("trying again", lines[3])
        dead = ".\\system$;deadletter"
        self.assert_complete(
            *(("log", ".\\private$\\orders", number) for number in (21, 22)),
            *(("dead_letter", dead, number) for number in (81, 82)),
        )

    def test_a_damaged_file_is_named(self) -> None:
        """By a check, and by a compaction, which does not spread the damage."""
        self.update()
        [path] = (self.directory / "_fresh").glob("private-orders-*.arrow")
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
        self.assertIn(f"{path}: damaged", "".join(problems(self.archive)))
        self.assertIn(f"{path}: damaged", str(self.assertRaises(ArchiveError, self.compact)))
        path.unlink()
        self.assertIn(f"{path}: cannot be read: No such file", "".join(problems(self.archive)))

    def test_other_directories_are_refused(self) -> None:
        """One of another version, with a damaged manifest, or without an archive."""
        self.assertIn("there is no archive", str(self.assertRaises(ArchiveError, summaries, self.archive)))
        self.directory.mkdir()
        (self.directory / "notes.txt").write_text("mine")
        self.assertIn("not an archive and not empty", str(self.assertRaises(ArchiveError, self.update)))
        (self.directory / "notes.txt").unlink()
        self.update()
        root = self.directory / "_archive.json"
        described = json.loads(root.read_bytes())
        root.write_text(json.dumps({**described, "version": 2}))
        self.assertIn("an archive of version 2", str(self.assertRaises(ArchiveError, self.update)))
        root.write_text(json.dumps(described))
        for content in ("", "[]", "{}"):
            next((self.directory / "_streams").glob("*.json")).write_text(content)
            self.assertIn("not a manifest", str(self.assertRaises(ArchiveError, self.update)))


class ErasureTests(ArchiveTestCase):
    """Rows are erased for good."""

    def erase(self, condition: str, *, dry_run: bool = False) -> dict[str, int]:
        return erase(self.archive, parse_condition(condition), self.now, dry_run=dry_run)

    def test_erased_rows_are_gone_and_stay_away(self) -> None:
        """From every file, also those that a merge has replaced; the others stay."""
        self.update()
        self.compact()
        self.write(stores.put(93, DEAD), stores.put(94, DEAD))
        self.update()
        gone = [("dead_letter", ".\\system$;deadletter", number) for number in (35, 93)]
        for dry_run in (True, False):
            found = self.erase("topic = '.\\system$;deadletter' and offset != 94", dry_run=dry_run)
            self.assertEqual({".\\system$;deadletter dead_letter": 2}, found)
        self.update()
        left = ("dead_letter", ".\\system$;deadletter", 94)
        self.assert_complete(left, without=gone[:1])
        self.assertEqual({}, self.erase("offset = 93"))
        for path in self.directory.rglob("*"):
            if path.is_file():
                self.assertNotIn(b"body 93", path.read_bytes(), path)

    def test_the_record_of_an_erasure_has_no_values(self) -> None:
        """It would keep what had to be erased."""
        self.update()
        self.erase("label = 'message 3' and sent_time < '2030-01-01'")
        [line] = (self.directory / "_erasures.jsonl").read_text().splitlines()
        record = json.loads(line)
        self.assertEqual(["label", "sent_time"], record["columns"])
        self.assertEqual({".\\private$\\orders log": 1}, record["rows"])
        self.assertNotIn("message 3", line)

    def test_conditions(self) -> None:
        """Each comparison, each type, and null, which nothing is equal to."""
        self.update()
        for condition, expected in (
            ("offset < 3", 4),
            ("offset <= 3 AND topic = 'events'", 3),
            ("offset > 19 and topic != 'events' and transactional = false", 5),
            ("offset >= 20 and class = 0", 5),
            ("label = 'it''s'", 0),
            ("sent_time >= '2023-11-14T22:13:38'", 7),
            ("abort_count != 1", 0),
        ):
            self.assertEqual(expected, sum(self.erase(condition, dry_run=True).values()), condition)

    def test_invalid_conditions(self) -> None:
        """One line names what is wrong."""
        self.update()
        for condition, reason in (
            ("", "must be COLUMN = VALUE"),
            ("offset", "must be COLUMN = VALUE"),
            ("offset = 3 or offset = 4", "'or' instead of and"),
            ("offset = x", "texts need single quotes"),
            ("offset = 'x'", "offset cannot be compared"),
            ("priority = 9999999999", "priority has 32 bits"),
            ("sent_time < 'soon'", "not an ISO 8601 time"),
            ("colour = 'red'", "there is no column colour"),
            ("headers = 'x'", "headers cannot be compared"),
            ("offset = 3;", "cannot be read from ';'"),
            ("offset = " + "9" * 20_000, "longer than"),
        ):
            error = self.assertRaises(ArchiveError, self.erase, condition)
            self.assertIn(reason, str(error))


def killed(run: Callable[[], object], directory: Path, moment: int) -> bool:
    """Run in a process that is killed at its this-many-th change of a file; whether it was killed.

    Files that pyarrow opens are not seen, but their synchronisation and their renaming are.
    """
    child = os.fork()
    if not child:
        left = moment

        def hook(event: str, arguments: tuple[object, ...]) -> None:
            nonlocal left
            is_change = event in ("os.rename", "os.remove", "os.mkdir", "os.rmdir")
            # Also files that are opened for writing, or for their synchronisation.
            if is_change or (event == "open" and arguments[1] not in ("r", "rb")):
                left -= str(directory.name) in str(arguments[0])
                if not left:
                    os.kill(os.getpid(), signal.SIGKILL)

        try:
            sys.addaudithook(hook)
            run()
        except BaseException:
            os._exit(3)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        raise AssertionError(f"the update failed with {os.WEXITSTATUS(status)}")
    return os.WIFSIGNALED(status)
