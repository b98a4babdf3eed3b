"""Builds directory objects from LDAP entries. [MS-MQDSSM] 3.1.6.11."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

import attrs

from msmq.directory.ldap.entries.attribute_mapping import (
    CLASSES,
    COMPUTER_ATTRIBUTES,
    GUID,
    NAME_EXTENSION,
    OF_COMPUTER,
    SERVICE_TYPE,
    MappedAttribute,
)
from msmq.directory.ldap.entries.faults import Faults
from msmq.directory.ldap.entries.values import unpack_guid, unpack_time
from msmq.directory.ldap.names import DistinguishedNameError, folded, parent, queue_name, value_at
from msmq.directory.ldap.transport.wire import Entry
from msmq.membership.attributes import DirectoryObject, attributes_of_type
from msmq.membership.entry import DirectoryEntry
from msmq.membership.enumerations import DirectoryServerType
from msmq.membership.objects import EnterpriseObject, QueueManagerObject, QueueObject, SiteObject, UserObject
from msmq.structures.status import MQError

ROUTES: Final = 0x01
REMOTE_ACCESS: Final = 0x10
SERVER_BITS: Final = {
    DirectoryServerType.BACKUP_SITE_CONTROLLER: 0x02,
    DirectoryServerType.PRIMARY_SITE_CONTROLLER: 0x04,
    DirectoryServerType.PRIMARY_ENTERPRISE_CONTROLLER: 0x08,
}
"""The bits of mSMQServiceType. [MS-MQDSSM] 3.1.6.1.1.5."""

MOST_LINKS: Final = 400
"""Limit on the values of an attribute that refers to other entries."""

MOST_LISTED: Final = 2000
"""Limit on the values of any other list attribute; a user's certificates are limited to this number and a
megabyte in total.
"""

_CLUSTER: Final = b"MSClusterVirtualServer"
_PATH_PREFIX: Final = "LDAP://"


@attrs.frozen
class RelatedEntries:
    """Context of an entry: related entries and names.

    @ivar computers: the entries of computers, by their names as of L{folded}.
    @ivar identifiers: the identifiers of linked objects, likewise.
    @ivar enterprise: the name of the enterprise, that of the root domain.
    @ivar times: the LDAP names of C{create_time} and C{modify_time}.
    """

    computers: Mapping[str, Entry]
    identifiers: Mapping[str, UUID]
    enterprise: str
    times: Mapping[str, str]


def computer_of(of: type[DirectoryObject], entry: Entry, wanted: Collection[str]) -> str | None:
    """The name of the computer entry that has to be read with an entry; C{None} for none.

    @raise DistinguishedNameError: the entry's name is malformed.
    """
    if OF_COMPUTER.isdisjoint(wanted):
        return None
    if of is QueueManagerObject:
        return parent(entry.name)
    return parent(entry.name, 2) if of is QueueObject else None


def links_of(of: type[DirectoryObject], entry: Entry, wanted: Collection[str]) -> Iterator[tuple[str, str]]:
    """The link attributes of an entry, with the names of the entries that they refer to."""
    for name, attribute in CLASSES[of].links.items():
        values = entry.all(attribute) if name in wanted else ()
        if len(values) <= MOST_LINKS:
            for value in values:
                yield name, value.decode(errors="replace")


def to_object(
    of: type[DirectoryObject], entry: Entry, wanted: Collection[str], related: RelatedEntries, faults: Faults
) -> DirectoryEntry[Any] | None:
    """Build the object of an entry; C{None} if the entry cannot be used. [MS-MQDSSM] 3.1.6.11.

    Unset and unreadable attributes are left out.

    @param wanted: the requested attributes.
    """
    found: dict[str, Any] = {}
    try:
        found["identifier"] = unpack_guid(_single(entry.all(GUID) or (b"",)))
        for name, value in _values(of, entry, wanted, related, faults):
            try:
                attributes_of_type(of)[name].check(of, value)
            except MQError as error:
                column = CLASSES[of].columns.get(name)
                faults.add(entry, str(error), *(() if column is None else (column.attribute,)))
            else:
                found[name] = value
    except ValueError as error:
        faults.add(entry, str(error))
        return None
    missing = CLASSES[of].required.intersection(wanted) - set(found)
    if missing:
        faults.add(entry, f"{', '.join(sorted(missing))} missing")
        return None
    return DirectoryEntry(of, found)


def _values(
    of: type[DirectoryObject], entry: Entry, wanted: Collection[str], related: RelatedEntries, faults: Faults
) -> Iterator[tuple[str, Any]]:
    kept = CLASSES[of]
    for name in wanted:
        column = kept.columns.get(name)
        if column is not None:
            yield from _column(name, column, entry, faults)
        elif name in related.times:
            value = entry.first(related.times[name])
            if value is not None:
                yield name, unpack_time(value)
        elif name in kept.links:
            values = entry.all(kept.links[name])
            try:
                _check_count(values, MOST_LINKS)
            except ValueError as error:
                faults.add(entry, f"{kept.links[name]}: {error}", kept.links[name])
            else:
                yield from _link(of, name, values, related)
    yield from _computed(of, entry, wanted, related, faults)
    computer_name = computer_of(of, entry, wanted)
    computer = None if computer_name is None else related.computers.get(folded(computer_name))
    if computer is not None:
        yield from _of_computer(of, entry, wanted, computer, faults)


def _column(name: str, column: MappedAttribute, entry: Entry, faults: Faults) -> Iterator[tuple[str, Any]]:
    values = entry.all(column.attribute)
    if values:
        try:
            if column.is_single:
                _single(values)
            else:
                _check_count(values, MOST_LISTED)
            value = column.syntax.unpack(values)
        except ValueError as error:
            faults.add(entry, f"{column.attribute}: {error}", column.attribute)
            return
        if name == "certificate_digest_list":
            value = _in_order(value, entry)
        yield name, value


def _in_order(digests: Sequence[bytes], entry: Entry) -> tuple[bytes, ...]:
    """Sort digests in the order of the certificates, since LDAP values are unordered. [MS-MQDSSM]
    3.1.6.7.6.4.
    """
    certificates = CLASSES[UserObject].columns["certificates"]
    try:
        held = certificates.syntax.unpack(entry.all(certificates.attribute) or (b"",))
    except ValueError:
        return tuple(digests)
    places = {each.digest: place for place, each in enumerate(held.certificates)}
    return tuple(sorted(digests, key=lambda digest: places.get(digest, len(places))))


def _link(
    of: type[DirectoryObject], name: str, values: Sequence[bytes], related: RelatedEntries
) -> Iterator[tuple[str, Any]]:
    identifiers = [related.identifiers.get(folded(value.decode(errors="replace"))) for value in values]
    known = tuple(each for each in identifiers if each is not None)
    if attributes_of_type(of)[name].kind.is_list:
        if values:
            yield name, tuple(sorted(known))
    elif known:
        yield name, known[0]


def _computed(
    of: type[DirectoryObject], entry: Entry, wanted: Collection[str], related: RelatedEntries, faults: Faults
) -> Iterator[tuple[str, Any]]:
    if "full_path" in wanted:
        yield "full_path", entry.name
    if "directory_path" in wanted:
        yield "directory_path", _PATH_PREFIX + entry.name
    if of is SiteObject and "name" in wanted:
        yield "name", _needed(value_at(entry.name, 0))
    if of is EnterpriseObject and "name" in wanted:
        yield "name", related.enterprise
    if of is QueueManagerObject:
        if "computer_name" in wanted:
            yield "computer_name", _needed(value_at(entry.name, 1))
        yield from _services(entry, wanted, faults)
    if of is QueueObject and "pathname" in wanted:
        yield "pathname", f"{_needed(value_at(entry.name, 2))}\\{_queue(entry)}".lower()


def _services(entry: Entry, wanted: Collection[str], faults: Faults) -> Iterator[tuple[str, Any]]:
    text = entry.first(SERVICE_TYPE)
    if text is None:
        return
    try:
        bits = int(text)
    except ValueError as error:
        faults.add(entry, f"{SERVICE_TYPE}: {error}", SERVICE_TYPE)
        return
    if "remote_access_server" in wanted:
        yield "remote_access_server", bool(bits & REMOTE_ACCESS)
    if "directory_server_type" in wanted and entry.first("mSMQDsServices") == b"TRUE":
        found = [each for each, bit in SERVER_BITS.items() if bits & bit]
        yield "directory_server_type", (*found, DirectoryServerType.STANDALONE)[0]


def _of_computer(
    of: type[DirectoryObject], entry: Entry, wanted: Collection[str], computer: Entry, faults: Faults
) -> Iterator[tuple[str, Any]]:
    for name, column in CLASSES[of].of_computer.items():
        if name in wanted:
            yield from _column(name, column, computer, faults)
    if "clustered" in wanted:
        yield "clustered", any(_CLUSTER in name for name in computer.all(COMPUTER_ATTRIBUTES[-1]))
    if "qualified_pathname" in wanted:
        host = computer.first("dNSHostName")
        if host is not None:
            yield "qualified_pathname", f"{host.decode(errors='replace')}\\{_queue(entry)}".lower()


def _queue(entry: Entry) -> str:
    extension = (entry.first(NAME_EXTENSION) or b"").decode(errors="replace")
    return queue_name(_needed(value_at(entry.name, 0)), extension)


def _single(values: Sequence[bytes]) -> bytes:
    """The value of a single-valued attribute.

    @raise ValueError: the server returned several values.
    """
    if len(values) > 1:
        raise ValueError(f"{len(values)} values, where one is allowed")
    return values[0]


def _check_count(values: Sequence[bytes], most: int) -> None:
    """@raise ValueError: there are more than are read."""
    if len(values) > most:
        raise ValueError(f"{len(values)} values, of which at most {most} are read")


def _needed(value: str) -> str:
    if not value:
        raise DistinguishedNameError("has no such name as its class demands")
    return value
