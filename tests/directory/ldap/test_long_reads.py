"""How much of a long read is done in one iteration of the reactor, counted in objects."""

from __future__ import annotations

from collections import Counter
from typing import Any
from uuid import UUID

from twisted.internet import reactor
from twisted.internet.interfaces import IReactorTime
from twisted.trial.unittest import TestCase

from msmq.directory.ldap.entries.values import pack_guid
from msmq.directory.ldap.object_search import OBJECTS_AT_ONCE, VALUES_AT_ONCE, ObjectSearch
from msmq.directory.ldap.operations import Operations
from msmq.directory.ldap.provider import LdapDirectory
from msmq.directory.ldap.settings import LdapSettings
from msmq.directory.ldap.transport.connection import LdapConnection
from msmq.membership.entry import DirectoryEntry
from msmq.membership.objects import QueueManagerObject, QueueObject
from msmq.membership.queries import SortOrder
from msmq.net.clock import SystemClock
from tests.servers.emulated_ldap import SUFFIX, EmulatedDirectory

QUEUES = 600


class Turns:
    """Counts the objects that are appended in each iteration of the reactor."""

    def __init__(self) -> None:
        self.turn = 0
        self.appended: Counter[int] = Counter()
        self._time = IReactorTime(reactor)
        self._next = self._time.callLater(0, self._tick)

    def _tick(self) -> None:
        self.turn += 1
        self._next = self._time.callLater(0, self._tick)

    def stop(self) -> None:
        self._next.cancel()

    def append(self, entry: DirectoryEntry[Any]) -> None:
        self.appended[self.turn] += 1

    def __len__(self) -> int:
        return self.appended.total()


class LongReadTests(TestCase):
    """A directory with more queues than one page of a search has."""

    def setUp(self) -> None:
        server = self.server = EmulatedDirectory(capabilities=())
        port, address = server.listen(reactor, "127.34.0.9")
        self.addCleanup(port.stopListening)
        computer = f"CN=ALPHA,CN=Computers,{SUFFIX}"
        server.add(computer, objectClass=[b"computer"], dNSHostName=[b"alpha.example.com"])
        server.add(f"CN=msmq,{computer}", objectClass=[b"mSMQConfiguration"])
        for number in range(QUEUES):
            server.add(
                f"CN=orders{number:03},CN=msmq,{computer}",
                objectClass=[b"mSMQQueue"],
                objectGUID=[pack_guid(UUID(int=number + 1))],
                mSMQLabelEx=[f"branch {number * 7 % QUEUES:03}".encode()],
            )
        self.settings = LdapSettings((address,), SUFFIX)

    async def test_a_few_objects_an_iteration(self) -> None:
        """A long read makes a few objects of entries, then other work of the server is done."""
        connection = LdapConnection(self.settings, reactor)
        self.addCleanup(connection.close)
        searching = ObjectSearch(Operations(connection), IReactorTime(reactor))
        turns = Turns()
        self.addCleanup(turns.stop)
        await searching.collect(QueueObject, (), ("pathname", "qualified_pathname", "label"), turns)
        self.assertEqual(len(turns), QUEUES)
        # The end of one page and the beginning of the next may be in one turn.
        self.assertLessEqual(max(turns.appended.values()), 2 * OBJECTS_AT_ONCE)
        self.assertGreaterEqual(len(turns.appended), QUEUES // (2 * OBJECTS_AT_ONCE))

    async def test_wide_objects(self) -> None:
        """Fewer objects with long lists are created in one iteration."""
        sites = [pack_guid(UUID(int=number)) for number in range(VALUES_AT_ONCE)]
        for number in range(OBJECTS_AT_ONCE):
            name = f"CN=msmq,CN=WIDE{number},CN=Computers,{SUFFIX}"
            values = {"objectGUID": [pack_guid(UUID(int=10_000 + number))], "mSMQSites": sites}
            self.server.add(name, objectClass=[b"mSMQConfiguration"], **values)
        connection = LdapConnection(self.settings, reactor)
        self.addCleanup(connection.close)
        searching = ObjectSearch(Operations(connection), IReactorTime(reactor))
        turns = Turns()
        self.addCleanup(turns.stop)
        await searching.collect(QueueManagerObject, (), ("site_identifier_list",), turns)
        self.assertEqual(len(turns), OBJECTS_AT_ONCE)
        self.assertEqual(max(turns.appended.values()), 1)

    async def test_sorted(self) -> None:
        """A long read that is sorted answers all objects in their order."""
        directory = LdapDirectory(self.settings, SystemClock(), reactor)
        self.addCleanup(directory.close)
        order = (SortOrder(1, ascending=False), SortOrder())
        handle = await directory.begin_read(QueueObject, (), ("label", "pathname"), order)
        found = [(await directory.read_next(handle))["label"] for _ in range(QUEUES)]
        await directory.end_read(handle)
        self.assertEqual(found, [f"branch {number:03}" for number in reversed(range(QUEUES))])
