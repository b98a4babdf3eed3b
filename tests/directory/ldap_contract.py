"""What the provider for LDAP does with every server: schema, enrollment, names and pages."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID, uuid4

import attrs
from twisted.internet.defer import Deferred, DeferredList

from msmq.directory.ldap import operations as operations_module
from msmq.directory.ldap.enrollment.enrollment import Enrollment
from msmq.directory.ldap.enrollment.plan import EnrollmentError, MemberRequest
from msmq.directory.ldap.entries.attribute_mapping import GUID
from msmq.directory.ldap.entries.values import pack_guid
from msmq.directory.ldap.names import child
from msmq.directory.ldap.settings import Dialect
from msmq.directory.ldap.transport.filters import ANYTHING
from msmq.directory.ldap.transport.wire import Scope
from msmq.manager.securing.public_descriptors import own_entries, published_list
from msmq.membership.enumerations import (
    DirectoryOperationResult,
    DirectoryServerType,
    OperatingSystemType,
)
from msmq.membership.objects import (
    ConnectedNetworkObject,
    EnterpriseObject,
    QueueManagerObject,
    QueueObject,
    RoutingLinkObject,
    SiteObject,
    UserObject,
)
from msmq.membership.queries import AttributeFilter, FilterOperator, equals
from msmq.membership.rights import class_default
from msmq.membership.rights_change import to_directory
from msmq.structures.directory.public_key_blob import PublicKeyBlob
from msmq.structures.directory.public_keys import MqdsPublicKey, MqdsPublicKeys, ProviderType
from msmq.structures.names.format_name import DistributionListFormatName
from msmq.testing.ciphers import MemoryCiphers
from msmq.testing.contracts.directory import NOWHERE, SID
from msmq.windows.sddl import parse_sddl
from tests.directory.ldap_objects import LdapDirectoryObjects

PUBLISHED: Final = frozenset(
    "cn description distinguishedname dnshostname objectguid objectsid ntsecuritydescriptor"
    " operatingsystemversion serviceprincipalname whenchanged whencreated".split()
)
"""[MS-MQDSSM] 2.4 the attributes that other classes have as well."""

SCHEMA: Final = {
    name: frozenset(attributes.split())
    for name, attributes in {
        "msmqqueue": "msmqauthenticate msmqbasepriority msmqjournal msmqlabelex msmq-multicastaddress"
        " msmqprivacylevel msmqqueuejournalquota msmqqueuenameext msmqqueuequota msmqqueuetype"
        " msmqtransactional",
        "msmqconfiguration": "msmqcomputertypeex msmqdependentclientservices msmqdsservices msmqencryptkey"
        " msmqforeign msmqinroutingservers msmqjournalquota msmqostype msmqoutroutingservers msmqquota"
        " msmqroutingservices msmqservicetype msmqsites",
        "computer": "msmqsigncertificates",
        "site": "msmqinterval1 msmqinterval2 msmqnt4stub msmqsiteforeign",
        "msmqenterprisesettings": "msmqcspname msmqlonglived msmqnamestyle msmqversion",
        "user": "msmqdigests msmqsigncertificates",
        "msmqsitelink": "msmqcost msmqsite1 msmqsite2 msmqsitegates",
        "msmqsettings": "msmqdependentclientservice msmqdsservice msmqqmid msmqroutingservice msmqservices",
    }.items()
}
"""[MS-MQDSSM] 2.4; mSMQSignKey is ours, for what the document has no place for."""


class LdapDirectoryContract(LdapDirectoryObjects):
    """Tests of a server on which each has a base of its own."""

    async def test_made_with_a_descriptor(self) -> None:
        """A queue that is made with a list has it from the beginning, and can be changed and deleted."""
        directory = await self.opened()
        await self.alpha()
        mine = to_directory(class_default(None), None, parse_sddl("D:(D;;0x4;;;AN)(A;;0x24;;;WD)"))
        queue = await self.queue("orders", security=mine.to_bytes())
        by_identifier = [equals("identifier", queue.identifier)]
        taken = (await directory.read(QueueObject, by_identifier, ("security",)))["security"]
        found = published_list(taken)
        assert found is not None and mine.dacl is not None
        self.assertEqual(set(own_entries(found.found)), set(mine.dacl.aces))
        await directory.write(attrs.evolve(queue, label="other"), ("label",))
        await directory.delete(queue)

    async def test_schema(self) -> None:
        """Published objects use the classes and attributes of [MS-MQDSSM] 2.4, and no others.

        MQDMPR-2.3-01 MQMQ-2.2.20.6-22
        """
        directory = await self.opened()
        london, _ = sites = await self.sites("london", "paris")
        keys = MqdsPublicKeys(
            (MqdsPublicKey("P", ProviderType.PROV_RSA_FULL, PublicKeyBlob((1 << 512) - 1, 65537)),)
        )
        manager = await self.alpha(
            site_identifier_list=(london.identifier,), routing_server=True, public_encryption_key_list=keys
        )
        queue = await self.queue(
            "orders", label="new", journaling=True, quota=77, base_priority=-3, transactional=True
        )
        link = RoutingLinkObject(
            site1_identifier=london.identifier,
            site2_identifier=sites[1].identifier,
            site_gate_identifier_list=(manager.identifier,),
            actual_cost=5,
        )
        await self.add(link)
        await self.add(EnterpriseObject(default_time_to_live=99))
        root = await self.operations.root()
        entries = await self.operations.find(root.domain, Scope.TREE, ANYTHING, ("*",))
        if root.configuration not in [entry.name for entry in entries]:
            entries = [
                *entries,
                *await self.operations.find(root.configuration, Scope.TREE, ANYTHING, ("*",)),
            ]
        reported: dict[str, dict[str, bytes]] = {}
        for entry in entries:
            held = {name for name in entry.values if name.startswith("msmq") or name in PUBLISHED}
            for name in {kind.decode().lower() for kind in entry.all("objectClass")} & set(SCHEMA):
                self.assertLessEqual(held - {*PUBLISHED, "msmqsignkey"}, SCHEMA[name], entry.name)
                reported.setdefault(name, {}).update({each: entry.values[each][0] for each in held})
        for name, attribute, value in (
            ("msmqconfiguration", "mSMQEncryptKey", keys.to_bytes()),
            ("msmqconfiguration", "mSMQSites", london.identifier.bytes_le),
            ("msmqqueue", "mSMQLabelEx", b"new"),
            ("msmqqueue", "mSMQJournal", b"TRUE"),
            ("msmqqueue", "mSMQQueueQuota", b"77"),
            ("msmqqueue", "mSMQBasePriority", b"-3"),
            ("msmqqueue", "mSMQTransactional", b"TRUE"),
            ("msmqsitelink", "mSMQCost", b"5"),
            ("msmqenterprisesettings", "mSMQLongLived", b"99"),
            ("msmqsettings", "mSMQRoutingService", b"TRUE"),
        ):
            self.assertEqual(reported[name].get(attribute.lower()), value, attribute)
        read = await directory.read(QueueManagerObject, [equals("identifier", manager.identifier)])
        self.assertEqual(read["public_encryption_key_list"], keys)
        self.assertEqual((await directory.read(QueueObject))["identifier"], queue.identifier)

    async def test_keys_are_others(self) -> None:
        """MQMQ-2.2.20.6-19: a queue manager replaces the keys that the directory has for it."""
        directory = await self.opened()
        [london] = await self.sites("london")
        manager = await self.alpha(site_identifier_list=(london.identifier,))
        for weak in (True, False):
            ciphers = MemoryCiphers("alpha", weak=weak)
            ciphers.open()
            written = attrs.evolve(
                manager,
                public_encryption_key_list=ciphers.encryption_keys,
                public_signing_key_list=ciphers.signing_keys,
            )
            names = ("public_encryption_key_list", "public_signing_key_list")
            await directory.write(written, names)
            read = await directory.read(QueueManagerObject, [equals("identifier", manager.identifier)], names)
            self.assertEqual(read["public_encryption_key_list"], ciphers.encryption_keys)
            self.assertEqual(read["public_signing_key_list"], ciphers.signing_keys)

    async def test_names_of_queues(self) -> None:
        """[MS-MQDSSM] 3.1.6.1.2.5: a queue is found by its name, of any length and with any characters."""
        directory = await self.opened()
        await self.alpha()
        for name in ("a,b=c+d", "#orders", "Bücher (neu) * ", "x" * 64, "y" * 124, "y" * 123 + "z", "a/b\\c"):
            queue = await self.queue(name)
            by_name = await directory.read(QueueObject, [equals("pathname", f"alpha\\{name}")])
            self.assertEqual(by_name["identifier"], queue.identifier, name)
            self.assertEqual(by_name["pathname"], f"alpha\\{name}".lower())
            again = directory.create(QueueObject(pathname=f"ALPHA\\{name}"))
            self.assertIs(await self.result(again), DirectoryOperationResult.OBJECT_ALREADY_EXISTS)

    async def test_whole_queue_manager(self) -> None:
        """All that is published of a queue manager is found again, and so are its in- and out-routing
        servers.
        """
        directory = await self.opened()
        gate = await self.alpha()
        first, second = await self.sites("a", "b")
        manager = QueueManagerObject(
            computer_name="BETA",
            queue_manager_version="1.2",
            operating_system_type=OperatingSystemType.WIN_SERVER,
            foreign_system=True,
            site_identifier_list=tuple(sorted((first.identifier, second.identifier))),
            out_routing_server_identifier_list=(gate.identifier,),
            in_routing_server_identifier_list=(gate.identifier, UUID(int=0xDEAD)),
            directory_server=True,
            directory_server_type=DirectoryServerType.PRIMARY_SITE_CONTROLLER,
            remote_access_server=True,
            supporting_server=True,
        )
        manager = await self.add(manager)
        read = await directory.read(QueueManagerObject, [equals("computer_name", "beta")])
        # Who is not there is not in the list.
        held = attrs.evolve(manager, in_routing_server_identifier_list=(gate.identifier,))
        sites = tuple(sorted(read["site_identifier_list"]))
        self.assertEqual(sites, manager.site_identifier_list)
        self.assert_holds(read, held, "site_identifier_list", "qualified_computer_name")

    async def test_settings_follow_the_site(self) -> None:
        """[MS-MQDSSM] 3.1.6.7.1.9: a server that gets or changes its site afterwards has settings there."""
        directory = await self.opened()
        london, paris = await self.sites("london", "paris")
        root = await self.operations.root()
        manager = await self.alpha(routing_server=True, site_identifier_list=())
        places = [
            f"CN=MSMQ Settings,CN=ALPHA,CN=Servers,CN={site},{root.sites}" for site in ("london", "paris")
        ]

        async def reported() -> list[bool]:
            return [await self.operations.entry(name, (GUID,)) is not None for name in places]

        self.assertEqual(await reported(), [False, False])
        for sites, expected in (((london,), [True, False]), ((paris,), [False, True]), ((), [False, False])):
            moved = attrs.evolve(manager, site_identifier_list=tuple(site.identifier for site in sites))
            await directory.write(moved, ("site_identifier_list",))
            self.assertEqual(await reported(), expected)

    async def test_settings_are_completed(self) -> None:
        """A server whose site another program has created has settings once it publishes its role."""
        directory = await self.opened()
        [london] = await self.sites("london")
        root = await self.operations.root()
        manager = await self.alpha(routing_server=True, site_identifier_list=())
        own = child("msmq", child("ALPHA", root.computers))
        await self.operations.modify(own, {"mSMQSites": [pack_guid(london.identifier)]})
        await directory.write(manager, ("routing_server",))
        name = f"CN=MSMQ Settings,CN=ALPHA,CN=Servers,CN=london,{root.sites}"
        self.assertIsNotNone(await self.operations.entry(name, (GUID,)))

    async def add_computer(self, name: str) -> None:
        """Have a computer join the domain, where there is one."""

    async def test_enrollment(self) -> None:
        """C{msmq enterprise} creates a complete queue manager, idempotently; removing it leaves
        no entries.
        """
        directory = await self.opened()
        london, paris = await self.sites("london", "paris")
        root = await self.operations.root()
        before = await self.names_below(root.services, root.sites)
        for name in ("ALPHA", "BETA"):
            await self.add_computer(name)
        enrollment = Enrollment(self.operations, uuid4)
        wanted = MemberRequest(("London",), routing=True, dns_name="alpha.msmq.test", quota=77)
        planned = await Enrollment(self.operations, uuid4, dry_run=True).join("ALPHA", wanted)
        made = await enrollment.join("ALPHA", wanted)
        self.assertEqual([step.change.name for step in planned], [step.change.name for step in made])
        self.assertEqual(await enrollment.join("ALPHA", wanted), [])
        read = await directory.read(QueueManagerObject, [equals("computer_name", "ALPHA")])
        expected = QueueManagerObject(
            queue_manager_quota=77,
            routing_server=True,
            operating_system_type=OperatingSystemType.FOREIGN,
            site_identifier_list=(london.identifier,),
        )
        self.assertEqual(read["qualified_computer_name"], "alpha.msmq.test")
        for name in (
            "queue_manager_quota",
            "routing_server",
            "operating_system_type",
            "site_identifier_list",
        ):
            self.assertEqual(read[name], getattr(expected, name), name)
        settings = f"CN=MSMQ Settings,CN=ALPHA,CN=Servers,CN=%s,{root.sites}"
        entry = await self.operations.entry(settings % "London", ("mSMQQMID", "mSMQServices"))
        assert entry is not None
        self.assertEqual(
            (entry.first("mSMQQMID"), entry.first("mSMQServices")), (read["identifier"].bytes_le, b"1")
        )
        await enrollment.join("BETA", MemberRequest(("paris",)))
        gates = {"cost": 5, "gates": ("ALPHA", "BETA")}
        [link] = await enrollment.link(("London", "Paris"), **gates)  # type: ignore[arg-type]
        self.assertEqual(await enrollment.link(("paris", "london"), **gates), [])  # type: ignore[arg-type]
        reported = (await directory.read(RoutingLinkObject)).object
        beta = await directory.read(QueueManagerObject, [equals("computer_name", "BETA")], ("identifier",))
        self.assertEqual(
            (reported.site1_identifier, reported.site2_identifier, reported.actual_cost),
            (london.identifier, paris.identifier, 5),
        )
        self.assertEqual(set(reported.site_gate_identifier_list), {read["identifier"], beta["identifier"]})
        await enrollment.change("ALPHA", MemberRequest(sites=("Paris",)))
        self.assertIsNone(await self.operations.entry(settings % "London", (GUID,)))
        self.assertIsNotNone(await self.operations.entry(settings % "Paris", (GUID,)))
        await enrollment.change("ALPHA", MemberRequest(routing=False))
        self.assertIsNone(await self.operations.entry(settings % "Paris", (GUID,)))
        await enrollment.change("ALPHA", MemberRequest(routing=True))
        await self.queue("orders")
        with self.assertRaises(EnrollmentError):
            await enrollment.leave("ALPHA")
        await enrollment.leave("ALPHA", with_queues=True)
        [gate] = (await directory.read(RoutingLinkObject))["site_gate_identifier_list"]
        self.assertEqual(gate, beta["identifier"])
        await enrollment.leave("BETA")
        self.assertEqual(await enrollment.leave("BETA"), [])
        await enrollment.link(("London", "Paris"), cost=None, gates=(), remove=True)
        self.assertIsNone(await self.operations.entry(link.change.name, (GUID,)))
        left = await self.names_below(root.services, root.sites) - before
        # A site keeps the containers of its servers, as it keeps them in a domain.
        self.assertEqual({name for name in left if not name.startswith("cn=servers,")}, set())

    async def names_below(self, *bases: str) -> set[str]:
        """The names of all entries below these."""
        found: set[str] = set()
        for base in bases:
            entries = await self.operations.find(base, Scope.TREE, ANYTHING, (GUID,))
            found |= {entry.name.lower() for entry in entries}
        return found

    async def test_settings_of_a_server(self) -> None:
        """[MS-MQDSSM] 3.1.6.7.1.9: a queue manager that serves others says so in each of its sites."""
        directory = await self.opened()
        [site] = await self.sites("london")
        manager = await self.alpha(site_identifier_list=(site.identifier,))
        root = await self.operations.root()
        name = f"CN=MSMQ Settings,CN=ALPHA,CN=Servers,CN=london,{root.sites}"
        names = ("mSMQServices", "mSMQRoutingService", "mSMQDependentClientService", "mSMQQMID")
        self.assertIsNone(await self.operations.entry(name, names))

        async def settings() -> tuple[Any, ...]:
            entry = await self.operations.entry(name, names)
            assert entry is not None
            return tuple(entry.first(each) for each in names)

        router = attrs.evolve(manager, routing_server=True)
        await directory.write(router, ("routing_server",))
        identifier = manager.identifier.bytes_le
        self.assertEqual(await settings(), (b"1", b"TRUE", b"FALSE", identifier))
        # The bits of what is not written stay.
        await directory.write(attrs.evolve(manager, remote_access_server=True), ("remote_access_server",))
        self.assertEqual(await settings(), (b"17", b"TRUE", b"FALSE", identifier))
        await directory.write(attrs.evolve(manager, routing_server=False), ("routing_server",))
        self.assertIsNone(await self.operations.entry(name, names))
        await directory.write(router, ("routing_server",))
        await directory.delete(manager)
        self.assertIsNone(await self.operations.entry(name, names))

    async def test_computer_elsewhere(self) -> None:
        """A computer is found wherever in its domain it is."""
        directory = await self.opened()
        await self.alpha()
        root = await self.operations.root()
        await self.move_computer("ALPHA", child("Users", root.domain))
        queue = await self.queue("orders")
        read = await directory.read(QueueObject, [equals("pathname", "ALPHA\\orders")], ("full_path",))
        self.assertIn("cn=msmq,cn=alpha,cn=users", read["full_path"].lower())
        await directory.delete(queue)
        await directory.delete(QueueManagerObject(computer_name="ALPHA"))

    async def move_computer(self, name: str, place: str) -> None:
        """Put the computer of a queue manager without queues somewhere else."""
        raise NotImplementedError

    async def test_link_to_nowhere(self) -> None:
        """A routing link whose site is gone is left out, and does not keep others from being found."""
        directory = await self.opened()
        london, paris, rome = await self.sites("london", "paris", "rome")
        for site in (paris, rome):
            link = RoutingLinkObject(site1_identifier=london.identifier, site2_identifier=site.identifier)
            await self.add(link)
        await directory.delete(rome)
        found = await self.all_of(directory, RoutingLinkObject)
        self.assertEqual([entry["site2_identifier"] for entry in found], [paris.identifier])

    async def test_aliases(self) -> None:
        """[MS-MQDSSM] 3.1.6.9: an alias in a distribution list is the format name that it stands for."""
        directory = await self.opened()
        root = await self.operations.root()
        users = child("Users", root.domain) if root.dialect is Dialect.OPENLDAP else self.place_for_lists()
        alias, nonsense = child("alias", users), child("nonsense", users)
        for name, text in ((alias, b"DIRECT=OS:BETA\\private$\\orders"), (nonsense, b"ORDERS")):
            values = {"msMQ-Recipient-FormatName": [text], **self.identifier_values()}
            await self.operations.add(name, "msMQ-Custom-Recipient", values)
        good = DistributionListFormatName(
            await self.add_group(child("good", users), [alias.encode()], uuid4())
        )
        members = await directory.resolve_distribution_list(good)
        self.assertEqual(list(map(str, members)), ["DIRECT=OS:BETA\\private$\\orders"])
        bad = DistributionListFormatName(
            await self.add_group(child("bad", users), [nonsense.encode()], uuid4())
        )
        asked = directory.resolve_distribution_list(bad)
        self.assertIs(
            await self.result(asked, "an invalid format name"), DirectoryOperationResult.GENERIC_ERROR
        )

    def place_for_lists(self) -> str:
        """The container for objects of the test."""
        raise NotImplementedError

    def identifier_values(self) -> dict[str, list[bytes]]:
        """The attributes of an entry that the server does not assign."""
        return {GUID: [pack_guid(uuid4())]}

    async def test_what_it_does_not_hold(self) -> None:
        """[MS-MQDSSM] 3.1.6.1 and 3.1.6.3: what such a directory cannot hold is refused."""
        directory = await self.opened()
        generic = DirectoryOperationResult.GENERIC_ERROR
        for asked in (
            directory.read(ConnectedNetworkObject),
            directory.create(ConnectedNetworkObject(name="office")),
            directory.write(ConnectedNetworkObject(name="office")),
            directory.delete(ConnectedNetworkObject(name="office")),
            directory.begin_read(QueueManagerObject, (), ("connected_network_identifier_list",)),
            directory.read(SiteObject, (), ("primary_site_controller",)),
            directory.create(EnterpriseObject(name="other")),
            directory.delete(EnterpriseObject()),
            directory.create(UserObject(security_identifier=SID)),
            directory.create(QueueManagerObject(computer_name="X"), ("computer_name",)),
            directory.create(RoutingLinkObject(site1_identifier=NOWHERE, site2_identifier=UUID(int=1))),
        ):
            self.assertIs(await self.result(asked), generic)

    async def test_many_pages(self) -> None:
        """More objects than the server returns at once are all found, by several concurrent readers."""
        self.patch(operations_module, "PAGE_SIZE", 3)
        directory = await self.opened()
        await self.alpha()
        names = [f"q{number}" for number in range(10)]
        await DeferredList(
            [Deferred.fromCoroutine(self.queue(name)) for name in names], fireOnOneErrback=True
        )
        of_queues = [Deferred.fromCoroutine(self.all_of(directory, QueueObject)) for _ in range(3)]
        one = directory.read(QueueObject, [AttributeFilter("label", FilterOperator.NOT_EQUALS, "x")])
        for found in of_queues:
            paths = sorted(entry["pathname"] for entry in await found)
            self.assertEqual(paths, [f"alpha\\{name}" for name in names])
        self.assertIs(await self.result_of(one), DirectoryOperationResult.OBJECT_NOT_FOUND)
        # The first of many is enough, and what the server remembers of the rest keeps no client from more.
        self.assertIn("pathname", (await directory.read(QueueObject)).values)
        self.assertEqual(len(await self.all_of(directory, QueueObject)), 10)

    async def test_all_at_once_after_a_restart(self) -> None:
        """Requests that come together while the server is away and back again are all answered."""
        directory = await self.opened()
        [site] = await self.sites("london")
        await self.disconnect()
        asked = [directory.read(SiteObject, [equals("name", "london")]) for _ in range(20)]
        for each in asked:
            self.assertIs(await self.result(each), DirectoryOperationResult.DIRECTORY_NOT_CONNECTED)
        await self.reconnect()
        asked = [directory.read(SiteObject, [equals("name", "london")]) for _ in range(20)]
        for each in asked:
            self.assertEqual((await each)["identifier"], site.identifier)

    async def test_closed(self) -> None:
        """A closed directory can reach nothing any more, until it is opened again."""
        directory = await self.opened()
        await directory.close()
        asked = directory.read(SiteObject)
        self.assertIs(await self.result(asked, "closed"), DirectoryOperationResult.DIRECTORY_NOT_CONNECTED)
        await directory.open()
        self.assertEqual(await self.all_of(directory, SiteObject, [equals("name", "nowhere")]), [])
