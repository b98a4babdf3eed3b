"""Plans the changes to directory entries that make a computer join or leave an enterprise.

Every plan is a function of what the directory has, and is empty where all is as it is wanted. So a command
can be repeated, and the next one completes one that was interrupted.
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
"""Attributes of other entries that name the mSMQConfiguration of a queue manager."""

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
"""The attributes of an mSMQConfiguration that plans look at."""

COMPUTER_NAME_LENGTH: Final = 64

_WAITS: Final = "mSMQQMID is the objectGUID that the domain gives to {name}; the command itself fills it in"


class EnrollmentError(MsmqError):
    """What is wanted cannot be: says why, and what to do."""


@attrs.frozen
class EnrolledMember:
    """What a directory has of one computer as a queue manager.

    @ivar computer: its entry, with C{dNSHostName}; C{None} if there is none.
    @ivar configuration: its mSMQConfiguration, with C{CONFIGURATION_ATTRIBUTES}; C{None} if there is none.
    @ivar settings: as L{settings_changes} wants them, for each of C{sites}.
    @ivar sites: all sites, by their names.
    @ivar queues: the distinguished names of its public queues.
    @ivar references: entries that name it in one of C{REFERENCES}, with these.
    @ivar servers: the entries of the computer in sites below which nothing but its mSMQSettings is.
    @ivar is_alone: below the computer there is nothing but its mSMQConfiguration.
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
    """What a queue manager is to be; C{None} for what stays as it is.

    @ivar sites: the names or GUIDs of its sites.
    @ivar identifier: that of its data directory, if it was started before.
    @ivar quota: kilobytes, as C{journal_quota}.
    @ivar usual_dns_name: the qualified name of a computer that has none, where C{dns_name} says nothing.
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

    @ivar waits: it needs an identifier that only an earlier step brings, and says so as a comment.
    """

    change: Change
    waits: str = ""


def plan_join(
    member: EnrolledMember, wanted: MemberRequest, make_identifier: Callable[[], UUID]
) -> list[EnrollmentStep]:
    """Make a computer a queue manager, or complete what is missing.

    A value that is there and was not asked for stays.

    @param make_identifier: gives objectGUIDs where the directory does not.
    @raise EnrollmentError: the computer has to join the domain first, or the identifier is another one.
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
                " and a domain gives an identifier of its own: start it with an empty data directory"
            )
        own = Entry(child(CONFIGURATION, computer), _lowered(values))
        steps.append(EnrollmentStep(Add(own.name, {"objectClass": (b"mSMQConfiguration",), **values})))
    else:
        _check_identifier(member.name, own, wanted.identifier)
        missing = {name: each for name, each in _initial(wanted).items() if not own.all(name)}
        own = _modified(steps, own, {**missing, **changed})
    return [*steps, *_settled(member, own)]


def plan_change(member: EnrolledMember, wanted: MemberRequest) -> list[EnrollmentStep]:
    """Give a queue manager other roles or sites.

    @raise EnrollmentError: it has not joined.
    """
    own = _joined(member)
    steps: list[EnrollmentStep] = []
    own = _modified(steps, own, _wanted_values(member, wanted))
    return [*steps, *_settled(member, own)]


def plan_leave(member: EnrolledMember, *, with_queues: bool = False) -> list[EnrollmentStep]:
    """Remove a queue manager, what names it, and its computer where that is nothing but this.

    @param with_queues: its public queues as well.
    @raise EnrollmentError: it has public queues, and they are not to go.
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
        # Computers of a domain have a life of their own.
        steps.append(EnrollmentStep(Delete(member.computer.name)))
    return steps


def check_computer_name(name: str) -> None:
    """Refuse what cannot be the name of a computer ([MS-ADA1] 2.110, [MS-MQMQ] 2.1.1).

    @raise EnrollmentError: saying why.
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
    """The site of this name or GUID.

    @raise EnrollmentError: there is none.
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
    """The sites of a queue manager, and those of these names or GUIDs, as far as the directory has them."""
    held = () if own is None else own.all(SITES)
    names = {name.lower() for name in wanted}
    return [
        entry
        for name, entry in sites.items()
        if entry.first(GUID) in held or {name.lower(), format_guid(identifier_of(entry)).lower()} & names
    ]


def _wanted_values(member: EnrolledMember, wanted: MemberRequest) -> dict[str, Sequence[bytes]]:
    """The attributes of the mSMQConfiguration that were asked for."""
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
    """[MS-MQDSSM] 3.1.6.1.1.2 the values of a queue manager without any role.

    Quotas that are not given, and keys, are published by the queue manager at its first start.
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
    """An mSMQConfiguration with these values, and a step for those that it does not have."""
    changed = {name: each for name, each in values.items() if set(own.all(name)) != set(each)}
    if changed:
        steps.append(EnrollmentStep(Modify(own.name, changed)))
    return Entry(own.name, {**own.values, **_lowered(values)})


def _settled(member: EnrolledMember, own: Entry) -> list[EnrollmentStep]:
    """The steps to the mSMQSettings of a queue manager in the sites that it has from now on."""
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

    @raise EnrollmentError: it has none.
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
    """Whether an attribute has this value alone, in whichever case."""
    return [each.decode(errors="replace").lower() for each in entry.all(attribute)] == [value.lower()]


def _lowered(values: Mapping[str, Sequence[bytes]]) -> dict[str, tuple[bytes, ...]]:
    return {name.lower(): tuple(each) for name, each in values.items() if each}
