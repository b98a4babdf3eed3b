"""Unusable entries and duplicate entries are reported by name, once."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import capturedLogs, formatEvent
from twisted.trial.unittest import SynchronousTestCase, TestCase

from msmq.directory.ldap.entries.entry_reader import MOST_LINKS, MOST_LISTED
from msmq.directory.ldap.entries.faults import MOST_LINES, MOST_REMEMBERED, FaultLog, Faults
from msmq.directory.ldap.entries.values import pack_guid
from msmq.directory.ldap.identity import identify
from msmq.directory.ldap.provider import LdapDirectory
from msmq.directory.ldap.settings import LdapSettings
from msmq.directory.ldap.transport.wire import Entry
from msmq.interfaces import DirectoryError
from msmq.interfaces.plugins import DirectoryContext
from msmq.membership.enumerations import DirectoryOperationResult
from msmq.membership.objects import QueueManagerObject, QueueObject, UserObject
from msmq.membership.queries import equals
from msmq.net.clock import SystemClock
from msmq.wire.sid import parse_sid
from tests.servers.emulated_ldap import SUFFIX, EmulatedDirectory, Record

ALPHA = UUID(int=0xA)
SID = parse_sid("S-1-5-21-1-2-3-1105")


class FaultTestCase(TestCase):
    """A directory of one server."""

    def setUp(self) -> None:
        self.server = EmulatedDirectory()
        port, address = self.server.listen(reactor)
        self.addCleanup(port.stopListening)
        self.settings = LdapSettings((address,))
        self.directory = LdapDirectory(self.settings, SystemClock(), reactor)
        self.addCleanup(self.directory.close)

    def manager(self, name: str, identifier: UUID, container: str = "CN=Computers", **values: Any) -> Record:
        computer = f"CN={name},{container},{SUFFIX}"
        self.server.add(computer, objectClass=[b"computer"], objectSid=[SID])
        return self.server.add(
            f"CN=msmq,{computer}",
            objectClass=[b"mSMQConfiguration"],
            objectGUID=[pack_guid(identifier)],
            **values,
        )

    async def fault(self, asked: Deferred[Any]) -> str:
        with self.assertRaises(DirectoryError) as refused:
            await asked
        self.assertIs(refused.exception.result, DirectoryOperationResult.GENERIC_ERROR)
        return str(refused.exception.detail)


class BadObjectTests(FaultTestCase):
    """Faults of entries are logged by name."""

    async def logged(self, *attributes: str) -> list[str]:
        """The log lines of one read of all queue managers."""
        with capturedLogs() as events:
            handle = await self.directory.begin_read(
                QueueManagerObject, (), attributes or ("queue_manager_quota",)
            )
            await self.directory.end_read(handle)
        return [text for event in events if "entry" in (text := formatEvent(event) or "")]

    async def test_once(self) -> None:
        """A bad attribute is logged once, and again when it is bad otherwise or after it was mended."""
        record = self.manager("ALPHA", ALPHA, mSMQQuota=[b"plenty"])
        self.assertIn("CN=msmq,CN=ALPHA", (await self.logged())[0])
        for _ in range(3):
            self.assertEqual(await self.logged(), [])
            self.assertEqual(await self.logged("site_identifier_list"), [])
        record.values["mSMQQuota"] = [b"lots"]
        self.assertEqual(len(await self.logged()), 1)
        record.values["mSMQQuota"] = [b"5"]
        self.assertEqual(await self.logged(), [])
        record.values["mSMQQuota"] = [b"lots"]
        self.assertEqual(len(await self.logged()), 1)

    async def test_hostile_values(self) -> None:
        """Missing, malformed and doubled values are left out, and the other objects are read."""
        self.manager("ALPHA", ALPHA, mSMQQuota=[b"5"])
        self.manager("BETA", UUID(int=0xB), mSMQQuota=[b"6", b"7"])
        self.manager("GAMMA", UUID(int=0xC)).values["objectGUID"] = [b"short"]
        del self.manager("DELTA", UUID(int=0xD)).values["objectGUID"]
        twice = self.manager("EPSILON", UUID(int=0xE))
        twice.values["objectGUID"] = [pack_guid(UUID(int=0xE)), pack_guid(UUID(int=0xF))]
        with capturedLogs() as events:
            handle = await self.directory.begin_read(
                QueueManagerObject, (), ("computer_name", "queue_manager_quota")
            )
        read = {}
        for _ in range(2):
            entry = await self.directory.read_next(handle)
            read[entry["computer_name"]] = entry.values.get("queue_manager_quota")
        self.assertEqual(read, {"ALPHA": 5, "BETA": None})
        said = "\n".join(formatEvent(event) or "" for event in events)
        for reported in (
            "CN=msmq,CN=BETA,CN=Computers,DC=example,DC=com: mSMQQuota: 2 values, where one is allowed",
            "CN=msmq,CN=GAMMA,CN=Computers,DC=example,DC=com: a GUID of 5 bytes",
            "CN=msmq,CN=DELTA,CN=Computers,DC=example,DC=com: a GUID of 0 bytes",
            "CN=msmq,CN=EPSILON,CN=Computers,DC=example,DC=com: 2 values, where one is allowed",
        ):
            self.assertIn(reported, said)

    async def test_wide_lists(self) -> None:
        """A list with more values than any estate has is left out and reported by its name and number."""
        gates = [f"CN=msmq,CN=G{number},{SUFFIX}".encode() for number in range(MOST_LINKS + 1)]
        sites = [pack_guid(UUID(int=number)) for number in range(MOST_LISTED + 1)]
        self.server.range_limit = 10_000
        self.manager("ALPHA", ALPHA, mSMQOutRoutingServers=gates, mSMQSites=sites, mSMQQuota=[b"5"])
        with capturedLogs() as events:
            found = await self.directory.read(QueueManagerObject, [equals("identifier", ALPHA)])
        self.assertEqual(found["queue_manager_quota"], 5)
        for name in ("out_routing_server_identifier_list", "site_identifier_list"):
            self.assertNotIn(name, found.values)
        said = "\n".join(formatEvent(event) or "" for event in events)
        self.assertIn(f"mSMQOutRoutingServers: {MOST_LINKS + 1} values, of which at most {MOST_LINKS}", said)
        self.assertIn(f"mSMQSites: {MOST_LISTED + 1} values, of which at most {MOST_LISTED}", said)
        self.assertNotIn("CN=G1,", str(self.server.requests))


class DuplicateTests(FaultTestCase):
    """Where there can be one, the first of several is never taken."""

    async def test_second_computer(self) -> None:
        """Two queue managers of one name in different containers are an error that names both."""
        self.manager("GAMMA", ALPHA)
        self.manager("GAMMA", UUID(int=0xB), "OU=Other")
        for asked in (
            self.directory.read(QueueManagerObject, [equals("computer_name", "gamma")]),
            self.directory.object_sid("GAMMA"),
            self.directory.create(QueueObject(pathname="GAMMA\\orders")),
        ):
            fault = await self.fault(asked)
            self.assertIn("2 entries", fault)
            self.assertIn(f"CN=GAMMA,CN=Computers,{SUFFIX}", fault)
            self.assertIn(f"CN=GAMMA,OU=Other,{SUFFIX}", fault)
        with self.assertRaises(ValueError) as refused:
            await identify(
                self.settings, "GAMMA", DirectoryContext(SystemClock(), IReactorTime(reactor), Path())
            )
        self.assertIn("the computer name GAMMA is that of 2 entries", str(refused.exception))

    async def test_second_computer_without_queue_manager(self) -> None:
        """A second computer of the name that is not a queue manager changes nothing."""
        self.server.add(f"CN=GAMMA,OU=Other,{SUFFIX}", objectClass=[b"computer"])
        self.manager("GAMMA", ALPHA)
        read = await self.directory.read(QueueManagerObject, [equals("computer_name", "gamma")])
        self.assertEqual(read["identifier"], ALPHA)
        self.assertEqual(await self.directory.object_sid("GAMMA"), SID)

    async def test_identifier(self) -> None:
        """Two objects of one identifier are an error wherever they are looked for by it."""
        self.manager("ALPHA", ALPHA)
        self.manager("BETA", ALPHA)
        fault = await self.fault(self.directory.read(QueueManagerObject, [equals("identifier", ALPHA)]))
        self.assertIn(f"the identifier {ALPHA} is that of 2 entries", fault)
        fault = await self.fault(self.directory.delete(QueueManagerObject(identifier=ALPHA)))
        self.assertIn(f"the identifier {ALPHA} is that of 2 entries", fault)

    async def test_sid(self) -> None:
        """Two users of one SID have neither certificates nor rights."""
        for name in ("bob", "eve"):
            self.server.add(
                f"CN={name},{SUFFIX}",
                objectClass=[b"user"],
                objectSid=[SID],
                objectGUID=[pack_guid(UUID(bytes=name.encode() * 5 + b"x"))],
            )
        shown = "S-1-5-21-1-2-3-1105 is that of 2 entries"
        fault = await self.fault(self.directory.read(UserObject, [equals("security_identifier", SID)]))
        self.assertIn(shown, fault)
        self.assertIn(shown, await self.fault(self.directory.account(SID)))

    async def test_reading_all(self) -> None:
        """A reading of all objects reports what two of them have in common."""
        self.manager("ALPHA", ALPHA)
        self.manager("BETA", ALPHA)
        self.manager("ALPHA", UUID(int=0xB), "OU=Other")
        with capturedLogs() as events:
            await self.directory.begin_read(QueueManagerObject, (), ("computer_name",))
        said = "\n".join(formatEvent(event) or "" for event in events)
        self.assertIn(f"CN=msmq,CN=BETA,CN=Computers,{SUFFIX}: has the same identifier as", said)
        self.assertIn(f"CN=msmq,CN=ALPHA,OU=Other,{SUFFIX}: has the same computer name as", said)


class FaultLogTests(SynchronousTestCase):
    """Bounds of what is logged and remembered."""

    def test_many_faults_are_limited(self) -> None:
        """A hundred of very many invalid entries are logged by name, with the number of the others."""
        entries = [Entry(f"CN={number}", {"a": (b"x",)}) for number in range(MOST_REMEMBERED + 50)]
        faults, log = Faults(), FaultLog()
        for entry in entries:
            faults.add(entry, "a: bad", "a")
        with capturedLogs() as events:
            log.report(entries, ("a",), faults)
        self.assertEqual(len(events), MOST_LINES + 1)
        self.assertIn(str(len(entries) - MOST_LINES), formatEvent(events[-1]) or "")
        with capturedLogs() as events:
            log.report(entries[100:], ("a",), faults)
        self.assertEqual(events, [])
        with capturedLogs() as events:
            log.report(entries[:50], ("a",), faults)
        self.assertEqual(len(events), 50)
