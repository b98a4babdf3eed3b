"""Sites of this queue manager, and their gates. [MS-MQDMPR] 3.1.1.7, 3.1.6."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from msmq.membership.access import DirectoryAccess
from msmq.membership.local import KnownSite
from msmq.membership.objects import QueueManagerObject, RoutingLinkObject, SiteObject
from msmq.membership.queries import equals
from msmq.membership.requests import Procedure, Store


def site_gate_identifiers(site: UUID, links: Iterable[RoutingLinkObject]) -> list[UUID]:
    """The gates of all links at this site, on either side, without duplicates."""
    found: dict[UUID, None] = {}
    for link in links:
        if site in (link.site1_identifier, link.site2_identifier):
            found |= dict.fromkeys(link.site_gate_identifier_list)
    return list(found)


def read_site_gates(
    access: DirectoryAccess, site: SiteObject, known: tuple[QueueManagerObject, ...] = ()
) -> Procedure[tuple[QueueManagerObject, ...]]:
    """SiteGateCollection of a site, from its routing links. [MS-MQDMPR] 3.1.1.7.

    Not stored in a directory.
    A gate of a link is a gate of this site if it belongs to the site.

    @param known: the previously known gates, used for those that cannot be read.
    """
    links: list[RoutingLinkObject] = []
    for side in ("site1_identifier", "site2_identifier"):
        outcome = yield from access.read_all(RoutingLinkObject, [equals(side, site.identifier)])
        if not outcome.succeeded:
            return known
        links += outcome.value
    before = {gate.identifier: gate for gate in known}
    gates: list[QueueManagerObject] = []
    for identifier in site_gate_identifiers(site.identifier, links):
        read = yield from access.read_by_identifier(QueueManagerObject, identifier)
        gate = read or before.get(identifier)
        if gate is not None and site.identifier in gate.site_identifier_list:
            gates.append(gate)
    return tuple(gates)


def read_sites(access: DirectoryAccess) -> Procedure[None]:
    """SiteCollection, from SiteIdentifierList. [MS-MQDMPR] 3.1.3.

    A site that cannot be read is not added, but stays if it was known; sites that are no longer listed are
    removed.
    """
    local = access.local
    wanted = local.object.site_identifier_list
    gone = [identifier for identifier in local.sites if identifier not in wanted]
    for identifier in gone:
        del local.sites[identifier]
    changes = [local.site_change(identifier) for identifier in gone]
    for identifier in wanted:
        if (yield from _read_site(access, identifier)):
            changes.append(local.site_change(identifier))
    if changes:
        yield Store(changes)


def directory_sites_update(access: DirectoryAccess) -> Procedure[None]:
    """Directory Sites Update: read each site of SiteCollection again, with its gates. [MS-MQDMPR] 3.1.6.1.

    One that cannot be read stays as it was.
    """
    changes = []
    for identifier in list(access.local.sites):
        if (yield from _read_site(access, identifier)):
            changes.append(access.local.site_change(identifier))
    if changes:
        yield Store(changes)


def directory_site_gates_update(access: DirectoryAccess) -> Procedure[None]:
    """Directory Site Gates Update: read each gate of each site again. [MS-MQDMPR] 3.1.6.2.

    One that cannot be read stays as it was.
    """
    local = access.local
    changes = []
    for identifier, known in list(local.sites.items()):
        gates = []
        for gate in known.site_gate_collection:
            read = yield from access.read_by_identifier(QueueManagerObject, gate.identifier)
            gates.append(read or gate)
        if tuple(gates) != known.site_gate_collection and identifier in local.sites:
            local.sites[identifier] = KnownSite(local.sites[identifier].site, tuple(gates))
            changes.append(local.site_change(identifier))
    if changes:
        yield Store(changes)


def _read_site(access: DirectoryAccess, identifier: UUID) -> Procedure[bool]:
    """Read a site and its gates; returns whether it was read and changed."""
    site = yield from access.read_by_identifier(SiteObject, identifier)
    if site is None:
        return False
    before = access.local.sites.get(identifier)
    gates = yield from read_site_gates(access, site, () if before is None else before.site_gate_collection)
    read = KnownSite(site, gates)
    if read == before:
        return False
    access.local.sites[identifier] = read
    return True
