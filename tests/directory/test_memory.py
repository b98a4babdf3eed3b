"""The directory in memory keeps the contract."""

from __future__ import annotations

from typing import TypeVar
from uuid import UUID

import attrs
from twisted.trial.unittest import TestCase

from msmq.directory.memory import MemoryDirectory
from msmq.directory.reads import MOST_READS
from msmq.interfaces import IDirectory
from msmq.membership.attributes import DirectoryObject, directory_attributes
from msmq.membership.enumerations import DirectoryOperationResult
from msmq.membership.objects import ConnectedNetworkObject, EnterpriseObject, QueueManagerObject, SiteObject
from msmq.membership.queries import equals
from msmq.structures.names.format_name import DistributionListFormatName, FormatName
from msmq.testing.clock import ManualClock
from msmq.testing.contracts.directory import SID
from msmq.testing.contracts.directory_changes import WritableDirectoryContract

T = TypeVar("T", bound=DirectoryObject)


class MemoryDirectoryTests(WritableDirectoryContract, TestCase):
    """The directory that leaves identifiers as they are.

    Tests of the contract prove MQDMPR-3.1.1.1-13, MQDMPR-3.1.1.2-13, MQDMPR-3.1.7.1.18-01,
    MQDMPR-3.1.7.1.20-01 and MQDMPR-3.1.7.1.21-02.
    """

    assigns_identifiers = False

    def setUp(self) -> None:
        self.clock = ManualClock()
        self.directory = MemoryDirectory(self.clock, assigns_identifiers=self.assigns_identifiers)

    def make_directory(self) -> IDirectory:
        return self.directory

    async def add(self, added: T) -> T:
        return attrs.evolve(added, identifier=self.directory.add(added))

    async def add_distribution_list(self, *members: FormatName) -> DistributionListFormatName:
        return self.directory.add_distribution_list(members)

    async def add_enterprise_without(self, attribute: str) -> None:
        names = directory_attributes(EnterpriseObject) - {attribute}
        self.directory.add(EnterpriseObject(name="enterprise"), names)

    async def disconnect(self) -> None:
        self.directory.is_connected = False

    async def reconnect(self) -> None:
        self.directory.is_connected = True

    async def test_connected_network(self) -> None:
        """It holds connected networks as well."""
        network = await self.add(ConnectedNetworkObject(name="office"))
        read = await self.directory.read(ConnectedNetworkObject, [equals("name", "OFFICE")])
        self.assertEqual(read["identifier"], network.identifier)

    async def test_one_enterprise(self) -> None:
        """There is one enterprise."""
        await self.directory.create(EnterpriseObject(name="one"))
        asked = self.directory.create(EnterpriseObject(name="two"))
        self.assertIs(await self.result_of(asked), DirectoryOperationResult.OBJECT_ALREADY_EXISTS)

    async def test_unique_site(self) -> None:
        """MQDMPR-3.1.1.7-02: no two sites have the same name."""
        await self.directory.create(SiteObject(name="London"))
        asked = self.directory.create(SiteObject(name="LONDON"))
        self.assertIs(await self.result_of(asked), DirectoryOperationResult.OBJECT_ALREADY_EXISTS)

    async def test_other_type(self) -> None:
        """An Identifier is only found among the objects of its type."""
        site = await self.add(SiteObject(name="london"))
        asked = self.directory.read(QueueManagerObject, [equals("identifier", site.identifier)])
        self.assertIs(await self.result_of(asked), DirectoryOperationResult.OBJECT_NOT_FOUND)

    async def test_times(self) -> None:
        """MQDMPR-3.1.1.1-08: seconds since 1970, of the creation and of the last change."""
        manager = await self.add(QueueManagerObject(computer_name="ALPHA"))
        self.clock.advance(100)
        await self.directory.write(manager, ("security",))
        read = await self.directory.read(QueueManagerObject)
        self.assertEqual((read["create_time"], read["modify_time"]), (1_700_000_000, 1_700_000_100))

    async def test_sid(self) -> None:
        """A computer has the SID that it was given, or none."""
        await self.add(QueueManagerObject(computer_name="ALPHA"))
        asked = self.directory.object_sid("alpha")
        self.assertIs(await self.result_of(asked), DirectoryOperationResult.ATTRIBUTE_NOT_FOUND)
        self.directory.set_object_sid("ALPHA", SID)
        self.assertEqual(await self.directory.object_sid("alpha"), SID)

    async def test_too_many_reads(self) -> None:
        """A caller that begins reads and never ends them is stopped."""
        handles = [await self.directory.begin_read(SiteObject) for _ in range(MOST_READS)]
        asked = self.directory.begin_read(SiteObject)
        self.assertIs(await self.result_of(asked), DirectoryOperationResult.GENERIC_ERROR)
        await self.directory.end_read(handles[0])
        await self.directory.begin_read(SiteObject)
        self.assertEqual(self.directory.open_reads, MOST_READS)


class AssigningMemoryDirectoryTests(MemoryDirectoryTests):
    """The directory that gives every object a GUID of its own, as Active Directory does."""

    assigns_identifiers = True

    async def test_own_identifier(self) -> None:
        """A new object gets another Identifier than the requested one."""
        identifier = await self.directory.create(SiteObject(identifier=UUID(int=1), name="london"))
        self.assertNotEqual(identifier, UUID(int=1))
