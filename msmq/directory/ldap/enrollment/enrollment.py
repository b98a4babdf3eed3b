"""Enrollment of queue managers in a directory: reads entries, applies the changes of a plan."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final
from uuid import UUID

from msmq.directory.ldap.enrollment.ldif import Change
from msmq.directory.ldap.enrollment.links import LinkFacts, plan_link
from msmq.directory.ldap.enrollment.plan import (
    CONFIGURATION_ATTRIBUTES,
    DNS_NAME,
    REFERENCES,
    EnrolledMember,
    EnrollmentError,
    EnrollmentStep,
    MemberRequest,
    check_computer_name,
    plan_change,
    plan_join,
    plan_leave,
    site_of,
    sites_of,
)
from msmq.directory.ldap.entries.attribute_mapping import GUID
from msmq.directory.ldap.entries.settings_entries import SETTINGS_ATTRIBUTES, is_settings, settings_names
from msmq.directory.ldap.names import CONFIGURATION, child, folded, value_at
from msmq.directory.ldap.operations import Operations
from msmq.directory.ldap.transport.filters import ANYTHING, Equal, of_class
from msmq.directory.ldap.transport.wire import Add, Delete, Entry, Modify, Scope

MOST_ROUNDS: Final = 3
"""Maximum number of plans; the second one uses the identifiers that resulted from the first."""

_SERVER_REFERENCE: Final = "serverReference"


class Enrollment:
    """Creates, changes and removes members of an enterprise and routing links.

    Every method is idempotent: it applies the missing changes, and returns their steps.

    @param make_identifier: the source of objectGUIDs if the directory does not assign them.
    @param dry_run: return the steps of the first plan without applying them.
    """

    def __init__(
        self, operations: Operations, make_identifier: Callable[[], UUID], *, dry_run: bool = False
    ) -> None:
        self._operations = operations
        self._make_identifier = make_identifier
        self._dry_run = dry_run

    async def join(self, name: str, wanted: MemberRequest) -> list[EnrollmentStep]:
        """Make a computer a queue manager.

        @raise EnrollmentError: the computer cannot become one.
        @raise DirectoryError: the directory refuses, or cannot be reached.
        """

        async def plan() -> list[EnrollmentStep]:
            return plan_join(await self._member(name, wanted.sites or ()), wanted, self._make_identifier)

        return await self._reach(plan)

    async def change(self, name: str, wanted: MemberRequest) -> list[EnrollmentStep]:
        """Change the roles or sites of a queue manager; raises as L{join}."""

        async def plan() -> list[EnrollmentStep]:
            return plan_change(await self._member(name, wanted.sites or ()), wanted)

        return await self._reach(plan)

    async def leave(self, name: str, *, with_queues: bool = False) -> list[EnrollmentStep]:
        """Remove a queue manager; raises as L{join}."""

        async def plan() -> list[EnrollmentStep]:
            return plan_leave(await self._member(name, leaves=True), with_queues=with_queues)

        return await self._reach(plan)

    async def link(
        self, sites: tuple[str, str], *, cost: int | None, gates: Sequence[str], remove: bool = False
    ) -> list[EnrollmentStep]:
        """Connect two sites, change their link, or remove it; raises as L{join}."""

        async def plan() -> list[EnrollmentStep]:
            facts = await self._link(sites, gates)
            if remove:
                return [EnrollmentStep(Delete(link.name)) for link in facts.links]
            return plan_link(facts, cost=cost, make_identifier=self._make_identifier)

        return await self._reach(plan)

    async def _reach(self, plan: Callable[[], Awaitable[list[EnrollmentStep]]]) -> list[EnrollmentStep]:
        taken: list[EnrollmentStep] = []
        for _ in range(MOST_ROUNDS):
            steps = await plan()
            if self._dry_run or not steps:
                return steps if self._dry_run else taken
            for step in steps:
                if not step.waits:
                    await self._make(step.change)
                    taken.append(step)
        return taken

    async def _make(self, change: Change) -> None:
        match change:
            case Add(name, values):
                [kept] = values["objectClass"]
                others = {attribute: each for attribute, each in values.items() if attribute != "objectClass"}
                await self._operations.add(name, kept.decode(), others)
            case Modify(name, values):
                await self._operations.modify(name, values)
            case Delete(name):
                await self._operations.delete_if_there(name)

    async def _member(
        self, name: str, wanted_sites: Sequence[str] = (), *, leaves: bool = False
    ) -> EnrolledMember:
        check_computer_name(name)
        operations = self._operations
        root = await operations.root()
        sites = await self._sites()
        wanted = of_class("computer", Equal("cn", name.encode()))
        found = await operations.find(root.domain, Scope.TREE, wanted, (GUID, DNS_NAME))
        if len(found) > 1:
            raise EnrollmentError(
                f"there are {len(found)} computers {name}: {', '.join(entry.name for entry in found)}; one of"
                " them has to be renamed"
            )
        if not found:
            settings = await self._settings(name, None, sites_of(None, sites, wanted_sites))
            return EnrolledMember(root, name, settings=settings, sites=sites)
        [computer] = found
        own = await operations.entry(child(CONFIGURATION, computer.name), CONFIGURATION_ATTRIBUTES)
        settings = await self._settings(value_at(computer.name, 0), own, sites_of(own, sites, wanted_sites))
        if not leaves:
            return EnrolledMember(root, name, computer, own, settings, sites)
        below = await operations.find(computer.name, Scope.CHILDREN, ANYTHING, (GUID,))
        is_alone = all(value_at(entry.name, 0).lower() == CONFIGURATION for entry in below)
        if own is None:
            return EnrolledMember(root, name, computer, own, settings, sites, is_alone=is_alone)
        queues = await operations.find(own.name, Scope.CHILDREN, ANYTHING, (GUID,))
        return EnrolledMember(
            root,
            name,
            computer,
            own,
            settings,
            sites,
            tuple(sorted(entry.name for entry in queues)),
            await self._references(own),
            await self._servers(value_at(computer.name, 0)),
            is_alone,
        )

    async def _sites(self) -> dict[str, Entry]:
        found: dict[str, Entry] = {}

        async def take(entries: Sequence[Entry]) -> bool:
            # A site without an identifier is ignored.
            usable = [entry for entry in entries if len(entry.first(GUID) or b"") == 16]
            found.update({value_at(entry.name, 0): entry for entry in usable})
            return True

        root = await self._operations.root()
        await self._operations.search(root.sites, of_class("site"), (GUID,), take)
        return found

    async def _settings(self, computer: str, own: Entry | None, sites: Sequence[Entry]) -> tuple[Entry, ...]:
        places = [place for site in sites for place in settings_names(computer, site.name)]
        found = dict(await self._operations.entries(places, SETTINGS_ATTRIBUTES))
        identifier = None if own is None else own.first(GUID)
        if identifier is not None:
            root = await self._operations.root()
            wanted = of_class("mSMQSettings", Equal("mSMQQMID", identifier))
            for entry in await self._operations.find(root.sites, Scope.TREE, wanted, SETTINGS_ATTRIBUTES):
                found[folded(entry.name)] = entry
        return tuple(found.values())

    async def _references(self, own: Entry) -> tuple[Entry, ...]:
        root = await self._operations.root()
        found: dict[str, Entry] = {}
        for base, kind, attribute in zip(
            (root.services, root.domain, root.domain),
            ("mSMQSiteLink", "mSMQConfiguration", "mSMQConfiguration"),
            REFERENCES,
            strict=True,
        ):
            wanted = of_class(kind, Equal(attribute, own.name.encode()))
            for entry in await self._operations.find(base, Scope.TREE, wanted, REFERENCES):
                found[folded(entry.name)] = entry
        return tuple(found.values())

    async def _servers(self, computer: str) -> tuple[str, ...]:
        """The server entries of a computer in sites that contain only its mSMQSettings.

        The server entry of a domain controller refers to it and contains more; it is kept.
        """
        root = await self._operations.root()
        wanted = of_class("server", Equal("cn", computer.encode()))
        found = []
        for server in await self._operations.find(root.sites, Scope.TREE, wanted, (_SERVER_REFERENCE,)):
            held = await self._operations.find(server.name, Scope.CHILDREN, ANYTHING, ("objectClass",))
            is_ours = all(is_settings(entry) for entry in held)
            if is_ours and not server.all(_SERVER_REFERENCE):
                found.append(server.name)
        return tuple(found)

    async def _link(self, names: tuple[str, str], gates: Sequence[str]) -> LinkFacts:
        operations = self._operations
        root = await operations.root()
        known = EnrolledMember(root, "", sites=await self._sites())
        first, second = (site_of(known, name) for name in names)
        if folded(first.name) == folded(second.name):
            raise EnrollmentError(f"a routing link needs two sites, not {names[0]} twice")
        links: list[Entry] = []
        for one, other in ((first, second), (second, first)):
            ends = (Equal("mSMQSite1", one.name.encode()), Equal("mSMQSite2", other.name.encode()))
            wanted = of_class("mSMQSiteLink", *ends)
            links += await operations.find(root.services, Scope.TREE, wanted, ("mSMQCost", REFERENCES[0]))
        found = []
        for gate in gates:
            member = await self._member(gate)
            if member.configuration is None:
                raise EnrollmentError(
                    f"the gate {gate} is not a queue manager in {root.domain}: msmq enterprise join {gate}"
                    " makes it one"
                )
            if not {first.first(GUID), second.first(GUID)} & set(member.configuration.all("mSMQSites")):
                raise EnrollmentError(
                    f"the gate {gate} belongs neither to {names[0]} nor to {names[1]}: msmq enterprise site"
                    f" {gate} SITE sets its site"
                )
            found.append(member.configuration)
        return LinkFacts(root, (first, second), tuple(links), tuple(found))
