"""Plans the changes to directory entries that make a computer join or leave an enterprise.

A plan is a pure function of the directory's entries, and empty if they are already as requested. So commands
are idempotent, and repeating an interrupted one completes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final
from uuid import UUID

import attrs

from msmq.directory.ldap.enrollment.ldif import Change
from msmq.directory.ldap.entries.attribute_mapping import GUID, SERVICE_TYPE
from msmq.directory.ldap.entries.entry_reader import ROUTES
from msmq.directory.ldap.entries.settings_entries import settings_changes
from msmq.directory.ldap.entries.values import BOOLEAN, OPERATING_SYSTEM, UNSIGNED, pack_guid, unpack_guid
from msmq.directory.ldap.names import CONFIGURATION, child, folded
from msmq.directory.ldap.settings import Dialect
from msmq.directory.ldap.transport.root import Root
from msmq.directory.ldap.transport.wire import Add, Delete, Entry, Modify
from msmq.errors import MsmqError
from msmq.membership.enumerations import OperatingSystemType
from msmq.wire.guid import format_guid

ROUTING: Final = "mSMQRoutingServices"
SITES: Final = "mSMQSites"
GATES: Final = "mSMQSiteGates"
QUOTA: Final = "mSMQQuota"
JOURNAL_QUOTA: Final = "mSMQJournalQuota"
DNS_NAME: Final = "dNSHostName"

REFERENCES: Final = (GATES, "mSMQInRoutingServers", "mSMQOutRoutingServers")
"""Attributes of other entries that refer to the mSMQConfiguration of a queue manager."""

CONFIGURATION_ATTRIBUTES: Final = (
    GUID,
    SITES,
    SERVICE_TYPE,
    ROUTING,
    "mSMQDsServices",
    "mSMQDependentClientServices",
    "mSMQForeign",
    "mSMQOSType",
    QUOTA,
    JOURNAL_QUOTA,
)
"""The attributes of an mSMQConfiguration that plans use."""

COMPUTER_NAME_LENGTH: Final = 64

_WAITS: Final = "mSMQQMID is the objectGUID that the domain assigns to {name}; the command sets it"


class EnrollmentError(MsmqError):
    """A requested change is impossible; the text has the reason and the remedy."""


@attrs.frozen
class EnrolledMember:
    """The directory's entries about one computer as a queue manager.

    @ivar computer: its entry, with C{dNSHostName}; C{None} if there is none.
    @ivar configuration: its mSMQConfiguration, with C{CONFIGURATION_ATTRIBUTES}; C{None} if there is none.
    @ivar settings: as of L{settings_changes}, for each of C{sites}.
    @ivar sites: all sites, by their names.
    @ivar queues: the distinguished names of its public queues.
    @ivar references: entries that refer to it in one of C{REFERENCES}, with these attributes.
    @ivar servers: the server entries of the computer in sites that contain only its mSMQSettings.
    @ivar is_alone: whether the computer's entry contains only its mSMQConfiguration.
    """

    root: Root
    name: str
    computer: Entry | None = None
    configuration: Entry | None = None
    settings: tuple[Entry, ...] = ()
    sites: Mapping[str, Entry] = attrs.field(factory=dict)
    queues: tuple[str, ...] = ()
    references: tuple[Entry, ...] = ()
    servers: tuple[str, ...] = ()
    is_alone: bool = False


@attrs.frozen
class MemberRequest:
    """The requested properties of a queue manager; C{None} keeps a property.

    @ivar sites: the names or GUIDs of its sites.
    @ivar identifier: the identifier in its data directory, if it was started before.
    @ivar quota: kilobytes, as C{journal_quota}.
    @ivar usual_dns_name: the default qualified name for a computer without one, if C{dns_name} is C{None}.
    """

    sites: tuple[str, ...] | None = None
    routing: bool | None = None
    dns_name: str | None = None
    identifier: UUID | None = None
    quota: int | None = None
    journal_quota: int | None = None
    usual_dns_name: str = ""


@attrs.frozen
class EnrollmentStep:
    """One change of a plan.

    @ivar waits: the step needs an identifier that results from an earlier step; it is printed as a comment.
    """

    change: Change
    waits: str = ""


def plan_join(
    member: EnrolledMember, wanted: MemberRequest, make_identifier: Callable[[], UUID]
) -> list[EnrollmentStep]:
    """Plan to make a computer a queue manager, or to complete an interrupted join.

    Existing values that the request does not mention are kept.

    @param make_identifier: gives objectGUIDs where the directory does not.
    @raise EnrollmentError: the computer has to join the domain first, or has another identifier.
    """
    root = member.root
    steps: list[EnrollmentStep] = []
    computer = child(member.name, root.computers) if member.computer is None else member.computer.name
    has_none = member.computer is None or not member.computer.all(DNS_NAME)
    dns_name = wanted.dns_name or (wanted.usual_dns_name if has_none else "")
    named = {DNS_NAME: (dns_name.encode(),)} if dns_name else {}
    if member.computer is None:
        if root.dialect is Dialect.ACTIVE_DIRECTORY:
            raise EnrollmentError(
                f"there is no computer {member.name} in {root.domain}: it has to join the domain first,"
                f" for example with: samba-tool computer create {member.name}"
            )
        made = {"objectClass": (b"computer",), GUID: (pack_guid(make_identifier()),), **named}
        steps.append(EnrollmentStep(Add(computer, made)))
    elif dns_name and not has_value(member.computer, DNS_NAME, dns_name):
        steps.append(EnrollmentStep(Modify(computer, named)))
    own = member.configuration
    changed = _wanted_values(member, wanted)
    if own is None:
        values = {name: each for name, each in {**_initial(wanted), **changed}.items() if each}
        if not root.makes_identifiers:
            values = {GUID: (pack_guid(wanted.identifier or make_identifier()),), **values}
        elif wanted.identifier is not None:
            raise EnrollmentError(
                f"{member.name} has the identifier {format_guid(wanted.identifier)} in its data directory,"
                " and a domain assigns another identifier: start it with an empty data directory"
            )
        own = Entry(child(CONFIGURATION, computer), _lowered(values))
        steps.append(EnrollmentStep(Add(own.name, {"objectClass": (b"mSMQConfiguration",), **values})))
    else:
        _check_identifier(member.name, own, wanted.identifier)
        missing = {name: each for name, each in _initial(wanted).items() if not own.all(name)}
        own = _modified(steps, own, {**missing, **changed})
    return [*steps, *_settled(member, own)]


def plan_change(member: EnrolledMember, wanted: MemberRequest) -> list[EnrollmentStep]:
    """Plan a change of roles or sites of a queue manager.

    @raise EnrollmentError: the queue manager has not joined.
    """
    own = _joined(member)
    steps: list[EnrollmentStep] = []
    own = _modified(steps, own, _wanted_values(member, wanted))
    return [*steps, *_settled(member, own)]


def plan_leave(member: EnrolledMember, *, with_queues: bool = False) -> list[EnrollmentStep]:
    """Plan the removal of a queue manager, of references to it, and of a computer entry that serves nothing
    else.

    @param with_queues: whether to remove its public queues too.
    @raise EnrollmentError: it has public queues, and C{with_queues} is false.
    """
    own = member.configuration
    if member.queues and not with_queues:
        count = len(member.queues)
        raise EnrollmentError(
            f"{member.name} has {count} public queue{'s' if count > 1 else ''}, for example"
            f" {member.queues[0]}; delete them there, or leave with --with-queues"
        )
    steps = [EnrollmentStep(Delete(name)) for name in member.queues]
    if own is not None:
        for entry in member.references:
            left = {
                name: tuple(each for each in entry.all(name) if folded(each.decode()) != folded(own.name))
                for name in REFERENCES
            }
            changed = {name: each for name, each in left.items() if len(each) != len(entry.all(name))}
            steps.append(EnrollmentStep(Modify(entry.name, changed)))
        steps += [EnrollmentStep(change) for change in settings_changes(own, (), member.settings)]
        steps += [EnrollmentStep(Delete(name)) for name in member.servers]
        steps.append(EnrollmentStep(Delete(own.name)))
    if member.computer is not None and member.is_alone and member.root.dialect is Dialect.OPENLDAP:
        # The entry of a computer that is a member of a domain is kept.
        steps.append(EnrollmentStep(Delete(member.computer.name)))
    return steps


def check_computer_name(name: str) -> None:
    """Check the name of a computer ([MS-ADA1] 2.110, [MS-MQMQ] 2.1.1).

    @raise EnrollmentError: the name is invalid; the text has the reason.
    """
    if not 1 <= len(name) <= COMPUTER_NAME_LENGTH:
        raise EnrollmentError(
            f"the name of a computer has 1 to {COMPUTER_NAME_LENGTH} characters, not {len(name)}"
        )
    for character in name:
        if not (character.isalnum() or character in "-_."):
            shown = character if character.isprintable() else f"U+{ord(character):04X}"
            raise EnrollmentError(
                f"the computer name {name if name.isprintable() else '...'} must not contain {shown};"
                " letters, digits, - _ and . are allowed"
            )


def site_of(member: EnrolledMember, wanted: str) -> Entry:
    """Find a site by name or GUID.

    @raise EnrollmentError: no such site.
    """
    for name, entry in member.sites.items():
        if name.lower() == wanted.lower() or format_guid(identifier_of(entry)).lower() == wanted.lower():
            return entry
    known = ", ".join(sorted(member.sites)) or "none"
    raise EnrollmentError(
        f"there is no site {wanted} in {member.root.sites}, which has: {known}; an administrator of the"
        " directory creates sites"
    )


def sites_of(own: Entry | None, sites: Mapping[str, Entry], wanted: Sequence[str]) -> list[Entry]:
    """The sites of a queue manager and the requested ones, as far as the directory has them."""
    held = () if own is None else own.all(SITES)
    names = {name.lower() for name in wanted}
    return [
        entry
        for name, entry in sites.items()
        if entry.first(GUID) in held or {name.lower(), format_guid(identifier_of(entry)).lower()} & names
    ]


def _wanted_values(member: EnrolledMember, wanted: MemberRequest) -> dict[str, Sequence[bytes]]:
    """The requested attributes of the mSMQConfiguration."""
    values: dict[str, Sequence[bytes]] = {}
    if wanted.sites is not None:
        entries = [site_of(member, name) for name in wanted.sites]
        values[SITES] = tuple(dict.fromkeys(pack_guid(identifier_of(entry)) for entry in entries))
    if wanted.routing is not None:
        before = 0 if member.configuration is None else _service_type(member.configuration)
        values[ROUTING] = BOOLEAN.pack(wanted.routing)
        values[SERVICE_TYPE] = (str(before & ~ROUTES | (ROUTES if wanted.routing else 0)).encode(),)
    return values


def _initial(wanted: MemberRequest) -> dict[str, Sequence[bytes]]:
    """The initial values of a queue manager without roles. [MS-MQDSSM] 3.1.6.1.1.2.

    The queue manager publishes its keys, and quotas that are not given, at its first start.
    """
    values: dict[str, Sequence[bytes]] = {
        "mSMQOSType": OPERATING_SYSTEM.pack(OperatingSystemType.FOREIGN),
        "mSMQForeign": BOOLEAN.pack(False),
        SERVICE_TYPE: (b"0",),
        ROUTING: BOOLEAN.pack(False),
        "mSMQDsServices": BOOLEAN.pack(False),
        "mSMQDependentClientServices": BOOLEAN.pack(False),
    }
    for attribute, quota in ((QUOTA, wanted.quota), (JOURNAL_QUOTA, wanted.journal_quota)):
        if quota is not None:
            values[attribute] = UNSIGNED.pack(quota)
    return values


def _modified(steps: list[EnrollmentStep], own: Entry, values: Mapping[str, Sequence[bytes]]) -> Entry:
    """An mSMQConfiguration with the new values, and the step that writes the changed ones."""
    changed = {name: each for name, each in values.items() if set(own.all(name)) != set(each)}
    if changed:
        steps.append(EnrollmentStep(Modify(own.name, changed)))
    return Entry(own.name, {**own.values, **_lowered(values)})


def _settled(member: EnrolledMember, own: Entry) -> list[EnrollmentStep]:
    """The steps that create and delete the mSMQSettings of a queue manager for its new sites."""
    sites = {entry.first(GUID): entry.name for entry in member.sites.values()}
    names = [sites[value] for value in own.all(SITES) if value in sites]
    waits = "" if own.first(GUID) is not None else _WAITS.format(name=own.name)
    changes = settings_changes(own, names, member.settings)
    return [EnrollmentStep(change, waits if isinstance(change, Add) else "") for change in changes]


def _joined(member: EnrolledMember) -> Entry:
    if member.configuration is None:
        raise EnrollmentError(
            f"{member.name} is not a queue manager in {member.root.domain}; msmq enterprise join"
            f" {member.name} makes it one"
        )
    return member.configuration


def _check_identifier(name: str, own: Entry, wanted: UUID | None) -> None:
    if wanted is not None and identifier_of(own) != wanted:
        raise EnrollmentError(
            f"{name} has the identifier {format_guid(wanted)} in its data directory, and {own.name} has"
            f" {format_guid(identifier_of(own))}: start it with the data directory that it had, or with an"
            " empty one"
        )


def identifier_of(entry: Entry) -> UUID:
    """The objectGUID of an entry.

    @raise EnrollmentError: the entry has no objectGUID.
    """
    try:
        return unpack_guid(entry.first(GUID) or b"")
    except ValueError as error:
        raise EnrollmentError(f"{entry.name} has no usable {GUID}: {error}") from error


def _service_type(own: Entry) -> int:
    try:
        return int(own.first(SERVICE_TYPE) or b"0")
    except ValueError:
        return 0


def has_value(entry: Entry, attribute: str, value: str) -> bool:
    """Whether an attribute has only this value, case-insensitively."""
    return [each.decode(errors="replace").lower() for each in entry.all(attribute)] == [value.lower()]


def _lowered(values: Mapping[str, Sequence[bytes]]) -> dict[str, tuple[bytes, ...]]:
    return {name.lower(): tuple(each) for name, each in values.items() if each}
