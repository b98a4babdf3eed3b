"""LDAP searches for directory objects. [MS-MQDSSM] 3.1.6.3 and 3.1.6.4."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol
from uuid import UUID

import attrs
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater

from msmq.directory.ldap.entries.attribute_mapping import (
    CLASSES,
    COMPUTER_ATTRIBUTES,
    GUID,
    LINKED,
    SID,
    ldap_attributes,
)
from msmq.directory.ldap.entries.entry_reader import RelatedEntries, computer_of, links_of, to_object
from msmq.directory.ldap.entries.faults import FaultLog, Faults
from msmq.directory.ldap.entries.values import pack_guid, unpack_guid
from msmq.directory.ldap.names import (
    CONFIGURATION,
    child,
    folded,
    stored_queue_name,
    value_at,
)
from msmq.directory.ldap.operations import Operations, ambiguous
from msmq.directory.ldap.transport.filters import Equal, Filter, Present, of_class
from msmq.directory.ldap.transport.root import Root
from msmq.directory.ldap.transport.wire import Entry, Scope
from msmq.interfaces.directory import DirectoryError, DirectoryOperationResult
from msmq.membership.attributes import DirectoryObject, attributes_of_type
from msmq.membership.entry import DirectoryEntry
from msmq.membership.objects import QueueManagerObject, QueueObject, SiteObject, UserObject
from msmq.membership.queries import AttributeFilter, FilterOperator, is_match
from msmq.quoting import is_unicode
from msmq.wire.sid import format_sid

MOST_OBJECTS: Final = 100_000
"""Limit on the objects of one read."""

OBJECTS_AT_ONCE: Final = 20
"""Limit on objects created from entries in one iteration of the reactor."""

VALUES_AT_ONCE: Final = 400
"""Limit on the values of these entries in total, if there are several entries."""

NAMES_RELEASED_AT_ONCE: Final = 5000
"""Limit on names of entries freed in one iteration of the reactor."""

_COMPUTER_NAMES: Final = {
    (QueueManagerObject, "computer_name"): "cn",
    (QueueManagerObject, "qualified_computer_name"): "dNSHostName",
    (QueueObject, "pathname"): "cn",
    (QueueObject, "qualified_pathname"): "dNSHostName",
}
"""The attribute of its computer by which an object is searched, where a filter needs it."""


TABLES: Final = 64
"""The number of tables over which the values of one kind are distributed."""


@attrs.frozen
class SearchTarget:
    """Candidate entries of a search, a superset of the matching ones.

    @ivar is_one: there is at most one.
    """

    base: str
    scope: Scope
    filter: Filter
    is_one: bool = False


class ObjectCollector(Protocol):
    """Collects the objects of a read."""

    def __len__(self) -> int:
        """The number of objects."""

    def append(self, entry: DirectoryEntry[Any], /) -> None:
        """Add an object."""


class ObjectSearch:
    """Searches for directory objects.

    The server filters the entries as far as its filters can express; its results are compared again here,
    since its comparisons are not quite those of [MS-MQDMPR] 3.1.7.1.20.
    """

    def __init__(self, operations: Operations, reactor: IReactorTime) -> None:
        self._operations = operations
        self._reactor = reactor
        self._faults = FaultLog()

    async def find(
        self,
        of: type[DirectoryObject],
        filters: Sequence[AttributeFilter],
        wanted: Collection[str],
        *,
        only_first: bool = False,
    ) -> list[DirectoryEntry[Any]]:
        """The objects that match every filter, if these are few.

        See L{collect}.
        """
        found: list[DirectoryEntry[Any]] = []
        await self.collect(of, filters, wanted, found, only_first=only_first)
        return found

    async def collect(
        self,
        of: type[DirectoryObject],
        filters: Sequence[AttributeFilter],
        wanted: Collection[str],
        found: ObjectCollector,
        *,
        only_first: bool = False,
    ) -> None:
        """Append the objects that match every filter to C{found}, a page at a time.

        @param wanted: the attributes that are read; those of the filters are read as well.
        @param only_first: stop after the first.
        @raise DirectoryError: C{GENERIC_ERROR} if there are too many, or several where there can be one: of
            one identifier, one SID, or one name of a computer.
        """
        if any(map(_is_impossible, filters)):
            return
        needed = {*wanted, *(expression.attribute for expression in filters)}
        root = await self._operations.root()
        attributes = ldap_attributes(of, needed, root.times)
        known = _Known(root.root_domain, root.times)
        several: list[Entry] = []

        async def take(entries: Sequence[Entry], is_one: bool = False) -> bool:
            faults = Faults()
            for some in _slices(entries):
                if some[0] is not entries[0]:
                    await deferLater(self._reactor, 0)
                await self._look_up(of, some, needed, known, faults)
                for entry in some:
                    made = to_object(of, entry, needed, known.related, faults)
                    if made is not None:
                        known.note(of, entry, made, faults)
                        if is_match(made, filters):
                            found.append(made)
                            if is_one:
                                several.append(entry)
            self._faults.report(entries, attributes, faults)
            if len(found) > MOST_OBJECTS:
                raise DirectoryError(
                    DirectoryOperationResult.GENERIC_ERROR, f"there are more than {MOST_OBJECTS} {of.TYPE}s"
                )
            return not (only_first and len(found))

        for place in await self._where(of, filters, root):
            if place.is_one:
                entries = await self._operations.find(place.base, place.scope, place.filter, attributes)
                await take(entries, is_one=True)
            else:
                await self._operations.search(place.base, place.filter, attributes, take)
        await known.release(self._reactor)
        if len(several) > 1:
            raise ambiguous(" and ".join(map(_shown, filters)), several)

    async def _computers(self, attribute: str, name: str) -> list[Entry]:
        """The entries of the computers of this name, of which one may be a queue manager."""
        root = await self._operations.root()
        wanted = of_class("computer", Equal(attribute, name.encode()))
        return list(await self._operations.find(root.domain, Scope.TREE, wanted, COMPUTER_ATTRIBUTES))

    async def _where(
        self, of: type[DirectoryObject], filters: Sequence[AttributeFilter], root: Root
    ) -> list[SearchTarget]:
        """The bases and the filter of the search; no base if nothing can match the filters."""
        kept = CLASSES[of]
        terms: list[Filter] = []
        is_one = False
        for expression in filters:
            name, value = expression.attribute, expression.value
            column = kept.columns.get(name)
            is_equality = expression.operator is FilterOperator.EQUALS
            if is_equality and (of, name) in _COMPUTER_NAMES:
                return await self._of_computer(of, name, value)
            if is_equality and name == "full_path":
                return [SearchTarget(value, Scope.ENTRY, of_class(kept.name), is_one=True)]
            if is_equality and name == "identifier":
                terms.append(Equal(GUID, pack_guid(value)))
                is_one = True
            elif is_equality and of is UserObject and name == "security_identifier":
                terms.append(Equal(SID, value))
                is_one = True
            elif is_equality and name == "name" and of is SiteObject:
                terms.append(Equal("cn", value.encode()))
                is_one = True
            elif is_equality and name in kept.links:
                linked = await self._operations.by_identifier(CLASSES[LINKED[name]].name, value, (GUID,))
                if linked is None:
                    return []
                terms.append(Equal(kept.links[name], linked.name.encode()))
            elif column is not None:
                packed: Sequence[bytes] = ()
                if is_equality and column.syntax.is_exact:
                    packed = column.syntax.pack((value,) if _is_list(of, name) else value)
                terms.append(
                    Equal(column.attribute, packed[0]) if len(packed) == 1 else Present(column.attribute)
                )
        return [SearchTarget(root.base_of(of), Scope.TREE, of_class(kept.name, *terms), is_one)]

    async def _of_computer(self, of: type[DirectoryObject], name: str, value: str) -> list[SearchTarget]:
        computer, _, queue = value.partition("\\")
        found = []
        for entry in await self._computers(_COMPUTER_NAMES[of, name], computer):
            place = child(CONFIGURATION, entry.name)
            if of is QueueObject:
                if not queue:
                    return []
                place = child(stored_queue_name(queue)[0], place)
            found.append(SearchTarget(place, Scope.ENTRY, of_class(CLASSES[of].name), is_one=True))
        return found if computer else []

    async def _look_up(
        self,
        of: type[DirectoryObject],
        entries: Sequence[Entry],
        wanted: Collection[str],
        known: _Known,
        faults: Faults,
    ) -> None:
        """Read the related entries that are needed and were not read yet."""
        computers: dict[str, str] = {}
        links: dict[str, str] = {}
        for entry in entries:
            try:
                computer = computer_of(of, entry, wanted)
                if computer is not None:
                    computers[folded(computer)] = computer
                for _, name in links_of(of, entry, wanted):
                    links[folded(name)] = name
            except ValueError as error:
                faults.add(entry, f"has a link that is not a distinguished name: {error}")
        await known.add_computers(self._operations, computers)
        await known.add_links(self._operations, links)


@attrs.define
class _Known:
    """Related entries and unique values that one read has seen.

    @ivar looked_up: the names that were looked up, found or not.
    @ivar named: by kind and unique value, the name of the entry that has it; in L{TABLES} tables each,
        since one table of a hundred thousand takes long to grow.
    """

    enterprise: str
    times: Mapping[str, str]
    computers: dict[str, Entry] = attrs.field(factory=dict)
    identifiers: dict[str, UUID] = attrs.field(factory=dict)
    looked_up: set[str] = attrs.field(factory=set)
    named: defaultdict[tuple[str, int], dict[object, str]] = attrs.field(factory=lambda: defaultdict(dict))

    def note(
        self, of: type[DirectoryObject], entry: Entry, made: DirectoryEntry[Any], faults: Faults
    ) -> None:
        """Record the unique values of an object, and report another object with the same value."""
        unique: list[tuple[str, object]] = [("identifier", made["identifier"].bytes)]
        if of is QueueManagerObject:
            unique.append(("computer name", value_at(entry.name, 1).lower()))
        elif of is UserObject and "security_identifier" in made.values:
            unique.append(("SID", made["security_identifier"]))
        for what, value in unique:
            other = self.named[what, hash(value) % TABLES].setdefault(value, entry.name)
            if other != entry.name:
                faults.add(entry, f"has the same {what} as {other}")

    async def release(self, reactor: IReactorTime) -> None:
        """Free a large number of names a few at a time, since that takes long."""
        count = 0
        for names in self.named.values():
            count += len(names)
            names.clear()
            if count > NAMES_RELEASED_AT_ONCE:
                count = 0
                await deferLater(reactor, 0)

    @property
    def related(self) -> RelatedEntries:
        return RelatedEntries(self.computers, self.identifiers, self.enterprise, self.times)

    async def add_computers(self, operations: Operations, names: Mapping[str, str]) -> None:
        self.computers |= await operations.entries(self._new(names), COMPUTER_ATTRIBUTES)

    async def add_links(self, operations: Operations, names: Mapping[str, str]) -> None:
        for key, linked in (await operations.entries(self._new(names), (GUID,))).items():
            value = linked.first(GUID)
            if value is not None and len(value) == 16:
                self.identifiers[key] = unpack_guid(value)

    def _new(self, names: Mapping[str, str]) -> list[str]:
        new = {key: name for key, name in names.items() if key not in self.looked_up}
        self.looked_up |= new.keys()
        return list(new.values())


def _slices(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    """The entries of a page in slices, one for each iteration of the reactor."""
    some: list[Entry] = []
    count = 0
    for entry in entries:
        values = sum(map(len, entry.values.values()))
        if some and (len(some) == OBJECTS_AT_ONCE or count + values > VALUES_AT_ONCE):
            yield some
            some, count = [], 0
        some.append(entry)
        count += values
    if some:
        yield some


def _shown(expression: AttributeFilter) -> str:
    value = expression.value
    text = format_sid(value) if expression.attribute == "security_identifier" else str(value)
    return f"the {expression.attribute} {text}"


def _is_impossible(expression: AttributeFilter) -> bool:
    """Whether no object can match."""
    value = expression.value
    return expression.operator is FilterOperator.EQUALS and isinstance(value, str) and not is_unicode(value)


def _is_list(of: type[DirectoryObject], name: str) -> bool:
    return attributes_of_type(of)[name].kind.is_list
