"""A directory in a real OpenLDAP server keeps the contract, with the configuration that the guide ships."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Final
from uuid import UUID, uuid4

import attrs
from twisted.trial.unittest import TestCase

from msmq.directory.ldap import accounts as ldap_accounts
from msmq.directory.ldap.entries.attribute_mapping import GUID
from msmq.directory.ldap.entries.attribute_mapping import SID as SID_NAME
from msmq.directory.ldap.entries.values import pack_guid
from msmq.directory.ldap.names import child
from msmq.directory.ldap.operations import Operations
from msmq.directory.ldap.settings import Dialect, LdapSettings
from msmq.interfaces.directory import IConditionalDirectory
from msmq.interfaces.security.access import Account, IAccounts
from msmq.membership.enumerations import DirectoryOperationResult, OperatingSystemType
from msmq.membership.objects import QueueManagerObject, QueueObject, SiteObject
from msmq.membership.queries import equals
from msmq.testing.contracts.directory import SID
from msmq.wire.sid import parse_sid
from tests.directory.ldap_contract import LdapDirectoryContract
from tests.servers.slapd import ADMINISTRATOR, PASSWORD, SUFFIX, shared_server

CLUSTER: Final = b"MSClusterVirtualServer/alpha"

_numbers: Final = count(1)


async def make_base(operations: Operations, base: str) -> None:
    """Put an estate without anything into the directory."""
    for name, kept in (
        (base, "container"),
        (child("Computers", base), "container"),
        (child("Users", base), "container"),
        (configuration := child("Configuration", base), "container"),
        (child("Sites", configuration), "sitesContainer"),
        (services := child("Services", configuration), "container"),
        (child("MsmqServices", services), "mSMQEnterpriseSettings"),
    ):
        values = {GUID: [pack_guid(uuid4())]} if kept == "mSMQEnterpriseSettings" else {}
        await operations.add(name, kept, values)


class OpenLdapDirectoryTests(LdapDirectoryContract, TestCase):
    """The directory of an estate without Active Directory."""

    async def setUp(self) -> None:  # type: ignore[override]
        self.server = shared_server()
        secret = Path(self.mktemp())
        secret.write_text(f"{PASSWORD}\n")
        base = child(f"test {next(_numbers)}", SUFFIX)
        self.set_up(LdapSettings(self.server.servers, SUFFIX, bind_name=ADMINISTRATOR, password_file=secret))
        await make_base(self.operations, base)
        self.set_up(LdapSettings(self.server.servers, base, bind_name=ADMINISTRATOR, password_file=secret))

    async def test_concurrent_security(self) -> None:
        """Of several clients that replace the same security descriptor at one time, one succeeds."""
        directory = await self.opened()
        await self.alpha()
        queue = await self.queue("orders", security=b"first")
        former = await directory.read(QueueObject, [equals("identifier", queue.identifier)])
        conditional = IConditionalDirectory(directory)
        texts = (b"second", b"third", b"fourth")
        writing = [
            conditional.write_if_unchanged(attrs.evolve(queue, security=text), former, ("security",))
            for text in texts
        ]
        written = [await each for each in writing]
        self.assertEqual(sum(written), 1, written)
        held = await directory.read(QueueObject, [equals("identifier", queue.identifier)])
        self.assertEqual(held["security"], texts[written.index(True)])

    async def disconnect(self) -> None:
        self.addCleanup(self._start)
        self.server.stop()

    async def reconnect(self) -> None:
        self._start()

    def _start(self) -> None:
        if not self.server.is_running:
            self.server.start()

    async def move_computer(self, name: str, place: str) -> None:
        old = child(name, (await self.operations.root()).computers)
        await self.operations.delete(child("msmq", old))
        await self.operations.delete(old)
        await self.operations.add(child(name, place), "computer", {})
        await self.directory.create(QueueManagerObject(computer_name=name))

    async def test_own_identifier(self) -> None:
        """An object has the Identifier that it was given, and no second one has it."""
        directory = await self.opened()
        identifier = UUID(int=0xA1FA)
        given = await directory.create(SiteObject(identifier=identifier, name="london"))
        self.assertEqual(given, identifier)
        again = directory.create(SiteObject(identifier=identifier, name="paris"))
        self.assertIs(await self.result_of(again), DirectoryOperationResult.OBJECT_ALREADY_EXISTS)
        await directory.delete(SiteObject(identifier=identifier))

    async def test_computer_says_what_it_is(self) -> None:
        """The computer of a queue manager is made with it, and has its DNS name and its SID."""
        directory = await self.opened()
        manager = await self.alpha(operating_system_version="Linux 6")
        for name, value in (("qualified_computer_name", "ALPHA.example.com"), ("computer_name", "alpha")):
            read = await directory.read(QueueManagerObject, [equals(name, value)])
            self.assertEqual(read["identifier"], manager.identifier)
            self.assertEqual(read["operating_system_version"], "Linux 6")
        await self.queue("orders")
        queue = await directory.read(QueueObject, [equals("qualified_pathname", "alpha.example.com\\orders")])
        self.assertEqual(queue["qualified_pathname"], "alpha.example.com\\orders")
        asked = directory.object_sid("ALPHA")
        self.assertIs(await self.result_of(asked), DirectoryOperationResult.ATTRIBUTE_NOT_FOUND)
        computer = child("ALPHA", (await self.operations.root()).computers)
        await self.operations.modify(computer, {"objectSid": [SID], "servicePrincipalName": [CLUSTER]})
        self.assertEqual(await directory.object_sid("alpha"), SID)
        self.assertTrue((await directory.read(QueueManagerObject))["clustered"])

    async def test_accounts(self) -> None:
        """A user and its groups, those of groups among them, are found by their SIDs and names."""
        accounts = IAccounts(await self.opened())
        users = child("Users", self.settings.base)
        sids = [parse_sid(f"S-1-5-21-1-2-3-{rid}") for rid in (1001, 2001, 2002)]
        alice, clerks, staff = (child(name, users) for name in ("alice", "clerks", "staff"))
        await self.operations.add(alice, "person", {"sn": [b"Alice"]})
        await self.operations.modify(alice, {"objectClass": [b"person", b"user"], SID_NAME: [sids[0]]})
        for name, sid, member in ((clerks, sids[1], alice), (staff, sids[2], clerks)):
            await self.operations.add(name, "groupOfNames", {"member": [member.encode()]})
            values = {"objectClass": [b"groupOfNames", b"group"], SID_NAME: [sid]}
            await self.operations.modify(name, values)
        # What has no SID, or rubbish for one, is neither an account nor a group.
        for name, rubbish in (("mallory", b"rubbish"), ("trent", b"\1\2" + bytes(6))):
            await self.operations.add(child(name, users), "groupOfNames", {"member": [alice.encode()]})
            values = {"objectClass": [b"groupOfNames", b"group"], SID_NAME: [rubbish]}
            await self.operations.modify(child(name, users), values)
        # A group that is in a group that is in it.
        await self.operations.modify(clerks, {"member": [alice.encode(), staff.encode()]})
        wanted = Account(sids[0], "alice", frozenset(sids[1:]))
        self.assertEqual(await accounts.account(sids[0]), wanted)
        self.assertEqual(await accounts.account_named("EXAMPLE\\Alice"), wanted)
        self.assertEqual(
            await accounts.account(sids[1]), Account(sids[1], "clerks", frozenset({sids[2]}), is_user=False)
        )
        unknown = ("bob", "mallory", "trent", "*", "", "EXAMPLE\\", "\ud800")
        for asked in (accounts.account(SID), *map(accounts.account_named, unknown)):
            self.assertIs(await self.result_of(asked), DirectoryOperationResult.OBJECT_NOT_FOUND)

    async def test_groups_are_all_known_or_none(self) -> None:
        """An account with too many groups, or whose groups a server does not return, is not decided on."""
        users = child("Users", self.settings.base)
        alice, sid = child("alice", users), parse_sid("S-1-5-21-1-2-3-1001")
        await self.operations.add(alice, "person", {"sn": [b"Alice"]})
        await self.operations.modify(alice, {"objectClass": [b"person", b"user"], SID_NAME: [sid]})
        for rid, name in enumerate(("clerks", "staff"), 2001):
            group = child(name, users)
            await self.operations.add(group, "groupOfNames", {"member": [alice.encode()]})
            values = {
                "objectClass": [b"groupOfNames", b"group"],
                SID_NAME: [parse_sid(f"S-1-5-21-1-2-3-{rid}")],
            }
            await self.operations.modify(group, values)
        found = IAccounts(await self.opened())
        self.patch(ldap_accounts, "MOST_GROUPS", 2)
        self.assertEqual(len((await found.account(sid)).groups), 2)
        self.patch(ldap_accounts, "MOST_GROUPS", 1)
        self.assertIs(await self.result_of(found.account(sid)), DirectoryOperationResult.GENERIC_ERROR)
        self.patch(ldap_accounts, "MOST_GROUPS", 2)
        elsewhere = {"objectClass": [b"referral", b"extensibleObject"], "ref": [b"ldap://127.0.0.1:1/"]}
        await self.operations.add(child("elsewhere", users), "referral", elsewhere)
        self.assertIs(await self.result_of(found.account(sid)), DirectoryOperationResult.GENERIC_ERROR)
        # This server computes no tokenGroups, as Active Directory gives none to who may not read them.
        silent = self.new_directory(attrs.evolve(self.settings, dialect=Dialect.ACTIVE_DIRECTORY))
        await silent.open()
        asked = IAccounts(silent).account(sid)
        self.assertIs(await self.result_of(asked), DirectoryOperationResult.GENERIC_ERROR)

    async def test_damaged_entries(self) -> None:
        """An invalid attribute counts as unset; an entry with an invalid Identifier is ignored."""
        directory = await self.opened()
        london, _ = await self.sites("london", "paris")
        manager = await self.alpha(site_identifier_list=(london.identifier,))
        names = (child("msmq", child("ALPHA", (await self.operations.root()).computers)),)
        await self.operations.modify(names[0], {"mSMQSites": [b"short"], "mSMQOSType": [b"77"]})
        read = await directory.read(QueueManagerObject, [equals("identifier", manager.identifier)])
        self.assertEqual(read["site_identifier_list"], ())
        self.assertIs(read["operating_system_type"], OperatingSystemType.OTHER)
        await self.operations.modify(child("paris", (await self.operations.root()).sites), {GUID: [b"short"]})
        self.assertEqual([site["name"] for site in await self.all_of(directory, SiteObject)], ["london"])
