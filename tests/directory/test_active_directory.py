"""A directory in a real Active Directory domain, which Samba serves, keeps the contract."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

import attrs
from twisted.internet import reactor
from twisted.internet.interfaces import IReactorTime
from twisted.trial.unittest import TestCase

from msmq.directory.ldap.entries.attribute_mapping import CLASSES, GUID, SECURITY, SID
from msmq.directory.ldap.entries.entry_writer import packed, security_flags
from msmq.directory.ldap.entries.values import unpack_guid
from msmq.directory.ldap.identity import identify
from msmq.directory.ldap.names import child
from msmq.directory.ldap.settings import LdapServer, LdapSettings
from msmq.directory.ldap.transport.filters import ANYTHING, Equal
from msmq.directory.ldap.transport.wire import Scope
from msmq.interfaces import DirectoryError, IDirectory
from msmq.interfaces.plugins import DirectoryContext
from msmq.interfaces.security.access import IAccounts
from msmq.manager.securing.public_descriptors import published_list
from msmq.membership.attributes import DirectoryObject
from msmq.membership.enumerations import DirectoryOperationResult
from msmq.membership.objects import QueueManagerObject, QueueObject, SiteObject, UserObject
from msmq.membership.queries import AttributeFilter, SortOrder, equals
from msmq.membership.rights_change import to_directory
from msmq.net.clock import SystemClock
from msmq.structures.directory.user_sign_certs import MqUserSignCert, MqUserSignCerts, digest_of
from msmq.testing.contracts.directory import CERTIFICATE
from msmq.windows.sddl import parse_sddl
from msmq.windows.security_descriptor import SecurityDescriptor
from msmq.windows.well_known_sids import DOMAIN_USERS, domain_of, with_rid
from msmq.wire.sid import parse_sid
from tests.directory.ldap_contract import LdapDirectoryContract
from tests.servers.samba import ADDRESS, ADMINISTRATOR, DOMAIN, PASSWORD, PORT, shared_server

T = TypeVar("T", bound=DirectoryObject)

FIRST_SITE = "Default-First-Site-Name"
"""The site that every domain begins with."""

WORKSTATION = b"4096"

LOCAL_GROUP = b"-2147483644"
"""The type of a group that can have members of other domains."""

EVERYBODY = bytes.fromhex(
    # Self-relative, with nothing but a DACL, in which S-1-1-0 may do all that a queue knows.
    "010004800000000000000000000000001400000002001c000100000000001400ff000f00010100000000000100000000"
)
"""A security descriptor."""


class ActiveDirectoryTests(LdapDirectoryContract, TestCase):
    """The directory of an estate with Active Directory."""

    timeout = 300

    async def setUp(self) -> None:  # type: ignore[override]
        self.server = shared_server()
        secret = Path(self.mktemp())
        secret.write_text(PASSWORD)
        self.set_up(LdapSettings((LdapServer(ADDRESS, PORT),), bind_name=ADMINISTRATOR, password_file=secret))
        await self.clean()

    async def clean(self) -> None:
        """Remove what the test before has left."""
        root = await self.operations.root()
        for base, kept in (
            (root.computers, ""),
            (root.services, ""),
            (root.sites, FIRST_SITE),
            (child("msmq tests", DOMAIN), ""),
        ):
            found = await self.operations.find(base, Scope.TREE, ANYTHING, ("cn",))
            # What is below goes first; only what the tests have made is gone for.
            for entry in sorted(found, key=lambda entry: -entry.name.count(",")):
                is_kept = kept and kept in entry.name
                if entry.name.lower() != base.lower() and not is_kept and "CN=Inter-Site" not in entry.name:
                    if "CN=Subnets" not in entry.name:
                        await self.operations.delete(entry.name)
        await self.operations.add_if_missing(child("msmq tests", DOMAIN), "container")

    async def add(self, added: T) -> T:
        if isinstance(added, QueueManagerObject):
            await self.join(added.computer_name)
        return await super().add(added)

    async def publish_queue_manager(self, directory: IDirectory, manager: QueueManagerObject) -> UUID:
        await self.join(manager.computer_name)
        return await directory.create(manager)

    async def add_computer(self, name: str) -> None:
        await self.join(name)

    async def join(self, name: str, place: str = "") -> None:
        """Have a computer join the domain."""
        root = await self.operations.root()
        values = {
            "sAMAccountName": [f"{name}$".encode()],
            "userAccountControl": [WORKSTATION],
            "dNSHostName": [f"{name}.msmq.test".lower().encode()],
        }
        await self.operations.add_if_missing(child(name, place or root.computers), "computer", values)

    async def add_user(self, added: Any) -> Any:
        name = child("somebody", child("msmq tests", DOMAIN))
        await self.operations.add(name, "user", {"sAMAccountName": [b"somebody"]})
        await self.operations.modify(name, packed(added, CLASSES[UserObject].columns, is_new=False))
        entry = await self.operations.entry(name, (GUID, SID))
        assert entry is not None
        return attrs.evolve(
            added,
            identifier=unpack_guid(entry.first(GUID) or b""),
            security_identifier=entry.first(SID) or b"",
        )

    async def add_group(self, name: str, members: Sequence[bytes], identifier: UUID) -> UUID:
        place = child(f"list {identifier}", child("msmq tests", DOMAIN))
        account = f"list {identifier.hex[:12]}".encode()
        await self.operations.add(place, "group", {"sAMAccountName": [account], "member": members})
        entry = await self.operations.entry(place, (GUID,))
        assert entry is not None
        return unpack_guid(entry.first(GUID) or b"")

    async def all_of(
        self,
        directory: IDirectory,
        of: type[DirectoryObject],
        filters: Sequence[AttributeFilter] = (),
        attributes: tuple[str, ...] | None = None,
        order: Sequence[SortOrder] = (),
    ) -> list[Any]:
        found = await super().all_of(directory, of, filters, attributes, order)
        return [entry for entry in found if of is not SiteObject or entry["name"] != FIRST_SITE]

    async def disconnect(self) -> None:
        self.addCleanup(self._start)
        self.server.stop()

    async def reconnect(self) -> None:
        self._start()

    def _start(self) -> None:
        if not self.server.is_running:
            self.server.start()

    async def test_user(self) -> None:
        """A user is found by the SID that the domain has given, with the certificates."""
        directory = await self.opened()
        certificates = MqUserSignCerts((MqUserSignCert.of(CERTIFICATE, UUID(int=5)),))
        digests = (digest_of(CERTIFICATE),)
        user = await self.add(UserObject(certificate_digest_list=digests, certificates=certificates))
        read = await directory.read(UserObject, [equals("security_identifier", user.security_identifier)])
        self.assert_holds(read, user)

    async def test_certificates_are_registered(self) -> None:
        """The earlier certificates of a user are kept, and new ones are found by their digest, too."""
        directory = await self.opened()
        first = MqUserSignCert.of(CERTIFICATE, UUID(int=5))
        user = await self.add(
            UserObject(certificate_digest_list=(first.digest,), certificates=MqUserSignCerts((first,)))
        )
        second = MqUserSignCert.of(CERTIFICATE + b" of another kind", UUID(int=6))
        entries = (first, second)
        written = attrs.evolve(
            user,
            certificate_digest_list=tuple(entry.digest for entry in entries),
            certificates=MqUserSignCerts(entries),
        )
        await directory.write(written, ("certificate_digest_list", "certificates"))
        sid = user.security_identifier
        read = await directory.read(UserObject, [equals("security_identifier", sid)], ("certificates",))
        self.assertEqual(read.values["certificates"].certificates, entries)
        filters = [equals("certificate_digest_list", second.digest)]
        read = await directory.read(UserObject, filters, ("security_identifier",))
        self.assertEqual(read.values["security_identifier"], sid)

    async def move_computer(self, name: str, place: str) -> None:
        tests = child("msmq tests", DOMAIN)
        await self.operations.delete(child("msmq", child(name, (await self.operations.root()).computers)))
        await self.operations.delete(child(name, (await self.operations.root()).computers))
        await self.operations.add_if_missing(child("Users", tests), "container")
        await self.join(name, child("Users", tests))
        await self.directory.create(QueueManagerObject(computer_name=name))

    def place_for_lists(self) -> str:
        return child("msmq tests", DOMAIN)

    def identifier_values(self) -> dict[str, list[bytes]]:
        return {}

    async def test_security(self) -> None:
        """The domain gives a queue a security descriptor, and takes another one."""
        directory = await self.opened()
        await self.alpha()
        queue = await self.queue("orders")
        by_identifier = [equals("identifier", queue.identifier)]
        given = (await directory.read(QueueObject, by_identifier))["security"]
        self.assertEqual(security_flags(given), 7)
        await directory.write(attrs.evolve(queue, security=EVERYBODY), ("security",))
        taken = (await directory.read(QueueObject, by_identifier))["security"]
        self.assertIn(EVERYBODY[-20:], taken)
        self.assertNotEqual(given, taken)
        bills = await self.queue("bills", security=EVERYBODY)
        read = await directory.read(QueueObject, [equals("identifier", bills.identifier)])
        self.assertIn(EVERYBODY[-20:], read["security"])

    async def test_security_of_a_queue(self) -> None:
        """The descriptor that the domain assigns is not one of a queue; the one that a queue manager has
        written is.
        """
        directory = await self.opened()
        await self.alpha()
        queue = await self.queue("orders")
        by_identifier = [equals("identifier", queue.identifier)]
        given = (await directory.read(QueueObject, by_identifier, ("security",)))["security"]
        self.assertIsNone(published_list(given))
        listed = parse_sddl("D:(D;;0x4;;;AN)(A;;0x4;;;WD)")
        mine = to_directory(SecurityDescriptor.from_bytes(given), None, listed)
        await directory.write(attrs.evolve(queue, security=mine.to_bytes()), ("security",))
        taken = (await directory.read(QueueObject, by_identifier, ("security",)))["security"]
        found = published_list(taken)
        assert found is not None and found.found.dacl is not None and mine.dacl is not None
        self.assertEqual(set(found.found.dacl.aces), set(mine.dacl.aces))
        self.assertEqual(found.found.owner, mine.owner)

    async def test_no_condition_for_security(self) -> None:
        """The domain refuses to replace a descriptor only if it has not changed, so it is compared before."""
        await self.opened()
        await self.alpha()
        await self.queue("orders")
        [entry] = await self.operations.find(DOMAIN, Scope.TREE, Equal("cn", b"orders"), (SECURITY,))
        refused = await self.result_of(self.operations.exchange(entry, {SECURITY: (EVERYBODY,)}))
        self.assertIs(refused, DirectoryOperationResult.GENERIC_ERROR)

    async def test_accounts(self) -> None:
        """The domain returns all groups of a user, nested ones and its own among them."""
        accounts = IAccounts(await self.opened())
        tests = child("msmq tests", DOMAIN)
        alice, clerks, staff = (child(name, tests) for name in ("alice", "clerks", "staff"))
        await self.operations.add(alice, "user", {"sAMAccountName": [b"alice"]})
        for name, member in (("clerks", alice), ("staff", clerks)):
            values = {"sAMAccountName": [name.encode()], "member": [member.encode()]}
            await self.operations.add(child(name, tests), "group", values)
        sids = []
        for name in (alice, clerks, staff):
            entry = await self.operations.entry(name, (SID,))
            assert entry is not None
            sids.append(entry.first(SID) or b"")
        found = await accounts.account(sids[0])
        self.assertEqual((found.sid, found.name, found.is_user), (sids[0], "alice", True))
        domain = domain_of(sids[0])
        assert domain is not None
        self.assertLessEqual({*sids[1:], with_rid(domain, DOMAIN_USERS)}, found.groups)
        self.assertEqual(await accounts.account_named("MSMQ\\ALICE"), found)
        for name in ("alice", "msmq.test\\alice"):
            self.assertEqual(await accounts.account_named(name), found)
        builtin = await accounts.account_named("BUILTIN\\Users")
        self.assertEqual(builtin.sid, parse_sid("S-1-5-32-545"))
        for name, reason in (
            ("OTHER\\alice", "those of MSMQ or msmq.test; name others by their SIDs"),
            ("BUILTIN\\alice", "there is no account BUILTIN\\alice"),
        ):
            with self.assertRaises(DirectoryError) as raised:
                await accounts.account_named(name)
            self.assertIn(reason, str(raised.exception))
        group = await accounts.account(sids[1])
        self.assertEqual((group.name, group.is_user), ("clerks", False))
        for asked in (accounts.account(parse_sid("S-1-5-21-9-9-9-1")), accounts.account_named("bob")):
            self.assertIs(await self.result_of(asked), DirectoryOperationResult.OBJECT_NOT_FOUND)

    async def test_account_of_a_trusted_domain(self) -> None:
        """The domain has its SID, as a member of a group, and not its groups elsewhere: it has no token."""
        accounts = IAccounts(await self.opened())
        member = {"sAMAccountName": [b"contractors"], "member": [b"<SID=S-1-5-21-8-8-8-1>"]}
        await self.operations.add(
            child("contractors", child("msmq tests", DOMAIN)), "group", {**member, "groupType": [LOCAL_GROUP]}
        )
        with self.assertRaises(DirectoryError) as raised:
            await accounts.account(parse_sid("S-1-5-21-8-8-8-1"))
        self.assertIn("it is an account of another domain", str(raised.exception))

    async def test_domain_decides(self) -> None:
        """The domain gives an object its Identifier and a computer its SID, and a queue manager needs one."""
        directory = await self.opened()
        identifier = await directory.create(SiteObject(identifier=UUID(int=1), name="rome"))
        self.assertNotEqual(identifier, UUID(int=1))
        await self.alpha()
        self.assertEqual(len(await directory.object_sid("ALPHA")), 28)
        asked = directory.create(QueueManagerObject(computer_name="NOBODY"))
        self.assertIs(await self.result_of(asked), DirectoryOperationResult.OBJECT_NOT_FOUND)

    async def test_identity(self) -> None:
        """A queue manager can be what the domain calls it from its first start on."""
        await self.join("ALPHA")
        context = DirectoryContext(SystemClock(), IReactorTime(reactor), Path("data"))
        identifier = await identify(self.settings, "ALPHA", context)
        self.assertEqual(await identify(self.settings, "alpha", context), identifier)
        directory = await self.opened()
        read = await directory.read(QueueManagerObject, [equals("computer_name", "ALPHA")])
        self.assertEqual(read["identifier"], identifier)
        with self.assertRaises(ValueError) as refused:
            await identify(self.settings, "NOBODY", context)
        self.assertIn("no computer NOBODY", str(refused.exception))
