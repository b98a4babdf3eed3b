"""The delegation in a domain, by the lines of the guide: each queue manager writes its own object alone."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Final
from uuid import uuid4

import attrs
from twisted.internet import reactor
from twisted.trial.unittest import TestCase

from msmq.directory.ldap.enrollment.enrollment import Enrollment
from msmq.directory.ldap.enrollment.plan import MemberRequest
from msmq.directory.ldap.entries.attribute_mapping import SID
from msmq.directory.ldap.names import child
from msmq.directory.ldap.operations import Operations
from msmq.directory.ldap.provider import LdapDirectory
from msmq.directory.ldap.settings import LdapServer, LdapSettings
from msmq.directory.ldap.transport.connection import LdapConnection
from msmq.directory.ldap.transport.filters import ANYTHING
from msmq.directory.ldap.transport.wire import Scope, Values
from msmq.interfaces.directory import DirectoryError
from msmq.membership.objects import QueueManagerObject, QueueObject
from msmq.membership.queries import equals
from msmq.net.clock import SystemClock
from msmq.wire.sid import format_sid
from tests.directory.ldap.test_access_rules import KEYS
from tests.servers import samba

GUIDE: Final = Path(__file__).resolve().parents[3] / "docs" / "guide" / "active-directory.md"
SITE: Final = "Default-First-Site-Name"
USER_PASSWORD: Final = "Pa55-word.of.a.test"


def delegation(sid: str) -> str:
    """The access control entries that the guide has an administrator add for a queue manager."""
    [entries] = re.findall(r'CN=msmq,CN=\$name,.*?--sddl="\\\n(.*?)"', GUIDE.read_text(), re.DOTALL)
    text: str = entries
    return text.replace("\\\n", "").replace("$sid", sid)


class DelegationTests(TestCase):
    """ANNE and BERT are members, BERT routes; ANNE's user is the one that tries."""

    timeout = 240

    async def setUp(self) -> None:  # type: ignore[override]
        self.server = samba.shared_server()
        if not self.server.is_running:
            self.server.start()
        self.admin = self.operations(samba.ADMINISTRATOR, samba.PASSWORD)
        self.root = await self.admin.root()
        await self.clean()
        self.addCleanup(self.clean)
        enrollment = Enrollment(self.admin, uuid4)
        for name, routing in (("ANNE", False), ("BERT", True)):
            values = {"sAMAccountName": [f"{name}$".encode()], "userAccountControl": [b"4096"]}
            await self.admin.add(child(name, self.root.computers), "computer", values)
            await enrollment.join(name, MemberRequest((SITE,), routing=routing, quota=7))
        self.tool("user", "create", "msmq-anne", USER_PASSWORD)
        user = await self.admin.entry(child("msmq-anne", f"CN=Users,{samba.DOMAIN}"), (SID,))
        assert user is not None
        sid = format_sid(user.first(SID) or b"")
        self.tool("dsacl", "set", f"--objectdn={self.own('ANNE')}", f"--sddl={delegation(sid)}")
        name = "msmq-anne@msmq.test"
        self.anne = self.operations(name, USER_PASSWORD)
        self.directory = LdapDirectory(self.settings(name, USER_PASSWORD), SystemClock(), reactor)
        self.addCleanup(self.directory.close)
        await self.directory.open()

    def tool(self, *arguments: str) -> None:
        environment = {**os.environ, "SMB_CONF_PATH": os.fspath(self.server.directory / "smb.conf")}
        done = subprocess.run(["samba-tool", *arguments], env=environment, capture_output=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr.decode(errors="replace")[-1000:])

    async def clean(self) -> None:
        """Other tests use the same domain."""
        places = [child(name, self.root.computers) for name in ("ANNE", "BERT")]
        places += [f"CN={name},CN=Servers,CN={SITE},{self.root.sites}" for name in ("ANNE", "BERT")]
        places.append(child("msmq-anne", f"CN=Users,{samba.DOMAIN}"))
        for place in places:
            entries = await self.admin.find(place, Scope.TREE, ANYTHING, ())
            for entry in sorted(entries, key=lambda entry: -entry.name.count(",")):
                await self.admin.delete(entry.name)

    def own(self, name: str) -> str:
        return child("msmq", child(name, self.root.computers))

    def settings(self, name: str, password: str) -> LdapSettings:
        secret = Path(self.mktemp())
        secret.write_text(password)
        return LdapSettings((LdapServer(samba.ADDRESS, samba.PORT),), bind_name=name, password_file=secret)

    def operations(self, name: str, password: str) -> Operations:
        connection = LdapConnection(self.settings(name, password), reactor)
        self.addCleanup(connection.close)
        return Operations(connection)

    async def refused(self, what: str, name: str, values: Values | None = None) -> None:
        """Adding, changing or deleting this entry is refused for want of rights, and by nothing else."""
        asked = {
            "add": lambda: self.anne.add(name, "mSMQQueue", values or {}),
            "modify": lambda: self.anne.modify(name, values or {}),
            "delete": lambda: self.anne.delete(name),
        }[what]
        try:
            await asked()
        except DirectoryError as error:
            self.assertIn("result 50", error.detail, f"{what} {name}: {error.detail}")
        else:
            self.fail(f"{what} {name} {sorted(values or {})} was not refused")

    async def test_own_object(self) -> None:
        """A queue manager writes its keys and quotas, and creates, changes and deletes its queues."""
        read = await self.directory.read(QueueManagerObject, [equals("computer_name", "ANNE")])
        self.assertEqual(read["queue_manager_quota"], 7)
        changed = attrs.evolve(read.object, public_encryption_key_list=KEYS, queue_manager_quota=5)
        await self.directory.write(changed, ("public_encryption_key_list", "queue_manager_quota"))
        queue = QueueObject(pathname="ANNE\\orders", label="orders")
        identifier = await self.directory.create(queue)
        await self.directory.write(attrs.evolve(queue, identifier=identifier, label="bills"), ("label",))
        await self.directory.delete(QueueObject(identifier=identifier))

    async def test_objects_of_others(self) -> None:
        """The object, the queues and the settings of another, computers, sites and users are closed to it."""
        bert = self.own("BERT")
        queue = child("orders", bert)
        await self.admin.add(queue, "mSMQQueue", {"mSMQAuthenticate": [b"TRUE"]})
        for name in ("mSMQEncryptKey", "mSMQSites"):
            await self.refused("modify", bert, {name: (b"0123456789abcdef",)})
        await self.refused("modify", bert, {"mSMQRoutingServices": (b"FALSE",)})
        for name, value in (("mSMQAuthenticate", b"FALSE"), ("mSMQQueueQuota", b"1"), ("mSMQLabelEx", b"x")):
            await self.refused("modify", queue, {name: (value,)})
        await self.refused("delete", queue)
        await self.refused("add", child("more", bert))
        settings = f"CN=MSMQ Settings,CN=BERT,CN=Servers,CN={SITE},{self.root.sites}"
        await self.refused("modify", settings, {"mSMQRoutingService": (b"FALSE",)})
        await self.refused("delete", settings)
        for name in ("ANNE", "BERT"):
            computer = child(name, self.root.computers)
            await self.refused("modify", computer, {"dNSHostName": (b"bert.msmq.test",)})
        await self.refused("modify", child(SITE, self.root.sites), {"mSMQSiteForeign": (b"TRUE",)})
        await self.refused("modify", self.root.services, {"mSMQLongLived": (b"1",)})
        administrator = f"CN=Administrator,CN=Users,{samba.DOMAIN}"
        await self.refused("modify", administrator, {"mSMQSignCertificates": (b"x",)})
