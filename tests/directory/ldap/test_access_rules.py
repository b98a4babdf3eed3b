"""The rules of access that C{docs/ldap} ships: each queue manager writes its own object alone."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import attrs
from twisted.internet import reactor
from twisted.trial.unittest import TestCase

from msmq.directory.ldap.enrollment.enrollment import Enrollment
from msmq.directory.ldap.enrollment.plan import MemberRequest
from msmq.directory.ldap.entries.attribute_mapping import GUID
from msmq.directory.ldap.entries.values import pack_guid
from msmq.directory.ldap.operations import Operations
from msmq.directory.ldap.provider import LdapDirectory
from msmq.directory.ldap.settings import LdapSettings
from msmq.directory.ldap.transport.connection import LdapConnection
from msmq.directory.ldap.transport.wire import Values
from msmq.interfaces.directory import DirectoryError
from msmq.membership.objects import QueueManagerObject, QueueObject, UserObject
from msmq.membership.queries import equals
from msmq.net.clock import SystemClock
from msmq.structures.directory.public_key_blob import KeyAlgorithm, PublicKeyBlob
from msmq.structures.directory.public_keys import (
    ENHANCED_PROVIDER,
    MqdsPublicKey,
    MqdsPublicKeys,
    ProviderType,
)
from msmq.structures.directory.user_sign_certs import MqUserSignCert, MqUserSignCerts
from msmq.testing.contracts.directory import CERTIFICATE
from msmq.wire.sid import parse_sid
from tests.servers.slapd import ADMINISTRATOR, PASSWORD, SUFFIX, shared_server

ACCOUNTS = f"cn=Accounts,{SUFFIX}"
COMPUTERS = f"cn=Computers,{SUFFIX}"
SITES = f"cn=Sites,cn=Configuration,{SUFFIX}"
KEYS = MqdsPublicKeys(
    (
        MqdsPublicKey(
            ENHANCED_PROVIDER,
            ProviderType.PROV_RSA_FULL,
            PublicKeyBlob((1 << 1024) - 1, 65537, algorithm=KeyAlgorithm.KEY_EXCHANGE),
        ),
    )
)
ALICE, BOB = (parse_sid(f"S-1-5-21-1-2-3-{rid}") for rid in (1101, 1102))


class AccessRuleTests(TestCase):
    """ANNE and BERT are members of London, BERT routes; ANNE's account is the one that tries."""

    timeout = 120

    async def setUp(self) -> None:  # type: ignore[override]
        self.server = shared_server()
        self.admin = self.operations(ADMINISTRATOR, PASSWORD)
        for name, sid in (("anne", ALICE), ("bert", BOB)):
            values = {
                "objectClass": (b"person", b"user"),
                "sn": (name.encode(),),
                "userPassword": (name.encode(),),
                "objectSid": (sid,),
                GUID: (pack_guid(uuid4()),),
            }
            await self.add(f"cn={name},{ACCOUNTS}", values)
            self.addCleanup(self.admin.delete, f"cn={name},{ACCOUNTS}")
        self.enrollment = Enrollment(self.admin, uuid4)
        await self.enrollment.join("ANNE", MemberRequest(("London",), routing=False))
        await self.enrollment.join("BERT", MemberRequest(("London",), routing=True))
        for name in ("ANNE", "BERT"):
            self.addCleanup(self.enrollment.leave, name, with_queues=True)
        self.anne = self.operations(f"cn=anne,{ACCOUNTS}", "anne")
        self.directory = LdapDirectory(self.settings(f"cn=anne,{ACCOUNTS}", "anne"), SystemClock(), reactor)
        self.addCleanup(self.directory.close)
        await self.directory.open()

    def settings(self, name: str, password: str) -> LdapSettings:
        secret = Path(self.mktemp())
        secret.write_text(password)
        return LdapSettings(self.server.servers, SUFFIX, bind_name=name, password_file=secret)

    def operations(self, name: str, password: str) -> Operations:
        connection = LdapConnection(self.settings(name, password), reactor)
        self.addCleanup(connection.close)
        return Operations(connection)

    async def add(self, name: str, values: Values, by: Operations | None = None) -> None:
        kept, *others = values["objectClass"]
        rest = {key: each for key, each in values.items() if key != "objectClass"}
        operations = self.admin if by is None else by
        if others:
            # Operations.add gives one class; more of them come with the other values.
            rest["objectClass"] = (kept, *others)
        await operations.add(name, kept.decode(), rest)

    async def refused(self, what: str, name: str, values: Values | None = None) -> None:
        """Adding, changing or deleting this entry is refused for want of rights, and by nothing else."""
        asked = {
            "add": lambda: self.add(name, values or {}, self.anne),
            "modify": lambda: self.anne.modify(name, values or {}),
            "delete": lambda: self.anne.delete(name),
        }[what]
        try:
            await asked()
        except DirectoryError as error:
            self.assertIn("result 50", error.detail, f"{what} {name}: {error.detail}")
        else:
            self.fail(f"{what} {name} {sorted(values or {})} was not refused")

    async def own(self) -> QueueManagerObject:
        read = await self.directory.read(QueueManagerObject, [equals("computer_name", "ANNE")])
        own: QueueManagerObject = read.object
        return own

    async def test_own_object(self) -> None:
        """A queue manager writes its keys, quotas, roles and queues, and its mSMQSettings."""
        own = attrs.evolve(await self.own(), public_encryption_key_list=KEYS, queue_manager_quota=5)
        await self.directory.write(own, ("public_encryption_key_list", "queue_manager_quota"))
        self.assertEqual((await self.own()).public_encryption_key_list, KEYS)
        await self.enrollment.change("ANNE", MemberRequest(routing=True))
        settings = f"CN=MSMQ Settings,CN=ANNE,CN=Servers,CN=London,{SITES}"
        for routing in (False, True):
            await self.directory.write(attrs.evolve(own, routing_server=routing), ("routing_server",))
            self.assertEqual(await self.admin.entry(settings, (GUID,)) is not None, routing)
        queue = QueueObject(pathname="ANNE\\orders", label="orders")
        identifier = await self.directory.create(queue)
        await self.directory.write(attrs.evolve(queue, identifier=identifier, label="bills"), ("label",))
        await self.directory.delete(QueueObject(identifier=identifier))

    async def test_certificates(self) -> None:
        """It publishes the certificates of its own account, and of no other."""
        certificates = MqUserSignCerts((MqUserSignCert.of(CERTIFICATE, uuid4()),))
        names = ("certificate_digest_list", "certificates")
        for sid in (ALICE, BOB):
            read = await self.directory.read(UserObject, [equals("security_identifier", sid)])
            user = attrs.evolve(
                read.object,
                certificates=certificates,
                certificate_digest_list=tuple(each.digest for each in certificates.certificates),
            )
            if sid == ALICE:
                self.assertTrue(await self.directory.write_if_unchanged(user, read, names))
            else:
                with self.assertRaises(DirectoryError) as raised:
                    await self.directory.write_if_unchanged(user, read, names)
                self.assertIn("result 50", raised.exception.detail)

    async def test_objects_of_others(self) -> None:
        """The object, the queues and the settings of another queue manager are closed to it."""
        bert = f"cn=msmq,cn=BERT,{COMPUTERS}"
        queue = {"objectClass": (b"mSMQQueue",), "mSMQLabelEx": (b"x",)}
        await self.add(f"cn=orders,{bert}", queue)
        for name, value in (
            ("mSMQEncryptKey", b"key"),
            ("mSMQSites", b"0123456789abcdef"),
            ("mSMQQuota", b"1"),
        ):
            await self.refused("modify", bert, {name: (value,)})
        await self.refused("modify", f"cn=orders,{bert}", {"mSMQAuthenticate": (b"FALSE",)})
        await self.refused("delete", f"cn=orders,{bert}")
        await self.refused("delete", bert)
        await self.refused("add", f"cn=more,{bert}", queue)
        settings = f"cn=MSMQ Settings,cn=BERT,cn=Servers,cn=London,{SITES}"
        await self.refused("modify", settings, {"mSMQRoutingService": (b"FALSE",)})
        await self.refused("delete", settings)
        await self.refused("add", f"cn=BERT,cn=Servers,cn=Paris,{SITES}", {"objectClass": (b"server",)})
        await self.refused("modify", f"cn=bert,{ACCOUNTS}", {"userPassword": (b"x",)})

    async def test_what_is_the_administrators(self) -> None:
        """Computers, accounts, sites and links are the administrator's."""
        await self.refused("modify", f"cn=ANNE,{COMPUTERS}", {"dNSHostName": (b"bert.example.com",)})
        await self.refused("modify", f"cn=ANNE,{COMPUTERS}", {"cn": (b"ANNE", b"BERT")})
        await self.refused("add", f"cn=CARL,{COMPUTERS}", {"objectClass": (b"computer",)})
        await self.refused("delete", f"cn=ANNE,{COMPUTERS}")
        await self.refused("add", f"cn=carl,{ACCOUNTS}", {"objectClass": (b"person",), "sn": (b"x",)})
        await self.refused("modify", f"cn=anne,{ACCOUNTS}", {"objectSid": (BOB,)})
        await self.refused("modify", f"cn=London,{SITES}", {"mSMQSiteForeign": (b"TRUE",)})
        await self.refused("add", f"cn=Rome,{SITES}", {"objectClass": (b"site",)})
        services = f"cn=MsmqServices,cn=Services,cn=Configuration,{SUFFIX}"
        await self.refused("modify", services, {"mSMQLongLived": (b"1",)})
        await self.refused("delete", f"cn=London to Paris,{services}")

    async def test_entries_of_another_kind(self) -> None:
        """In its own entry an account adds nothing that would make it another computer or a user."""
        own = f"cn=msmq,cn=ANNE,{COMPUTERS}"
        for kept, more in (
            (b"computer", {}),
            (b"mSMQConfiguration", {}),
            (b"person", {"sn": (b"x",)}),
        ):
            await self.refused("add", f"cn=BERT,{own}", {"objectClass": (kept,), **more})
        as_user = {"objectClass": (b"mSMQQueue", b"user"), "objectSid": (BOB,)}
        await self.refused("add", f"cn=bob,{own}", as_user)
        queue = {"objectClass": (b"mSMQQueue",)}
        await self.add(f"cn=orders,{own}", queue, self.anne)
        await self.refused(
            "modify",
            f"cn=orders,{own}",
            {"objectClass": (b"mSMQQueue", b"user"), "mSMQSignCertificates": (b"x",), "objectSid": (BOB,)},
        )
        await self.refused("add", f"cn=below,cn=orders,{own}", queue)
        await self.refused("add", f"cn=BERT,cn=ANNE,{COMPUTERS}", {"objectClass": (b"computer",)})
        servers = f"cn=Servers,cn=London,{SITES}"
        await self.refused("add", f"cn=ANNE,{servers}", {"objectClass": (b"server",)})
        await self.enrollment.change("ANNE", MemberRequest(routing=True))
        await self.refused("add", f"cn=BERT,cn=ANNE,{servers}", {"objectClass": (b"computer",)})

    async def test_names_that_look_alike(self) -> None:
        """A name with an escaped comma is not taken for two parts."""
        await self.refused("add", f"cn=ANNE\\,cn\\=x,{COMPUTERS}", {"objectClass": (b"computer",)})
        await self.refused(
            "add", f"cn=x\\,cn\\=ANNE,cn=Servers,cn=London,{SITES}", {"objectClass": (b"server",)}
        )

    async def test_without_a_name(self) -> None:
        """An anonymous client reads nothing."""
        connection = LdapConnection(LdapSettings(self.server.servers, SUFFIX), reactor)
        self.addCleanup(connection.close)
        with self.assertRaises(DirectoryError):
            await Operations(connection).entry(f"cn=msmq,cn=ANNE,{COMPUTERS}", (GUID,))
