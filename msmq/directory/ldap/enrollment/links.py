"""Plans the changes to directory entries that create, change or delete a routing link."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from uuid import UUID

import attrs

from msmq.directory.ldap.enrollment.ldif import Change
from msmq.directory.ldap.enrollment.plan import GATES, EnrollmentStep, has_value, identifier_of
from msmq.directory.ldap.entries.attribute_mapping import GUID
from msmq.directory.ldap.entries.values import pack_guid
from msmq.directory.ldap.names import child, folded, link_name
from msmq.directory.ldap.transport.root import Root
from msmq.directory.ldap.transport.wire import Add, Delete, Entry, Modify


@attrs.frozen
class LinkFacts:
    """The directory's entries about a routing link.

    @ivar ends: the entries of both sites.
    @ivar links: the links between them, in either direction.
    @ivar gates: the mSMQConfiguration of each requested site gate.
    """

    root: Root
    ends: tuple[Entry, Entry]
    links: tuple[Entry, ...] = ()
    gates: tuple[Entry, ...] = ()


def plan_link(
    facts: LinkFacts, *, cost: int | None, make_identifier: Callable[[], UUID]
) -> list[EnrollmentStep]:
    """Plan a routing link between two sites, or a change of its cost or site gates.

    @param cost: the cost of the link; C{None} keeps the cost, or is 1 for a new link.
    """
    gates = tuple(gate.name.encode() for gate in facts.gates)
    if facts.links:
        [link, *others] = facts.links
        values: dict[str, Sequence[bytes]] = {}
        if cost is not None and not has_value(link, "mSMQCost", str(cost)):
            values["mSMQCost"] = (str(cost).encode(),)
        if gates and _folded(gates) != _folded(link.all(GATES)):
            values[GATES] = gates
        changes: list[Change] = [Modify(link.name, values)] if values else []
        return [EnrollmentStep(change) for change in [*changes, *(Delete(other.name) for other in others)]]
    first, second = facts.ends
    name = child(link_name(identifier_of(first), identifier_of(second)), facts.root.services)
    made: dict[str, Sequence[bytes]] = {
        "objectClass": (b"mSMQSiteLink",),
        "mSMQSite1": (first.name.encode(),),
        "mSMQSite2": (second.name.encode(),),
        "mSMQCost": (str(1 if cost is None else cost).encode(),),
        **({GATES: gates} if gates else {}),
    }
    if not facts.root.makes_identifiers:
        made = {GUID: (pack_guid(make_identifier()),), **made}
    return [EnrollmentStep(Add(name, made))]


def _folded(names: Iterable[bytes]) -> set[str]:
    return {folded(name.decode(errors="replace")) for name in names}
