"""Rights of each account of a domain on a public queue: on its object, and on its messages."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import attrs
from twisted.internet import reactor
from twisted.internet.interfaces import IReactorTime
from twisted.trial.unittest import TestCase

from msmq.directory.ldap.entries.attribute_mapping import SECURITY, SID
from msmq.directory.ldap.names import child
from msmq.directory.ldap.operations import Operations
from msmq.directory.ldap.provider import LdapDirectory
from msmq.directory.ldap.settings import LdapServer, LdapSettings
from msmq.directory.ldap.transport.connection import LdapConnection
from msmq.directory.ldap.transport.filters import ANYTHING
from msmq.directory.ldap.transport.wire import Scope
from msmq.interfaces import DirectoryError
from msmq.manager.service import QueueManagerService
from msmq.membership.objects import QueueManagerObject
from msmq.net.clock import SystemClock
from msmq.queues.arriving.message import Message
from msmq.service.configuration import Overrides, load
from msmq.service.server import Server
from msmq.structures.status import MQError
from msmq.windows.access_masks import AccessMask
from msmq.windows.sddl import format_sddl, parse_sddl
from msmq.windows.security_descriptor import SecurityDescriptor
from msmq.windows.security_descriptor_aces import Ace, Acl
from msmq.windows.well_known_sids import DOMAIN_USERS, domain_of, with_rid
from msmq.wire.sid import format_sid
from tests.patience import DEADLINE
from tests.servers.own_address import own_address
from tests.servers.samba import ADDRESS, ADMINISTRATOR, DOMAIN, PASSWORD, PORT, shared_server
from tests.windows.access_support import PYTHON

PLACE: Final = child("msmq access", DOMAIN)
QUEUES: Final = "9a0dc343-c100-11d1-bbc5-0080c76670c0"
"""[MS-ADSC] 2.166 the class of queues."""

ACCOUNTS: Final = ("keeper", "bob", "carol", "omega", "helpdesk")
"""The account of the queue manager, two users, the account of another queue manager, and a help desk."""

CONFIGURATION: Final = """
[listen]
session = "tcp:0:interface={address}"
ping = "off"
discovery = "off"
control = "off"
[directory]
backend = "ldap://{server}:{port}"
bind_dn = "keeper@msmq.test"
password_file = "{secret}"
"""
RENAMING: Final = """
import sys
from ldb import LdbError
from samba.credentials import Credentials, DONT_USE_KERBEROS
from samba.param import LoadParm
from samba.samdb import SamDB

address, password, place, other, *names = sys.argv[1:]
parameters = LoadParm()
for name in names:
    credentials = Credentials()
    credentials.guess(parameters)
    credentials.set_kerberos_state(DONT_USE_KERBEROS)
    credentials.set_bind_dn(f"{name}@msmq.test")
    credentials.set_password(password)
    domain = SamDB(f"ldap://{address}", credentials=credentials, lp=parameters)
    try:
        domain.rename(place, other)
        domain.rename(other, place)
    except LdbError as error:
        print(error.args[0])
    else:
        print(0)
"""
TO_THE_OBJECT: Final = {
    "set-properties": "write",
    "set-permissions": "list",
    "take-ownership": "owner",
    "delete": "delete",
}
"""What a right lets an account do to the object in the directory; no other right does anything to it."""

MESSAGES: Final = ("send", "peek", "receive", "receive-journal")
RIGHTS: Final = (*MESSAGES, "get-properties", "get-permissions", *TO_THE_OBJECT)
VAULT: Final = "KEEPER\\vault"


class AccessMatrixTests(TestCase):
    """KEEPER has a public queue in a domain that Samba serves; each account binds with its own password."""

    timeout = 300

    async def setUp(self) -> None:  # type: ignore[override]
        shared_server()
        self.files = Path(tempfile.mkdtemp(prefix="msmq-test-"))
        self.addCleanup(shutil.rmtree, self.files)
        self.administrator = self.bound(ADMINISTRATOR)
        await self.clean()
        self.addCleanup(self.clean)
        await self.administrator.add(PLACE, "container", {})
        password = f'"{PASSWORD}"'.encode("utf-16-le")
        for name in ACCOUNTS:
            values = {
                "sAMAccountName": [name.encode()],
                "userPrincipalName": [f"{name}@msmq.test".encode()],
                "unicodePwd": [password],
                "userAccountControl": [b"512"],
            }
            await self.administrator.add(child(name, PLACE), "user", values)
        self.sids = {name: await self.sid(name) for name in ACCOUNTS}
        self.as_account = {name: self.bound(f"{name}@msmq.test") for name in ACCOUNTS}
        await self.join()
        self.manager = await self.start()
        self.vault = child("vault", self.own)

    def bound(self, name: str) -> Operations:
        """A connection of an account."""
        secret = self.files / "secret"
        secret.write_text(PASSWORD)
        self.settings = LdapSettings((LdapServer(ADDRESS, PORT),), bind_name=name, password_file=secret)
        connection = LdapConnection(self.settings, reactor)
        self.addCleanup(connection.close)
        return Operations(connection)

    async def clean(self) -> None:
        """Remove what a test has left."""
        for place in (child("KEEPER", f"CN=Computers,{DOMAIN}"), PLACE):
            entries = await self.administrator.find(place, Scope.TREE, ANYTHING, ())
            for entry in sorted(entries, key=lambda entry: -entry.name.count(",")):
                await self.administrator.delete(entry.name)

    async def sid(self, name: str) -> bytes:
        entry = await self.administrator.entry(child(name, PLACE), (SID,))
        assert entry is not None
        return entry.first(SID) or b""

    async def join(self) -> None:
        """The computer and its object, which are delegated as the guide has it; a help desk keeps queues."""
        computer = child("KEEPER", f"CN=Computers,{DOMAIN}")
        values = {"sAMAccountName": [b"KEEPER$"], "userAccountControl": [b"4096"]}
        await self.administrator.add(computer, "computer", values)
        directory = LdapDirectory(
            attrs.evolve(self.settings, bind_name=ADMINISTRATOR), SystemClock(), reactor
        )
        self.addCleanup(directory.close)
        await directory.create(QueueManagerObject(computer_name="KEEPER"))
        self.own = child("msmq", computer)
        keeper, helpdesk = (format_sid(self.sids[name]) for name in ("keeper", "helpdesk"))
        await self.grant(
            self.own,
            f"D:(A;;RPWPLCLORC;;;{keeper})(OA;;CCDC;{QUEUES};;{keeper})"
            f"(OA;CIIO;RPWPLCLORCWDSD;;{QUEUES};{keeper})(OA;CIIO;RPWPRCWDSD;;{QUEUES};{helpdesk})",
        )

    async def grant(self, name: str, sddl: str) -> None:
        """Add entries to the list of an object."""
        found = await self.security(name)
        added = parse_sddl(sddl).dacl
        assert found.dacl is not None and added is not None
        aces = (*added.aces, *found.dacl.aces)
        await self.administrator.set_security(name, attrs.evolve(found, dacl=Acl(aces)).to_bytes())

    async def security(self, name: str) -> SecurityDescriptor:
        entry = await self.administrator.entry(name, (SECURITY,))
        assert entry is not None
        return SecurityDescriptor.from_bytes(entry.first(SECURITY) or b"")

    async def start(self) -> QueueManagerService:
        """The server of KEEPER, which binds with the account that it has been delegated to."""
        file = self.files / "keeper.toml"
        file.write_text(
            CONFIGURATION.format(
                address=own_address(77), server=ADDRESS, port=PORT, secret=self.files / "secret"
            )
        )
        overrides = Overrides(name="KEEPER", data=os.fspath(self.files / "data"), storage="memory")
        server = Server(load(file, overrides), IReactorTime(reactor))
        self.addCleanup(server.stopService)
        server.startService()
        await server.started
        return server.manager

    # What accounts can do

    async def abilities(self, name: str) -> set[str]:
        """The rights of an account on the object of the queue, by our computation and by the directory's."""
        asked = ("allowedAttributesEffective", "sDRightsEffective", SECURITY)
        entry = await self.as_account[name].entry(self.vault, asked)
        if entry is None:
            return set()
        attributes = {each.lower() for each in entry.all("allowedAttributesEffective")}
        rights = int(entry.first("sDRightsEffective") or b"0")
        found = {"write"} if b"msmqauthenticate" in attributes else set()
        found |= {"owner"} if rights & 1 else set()
        found |= {"list"} if rights & 4 else set()
        # The constructed attributes are the server's view; a write that changes nothing is the proof.
        values = {"mSMQQueueQuota": [b"100"]}
        did_write = await self.does(self.as_account[name].modify(self.vault, values))
        self.assertEqual(did_write, "write" in found, name)
        return found

    async def does(self, doing: Any) -> bool:
        """Whether the directory lets an account do something."""
        try:
            await doing
        except DirectoryError as error:
            self.assertIn("LDAP result 50", error.detail)
            return False
        return True

    async def test_every_right(self) -> None:
        """A right that is granted or denied gives no account another right to the object than that one."""
        bob = format_sid(self.sids["bob"])
        # By default the queue itself lets every account do everything.
        await self.manager.create_queue(VAULT, quota=100)
        await self.manager.access.deny(VAULT, bob, ["send"])
        await self.manager.access.revoke(VAULT, bob)
        baseline = {name: await self.abilities(name) for name in ACCOUNTS}
        self.assertEqual(
            {name: sorted(each) for name, each in baseline.items()},
            {"keeper": ["list", "write"], "bob": [], "carol": [], "omega": [], "helpdesk": ["list", "write"]},
        )
        before = format_sddl(await self.security(self.vault))
        for right in RIGHTS:
            await self.manager.access.allow(VAULT, bob, [right])
            there = await self.security(self.vault)
            for name in ACCOUNTS:
                gained = {TO_THE_OBJECT[right]} if name == "bob" and right in TO_THE_OBJECT else set()
                self.assertEqual(await self.abilities(name), baseline[name] | gained - {"delete"}, right)
            assert there.dacl is not None
            bobs = [ace for ace in there.dacl.aces if isinstance(ace, Ace) and ace.sid == self.sids["bob"]]
            is_deletable = any(ace.mask & AccessMask.DELETE for ace in bobs)
            self.assertEqual(is_deletable, right == "delete")
            await self.manager.access.revoke(VAULT, bob)
            self.assertEqual(format_sddl(await self.security(self.vault)), before, right)
            await self.manager.access.deny(VAULT, bob, [right])
            for name in ACCOUNTS:
                self.assertEqual(await self.abilities(name), baseline[name], right)
            await self.check_messages(right)
            await self.manager.access.revoke(VAULT, bob)
            self.assertEqual(format_sddl(await self.security(self.vault)), before, right)
        self.assertEqual(self.manager.inspection.status().directory_differences, [])

    async def check_messages(self, denied: str) -> None:
        """Bob is denied one right, and every account is allowed every right to messages."""
        lost = {"peek": set(MESSAGES) - {"send"}, "receive": {"peek", "receive", "receive-journal"}}
        lost["receive-journal"] = {"peek", "receive", "receive-journal"}
        refused = lost.get(denied, {denied})
        for right in MESSAGES:
            for name in ("bob", "carol", "omega"):
                found = await self.manager.access.why(VAULT, name, right)
                self.assertEqual(found.granted, not (name == "bob" and right in refused), (denied, right))
        for name in ("bob", "carol"):
            acting = await self.manager.acting_as(name)
            if name == "bob" and denied == "send":
                with self.assertRaises(MQError):
                    await acting.send(VAULT, [Message(body=b"1")])
            else:
                await acting.send(VAULT, [Message(body=b"1")])

    async def test_list_of_an_earlier_version(self) -> None:
        """Masks of MSMQ, which opened the object to every account, deny and are written again."""
        bob = format_sid(self.sids["bob"])
        own = f"D:(D;;0x4;;;{bob})(A;;0xf003f;;;WD)"
        await self.manager.create_queue(VAULT, quota=100, security=own)
        await self.administrator.set_security(self.vault, parse_sddl(own).to_bytes())
        self.assertEqual(await self.abilities("carol"), {"write", "list", "owner"})
        opened = format_sddl(await self.security(self.vault))
        self.assertFalse((await self.manager.access.why(VAULT, "bob", "send")).granted)
        while format_sddl(await self.security(self.vault)) == opened:
            pass
        self.assertEqual(await self.abilities("carol"), set())
        self.assertFalse((await self.manager.access.why(VAULT, "bob", "send")).granted)
        self.assertTrue((await self.manager.access.why(VAULT, "carol", "send")).granted)
        made = format_sddl(await self.security(self.vault))
        for entry in ("(A;;0xf01ff;;;SY)", "(A;;0x20094;;;AU)", "-512)"):
            self.assertIn(entry, made)

    async def test_attacks(self) -> None:
        """Users and other queue managers are refused by the directory; what a help desk may do is noticed."""
        users = f"D:(A;;0xf;;;{format_sid(with_rid(domain_of(self.sids['bob']) or b'', DOMAIN_USERS))})"
        await self.manager.create_queue(VAULT, quota=100, authenticate=True, security=users)
        everyone = parse_sddl("D:(A;;GA;;;WD)").to_bytes()
        label, off = {"mSMQLabelEx": [b"mine"]}, {"mSMQAuthenticate": [b"FALSE"]}
        small, key = {"mSMQQueueQuota": [b"1"]}, {"mSMQEncryptKey": [bytes(64)]}
        for name in ("bob", "omega"):
            account = self.as_account[name]
            for attack in (
                account.modify(self.vault, off),
                account.modify(self.vault, small),
                account.modify(self.vault, label),
                account.modify(self.own, key),
                account.set_security(self.vault, everyone),
                account.delete(self.vault),
            ):
                self.assertFalse(await self.does(attack), name)
        renamed = self.rename(("bob", "omega", "helpdesk"))
        self.assertEqual(renamed[:2], ["50", "50"])
        helpdesk = self.as_account["helpdesk"]
        self.assertFalse(await self.does(helpdesk.modify(self.own, key)))
        for values in (off, small, label):
            self.assertTrue(await self.does(helpdesk.modify(self.vault, values)))
        self.assertTrue(await self.does(helpdesk.set_security(self.vault, everyone)))
        await self.administrator.modify(self.own, key)
        await self.look()
        shown = self.manager.inspection.queue(VAULT)
        self.assertEqual((shown.authenticate, shown.quota, shown.label), (True, 100, "mine"))
        self.assertFalse((await self.manager.access.why(VAULT, "S-1-1-0", "send")).granted)
        reported = "\n".join(self.manager.inspection.status().directory_differences or ())
        for each in (
            "authentication is false",
            "quota is 1 ",
            "the list is without",
            "public_encryption_key_list",
        ):
            self.assertIn(each, reported)
        entry = await self.administrator.entry(self.own, ("mSMQEncryptKey",))
        assert entry is not None
        self.assertNotEqual(entry.first("mSMQEncryptKey"), bytes(64))
        # The operator has the directory say again what holds.
        await self.manager.set_queue(VAULT, {"quota": 101})
        self.assertTrue(await self.does(helpdesk.delete(self.vault)))
        await self.look()
        [reported] = self.manager.inspection.status().directory_differences or ()
        self.assertIn("its object is not in the directory", reported)
        self.assertEqual(self.manager.inspection.queue(VAULT).authenticate, True)

    def rename(self, names: Sequence[str]) -> list[str]:
        """The LDAP results with which these accounts give the object another name, and its own back."""
        done = subprocess.run(
            (PYTHON, "-c", RENAMING, ADDRESS, PASSWORD, self.vault, child("other", self.own), *names),
            capture_output=True,
            text=True,
            timeout=DEADLINE,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.split()

    async def look(self) -> None:
        """The hourly check of the server."""
        integration = self.manager._parts.integration
        assert integration is not None
        await integration.ask(integration.access.check_own_objects())
