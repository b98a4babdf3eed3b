"""C{msmq store migrate}: everything moves, with any interruption."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar
from uuid import UUID

import attrs
from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorFromThreads
from twisted.trial.unittest import TestCase

from msmq.interfaces.storage import IMessageStore, StorageError
from msmq.persistence.changes import AppendLog, Change, PutMessage, PutQueue, PutState, RemoveMessages
from msmq.persistence.migration_mark import MARK, read_mark
from msmq.storage.memory import MemoryMessageStore
from msmq.storage.migration.errors import AlreadyMoved, MigrationError, TargetInUse
from msmq.storage.migration.migration import MigrationProgress, MigrationSummary
from msmq.storage.migration.store_locations import SqliteLocation, StoreLocation, store_location_of
from msmq.storage.readers.shape import RowPage, StoreReader
from msmq.storage.readers.sqlite import SqliteStoreReader
from msmq.testing.contracts.store_contract import HIGHEST, ORDERS
from tests.servers.postgresql import shared_server
from tests.storage.migration.support import (
    NOW,
    digest,
    everything,
    filled,
    migrated,
    snapshot_of,
    without_mark,
)

if TYPE_CHECKING:
    _Base = TestCase
else:
    _Base = object


class Interrupted(Exception):
    """A migration was interrupted by its test."""


class MigrationContract(_Base):
    """Properties of every pair of stores."""

    source: StoreLocation
    target: StoreLocation

    async def is_usable(self, place: StoreLocation) -> bool:
        """Whether a server would start on this store, and find something."""
        if not place.exists():
            return False
        snapshot = await snapshot_of(place)
        return bool(snapshot.queues) and MARK not in snapshot.state

    async def test_everything_moves(self) -> None:
        """Queues, messages, logs, events and values are in the target as they were, with their numbers."""
        await filled(self.source)
        before, snapshot = digest(self.source), await snapshot_of(self.source)
        summary = await migrated(self.source, self.target)
        self.assertEqual(summary.sections, before)
        found = await snapshot_of(self.target)
        self.assertEqual(without_mark(found), without_mark(snapshot))
        self.assertEqual([queue.path for queue in found.queues], [queue.path for queue in snapshot.queues])
        after = digest(self.target)
        for section in ("queues", "messages", "log entries", "values"):
            self.assertEqual(after[section], before[section])
        self.assertEqual(after["events"].rows, before["events"].rows + 1)
        self.assertTrue(await self.is_usable(self.target))
        self.assertFalse(await self.is_usable(self.source))

    async def test_event(self) -> None:
        """The event log of the target says what was moved, once, under the next number."""
        await filled(self.source)
        summary = await migrated(self.source, self.target)
        store = self.target.make_store()
        await store.open()
        *_, last = await store.read_events(0, 100)
        await store.close()
        self.assertEqual((last.sequence, last.event.time, last.event.event), (10, NOW, "migrated"))
        self.assertEqual(last.event.reason, str(summary))

    async def test_interrupted_at_each_step(self) -> None:
        """After any last step, at most one store is usable, and the next run continues."""
        await filled(self.source)
        before = digest(self.source)
        steps = 0
        while True:
            left = steps

            def report(progress: MigrationProgress) -> None:
                nonlocal left
                if not left:
                    raise Interrupted
                left -= 1

            try:
                await migrated(self.source, self.target, report)
                break
            except Interrupted:
                steps += 1
            except AlreadyMoved:
                break
            usable = [await self.is_usable(self.source), await self.is_usable(self.target)]
            self.assertNotEqual(usable, [True, True])
            self.assertEqual(digest(self.source), before)
        self.assertGreater(steps, 3)
        self.assertTrue(await self.is_usable(self.target))
        after = digest(self.target)
        for section in ("queues", "messages", "log entries", "values"):
            self.assertEqual(after[section], before[section])
        self.assertEqual(after["events"].rows, before["events"].rows + 1)


class MovedDirectoryTests(TestCase):
    """A data directory that is moved while the migration of its store is interrupted."""

    async def test_each_step(self) -> None:
        """The migration goes on where the directory is then, whatever it had done before."""
        home = Path(self.mktemp()).absolute()
        home.mkdir()
        await filled(store_location_of("sqlite", home))
        before = digest(store_location_of("sqlite", home))
        for number, step in enumerate(("claimed", "copied", "verified", "proven", "retired", "released")):

            def report(progress: MigrationProgress, step: str = step) -> None:
                if progress.step == step:
                    raise Interrupted

            source, target = store_location_of("sqlite", home), store_location_of("log", home)
            moving = Deferred.fromCoroutine(migrated(source, target, report))
            await self.assertFailure(moving, Interrupted)
            home = home.rename(home.with_name(f"moved-{number}"))
        source, target = store_location_of("sqlite", home), store_location_of("log", home)
        await migrated(source, target)
        self.assertEqual(digest(target)["messages"], before["messages"])
        mark = read_mark((await snapshot_of(source)).state[MARK])
        assert mark is not None
        self.assertEqual((mark.is_finished, mark.other), (True, target.text))

    async def test_a_store_of_another_directory(self) -> None:
        """One with the same name does not continue the migration, and does not erase what has arrived."""
        home = Path(self.mktemp()).absolute()
        one, other = home / "one", home / "other"
        for directory in (one, other):
            directory.mkdir(parents=True)
            await filled(store_location_of("sqlite", directory))
        source, target = store_location_of("sqlite", one), f"log:{home / 'log'}"

        def report(progress: MigrationProgress) -> None:
            if progress.step == "retired":
                raise Interrupted

        begun = migrated(source, store_location_of(target, one), report)
        await self.assertFailure(Deferred.fromCoroutine(begun), Interrupted)
        wrong = migrated(store_location_of("sqlite", other), store_location_of(target, other))
        await self.assertFailure(Deferred.fromCoroutine(wrong), TargetInUse)
        link = home / "link"
        link.symlink_to(one)
        await migrated(store_location_of("sqlite", link), store_location_of(target, link))


class MigrationToLogTests(MigrationContract, TestCase):
    """SQLite to the record log."""

    def setUp(self) -> None:
        home = Path(self.mktemp()).absolute()
        home.mkdir()
        self.source, self.target = store_location_of("sqlite", home), store_location_of("log", home)

    async def test_source_that_was_used_meanwhile(self) -> None:
        """If a server has used the source after a migration was interrupted, its target is filled anew."""
        await filled(self.source)

        def interrupt(progress: MigrationProgress) -> None:
            if progress.step == "verified":
                raise Interrupted

        await self.assertFailure(self.run_migration(interrupt), Interrupted)
        store = self.source.make_store()
        await store.open()
        await store.commit([RemoveMessages(ORDERS.identifier, (HIGHEST,))])
        await store.commit([PutMessage(ORDERS.identifier, 5, b"new", 1.0), PutState("b", b"other")])
        await store.close()
        before = digest(self.source)
        summary = await migrated(self.source, self.target)
        self.assertEqual(summary.sections, before)
        self.assertEqual(digest(self.target)["messages"], before["messages"])

    async def test_source_with_new_queues(self) -> None:
        """If a server has created a queue meanwhile, the target of the interrupted copy is filled anew."""
        await filled(self.source)
        phases = 0

        def interrupt(progress: MigrationProgress) -> None:
            nonlocal phases
            phases += progress.step == "copied"
            if phases == left:
                raise Interrupted

        new = attrs.evolve(ORDERS, identifier=UUID(int=0xF), path="private$\\new")
        for left in (3, 7):
            with self.subTest(left):
                phases = 0
                await self.assertFailure(self.run_migration(interrupt), Interrupted)
                store = self.source.make_store()
                await store.open()
                new = attrs.evolve(new, identifier=UUID(int=new.identifier.int + 1), path=f"{new.path}1")
                message = PutMessage(new.identifier, 1, b"new", 1.0)
                await store.commit([PutQueue(new), message, AppendLog(new.identifier, 1, b"new", 1.0)])
                await store.close()
        before = digest(self.source)
        summary = await migrated(self.source, self.target)
        self.assertEqual(summary.sections, before)
        self.assertEqual(digest(self.target)["messages"], before["messages"])

    async def test_many_messages(self) -> None:
        """Pages and batches have a bound, and every message is moved once."""
        await filled(self.source, everything(5000))
        reports: list[MigrationProgress] = []
        summary = await migrated(self.source, self.target, reports.append)
        copied = [progress.rows for progress in reports if progress.step == "copied"]
        self.assertLessEqual(max(copied), 2000)
        self.assertEqual(sum(copied), sum(section.rows for section in summary.sections.values()))

    async def test_target_in_use(self) -> None:
        """A target that holds something is refused and not changed; so is a store that is its own target."""
        await filled(self.source)
        await filled(self.target)
        before = digest(self.target)
        error = await self.assertFailure(self.run_migration(), TargetInUse)
        self.assertIn(f"{self.target.text}: there is a store already", str(error))
        self.assertEqual(digest(self.target), before)
        self.target = self.source
        await self.assertFailure(self.run_migration(), MigrationError)

    async def test_no_source(self) -> None:
        """A source that does not exist is refused, and not made."""
        error = await self.assertFailure(self.run_migration(), MigrationError)
        self.assertEqual(str(error), f"{self.source.text}: there is no such store")
        self.assertFalse(self.source.exists())

    async def test_moved_store(self) -> None:
        """A moved store is not moved again, and is no target before it is discarded."""
        await filled(self.source)
        await migrated(self.source, self.target)
        await self.assertFailure(self.run_migration(), AlreadyMoved)
        self.source, self.target = self.target, self.source
        error = await self.assertFailure(self.run_migration(), MigrationError)
        self.assertIn("msmq store discard", str(error))

    async def test_there_and_back(self) -> None:
        """A store that was moved to a log and back is what it was."""
        await filled(self.source)
        before = digest(self.source)
        await migrated(self.source, self.target)
        self.source.erase()
        await migrated(self.target, self.source)
        after = digest(self.source)
        for section in ("queues", "messages", "log entries", "values"):
            self.assertEqual(after[section], before[section])

    async def test_lost_target(self) -> None:
        """A source whose target is gone stays marked: the messages were delivered from there meanwhile."""
        await filled(self.source)

        def interrupt(progress: MigrationProgress) -> None:
            if progress.step == "retired":
                raise Interrupted

        await self.assertFailure(self.run_migration(interrupt), Interrupted)
        self.target.erase()
        error = await self.assertFailure(self.run_migration(), StorageError)
        self.assertIn("was moved to", str(error))

    def run_migration(
        self, report: Callable[[MigrationProgress], object] = lambda progress: None
    ) -> Deferred[MigrationSummary]:
        return Deferred.fromCoroutine(migrated(self.source, self.target, report))


class MemoryLocation(SqliteLocation):
    """A store in memory that is filled, and whose commits of messages end when C{read} has fired."""

    read: ClassVar[Deferred[None]]

    def make_store(self, *, accepts_loss: bool = False) -> IMessageStore:
        """See L{StoreLocation.make_store}."""
        return HeldStore(durable=True)


class HeldStore(MemoryMessageStore):
    """See L{MemoryLocation}."""

    def commit(self, changes: Sequence[Change]) -> Deferred[None]:
        """See L{IMessageStore.commit}."""
        done = super().commit(changes)
        if any(isinstance(change, PutMessage) for change in changes):
            done.addCallback(lambda _: MemoryLocation.read)
        return done


class WatchedLocation(SqliteLocation):
    """A file whose reader reports the second page of messages, in the reactor's thread."""

    def make_reader(self) -> StoreReader:
        """See L{StoreLocation.make_reader}."""
        return WatchedReader(self.path)


class WatchedReader(SqliteStoreReader):
    """See L{WatchedLocation}."""

    pages = 0

    def messages(
        self, queue: UUID, begin: int, end: int, *, since: float | None, until: float | None, bodies: bool
    ) -> RowPage:
        """See L{StoreReader.messages}."""
        self.pages += 1
        if self.pages == 2:
            IReactorFromThreads(reactor).callFromThread(self.report)
        return super().messages(queue, begin, end, since=since, until=until, bodies=bodies)

    def report(self) -> None:
        """Report it, of the first reader; a later one verifies what was copied."""
        if not MemoryLocation.read.called:
            MemoryLocation.read.callback(None)


class OverlapTests(TestCase):
    """Reading and writing take the time of the slower one."""

    timeout = 20

    async def test_pages(self) -> None:
        """The second page is read before the first one is written."""
        home = Path(self.mktemp()).absolute()
        home.mkdir()
        MemoryLocation.read = Deferred()
        source = WatchedLocation("sqlite", "", home)
        await filled(source)
        steps: list[str] = []
        moving = migrated(source, MemoryLocation("sqlite", "other", home), lambda one: steps.append(one.step))
        # What a memory store had is gone when it is closed, so nothing is found in the target.
        await self.assertFailure(Deferred.fromCoroutine(moving), StorageError)
        self.assertGreater(steps.count("copied"), 3)


class MigrationToSqliteTests(MigrationContract, TestCase):
    """The record log to SQLite."""

    def setUp(self) -> None:
        home = Path(self.mktemp()).absolute()
        home.mkdir()
        self.source, self.target = store_location_of("log", home), store_location_of("sqlite", home)


class DiscardedLogTests(TestCase):
    """What stays of a record log that was moved and is discarded."""

    def setUp(self) -> None:
        self.home = Path(self.mktemp()).absolute()
        self.home.mkdir()
        self.log = store_location_of("log", self.home)
        self.path = self.home / "msmq.log"

    def quarantine(self, content: bytes) -> None:
        (self.path / "quarantine").mkdir()
        (self.path / "quarantine" / "segment-000001-4096-1").write_bytes(content)

    async def test_quarantine(self) -> None:
        """What is left of damaged messages stays, and a later quarantine does not replace it."""
        for content in (b"first", b"second"):
            await filled(self.log)
            self.quarantine(content)
            self.log.erase()
            self.assertFalse(self.path.exists())
        kept = {path.parent.name: path.read_bytes() for path in self.home.glob("*/segment-*")}
        self.assertEqual(kept, {"msmq.log.quarantine": b"first", "msmq.log.quarantine-2": b"second"})

    async def test_symbolic_link(self) -> None:
        """The files of a log on another volume are deleted, and so is the link to it."""
        volume = self.home / "volume"
        volume.mkdir()
        self.path.symlink_to(volume)
        await filled(self.log)
        self.quarantine(b"content")
        (volume / "lost+found").mkdir()
        self.assertGreater(self.log.erase(), 1024 * 1024)
        self.assertFalse(self.path.is_symlink())
        self.assertEqual(sorted(path.name for path in volume.iterdir()), ["lost+found", "quarantine"])
        await filled(self.log)
        self.assertTrue(self.log.exists())


class PostgresqlMigrationTestCase(TestCase):
    """A log in a directory, and a schema of a database."""

    def setUp(self) -> None:
        home = Path(self.mktemp()).absolute()
        home.mkdir()
        server, schema = shared_server(), f"msmq_migration_{self.id().rpartition('.')[2]}"[:60]
        server.drop(schema)
        self.addCleanup(server.drop, schema)
        self.log = store_location_of("log", home)
        self.schema = store_location_of(server.url(f"schema={schema}"), home)


class MigrationToPostgresqlTests(MigrationContract, PostgresqlMigrationTestCase):
    """The record log to PostgreSQL."""

    def setUp(self) -> None:
        super().setUp()
        self.source, self.target = self.log, self.schema

    async def test_there_and_back(self) -> None:
        """A log that was moved to a database and back is what it was; the tables are deleted in between."""
        await filled(self.source)
        before = digest(self.source)
        await migrated(self.source, self.target)
        self.source.erase()
        await migrated(self.target, self.source)
        self.target.erase()
        self.assertFalse(self.target.exists())
        self.assertEqual(digest(self.source)["messages"], before["messages"])


class MigrationFromPostgresqlTests(MigrationContract, PostgresqlMigrationTestCase):
    """PostgreSQL to the record log."""

    def setUp(self) -> None:
        super().setUp()
        self.source, self.target = self.schema, self.log
