"""A data directory with a SQLite store is converted when a server starts on the record log."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorFromThreads, IReactorTime
from twisted.logger import LogLevel, capturedLogs, formatEvent
from twisted.trial.unittest import TestCase

from msmq.interfaces import StorageError
from msmq.persistence.changes import PutState
from msmq.queues.arriving.message import Delivery, Message
from msmq.service.configuration import Overrides, load
from msmq.service.data_directory.store_conversion import convert_former_store
from msmq.service.server import Server
from msmq.storage.migration.migration import MigrationProgress
from msmq.storage.migration.store_locations import store_location_of
from msmq.storage.readers import open_reader
from tests.storage.migration.support import digest, filled, snapshot_of, without_mark

CLOSED = '[listen]\nsession = "off"\nping = "off"\ndiscovery = "off"\n'
ORDERS = ".\\private$\\orders"


class Interrupted(Exception):
    """A start was interrupted by its test."""


class ConversionTestCase(TestCase):
    """A data directory, and servers on it."""

    def setUp(self) -> None:
        self.data = Path(tempfile.mkdtemp(prefix="msmq"))
        self.addCleanup(shutil.rmtree, self.data)

    async def started(self, storage: str | None = None) -> tuple[Server, Any]:
        """A server, and its queue manager; by default on the store of a server without a configuration."""
        path = self.data / "msmq.toml"
        path.write_text(CLOSED)
        server = Server(
            load(path, Overrides(name="ALPHA", data=os.fspath(self.data), storage=storage)),
            cast(IReactorTime, reactor),
        )
        self.addCleanup(server.stopService)
        server.startService()
        await server.started
        return server, server.manager

    async def refused(self, storage: str | None = None) -> str:
        """Why a server does not start."""
        error = await self.assertFailure(Deferred.fromCoroutine(self.started(storage)), StorageError)
        return str(error)


class ConversionTests(ConversionTestCase):
    """Servers of an earlier version, then of this one."""

    async def test_server(self) -> None:
        """Messages of before are received, the old file stays, and an event says what was done, once."""
        server, manager = await self.started("sqlite")
        await manager.create_queue(ORDERS)
        messages = [Message(body=b"%d" % n, delivery=Delivery.RECOVERABLE) for n in range(5)]
        await manager.send(ORDERS, messages)
        await server.stopService()
        for _ in range(2):
            server, manager = await self.started()
            self.assertEqual(manager.inspection.status().storage, "log")
            self.assertEqual(manager.inspection.queue(ORDERS).messages, 5)
            await server.stopService()
        self.assertTrue((self.data / "msmq.sqlite").exists())
        reader = open_reader(str(self.data))
        events, _ = reader.events(0, 100)
        reader.close()
        [event] = [stored.event for stored in events if stored.event.event == "migrated"]
        self.assertIn(f"{self.data / 'msmq.sqlite'} was moved to {self.data / 'msmq.log'}", event.reason)
        self.assertIn("5 messages", event.reason)
        self.assertIn("was moved to", await self.refused("sqlite"))

    async def test_interrupted_at_each_step(self) -> None:
        """However often a start ends in the middle, the next one goes on, and one store is never two."""
        former = store_location_of("sqlite", self.data)
        await filled(former)
        before = digest(former)
        for steps in range(100):
            left = steps

            def report(progress: MigrationProgress) -> None:
                nonlocal left
                if not left:
                    raise Interrupted
                left -= 1

            try:
                await self.convert(report)
                break
            except Interrupted:
                self.assertEqual(digest(former), before)
        self.assertGreater(steps, 3)
        self.assertEqual(await self.convert(), "")
        log = store_location_of("log", self.data)
        self.assertEqual(digest(log)["messages"], before["messages"])
        self.assertEqual(without_mark(await snapshot_of(log)), without_mark(await snapshot_of(former)))

    async def test_nothing_to_convert(self) -> None:
        """A new data directory gets a record log, and one with another store than SQLite is left alone."""
        self.assertEqual(await self.convert(), "")
        await filled(store_location_of("sqlite", self.data))
        self.assertEqual(await self.convert(storage="memory"), "")
        self.assertEqual(await self.convert(storage="sqlite"), "")

    async def test_refused_start(self) -> None:
        """A server that cannot start logs no error about events: it has a reason, and nothing else failed."""
        await filled(store_location_of("sqlite", self.data))
        await filled(store_location_of("log", self.data))
        with capturedLogs() as lines:
            self.assertIn("there are two stores", await self.refused())
        self.assertEqual([formatEvent(line) for line in lines if line["log_level"] >= LogLevel.error], [])

    async def test_two_stores(self) -> None:
        """With two unrelated stores the server refuses to choose one."""
        await filled(store_location_of("sqlite", self.data))
        await filled(store_location_of("log", self.data))
        error = await self.assertFailure(Deferred.fromCoroutine(self.convert()), StorageError)
        self.assertIn("there are two stores", str(error))
        self.assertRaises(StorageError, open_reader, str(self.data))

    async def test_store_that_is_elsewhere(self) -> None:
        """No server starts on an empty store while the messages are in another one."""
        await filled(store_location_of("sqlite", self.data))
        await self.convert(storage="log:elsewhere")
        error = await self.assertFailure(Deferred.fromCoroutine(self.convert()), StorageError)
        self.assertIn(f"was moved to {self.data / 'elsewhere'}", str(error))
        store_location_of("sqlite", self.data).erase()
        (self.data / "elsewhere").rename(self.data / "msmq.log")
        error = await self.assertFailure(Deferred.fromCoroutine(self.convert(storage="sqlite")), StorageError)
        self.assertIn(f"there is no such store, but {self.data / 'msmq.log'}", str(error))

    async def test_used_meanwhile(self) -> None:
        """If the start was interrupted and a server used SQLite again, what it did is converted too."""
        former = store_location_of("sqlite", self.data)
        await filled(former)

        def interrupt(progress: MigrationProgress) -> None:
            if progress.step == "proven":
                raise Interrupted

        await self.assertFailure(Deferred.fromCoroutine(self.convert(interrupt)), Interrupted)
        reader = open_reader(str(self.data))
        self.assertEqual(reader.text, former.text)
        reader.close()
        store = former.make_store()
        await store.open()
        await store.commit([PutState("b", b"later")])
        await store.close()
        await self.convert()
        self.assertEqual((await snapshot_of(store_location_of("log", self.data))).state["b"], b"later")

    async def test_missing_store(self) -> None:
        """A store that is missing is not replaced by an empty log, unless that is accepted."""
        former = store_location_of("sqlite", self.data)
        await filled(former)
        (self.data / "msmq.sqlite").rename(self.data / "older.sqlite")
        error = await self.assertFailure(Deferred.fromCoroutine(self.convert()), StorageError)
        self.assertIn("the store that was used last is missing", str(error))
        self.assertEqual(await self.convert(accepts_loss=True), "")

    async def test_older_copy(self) -> None:
        """An older copy is not converted, unless that is accepted."""
        former = store_location_of("sqlite", self.data)
        await filled(former)
        copy = (self.data / "msmq.sqlite").read_bytes()
        store = former.make_store()
        await store.open()
        await store.commit([PutState("b", b"later")])
        await store.close()
        (self.data / "msmq.sqlite").write_bytes(copy)
        error = await self.assertFailure(Deferred.fromCoroutine(self.convert()), StorageError)
        self.assertIn("--accept-loss", str(error))
        self.assertIn("was moved to", await self.convert(accepts_loss=True))

    async def convert(
        self,
        report: Callable[[MigrationProgress], object] = lambda progress: None,
        *,
        storage: str = "log",
        accepts_loss: bool = False,
    ) -> str:
        return await convert_former_store(
            storage,
            self.data,
            cast(IReactorFromThreads, reactor),
            accepts_loss=accepts_loss,
            report=report,
        )
