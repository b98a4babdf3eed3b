"""An LDAP server in tests: a directory of its own for each, and objects in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar
from uuid import UUID, uuid4

import attrs
from twisted.internet.defer import Deferred

from msmq.directory.ldap.entries.attribute_mapping import CLASSES, GUID
from msmq.directory.ldap.entries.entry_writer import packed
from msmq.directory.ldap.entries.values import pack_guid
from msmq.directory.ldap.names import child
from msmq.directory.ldap.operations import Operations
from msmq.directory.ldap.provider import LdapDirectory
from msmq.directory.ldap.settings import LdapSettings
from msmq.directory.ldap.transport.connection import LdapConnection
from msmq.interfaces import DirectoryError, IDirectory
from msmq.membership.attributes import DirectoryObject, directory_attributes
from msmq.membership.enumerations import (
    DirectoryOperationResult,
)
from msmq.membership.objects import (
    EnterpriseObject,
    UserObject,
)
from msmq.net.clock import SystemClock
from msmq.structures.names.format_name import DistributionListFormatName, FormatName, PublicFormatName
from msmq.testing.contracts.directory_changes import WritableDirectoryContract

T = TypeVar("T", bound=DirectoryObject)


class LdapDirectoryObjects(WritableDirectoryContract):
    """For a server on which every test has a base of its own.

    @ivar settings: of the account that may do everything.
    """

    settings: LdapSettings

    def set_up(self, settings: LdapSettings) -> None:
        """Make what the tests have in common; a class that mixes this in calls it first."""
        from twisted.internet import reactor

        self.settings = settings
        connection = LdapConnection(settings, reactor)
        self.addCleanup(connection.close)
        self.operations = Operations(connection)
        self.directory = self.new_directory(settings)

    def new_directory(self, settings: LdapSettings) -> LdapDirectory:
        """Another directory at the same location."""
        from twisted.internet import reactor

        directory = LdapDirectory(settings, SystemClock(), reactor)
        self.addCleanup(directory.close)
        return directory

    def make_directory(self) -> IDirectory:
        return self.directory

    async def add(self, added: T) -> T:
        given: Any = added
        made: T
        if isinstance(added, EnterpriseObject):
            made = await self._write_enterprise(given, directory_attributes(EnterpriseObject))
            return made
        if isinstance(added, UserObject):
            made = await self.add_user(given)
            return made
        await self.directory.open()
        return attrs.evolve(added, identifier=await self.directory.create(added))

    async def add_user(self, added: Any) -> Any:
        """Add a user to the directory, which the interface does not do."""
        root = await self.operations.root()
        identifier = uuid4()
        values = {
            **packed(added, directory_attributes(UserObject), is_new=True),
            GUID: [pack_guid(identifier)],
        }
        name = child("somebody", child("Users", root.domain))
        await self.operations.add(name, "person", {"sn": [b"somebody"]})
        await self.operations.modify(name, {"objectClass": [b"person", b"user"], **values})
        return attrs.evolve(added, identifier=identifier)

    async def add_distribution_list(self, *members: FormatName) -> DistributionListFormatName:
        root = await self.operations.root()
        names = []
        for member in members:
            match member:
                case PublicFormatName(identifier):
                    entry = await self.operations.by_identifier("mSMQQueue", identifier, (GUID,))
                case DistributionListFormatName(identifier):
                    entry = await self.operations.by_identifier("group", identifier, (GUID,))
                case _:
                    raise AssertionError(f"{member} is not a member of a list")
            assert entry is not None
            names.append(entry.name.encode())
        identifier = uuid4()
        name = child(f"list {identifier}", child("Users", root.domain))
        return DistributionListFormatName(await self.add_group(name, names, identifier))

    async def add_group(self, name: str, members: Sequence[bytes], identifier: UUID) -> UUID:
        """Make a group, and answer its identifier."""
        await self.operations.add(name, "groupOfNames", {"member": members})
        classes = [b"groupOfNames", b"group"]
        await self.operations.modify(name, {"objectClass": classes, GUID: [pack_guid(identifier)]})
        return identifier

    async def add_enterprise_without(self, attribute: str) -> None:
        await self._write_enterprise(EnterpriseObject(), directory_attributes(EnterpriseObject) - {attribute})
        root = await self.operations.root()
        column = CLASSES[EnterpriseObject].columns[attribute]
        await self.operations.modify(root.services, {column.attribute: ()})

    async def _write_enterprise(self, added: Any, names: frozenset[str]) -> Any:
        await self.directory.open()
        await self.directory.write(added, tuple(names))
        return await self.directory.read(EnterpriseObject).addCallback(
            lambda read: attrs.evolve(added, identifier=read["identifier"])
        )

    # What every LDAP server does

    async def result(self, asked: Deferred[Any], reported: str = "") -> DirectoryOperationResult:
        """How what was asked failed, and that it was said why."""
        try:
            await asked
        except DirectoryError as error:
            self.assertIn(reported, error.detail)
            return error.result
        raise AssertionError("a DirectoryError was expected")
