"""Servers that belong to an enterprise, which a file describes; on real sockets of loopback."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from uuid import UUID

from twisted.internet import reactor
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater
from twisted.trial.unittest import SynchronousTestCase, TestCase

import msmq.directory.file
from msmq.decoding.values import unix_time
from msmq.directory.factory import DirectoryDescriptionError
from msmq.errors import MsmqError
from msmq.manager.service import QueueManagerService
from msmq.queues.arriving.message import Message
from msmq.service.configuration import Overrides, check, load
from msmq.service.data_directory.identity import identity_path, load_identity
from msmq.service.server import Server
from msmq.structures.status import MQError, Status
from tests.directory.test_enterprise_file import ALPHA, BETA, WHOLE
from tests.manager.directory_status import directory_status
from tests.servers.own_address import own_address

ENTERPRISE = WHOLE[: WHOLE.index("[[user]]")]
OTHER = UUID(int=0x99)
CLOSED = """
[listen]
session = "tcp:0:interface=127.0.0.1"
ping = "udp:0:interface=127.0.0.1"
discovery = "off"
"""


class DiscoveryEndpointTests(SynchronousTestCase):
    """Where searches for directory servers are answered."""

    def test_port(self) -> None:
        """MQSD-1.5-02 MQSD-2.1-04: by default UDP 1801, with TCP 1801."""
        path = Path(self.mktemp())
        path.write_text("", encoding="utf-8")
        listen = load(path).listen
        assert listen.discovery is not None and listen.session is not None
        self.assertEqual((listen.discovery.port, listen.discovery.interface), (1801, "127.0.0.1"))
        self.assertIn("tcp:1801", listen.session.description)


class SamePortTests(TestCase):
    """Sessions and discovery have one number."""

    async def test_both_are_open(self) -> None:
        """MQSD-1.9-01: a server listens on UDP and on TCP 1801 of one address."""
        directory = Path(tempfile.mkdtemp(prefix="msmq-test-"))
        self.addCleanup(shutil.rmtree, directory)
        address = own_address(70)
        path = directory / "msmq.toml"
        path.write_text(f'[queue_manager]\nconnected_networks = ["{OTHER}"]\n', encoding="utf-8")
        overrides = Overrides(
            name="ALPHA", data=os.fspath(directory / "data"), storage="memory", address=address
        )
        server = Server(load(path, overrides), IReactorTime(reactor))
        server.startService()
        self.addCleanup(server.stopService)
        await server.started
        self.assertIn(f"TCP {address}:1801", server.addresses)
        self.assertIn(f"UDP {address}:1801", server.addresses)


async def known(manager: QueueManagerService, *, is_reached: bool) -> None:
    """Wait until the enterprise is known, of a directory that is reached or of the copy of one."""
    while (
        directory_status(manager).reached is not is_reached
        or not (await manager.inspection.topology()).queue_managers
    ):
        await deferLater(IReactorTime(reactor), 0)


class CheckTests(SynchronousTestCase):
    """The configuration of a server whose C{[directory]} names a file."""

    def test_no_process(self) -> None:
        """It is checked without a process, which only a directory on the network needs."""
        path = Path(self.mktemp())
        path.write_text(CLOSED + '[directory]\nbackend = "file:estate.toml"\n', encoding="utf-8")
        self.patch(sys, "executable", "/no/python")
        self.assertEqual(check(path), [])


class EnterpriseServerTests(TestCase):
    """A server whose C{[directory]} names a file."""

    def setUp(self) -> None:
        # A path of trial's own may be longer than a unix socket's may be.
        self.directory = Path(tempfile.mkdtemp(prefix="msmq-test-"))
        self.addCleanup(shutil.rmtree, self.directory)
        self.data = self.directory / "data"
        self.patch(msmq.directory.file, "CHECK_INTERVAL", 0.01)
        self.file = self.directory / "estate.toml"
        self.file.write_text(ENTERPRISE, encoding="utf-8")

    def server(self, name: str = "ALPHA", storage: str = "memory") -> Server:
        path = self.directory / "msmq.toml"
        path.write_text(CLOSED + f'[directory]\nbackend = "file:{self.file}"\n', encoding="utf-8")
        self.assertEqual(check(path), [])
        overrides = Overrides(name=name, data=os.fspath(self.data), storage=storage)
        return Server(load(path, overrides), IReactorTime(reactor))

    async def started(self, name: str = "ALPHA", storage: str = "memory") -> Server:
        server = self.server(name, storage)
        server.startService()
        self.addCleanup(server.stopService)
        await server.started
        return server

    async def refused(self, name: str = "ALPHA") -> MsmqError:
        """Why a server does not start."""
        server = self.server(name)
        server.startService()
        self.addCleanup(server.stopService)
        try:
            await server.started
        except MsmqError as error:
            return error
        raise AssertionError("it has started")

    async def test_first_start(self) -> None:
        """It takes its identifier from the file, by its name case-insensitively, and keeps it."""
        server = await self.started("alpha")
        self.assertEqual(server.manager.model.identifier, ALPHA)
        await server.stopService()
        self.assertEqual(load_identity(self.data, lambda: OTHER), ALPHA)

    async def test_identity_of_another(self) -> None:
        """A data directory of another queue manager is not used under this name."""
        self.data.mkdir()
        load_identity(self.data, lambda: OTHER)
        error = await self.refused()
        assert isinstance(error, MQError)
        self.assertEqual(error.status, Status.MQ_ERROR_DS_ERROR)
        self.assertEqual(load_identity(self.data), OTHER)

    async def test_not_in_the_file(self) -> None:
        """A queue manager that is not in the file cannot start, since it does not write into the file;
        it may be added.
        """
        error = await self.refused("OMEGA")
        self.assertIn("holds no queue manager OMEGA", str(error))
        self.assertFalse(identity_path(self.data).exists())

    async def test_file_with_faults(self) -> None:
        """The first start is refused, and no identity made that would be wrong when the file is repaired."""
        self.file.write_text(ENTERPRISE.replace("[[queue_manager]]", "[[queue_manger]]"), encoding="utf-8")
        error = await self.refused()
        self.assertIsInstance(error, DirectoryDescriptionError)
        self.assertIn(str(self.file), str(error))
        self.assertFalse(identity_path(self.data).exists())
        self.file.write_text(ENTERPRISE, encoding="utf-8")
        server = await self.started("BETA")
        self.assertEqual(server.manager.model.identifier, BETA)

    async def test_file_is_missing_later(self) -> None:
        """A member that ran before starts without the file, or with a spoiled one, on its copy of it.

        It says so in its status and its events, looks on, and uses the file when it is good again.
        """
        for storage, text in (("sqlite", None), ("sqlite", "[[queue_manager"), ("memory", None)):
            with self.subTest(storage=storage, text=text):
                self.file.write_text(ENTERPRISE, encoding="utf-8")
                await (await self.started(storage=storage)).stopService()
                self.file.unlink()
                if text is not None:
                    self.file.write_text(text, encoding="utf-8")
                server = await self.started(storage=storage)
                manager = server.manager
                directory = directory_status(manager)
                self.assertEqual(
                    (directory.kind, directory.source, directory.reached),
                    ("file", str(self.file), False),
                )
                self.assertIn(str(self.file), directory.problem)
                self.assertIsNotNone(directory.read)
                self.assertIn(directory.age, range(600))
                await known(manager, is_reached=False)
                found = await manager.inspection.route("ALPHA", "BETA")
                self.assertEqual([hop.name for hop in found.route.hops], ["BETA"])
                events = [each.event for each in await manager.store.read_events(0, 100)]
                lost = [each for each in events if each.event == "directory_lost"][-1]
                self.assertIn(directory.problem, lost.reason)
                self.assertIn(str(unix_time(directory.read)), lost.reason)
                self.file.write_text(ENTERPRISE.replace("127.0.0.2", "127.0.0.9"), encoding="utf-8")
                await known(manager, is_reached=True)
                await server.stopService()

    async def test_never_read(self) -> None:
        """A member with an identity, and no copy of the file, works for itself until the file is there."""
        self.data.mkdir()
        load_identity(self.data, lambda: ALPHA)
        self.file.unlink()
        server = await self.started()
        manager = server.manager
        self.assertEqual(manager.inspection.status().state, "running")
        self.assertEqual((directory_status(manager).reached, directory_status(manager).age), (False, None))
        await manager.create_queue(".\\private$\\orders")
        await manager.send(".\\private$\\orders", [Message()])
        self.file.write_text(ENTERPRISE, encoding="utf-8")
        await known(manager, is_reached=True)
        found = await manager.inspection.route("ALPHA", "BETA")
        self.assertEqual([hop.name for hop in found.route.hops], ["BETA"])

    def test_configuration(self) -> None:
        """A description that cannot be one is found before anything is started."""
        path = self.directory / "msmq.toml"
        path.write_text('[directory]\nbackend = "fiel:estate.toml"\n', encoding="utf-8")
        [problem] = check(path)
        self.assertIn("unknown directory 'fiel'", str(problem))
