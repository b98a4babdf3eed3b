"""An archive has every row once, whatever happens to its writer and its disk."""

from __future__ import annotations

import json
import os
import resource
import shutil
from collections import Counter
from itertools import count
from uuid import UUID

from msmq.persistence.changes import PutQueue, PutState, TrimLog
from msmq.pipeline.archive.archiver import Archiver
from msmq.pipeline.archive.errors import ArchiveError
from msmq.pipeline.archive.following import follow
from msmq.pipeline.archive.manifest import FRESH, MANIFESTS, ROOT, Archive
from msmq.pipeline.archive.upkeep import problems, rows, summaries
from msmq.pipeline.files.errors import FileUnwritable
from msmq.pipeline.files.exporter import store_at
from msmq.pipeline.files.format import EVENTS
from msmq.storage.readers.shape import RowPage
from tests.builders import ALPHA
from tests.pipeline import stores
from tests.pipeline.archive.archive_case import DAY, ArchiveTestCase, killed
from tests.pipeline.stores import ARRIVED, DEAD, ORDERS


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

    def test_a_kill_while_the_archive_begins(self) -> None:
        """The next process begins it, whatever the first one has left."""
        self.data = self.data.with_name("kills")
        self.write(PutState("queue_manager", ALPHA.bytes), PutQueue(ORDERS), stores.log(1))
        for moment in count(1):
            is_killed = killed(self.update, self.directory, moment)
            self.update()
            self.assertEqual([1], [*self.archived().values()])
            if not is_killed:
                self.assertGreater(moment, 8)
                return
            shutil.rmtree(self.directory)

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

    def test_a_damaged_file_keeps_out_nothing_else(self) -> None:
        """What cannot be merged is reported in each pass, in which all other streams are archived."""
        self.update()
        [path] = (self.directory / "_fresh").glob("private-orders-*.arrow")
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
        failures = 0
        for number in range(6, 18):
            self.write(stores.log(number + 40), stores.event(number))
            try:
                self.update()
            except ArchiveError as error:
                failures += 1
                self.assertIn(f"{path}: damaged", str(error))
        self.assertGreater(failures, 1)
        archived = rows(self.archive, EVENTS, ("offset",))
        found = [row["offset"] for batch in archived for row in batch.to_pylist()]
        self.assertEqual([*range(1, 18)], sorted(found))

    def test_a_damaged_manifest_keeps_out_nothing_else(self) -> None:
        """All other streams are archived in each pass, also after a restart, and journals rest meanwhile."""
        scanned: list[UUID] = []
        with store_at(str(self.data)) as store:
            archiver = Archiver(
                store, self.archive, clock=lambda: self.now, seconds=lambda: float(len(scanned))
            )
            read = store.message_rows

            def rows_of(queue: UUID, begin: int) -> RowPage:
                scanned.append(queue)
                return read(queue, begin)

            self.patch(store, "message_rows", rows_of)
            archiver.run()
            [path] = (self.directory / MANIFESTS).glob("private-orders-log-*.json")
            manifest, before = path.read_bytes(), len(scanned)
            path.write_bytes(manifest[:-9])
            for number in (6, 7):
                self.write(stores.event(number))
                self.assertIn(f"{path}: not a manifest", str(self.assertRaises(ArchiveError, archiver.run)))
            self.assertEqual(before, len(scanned))
        self.write(stores.event(8))
        self.assertRaises(ArchiveError, self.update)
        path.write_bytes(manifest)
        self.assert_complete(*(("events", "events", number) for number in (6, 7, 8)))

    def test_gaps_of_a_pass_that_fails(self) -> None:
        """They are among those of the next one."""
        self.update()
        self.write(stores.log(40), stores.log(41))
        self.write(TrimLog(ORDERS.identifier, before=ARRIVED + 40.5, keep_bytes=None))
        problems = [FileUnwritable("no space left")]

        def fail(_: int) -> None:
            if problems:
                raise problems.pop()

        with store_at(str(self.data)) as store:
            archiver = Archiver(store, self.archive, clock=lambda: self.now, on_step=fail)
            self.assertRaises(FileUnwritable, archiver.run)
            line = ".\\private$\\orders: the entries 21 to 21 were trimmed before they were archived"
            self.assertEqual((line,), archiver.run().gaps)
            self.assertEqual((), archiver.run().gaps)

    def test_other_directories_are_refused(self) -> None:
        """One of another version, with a damaged manifest, or without an archive."""
        self.assertIn("there is no archive", str(self.assertRaises(ArchiveError, summaries, self.archive)))
        self.directory.mkdir()
        (self.directory / "notes.txt").write_text("mine")
        self.assertIn("not an archive and not empty", str(self.assertRaises(ArchiveError, self.update)))
        (self.directory / "notes.txt").unlink()
        (self.directory / ROOT).mkdir()
        error = str(self.assertRaises(ArchiveError, summaries, self.archive))
        self.assertTrue(error.endswith(f"{ROOT}: cannot be read: Is a directory"), error)
        (self.directory / ROOT).rmdir()
        self.update()
        root = self.directory / "_archive.json"
        described = json.loads(root.read_bytes())
        root.write_text(json.dumps({**described, "version": 2}))
        self.assertIn("an archive of version 2", str(self.assertRaises(ArchiveError, self.update)))
        root.write_text(json.dumps(described))
        for content in ("", "[]", "{}"):
            next((self.directory / "_streams").glob("*.json")).write_text(content)
            self.assertIn("not a manifest", str(self.assertRaises(ArchiveError, self.update)))

    def test_manifests_that_cannot_be_read(self) -> None:
        """An archive without readable manifests is not one without rows."""
        self.update()
        [path, *_] = manifests = sorted((self.directory / MANIFESTS).iterdir())
        for each in manifests:
            each.unlink()
        path.mkdir()
        error = str(self.assertRaises(ArchiveError, summaries, self.archive))
        self.assertEqual(f"{path}: cannot be read: Is a directory", error)
        path.rmdir()
        path.parent.rmdir()
        path.parent.touch()
        for action in (summaries, lambda archive: list(problems(archive)), Archive.tidy):
            error = str(self.assertRaises(ArchiveError, action, self.archive))
            self.assertEqual(f"{path.parent}: cannot be read: Not a directory", error)
        self.assertNotEqual([], list((self.directory / FRESH).iterdir()))
