"""Lists and groups that are longer than one answer of a domain controller."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase, TestCase

from msmq.directory.ldap.entries.values import pack_guid
from msmq.directory.ldap.names import folded
from msmq.directory.ldap.provider import LdapDirectory
from msmq.directory.ldap.settings import LdapSettings
from msmq.directory.ldap.transport.ranges import ValueList, ValueRangeError
from msmq.directory.ldap.transport.wire import Entry
from msmq.interfaces import DirectoryError
from msmq.membership.enumerations import DirectoryOperationResult
from msmq.membership.objects import QueueManagerObject
from msmq.membership.queries import equals
from msmq.net.clock import SystemClock
from msmq.structures.names.format_name import DistributionListFormatName, PublicFormatName
from msmq.wire.sid import parse_sid
from tests.servers.emulated_ldap import SUFFIX, EmulatedDirectory

LIST = UUID(int=0xD1)
SID = parse_sid("S-1-5-21-1-2-3-1105")


def queue(number: int) -> str:
    return f"CN=q{number},CN=msmq,CN=ALPHA,CN=Computers,{SUFFIX}"


class RangedTests(TestCase):
    """A domain controller answers ten values at a time."""

    def setUp(self) -> None:
        self.server = EmulatedDirectory(range_limit=10)
        port, address = self.server.listen(reactor)
        self.addCleanup(port.stopListening)
        self.directory = LdapDirectory(LdapSettings((address,)), SystemClock(), reactor)
        self.addCleanup(self.directory.close)

    def list_of(self, count: int) -> list[bytes]:
        for number in range(count):
            guid = pack_guid(UUID(int=number + 1))
            self.server.add(queue(number), objectClass=[b"mSMQQueue"], objectGUID=[guid])
        members = [queue(number).encode() for number in range(count)]
        group = self.server.add(
            f"CN=everybody,{SUFFIX}", objectClass=[b"group"], objectGUID=[pack_guid(LIST)], member=members
        )
        return group.values["member"]

    async def resolved(self) -> int:
        """How many queues the list stands for, each of them once."""
        members = await self.directory.resolve_distribution_list(DistributionListFormatName(LIST))
        assert all(isinstance(member, PublicFormatName) for member in members)
        self.assertEqual(len(set(members)), len(members))
        return len(members)

    async def fault(self, asked: Deferred[Any]) -> str:
        with self.assertRaises(DirectoryError) as refused:
            await asked
        self.assertIs(refused.exception.result, DirectoryOperationResult.GENERIC_ERROR)
        return str(refused.exception.detail)

    async def test_long_list(self) -> None:
        """A message to a list reaches all of its members, however many answers those take."""
        for count in (10, 11, 20, 35):
            self.list_of(count)
            self.assertEqual(await self.resolved(), count)

    async def test_groups_of_an_account(self) -> None:
        """An account is in all of its groups, so that no denial is overlooked."""
        groups = [parse_sid(f"S-1-5-21-1-2-3-{number}") for number in range(2000, 2025)]
        self.server.add(
            f"CN=bob,{SUFFIX}",
            objectClass=[b"user"],
            objectSid=[SID],
            sAMAccountName=[b"bob"],
            tokenGroups=groups,
        )
        self.assertEqual((await self.directory.account(SID)).groups, frozenset(groups))

    async def test_damaged_groups(self) -> None:
        """An account is not known if a SID that the server has computed is damaged: a denial for that group
        would be overlooked.
        """
        group = parse_sid("S-1-5-21-1-2-3-2000")
        account = self.server.add(
            f"CN=bob,{SUFFIX}",
            objectClass=[b"user"],
            objectSid=[SID],
            sAMAccountName=[b"bob"],
            tokenGroups=[group, group[:-1]],
        )
        self.assertIn("is not a SID", await self.fault(self.directory.account(SID)))
        account.values["tokenGroups"] = [group]
        self.assertEqual((await self.directory.account(SID)).groups, {group})

    async def test_account_of_a_trusted_domain(self) -> None:
        """It is not known, also if the server computes its groups in this domain: a denial for one of its own
        domain would be overlooked.
        """
        self.server.add(
            f"CN=S-1-5-21-8-8-8-1,CN=ForeignSecurityPrincipals,{SUFFIX}",
            objectClass=[b"top", b"foreignSecurityPrincipal"],
            objectSid=[SID],
            tokenGroups=[parse_sid("S-1-5-21-1-2-3-2000")],
        )
        self.assertIn("it is an account of another domain", await self.fault(self.directory.account(SID)))

    async def test_groups_that_are_hidden(self) -> None:
        """A server on which the base of the search for groups has disappeared, as for an account that may not
        see it any more, leaves the account unknown, and not without groups.
        """
        self.server.capabilities = ()
        account = self.server.add(f"CN=bob,{SUFFIX}", objectClass=[b"user"], objectSid=[SID])
        group = parse_sid("S-1-5-21-1-2-3-2000")
        self.server.add(
            f"CN=clerks,{SUFFIX}", objectClass=[b"group"], member=[account.name.encode()], objectSid=[group]
        )
        self.assertEqual((await self.directory.account(SID)).groups, {group})
        [base] = [key for key in self.server.records if key == folded(SUFFIX)]

        def hide(request: Any) -> None:
            if b"member" in request.toWire():
                self.server.records.pop(base, None)

        self.server.before_answer = hide
        self.assertIn("there is no", await self.fault(self.directory.account(SID)))

    async def test_another_account(self) -> None:
        """An account with another SID than the requested one is not used, whatever a server finds."""
        other = parse_sid("S-1-5-21-1-2-3-9999")
        account = self.server.add(
            f"CN=eve,{SUFFIX}", objectClass=[b"user"], objectSid=[other, SID], tokenGroups=[other]
        )
        with self.assertRaises(DirectoryError) as refused:
            await self.directory.account(SID)
        self.assertIs(refused.exception.result, DirectoryOperationResult.OBJECT_NOT_FOUND)
        account.values["objectSid"] = [SID]
        self.assertEqual((await self.directory.account(SID)).sid, SID)

    async def test_domains_below(self) -> None:
        """On the port of a global catalog, which has the accounts of the domains below too, a name is that of
        an account of the own domain: rights for it must not go to another one.
        """
        partitions = f"CN=Partitions,CN=Configuration,{SUFFIX}"
        self.server.add(partitions, objectClass=[b"crossRefContainer"])
        for name, context in (("ROOT", SUFFIX), ("CHILD", f"DC=child,{SUFFIX}")):
            self.server.add(
                f"CN={name},{partitions}",
                objectClass=[b"crossRef"],
                nCName=[context.encode()],
                nETBIOSName=[name.encode()],
            )

        def add(context: str, sid: bytes) -> None:
            self.server.add(
                f"CN=bob,CN=Users,{context}",
                objectClass=[b"user"],
                objectSid=[sid],
                sAMAccountName=[b"bob"],
                tokenGroups=[parse_sid("S-1-5-21-1-2-3-513")],
            )

        other = parse_sid("S-1-5-21-7-8-9-1105")
        add(f"DC=child,{SUFFIX}", other)
        for name in ("ROOT\\bob", "bob"):
            with self.assertRaises(DirectoryError) as refused:
                await self.directory.account_named(name)
            self.assertIs(refused.exception.result, DirectoryOperationResult.OBJECT_NOT_FOUND)
        add(SUFFIX, SID)
        for name in ("ROOT\\bob", "bob"):
            self.assertEqual((await self.directory.account_named(name)).sid, SID)
        self.assertEqual((await self.directory.account(other)).sid, other)
        # Also if the list of domains cannot be read.
        for record in [key for key in self.server.records if "partitions" in key]:
            del self.server.records[record]
        self.assertEqual((await self.directory.account_named("bob")).sid, SID)

    async def test_lists_of_a_search(self) -> None:
        """Long lists are whole in what a search finds, and nothing else of the entry is missing."""
        sites = [UUID(int=number + 1) for number in range(25)]
        self.server.add(f"CN=ALPHA,CN=Computers,{SUFFIX}", objectClass=[b"computer"])
        self.server.add(
            f"CN=msmq,CN=ALPHA,CN=Computers,{SUFFIX}",
            objectClass=[b"mSMQConfiguration"],
            objectGUID=[pack_guid(UUID(int=7))],
            mSMQSites=[pack_guid(site) for site in sites],
            mSMQQuota=[b"5"],
        )
        for filters in ([equals("identifier", UUID(int=7))], []):
            read = await self.directory.read(
                QueueManagerObject, filters, ("site_identifier_list", "queue_manager_quota")
            )
            self.assertEqual(sorted(read["site_identifier_list"]), sites)
            self.assertEqual(read["queue_manager_quota"], 5)

    async def test_changed_meanwhile(self) -> None:
        """A list that is changed between two answers is read again, so that no member is missing."""
        members = self.list_of(25)
        record = self.server.records[f"cn=everybody,{SUFFIX.lower()}"]
        left = 1

        def change(request: Any) -> None:
            nonlocal left
            if left and b"member;range=20-*" in getattr(request, "attributes", ()):
                left -= 1
                # The first goes, so that the twenty-first has become the twentieth.
                del members[0]
                record.values["uSNChanged"] = [str(10 + left).encode()]

        self.server.before_answer = change
        self.assertEqual(await self.resolved(), 24)
        left = 100
        fault = await self.fault(self.directory.resolve_distribution_list(DistributionListFormatName(LIST)))
        self.assertIn("member was changed in each of 3 attempts to read it", fault)

    async def test_shortened_meanwhile(self) -> None:
        """A list that ends before the next answer is not an error."""
        members = self.list_of(25)

        def change(request: Any) -> None:
            if b"member;range=10-*" in getattr(request, "attributes", ()):
                del members[10:]

        self.server.before_answer = change
        self.assertEqual(await self.resolved(), 10)

    async def test_connection_lost_meanwhile(self) -> None:
        """A list whose connection is lost is read from its first value again on another connection."""
        members = self.list_of(25)
        left = 1

        def lose(request: Any) -> None:
            nonlocal left
            if left and b"member;range=20-*" in getattr(request, "attributes", ()):
                left -= 1
                members.reverse()
                for connection in list(self.server.connections):
                    transport: Any = connection.transport
                    transport.abortConnection()

        self.server.before_answer = lose
        self.assertEqual(await self.resolved(), 25)
        self.assertEqual(left, 0)
        firsts = [wanted for _, _, wanted in self.server.requests if "member;range=10-*" in wanted]
        self.assertEqual(len(firsts), 2)

    async def test_too_many_members(self) -> None:
        """A list of more queues than a message may have is refused before each of them is looked up."""
        self.server.range_limit = 1500
        self.list_of(3)
        record = self.server.records[f"cn=everybody,{SUFFIX.lower()}"]
        record.values["member"] = [queue(number).encode() for number in range(4097)]
        fault = await self.fault(self.directory.resolve_distribution_list(DistributionListFormatName(LIST)))
        self.assertIn("has 4097 members; a message is sent to at most 4096 queues", fault)
        self.assertLess(len(self.server.requests), 12)

    async def test_missing_member(self) -> None:
        """A member that was deleted is named."""
        self.list_of(3)
        del self.server.records[f"cn=q1,cn=msmq,cn=alpha,cn=computers,{SUFFIX.lower()}"]
        with self.assertRaises(DirectoryError) as refused:
            await self.directory.resolve_distribution_list(DistributionListFormatName(LIST))
        self.assertIn(f"member {queue(1)} does not exist", refused.exception.detail)


class ValueListTests(SynchronousTestCase):
    """Answers of a server that violate the rules of ranges."""

    def answer(self, option: str, count: int) -> Entry:
        return Entry("CN=x", {option: tuple(b"%d" % number for number in range(count))})

    def test_hostile_ranges(self) -> None:
        """A range that was not asked for, or that never ends, is refused with what the server answered."""
        for option, count in (
            ("member;range=5-9", 5),
            ("member;range=0-9", 5),
            ("member;range=0-99999999999", 1),
            ("member;range=9-0", 1),
            ("member;range=x", 1),
        ):
            with self.assertRaises(ValueRangeError) as refused:
                ValueList("CN=x", "member").add(self.answer(option, count))
            self.assertIn(f"CN=x: the server answers {option}", str(refused.exception))
        read = ValueList("CN=x", "member", [b"x"] * 199_999)
        with self.assertRaises(ValueRangeError) as refused:
            read.add(self.answer("member;range=199999-200000", 2))
        self.assertIn("more than 200000 values", str(refused.exception))
