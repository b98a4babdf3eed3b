"""Contract of every L{IDirectory}."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from twisted.trial.unittest import TestCase
from zope.interface.verify import verifyObject

from msmq.errors import LocalProtocolError
from msmq.interfaces import DirectoryError, IDirectory
from msmq.membership.attributes import DirectoryObject, directory_attributes
from msmq.membership.enumerations import DirectoryOperationResult, OperatingSystemType
from msmq.membership.objects import (
    EnterpriseObject,
    QueueManagerObject,
    QueueObject,
    RoutingLinkObject,
    SiteObject,
    UserObject,
)
from msmq.membership.queries import AttributeFilter, FilterOperator, SortOrder, equals
from msmq.persistence.definition import QueuePrivacy
from msmq.structures.directory.user_sign_certs import MqUserSignCert, MqUserSignCerts, digest_of
from msmq.structures.names.format_name import DistributionListFormatName, FormatName, PublicFormatName
from msmq.structures.names.path_name import parse_path_name

T = TypeVar("T", bound=DirectoryObject)

NOWHERE = UUID(int=0xDEAD)
SID = bytes.fromhex("010500000000000515000000010000000200000003000000E8030000")
CERTIFICATE = b"a certificate"

_OF_THE_DIRECTORY = ("identifier", "create_time", "modify_time", "full_path", "directory_path")

if TYPE_CHECKING:
    _Base = TestCase
else:
    _Base = object


class DirectoryContract(_Base):
    """Mixin for a C{TestCase} that creates the directory under test and its contents.

    Values that a directory may decide itself (identifiers, paths, times, and the case of stored names) are
    not compared.
    """

    def make_directory(self) -> IDirectory:
        """Create an empty directory that is not open; all of one test are the same directory."""
        raise NotImplementedError

    async def add(self, added: T) -> T:
        """Add an object to the directory, and return its Identifier.

        The objects that it refers to, and the queue manager of a queue, exist already.
        """
        raise NotImplementedError

    async def add_distribution_list(self, *members: FormatName) -> DistributionListFormatName:
        """Add a distribution list, whose members are lists and public queues of the directory."""
        raise NotImplementedError

    async def disconnect(self) -> None:
        """Make the directory unreachable.

        @raise SkipTest: this directory cannot be made unreachable.
        """
        raise NotImplementedError

    async def reconnect(self) -> None:
        """Let the directory be reached again."""
        raise NotImplementedError

    # What the tests have in common

    async def opened(self) -> IDirectory:
        directory = self.make_directory()
        await directory.open()
        self.addCleanup(directory.close)
        return directory

    async def result_of(self, asked: Awaitable[Any]) -> DirectoryOperationResult:
        """The result of a failed request."""
        try:
            await asked
        except DirectoryError as error:
            self.assertTrue(error.detail)
            return error.result
        raise AssertionError("a DirectoryError was expected")

    async def all_of(
        self,
        directory: IDirectory,
        of: type[DirectoryObject],
        filters: Sequence[AttributeFilter] = (),
        attributes: tuple[str, ...] | None = None,
        order: Sequence[SortOrder] = (),
    ) -> list[Any]:
        """All results of a complete read."""
        handle = await directory.begin_read(of, filters, attributes, order)
        found = []
        try:
            while True:
                found.append(await directory.read_next(handle))
        except DirectoryError as error:
            self.assertIs(error.result, DirectoryOperationResult.END_OF_DATA)
        await directory.end_read(handle)
        return found

    async def sites(self, *names: str) -> list[SiteObject]:
        return [await self.add(SiteObject(name=name)) for name in names]

    async def alpha(self, **attributes: Any) -> QueueManagerObject:
        sites = attributes.pop("site_identifier_list", None)
        if sites is None:
            [site] = await self.sites("london")
            sites = (site.identifier,)
        manager = QueueManagerObject(
            computer_name="ALPHA",
            qualified_computer_name="alpha.example.com",
            site_identifier_list=sites,
            **attributes,
        )
        return await self.add(manager)

    async def queue(self, name: str, **attributes: Any) -> QueueObject:
        return await self.add(QueueObject(pathname=f"ALPHA\\{name}", **attributes))

    def assert_holds(self, read: Any, added: DirectoryObject, *without: str) -> None:
        """Assert that an object has the values that were added, except those that a directory
        decides itself.
        """
        for name in sorted(directory_attributes(type(added)) - {*_OF_THE_DIRECTORY, *without}):
            expected = getattr(added, name)
            value = read[name]
            if isinstance(expected, str):
                expected, value = expected.lower(), value.lower()
            if expected not in ("", b""):
                self.assertEqual(value, expected, name)
        self.assertEqual(read["identifier"], added.identifier)

    # What every directory does

    def test_provides_the_interface(self) -> None:
        """A directory has every method, and provides the interface."""
        directory = self.make_directory()
        verifyObject(IDirectory, directory)
        self.assertIsInstance(directory.name, str)

    async def test_read_by_identifier(self) -> None:
        """MQDMPR-3.1.7.1.20-08: an object is found by its Identifier, with the added values."""
        directory = await self.opened()
        manager = await self.alpha(
            operating_system_type=OperatingSystemType.WIN_SERVER,
            queue_manager_quota=4096,
            journal_quota=17,
            routing_server=True,
        )
        read = await directory.read(QueueManagerObject, [equals("identifier", manager.identifier)])
        self.assert_holds(read, manager, "qualified_computer_name")
        self.assertIs(read.of, QueueManagerObject)

    async def test_public_queue(self) -> None:
        """A public queue has every property; its path is case-insensitive."""
        directory = await self.opened()
        await self.alpha()
        queue = await self.queue(
            "orders",
            label="Rechnungen für Ämter",
            type=UUID(int=0xF00),
            journaling=True,
            quota=4711,
            journal_quota=0,
            authentication=True,
            privacy_level=QueuePrivacy.BODY,
            transactional=True,
            multicast_address="234.1.1.1:8001",
            base_priority=-5,
        )
        read = await directory.read(QueueObject, [equals("identifier", queue.identifier)])
        self.assert_holds(read, queue, "qualified_pathname")
        self.assertEqual(parse_path_name(read["pathname"]), parse_path_name("ALPHA\\orders"))

    async def test_queue_of_defaults(self) -> None:
        """A queue with a path only has the defaults of the documents."""
        directory = await self.opened()
        await self.alpha()
        queue = await self.queue("plain")
        read = await directory.read(QueueObject, [equals("identifier", queue.identifier)])
        self.assertEqual(
            (read["quota"], read["privacy_level"], read["label"]), (0xFFFFFFFF, QueuePrivacy.OPTIONAL, "")
        )

    async def test_enterprise(self) -> None:
        """The enterprise is found without a filter."""
        directory = await self.opened()
        enterprise = EnterpriseObject(
            name="enterprise",
            weakened_security=True,
            non_ldap_capable_queue_manager_notification=False,
            default_time_to_live=60,
        )
        added = await self.add(enterprise)
        read = await directory.read(EnterpriseObject)
        self.assert_holds(read, added, "name", "old_directory")

    async def test_site(self) -> None:
        """A site has the added values."""
        directory = await self.opened()
        site = await self.add(SiteObject(name="paris", foreign_site=True, inter_site_replication_interval=99))
        read = await directory.read(SiteObject, [equals("identifier", site.identifier)])
        self.assert_holds(read, site, "primary_site_controller", "public_signing_key_list")

    async def test_routing_link(self) -> None:
        """A link names its two sites, its cost and its gates."""
        directory = await self.opened()
        london, paris = await self.sites("london", "paris")
        gate = await self.alpha(site_identifier_list=(london.identifier,), routing_server=True)
        link = await self.add(
            RoutingLinkObject(
                description="channel",
                actual_cost=999_999,
                site1_identifier=london.identifier,
                site2_identifier=paris.identifier,
                site_gate_identifier_list=(gate.identifier,),
            )
        )
        for site, side in ((london, "site1_identifier"), (paris, "site2_identifier")):
            read = await directory.read(RoutingLinkObject, [equals(side, site.identifier)])
            self.assert_holds(read, link)
        not_there = directory.read(RoutingLinkObject, [equals("site1_identifier", paris.identifier)])
        self.assertIs(await self.result_of(not_there), DirectoryOperationResult.OBJECT_NOT_FOUND)

    async def test_user(self) -> None:
        """A user is found by the SID, with the certificates."""
        directory = await self.opened()
        certificates = MqUserSignCerts((MqUserSignCert.of(CERTIFICATE, UUID(int=5)),))
        user = await self.add(
            UserObject(
                security_identifier=SID,
                certificate_digest_list=(digest_of(CERTIFICATE),),
                certificates=certificates,
            )
        )
        read = await directory.read(UserObject, [equals("security_identifier", SID)])
        self.assert_holds(read, user)

    async def test_read_by_name(self) -> None:
        """Computers, queues and sites are found by their names, case-insensitively."""
        directory = await self.opened()
        await self.alpha()
        await self.queue("orders")
        for of, name, value in (
            (QueueManagerObject, "computer_name", "alpha"),
            (QueueObject, "pathname", "Alpha\\ORDERS"),
            (SiteObject, "name", "London"),
        ):
            read = await directory.read(of, [equals(name, value)])
            self.assertEqual(read[name].lower(), value.lower())

    async def test_nothing_matches(self) -> None:
        """MQDMPR-3.1.7.1.20-01: the first object that fulfils every filter is found, or none."""
        directory = await self.opened()
        missing = DirectoryOperationResult.OBJECT_NOT_FOUND
        for of in (QueueManagerObject, QueueObject, SiteObject, RoutingLinkObject, UserObject):
            asked = directory.read(of, [equals("identifier", NOWHERE)])
            self.assertIs(await self.result_of(asked), missing, of.TYPE)
        await self.alpha()
        orders = await self.queue("orders", label="one", quota=5)
        await self.queue("bills", label="one", quota=6)
        both = [equals("label", "one"), equals("quota", 5)]
        self.assertEqual((await directory.read(QueueObject, both))["identifier"], orders.identifier)
        neither = [equals("label", "one"), equals("quota", 7)]
        self.assertIs(await self.result_of(directory.read(QueueObject, neither)), missing)
        self.assertEqual((await directory.read(QueueObject, [both[0]]))["label"], "one")
        self.assertIs((await directory.read(QueueObject)).of, QueueObject)

    async def test_operators(self) -> None:
        """Each operator compares as the document specifies."""
        directory = await self.opened()
        await self.alpha()
        for quota in (1, 2, 3):
            await self.queue(f"q{quota}", quota=quota)
        for operator, quotas in (
            (FilterOperator.EQUALS, [2]),
            (FilterOperator.NOT_EQUALS, [1, 3]),
            (FilterOperator.LESS_THAN, [1]),
            (FilterOperator.GREATER_THAN, [3]),
            (FilterOperator.LESS_THAN_OR_EQUAL, [1, 2]),
            (FilterOperator.GREATER_THAN_OR_EQUAL, [2, 3]),
        ):
            found = await self.all_of(directory, QueueObject, [AttributeFilter("quota", operator, 2)])
            self.assertEqual(sorted(entry["quota"] for entry in found), quotas, operator)

    async def test_only_some_attributes(self) -> None:
        """A read of some attributes returns only these."""
        directory = await self.opened()
        await self.alpha()
        queue = await self.queue("orders", label="orders", quota=7)
        read = await directory.read(
            QueueObject, [equals("identifier", queue.identifier)], ("label", "full_path")
        )
        self.assertEqual(read["label"], "orders")
        self.assertTrue(read["full_path"])
        self.assertRaises(LocalProtocolError, read.__getitem__, "quota")

    async def test_unset_attribute(self) -> None:
        """MQDMPR-3.1.1.17-01: an attribute that is not set is reported, or has its documented default."""
        directory = await self.opened()
        name = "non_ldap_capable_queue_manager_notification"
        await self.add_enterprise_without(name)
        try:
            read = await directory.read(EnterpriseObject, (), (name,))
        except DirectoryError as error:
            self.assertIs(error.result, DirectoryOperationResult.ATTRIBUTE_NOT_FOUND)
        else:
            self.assertIs(read[name], True)

    async def add_enterprise_without(self, attribute: str) -> None:
        """Add an enterprise without a value for this attribute."""
        raise NotImplementedError

    async def test_read_all(self) -> None:
        """MQDMPR-3.1.7.1.21-01 MQDMPR-3.1.7.1.22-01: a handle gives one object after the other."""
        directory = await self.opened()
        self.assertEqual(await self.all_of(directory, SiteObject, [equals("name", "nowhere")]), [])
        await self.sites("london", "paris", "rome")
        found = await self.all_of(
            directory, SiteObject, [AttributeFilter("name", FilterOperator.GREATER_THAN, "m")]
        )
        self.assertEqual({entry["name"] for entry in found}, {"paris", "rome"})
        self.assertEqual(len({entry["identifier"] for entry in found}), 2)

    async def test_sorted(self) -> None:
        """MQDMPR-3.1.7.1.21-02: results are sorted by the attributes with a priority."""
        directory = await self.opened()
        await self.alpha()
        for name, label, quota in (("a", "x", 1), ("b", "x", 2), ("c", "y", 1)):
            await self.queue(name, label=label, quota=quota)
        attributes = ("label", "quota")
        for order, expected in (
            ((SortOrder(2), SortOrder(1)), [("x", 1), ("x", 2), ("y", 1)]),
            ((SortOrder(1), SortOrder(2)), [("x", 1), ("y", 1), ("x", 2)]),
            ((SortOrder(2, ascending=False), SortOrder(1)), [("y", 1), ("x", 1), ("x", 2)]),
        ):
            found = await self.all_of(directory, QueueObject, (), attributes, order)
            self.assertEqual([(entry["label"], entry["quota"]) for entry in found], expected)

    async def test_reads_keep_apart(self) -> None:
        """Two concurrent reads are independent."""
        directory = await self.opened()
        await self.sites("london", "paris")
        ours = [AttributeFilter("name", FilterOperator.GREATER_THAN, "k")]
        first = await directory.begin_read(SiteObject, ours)
        await directory.read_next(first)
        second = await directory.begin_read(SiteObject, ours)
        await directory.read_next(second)
        await directory.read_next(second)
        await directory.end_read(second)
        await directory.read_next(first)
        ended = await self.result_of(directory.read_next(first))
        self.assertIs(ended, DirectoryOperationResult.END_OF_DATA)
        await directory.end_read(first)

    async def test_ended_read(self) -> None:
        """MQDMPR-3.1.7.1.23-01: a closed handle is not valid any more."""
        directory = await self.opened()
        await self.sites("london")
        handle = await directory.begin_read(SiteObject)
        await directory.end_read(handle)
        for asked in (directory.read_next(handle), directory.end_read(handle)):
            self.assertIs(await self.result_of(asked), DirectoryOperationResult.GENERIC_ERROR)

    async def test_meaningless_read(self) -> None:
        """An invalid request is an error of the caller."""
        directory = await self.opened()
        for asked in (
            lambda: directory.read(QueueObject, [equals("colour", 1)]),
            lambda: directory.read(QueueObject, (), ("queue_type",)),
            lambda: directory.begin_read(QueueObject, [equals("quota", "much")]),
            lambda: directory.begin_read(QueueObject, (), ("label",), (SortOrder(), SortOrder())),
        ):
            try:
                await asked()
            except LocalProtocolError:
                continue
            self.fail("a LocalProtocolError was expected")

    async def test_distribution_list(self) -> None:
        """A distribution list has its members; nested lists may be returned or resolved."""
        directory = await self.opened()
        await self.alpha()
        names = [PublicFormatName((await self.queue(name)).identifier) for name in ("a", "b")]
        inner = await self.add_distribution_list(names[1])
        outer = await self.add_distribution_list(names[0], inner)
        members = set(await directory.resolve_distribution_list(outer))
        self.assertIn(members, ({names[0], inner}, set(names)))

    async def test_unknown_distribution_list(self) -> None:
        """An unknown distribution list is not found."""
        directory = await self.opened()
        asked = directory.resolve_distribution_list(DistributionListFormatName(NOWHERE))
        self.assertIs(await self.result_of(asked), DirectoryOperationResult.OBJECT_NOT_FOUND)

    async def test_unknown_computer(self) -> None:
        """An unknown computer has no SID."""
        directory = await self.opened()
        asked = directory.object_sid("NOWHERE")
        self.assertIs(await self.result_of(asked), DirectoryOperationResult.OBJECT_NOT_FOUND)

    async def test_away(self) -> None:
        """An unreachable directory reports that, and answers again when it is back."""
        directory = await self.opened()
        [site] = await self.sites("london")
        await self.disconnect()
        for asked in (
            lambda: directory.read(SiteObject, [equals("identifier", site.identifier)]),
            lambda: directory.begin_read(SiteObject),
            lambda: directory.resolve_distribution_list(DistributionListFormatName(NOWHERE)),
            lambda: directory.object_sid("ALPHA"),
            lambda: directory.write(site),
            lambda: directory.delete(site),
            lambda: directory.create(SiteObject(name="paris")),
        ):
            result = await self.result_of(asked())
            self.assertIs(result, DirectoryOperationResult.DIRECTORY_NOT_CONNECTED)
        await self.reconnect()
        read = await directory.read(SiteObject, [equals("identifier", site.identifier)])
        self.assertEqual(read["name"], "london")

    async def test_open_while_away(self) -> None:
        """An unreachable directory can be opened, and is reached later."""
        self.make_directory()
        await self.disconnect()
        directory = await self.opened()
        await self.reconnect()
        self.assertEqual(await self.all_of(directory, SiteObject, [equals("name", "nowhere")]), [])

    async def test_close_twice(self) -> None:
        """Closing again does nothing."""
        directory = await self.opened()
        await directory.close()
        await directory.close()
