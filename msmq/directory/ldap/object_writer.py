"""Creation, deletion and modification of directory objects. [MS-MQDSSM] 3.1.6.1, 3.1.6.2 and 3.1.6.7."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, NoReturn
from uuid import UUID

from msmq.directory.ldap.entries.attribute_mapping import (
    CLASSES,
    GUID,
    LINKED,
    SECURITY,
    SERVICE_TYPE,
    ldap_attributes,
)
from msmq.directory.ldap.entries.entry_reader import RelatedEntries, to_object
from msmq.directory.ldap.entries.entry_writer import (
    SERVICES,
    packed,
    packed_for_computer,
    path_parts,
    service_type,
)
from msmq.directory.ldap.entries.faults import Faults
from msmq.directory.ldap.entries.settings_entries import (
    SETTINGS_ATTRIBUTES,
    SETTINGS_SOURCES,
    settings_changes,
    settings_names,
)
from msmq.directory.ldap.entries.values import pack_guid, unpack_guid
from msmq.directory.ldap.names import (
    CONFIGURATION,
    child,
    folded,
    link_name,
    parent,
    stored_queue_name,
    value_at,
)
from msmq.directory.ldap.object_search import ObjectSearch
from msmq.directory.ldap.operations import Operations
from msmq.directory.ldap.settings import Dialect
from msmq.directory.ldap.transport.filters import Equal, of_class
from msmq.directory.ldap.transport.wire import Add, Delete, Entry, Modify, Scope, Values
from msmq.interfaces.directory import DirectoryError, DirectoryOperationResult
from msmq.membership.attributes import DirectoryObject, attributes_of_type
from msmq.membership.entry import DirectoryEntry
from msmq.membership.objects import (
    EnterpriseObject,
    QueueManagerObject,
    QueueObject,
    RoutingLinkObject,
    SiteObject,
    UserObject,
)
from msmq.membership.queries import equals
from msmq.wire.guid import NULL_GUID

_ALSO_NAMED = {QueueManagerObject: ("site_identifier_list",), RoutingLinkObject: ("actual_cost",)}
"""The required attributes of a new object, in addition to its name."""

_CONFIGURATION_ATTRIBUTES = (GUID, "mSMQSites", *SETTINGS_SOURCES.values())


class ObjectWriter:
    """Creates, modifies and deletes directory objects.

    @param make_identifier: the source of objectGUIDs for new entries if the server does not assign them.
    """

    def __init__(
        self, operations: Operations, searching: ObjectSearch, make_identifier: Callable[[], UUID]
    ) -> None:
        self._operations = operations
        self._searching = searching
        self._make_identifier = make_identifier

    async def create(self, created: DirectoryObject, names: Collection[str]) -> UUID:
        """Create an object, with its parent entry where that is missing. [MS-MQDSSM] 3.1.6.1.

        @param names: its attributes.
        """
        of = type(created)
        if not CLASSES[of].is_created:
            _refuse(f"a {of.TYPE} cannot be created here")
        for part in (*of.NAME, *_ALSO_NAMED.get(of, ())):
            if part not in names:
                _refuse(f"a {of.TYPE} needs its {part}")
        for part in of.NAME:
            if not getattr(created, part) or getattr(created, part) == NULL_GUID:
                _refuse(f"a {of.TYPE} needs its {part}")
        root = await self._operations.root()
        values = {**packed(created, names, is_new=True), **await self._links(created, names)}
        if isinstance(created, QueueManagerObject):
            values[SERVICE_TYPE] = (str(service_type(created, names, 0)).encode(),)
        above = await self._above(created)
        identifier = NULL_GUID
        if not root.makes_identifiers:
            identifier = await self._free_identifier(created)
            values[GUID] = (pack_guid(identifier),)
        name = child(_child_name(created), above)
        if isinstance(created, QueueObject):
            extension = stored_queue_name(path_parts(created)[1])[1]
            values["mSMQQueueNameExt"] = (extension.encode(),) if extension else ()
        await self._operations.add(name, CLASSES[of].name, values)
        if root.makes_identifiers:
            identifier = await self._identifier_of(name)
        if isinstance(created, QueueManagerObject):
            await self._write_computer(created, names, above)
            await self._settle(name)
        return identifier

    async def delete(self, deleted: DirectoryObject) -> None:
        """Delete an object. [MS-MQDSSM] 3.1.6.2."""
        of = type(deleted)
        if not CLASSES[of].is_created:
            _refuse(f"a {of.TYPE} cannot be deleted here")
        entry = await self.entry_of(deleted, _CONFIGURATION_ATTRIBUTES)
        await self._operations.delete(entry.name)
        if of is QueueManagerObject:
            for settings in await self._settings(entry, ()):
                await self._operations.delete_if_there(settings.name)

    async def write(self, written: DirectoryObject, names: Collection[str]) -> None:
        """Set these attributes of an object. [MS-MQDSSM] 3.1.6.7."""
        of = type(written)
        names = set(names) - {"identifier", *of.NAME}
        entry = await self.entry_of(written, _CONFIGURATION_ATTRIBUTES)
        values = {**packed(written, names, is_new=False), **await self._links(written, names)}
        security = values.pop(SECURITY, ())
        if isinstance(written, QueueManagerObject) and not SERVICES.isdisjoint(names):
            before = int(entry.first(SERVICE_TYPE) or b"0")
            values[SERVICE_TYPE] = (str(service_type(written, names, before)).encode(),)
        await self._operations.modify(entry.name, _changed(entry, values))
        if security:
            await self._operations.set_security(entry.name, security[0])
        if isinstance(written, QueueManagerObject):
            await self._write_computer(written, names, parent(entry.name))
            if not names.isdisjoint({*SERVICES, "site_identifier_list"}):
                await self._settle(entry.name)

    async def write_if_unchanged(
        self, written: DirectoryObject, former: DirectoryEntry[Any], names: Collection[str]
    ) -> bool:
        """Set these attributes of an object if they still have the values that were read.

        The values are compared first; a later change is detected by the server, whose modifications are
        atomic. This holds for one server: concurrent changes on two domain controllers are resolved by their
        replication. A domain replaces a security descriptor without comparing it, so that there a change
        between the comparison and the write is not detected.

        @return: whether the values were unchanged.
        """
        of = type(written)
        columns = {name for name, column in CLASSES[of].columns.items() if column.is_changeable}
        is_security = "security" in names
        if not columns.issuperset(names) or (is_security and len(names) > 1):
            _refuse(f"of a {of.TYPE} {', '.join(names)} cannot be set under a condition")
        entry = await self.entry_of(written, ldap_attributes(of, names, {}))
        held = to_object(of, entry, names, RelatedEntries({}, {}, "", {}), Faults())
        if held is None or any(held.values.get(name) != former.values.get(name) for name in names):
            return False
        values = packed(written, names, is_new=False)
        if is_security and (await self._operations.root()).dialect is Dialect.ACTIVE_DIRECTORY:
            if values[SECURITY]:
                await self._operations.set_security(entry.name, values[SECURITY][0])
            return True
        return await self._operations.exchange(entry, values)

    async def entry_of(self, wanted: DirectoryObject, attributes: Sequence[str]) -> Entry:
        """The entry of the object that has this Identifier, or if that is null, this name.

        @raise DirectoryError: C{OBJECT_NOT_FOUND}.
        """
        of = type(wanted)
        if wanted.identifier != NULL_GUID:
            entry = await self._operations.by_identifier(CLASSES[of].name, wanted.identifier, attributes)
        elif of is EnterpriseObject:
            entry = await self._operations.entry((await self._operations.root()).services, attributes)
        else:
            filters = [equals(part, getattr(wanted, part)) for part in of.NAME]
            found = await self._searching.find(of, filters, ("full_path",), only_first=True)
            entry = await self._operations.entry(found[0]["full_path"], attributes) if found else None
        if entry is None:
            raise DirectoryError(DirectoryOperationResult.OBJECT_NOT_FOUND, f"there is no {_title(wanted)}")
        return entry

    async def _above(self, created: DirectoryObject) -> str:
        """The entry below which an object is made."""
        root = await self._operations.root()
        match created:
            case QueueManagerObject():
                return await self._computer(created)
            case QueueObject():
                computer, name = path_parts(created)
                if not name:
                    _refuse(f"{created.pathname} names no queue")
                manager = QueueManagerObject(computer_name=computer)
                return (await self.entry_of(manager, (GUID,))).name
            case SiteObject():
                return root.sites
            case _:
                return root.services

    async def _computer(self, manager: QueueManagerObject) -> str:
        """The computer of a queue manager; created here on OpenLDAP, where computers join no domain."""
        root = await self._operations.root()
        name = manager.computer_name
        found = await self._operations.computer(name, (GUID,))
        if found is not None:
            return found.name
        if root.dialect is Dialect.ACTIVE_DIRECTORY:
            raise DirectoryError(DirectoryOperationResult.OBJECT_NOT_FOUND, f"there is no computer {name}")
        computer = child(name, root.computers)
        values = {GUID: (pack_guid(self._make_identifier()),)}
        try:
            await self._operations.add_if_missing(computer, "computer", values)
        except DirectoryError as error:
            raise DirectoryError(
                error.result,
                f"there is no computer {name}, and this account cannot create one: {error.detail}; an"
                f" administrator does with msmq enterprise join {name}",
            ) from error
        return computer

    async def _write_computer(
        self, manager: QueueManagerObject, names: Collection[str], computer: str
    ) -> None:
        """Write the attributes of the computer, except in Active Directory, which maintains its computers."""
        root = await self._operations.root()
        if root.dialect is Dialect.OPENLDAP:
            await self._operations.modify(computer, packed_for_computer(manager, names))

    async def _free_identifier(self, created: DirectoryObject) -> UUID:
        if created.identifier == NULL_GUID:
            return self._make_identifier()
        kept = CLASSES[type(created)].name
        if await self._operations.by_identifier(kept, created.identifier, (GUID,)) is not None:
            raise DirectoryError(
                DirectoryOperationResult.OBJECT_ALREADY_EXISTS, f"there is a {kept} {created.identifier}"
            )
        return created.identifier

    async def _identifier_of(self, name: str) -> UUID:
        entry = await self._operations.entry(name, (GUID,))
        value = None if entry is None else entry.first(GUID)
        if value is None:
            _refuse(f"{name} has no identifier")
        return unpack_guid(value)

    async def _links(self, held: DirectoryObject, names: Collection[str]) -> dict[str, Sequence[bytes]]:
        """[MS-MQDSSM] 3.1.6.1.1.6 and 3.1.6.1.4.4 the names of linked objects; missing members of a list are
        left out.
        """
        found: dict[str, Sequence[bytes]] = {}
        for name, attribute in CLASSES[type(held)].links.items():
            if name not in names:
                continue
            is_list = attributes_of_type(type(held))[name].kind.is_list
            value: Any = getattr(held, name)
            linked = []
            for identifier in value if is_list else (value,):
                kept = CLASSES[LINKED[name]].name
                entry = await self._operations.by_identifier(kept, identifier, (GUID,))
                if entry is not None:
                    linked.append(entry.name.encode())
                elif not is_list:
                    _refuse(f"there is no {kept} {identifier}")
            found[attribute] = tuple(linked)
        return found

    async def _sites(self, configuration: Entry) -> list[Entry]:
        sites = []
        for value in configuration.all("mSMQSites"):
            site = await self._operations.by_identifier("site", unpack_guid(value), (GUID,))
            if site is not None:
                sites.append(site)
        return sites

    async def _settle(self, name: str) -> None:
        """Create, modify or delete the mSMQSettings of a queue manager. [MS-MQDSSM] 3.1.6.7.1.9.

        There is one in each site of a queue manager that serves others, and none elsewhere, such as in a site
        that it has left. Nothing is written if they are complete already.
        """
        configuration = await self._operations.entry(name, _CONFIGURATION_ATTRIBUTES)
        if configuration is None or configuration.first(GUID) is None:
            return
        sites = [site.name for site in await self._sites(configuration)]
        held = await self._settings(configuration, sites)
        for change in settings_changes(configuration, sites, held):
            await self._make(change)

    async def _make(self, change: Add | Modify | Delete) -> None:
        """Make a change that another queue manager, or an administrator, may have made concurrently."""
        match change:
            case Add(name, values):
                [kept] = values["objectClass"]
                others = {attribute: each for attribute, each in values.items() if attribute != "objectClass"}
                await self._operations.add_if_missing(name, kept.decode(), others)
            case Modify(name, values):
                await self._operations.modify(name, values)
            case Delete(name):
                await self._operations.delete_if_there(name)

    async def _settings(self, configuration: Entry, sites: Sequence[str]) -> list[Entry]:
        """The mSMQSettings of a queue manager in all sites, and other entries with their names."""
        found: dict[str, Entry] = {}
        root = await self._operations.root()
        identifier = configuration.first(GUID)
        if identifier is not None:
            wanted = of_class("mSMQSettings", Equal("mSMQQMID", identifier))
            for entry in await self._operations.find(root.sites, Scope.TREE, wanted, SETTINGS_ATTRIBUTES):
                found[folded(entry.name)] = entry
        computer = value_at(configuration.name, 1)
        places = [place for site in sites for place in settings_names(computer, site)]
        found |= await self._operations.entries(places, SETTINGS_ATTRIBUTES)
        return list(found.values())


def _changed(entry: Entry, values: Values) -> Values:
    """The values that differ from those of an entry whose C{_CONFIGURATION_ATTRIBUTES} were read."""
    return {
        name: each
        for name, each in values.items()
        if name not in _CONFIGURATION_ATTRIBUTES or set(entry.all(name)) != set(each)
    }


def _refuse(detail: str) -> NoReturn:
    raise DirectoryError(DirectoryOperationResult.GENERIC_ERROR, detail)


def _child_name(created: DirectoryObject) -> str:
    match created:
        case QueueManagerObject():
            return CONFIGURATION
        case QueueObject():
            return stored_queue_name(path_parts(created)[1])[0]
        case SiteObject():
            return created.name
        case RoutingLinkObject():
            return link_name(created.site1_identifier, created.site2_identifier)
        case _:
            raise AssertionError(f"a {created.TYPE} cannot be created")


def _title(held: DirectoryObject) -> str:
    if held.identifier != NULL_GUID:
        return f"{held.TYPE} {held.identifier}"
    if isinstance(held, UserObject):
        return f"{held.TYPE} {held.security_identifier.hex()}"
    return f"{held.TYPE} {', '.join(str(getattr(held, name)) for name in held.NAME)}"
