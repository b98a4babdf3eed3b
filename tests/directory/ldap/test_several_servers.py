"""A directory on several real servers, some of which are down."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import attrs
from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.trial.unittest import TestCase
from zope.interface.verify import verifyObject

from msmq.directory.ldap.names import child
from msmq.directory.ldap.operations import Operations
from msmq.directory.ldap.provider import LdapDirectory
from msmq.directory.ldap.settings import LdapServer, LdapSettings
from msmq.directory.ldap.transport.connection import LdapConnection
from msmq.interfaces import DirectoryError, IServedDirectory
from msmq.membership.enumerations import DirectoryOperationResult
from msmq.membership.objects import QueueManagerObject
from msmq.net.clock import SystemClock
from tests.patience import DEADLINE
from tests.servers.own_address import own_address
from tests.servers.slapd import SUFFIX, SlapdServer

CLOSED_PORT = LdapServer("127.0.0.1", 1)


@cache
def servers() -> tuple[SlapdServer, SlapdServer]:
    """Two servers of one port on two addresses, which hold the same estate, and a computer each."""
    first = SlapdServer(is_open=True, address=own_address(71))
    return first, SlapdServer(is_open=True, address=own_address(72), port=first.port)


class SeveralServersTestCase(TestCase):
    """FIRST is a queue manager that the first server knows, and SECOND one that the second knows."""

    timeout = DEADLINE

    async def setUp(self) -> None:  # type: ignore[override]
        self.first, self.second = servers()
        for server, name in ((self.first, "FIRST"), (self.second, "SECOND")):
            directory = self.directory(server.servers)
            self.addCleanup(directory.delete, QueueManagerObject(computer_name=name))
            self.addCleanup(self.restore, server)
            await directory.create(QueueManagerObject(computer_name=name))

    def restore(self, server: SlapdServer) -> None:
        server.thaw()
        if not server.is_running:
            server.start()

    def directory(self, known: Sequence[LdapServer], **more: Any) -> LdapDirectory:
        settings = LdapSettings(tuple(known), SUFFIX, answer_timeout=1.0, port=self.first.port)
        directory = LdapDirectory(settings, SystemClock(), reactor, **more)
        self.addCleanup(directory.close)
        return directory

    async def asked(self, directory: LdapDirectory) -> str:
        """The server that has answered."""
        read = await directory.read(QueueManagerObject, (), ("computer_name",))
        return str(read["computer_name"])

    async def fault_of(self, asked: Deferred[Any]) -> str:
        with self.assertRaises(DirectoryError) as refused:
            await asked
        self.assertIs(refused.exception.result, DirectoryOperationResult.DIRECTORY_NOT_CONNECTED)
        return str(refused.exception.detail)


class SeveralServersTests(SeveralServersTestCase):
    """All are named in the configuration."""

    async def test_order(self) -> None:
        """The first that can be reached is asked, and stays the one."""
        directory = self.directory([CLOSED_PORT, *self.first.servers, *self.second.servers])
        for _ in range(2):
            self.assertEqual(await self.asked(directory), "FIRST")

    async def test_lost(self) -> None:
        """When the connection is lost another is asked, and the first again when that is lost."""
        directory = self.directory([*self.first.servers, *self.second.servers])
        self.assertEqual(await self.asked(directory), "FIRST")
        self.first.stop()
        for _ in range(2):
            self.assertEqual(await self.asked(directory), "SECOND")
        self.first.start()
        self.assertEqual(await self.asked(directory), "SECOND")
        self.second.stop()
        self.assertEqual(await self.asked(directory), "FIRST")

    async def test_lost_in_the_middle(self) -> None:
        """An interrupted read is repeated on another server; an interrupted write is reported as possibly
        done.
        """
        directory = self.directory([*self.first.servers, *self.second.servers])
        self.assertEqual(await self.asked(directory), "FIRST")
        self.first.freeze()
        self.assertEqual(await self.asked(directory), "SECOND")
        self.first.thaw()
        self.second.freeze()
        self.assertEqual(await self.asked(directory), "FIRST")
        self.second.thaw()
        connection = LdapConnection(directory.settings, reactor)
        self.addCleanup(connection.close)
        operations = Operations(connection)
        computer = child("FIRST", (await operations.root()).computers)
        self.first.freeze()
        written = Deferred.fromCoroutine(operations.modify(computer, {"dNSHostName": [b"first.example.com"]}))
        self.assertIn("no answer within 1 seconds", await self.fault_of(written))
        # The next request is answered by the other, which knows nothing of that computer.
        self.assertIsNone(await operations.entry(computer, ()))

    async def test_all_are_away(self) -> None:
        """The reason of each is reported, and the next request tries again."""
        directory = self.directory([CLOSED_PORT, *self.first.servers])
        self.first.stop()
        fault = await self.fault_of(directory.read(QueueManagerObject))
        self.assertIn("127.0.0.1:1: ", fault)
        self.assertIn(f"; {self.first.servers[0]}: ", fault)
        self.first.start()
        self.assertEqual(await self.asked(directory), "FIRST")


class ServersThatAreLookedForTests(SeveralServersTestCase):
    """None is named in the configuration."""

    async def setUp(self) -> None:  # type: ignore[override]
        await super().setUp()
        self.answers: list[Deferred[Sequence[str]]] = []
        self.forsaken: list[Deferred[Sequence[str]]] = []

    def looking(self) -> LdapDirectory:
        directory = self.directory((), find_servers=self.find)
        verifyObject(IServedDirectory, directory)
        return directory

    def find(self) -> Deferred[Sequence[str]]:
        self.answers.append(Deferred(self.forsaken.append))
        return self.answers[-1]

    async def test_found(self) -> None:
        """The first caller waits until a server is found; no search begins as long as it answers."""
        directory = self.looking()
        asking = [Deferred.fromCoroutine(self.asked(directory)) for _ in range(2)]
        [answer] = self.answers
        answer.callback([self.first.servers[0].host])
        self.assertEqual([await each for each in asking], ["FIRST", "FIRST"])
        await directory.find_servers()
        self.assertEqual(await self.asked(directory), "FIRST")
        self.assertEqual(len(self.answers), 1)
        self.assertEqual(directory.servers, (self.first.servers[0].host,))

    async def test_known(self) -> None:
        """Servers that an earlier process found are asked before a new search."""
        directory = self.looking()
        directory.add_servers([self.second.servers[0].host])
        self.assertEqual(await self.asked(directory), "SECOND")
        self.assertEqual(self.answers, [])

    async def test_lost(self) -> None:
        """When all are lost others are searched, without making callers wait."""
        directory = self.looking()
        directory.add_servers([self.first.servers[0].host])
        self.assertEqual(await self.asked(directory), "FIRST")
        self.first.stop()
        for _ in range(2):
            self.assertTrue(await self.fault_of(directory.read(QueueManagerObject)))
        [answer] = self.answers
        answer.callback([self.second.servers[0].host.upper()])
        self.assertEqual(await self.asked(directory), "SECOND")
        # Once more, and this time no other server is found.
        self.second.stop()
        self.assertTrue(await self.fault_of(directory.read(QueueManagerObject)))
        self.answers[1].callback([])
        self.first.start()
        self.assertEqual(await self.asked(directory), "FIRST")

    async def test_no_server(self) -> None:
        """Without any server the directory is unreachable, for any result of the discovery."""
        directory = self.looking()
        for is_possible, reported in ((True, "no directory server is known"), (False, "no network")):
            asked = directory.read(QueueManagerObject)
            if is_possible:
                self.answers[-1].callback([])
            else:
                self.answers[-1].errback(OSError("no network"))
            self.assertIn(reported, await self.fault_of(asked))
            # The search for which no caller waits.
            self.answers[-1].callback([])

    async def test_closed(self) -> None:
        """A search ends when the directory is closed."""
        directory = self.looking()
        asked = directory.read(QueueManagerObject)
        await directory.close()
        self.assertIn("was closed", await self.fault_of(asked))
        self.assertEqual(self.forsaken, self.answers)

    def test_many_names(self) -> None:
        """The number of discovered server names is limited; configured ones stay."""
        directory = self.looking()
        directory.add_servers([f"dc{number}" for number in range(1000)])
        self.assertEqual(len(directory.servers), 100)
        configured = LdapDirectory(
            attrs.evolve(directory.settings, servers=(CLOSED_PORT,)), SystemClock(), reactor
        )
        configured.add_servers(["elsewhere"])
        self.assertEqual(configured.servers, ("127.0.0.1",))
