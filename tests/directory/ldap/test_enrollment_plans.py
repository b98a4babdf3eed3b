"""Which entries C{msmq enterprise} changes, and the LDIF that says so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import attrs
from twisted.trial.unittest import SynchronousTestCase

from msmq.directory.ldap.enrollment.ldif import to_ldif
from msmq.directory.ldap.enrollment.links import LinkFacts, plan_link
from msmq.directory.ldap.enrollment.plan import (
    EnrolledMember,
    EnrollmentError,
    EnrollmentStep,
    MemberRequest,
    check_computer_name,
    plan_change,
    plan_join,
    plan_leave,
)
from msmq.directory.ldap.entries.settings_entries import settings_names
from msmq.directory.ldap.settings import Dialect
from msmq.directory.ldap.transport.root import Root
from msmq.directory.ldap.transport.wire import Add, Delete, Entry, Modify

DOMAIN = "DC=example,DC=com"
OPENLDAP = Root(Dialect.OPENLDAP, DOMAIN, f"CN=Configuration,{DOMAIN}", DOMAIN)
ACTIVE_DIRECTORY = attrs.evolve(OPENLDAP, dialect=Dialect.ACTIVE_DIRECTORY)
COMPUTER = Entry(f"CN=ALPHA,CN=Computers,{DOMAIN}", {"dnshostname": (b"alpha.example.com",)})
OWN = UUID(int=0xA1FA).bytes_le
LONDON = Entry(f"CN=London,{OPENLDAP.sites}", {"objectguid": (bytes(15) + b"\1",)})
PARIS = Entry(f"CN=Paris,{OPENLDAP.sites}", {"objectguid": (bytes(15) + b"\2",)})
SITES = {"London": LONDON, "Paris": PARIS}
SERVERS, SERVER, SETTINGS = settings_names("ALPHA", LONDON.name)


def new_identifier() -> UUID:
    """An identifier for an entry that a plan creates."""
    return UUID(int=0xE)


def configuration(**values: bytes) -> Entry:
    """The mSMQConfiguration of ALPHA, by default a plain member of London."""
    held = {
        "objectguid": OWN,
        "msmqsites": bytes(15) + b"\1",
        "msmqservicetype": b"16",
        "msmqroutingservices": b"FALSE",
        "msmqdsservices": b"FALSE",
        "msmqdependentclientservices": b"FALSE",
        "msmqforeign": b"FALSE",
        "msmqostype": b"256",
    }
    return Entry(f"CN=msmq,{COMPUTER.name}", {name: (value,) for name, value in {**held, **values}.items()})


def changes(steps: Sequence[EnrollmentStep]) -> list[Any]:
    """The changes of a plan, without the comments."""
    return [step.change for step in steps]


class JoinTests(SynchronousTestCase):
    """C{msmq enterprise join}."""

    def join(self, member: EnrolledMember, wanted: MemberRequest) -> list[EnrollmentStep]:
        return plan_join(member, wanted, new_identifier)

    def refused(self, member: EnrolledMember, wanted: MemberRequest) -> str:
        return str(self.assertRaises(EnrollmentError, self.join, member, wanted))

    def test_nothing_there(self) -> None:
        """Without a domain the computer is created too; all attributes of a queue manager have values."""
        wanted = MemberRequest(("london",), routing=True, dns_name="alpha.example.com", quota=0xFFFFFFFF)
        computer, own, servers, server, settings = changes(
            self.join(EnrolledMember(OPENLDAP, "ALPHA", sites=SITES), wanted)
        )
        self.assertEqual(computer.name, COMPUTER.name)
        self.assertEqual(computer.values["dNSHostName"], (b"alpha.example.com",))
        self.assertEqual(own.name, f"CN=msmq,{COMPUTER.name}")
        self.assertEqual(
            {name: value[0] for name, value in own.values.items()},
            {
                "objectClass": b"mSMQConfiguration",
                "objectGUID": new_identifier().bytes_le,
                "mSMQOSType": b"256",
                "mSMQForeign": b"FALSE",
                "mSMQServiceType": b"1",
                "mSMQRoutingServices": b"TRUE",
                "mSMQDsServices": b"FALSE",
                "mSMQDependentClientServices": b"FALSE",
                "mSMQQuota": b"-1",
                "mSMQSites": bytes(15) + b"\1",
            },
        )
        self.assertEqual([each.name for each in (servers, server, settings)], [SERVERS, SERVER, SETTINGS])
        self.assertEqual(settings.values["mSMQQMID"], (new_identifier().bytes_le,))

    def test_domain(self) -> None:
        """A domain gives the identifier, so that what needs it comes later and says so."""
        member = EnrolledMember(ACTIVE_DIRECTORY, "ALPHA", COMPUTER, sites=SITES)
        steps = self.join(member, MemberRequest(("London",), routing=True))
        [own, *settled] = steps
        assert isinstance(own.change, Add)
        self.assertNotIn("objectGUID", own.change.values)
        self.assertEqual(own.waits, "")
        self.assertTrue(all("mSMQQMID is the objectGUID" in step.waits for step in settled))
        self.assertIn("# mSMQQMID", to_ldif((step.change, step.waits) for step in steps))

    def test_join_is_idempotent(self) -> None:
        """Where all is as it is wanted nothing is changed, however the name and the site are written."""
        member = EnrolledMember(ACTIVE_DIRECTORY, "alpha", COMPUTER, configuration(), sites=SITES)
        wanted = MemberRequest(("LONDON",), dns_name="ALPHA.example.com", usual_dns_name="other.example.com")
        self.assertEqual(self.join(member, wanted), [])
        by_identifier = MemberRequest((str(UUID(bytes_le=bytes(15) + b"\1")),), identifier=UUID(bytes_le=OWN))
        self.assertEqual(self.join(member, by_identifier), [])

    def test_completed(self) -> None:
        """An object that was created empty gets what is missing; what is there stays."""
        own = Entry(configuration().name, {"objectguid": (OWN,), "msmqostype": (b"1024",)})
        [change] = changes(
            self.join(EnrolledMember(ACTIVE_DIRECTORY, "ALPHA", COMPUTER, own, sites=SITES), MemberRequest())
        )
        assert isinstance(change, Modify)
        self.assertEqual(set(change.values) & {"mSMQOSType", "mSMQSites"}, set())
        self.assertEqual(change.values["mSMQRoutingServices"], (b"FALSE",))

    def test_qualified_name(self) -> None:
        """The name of the configuration is for a computer that has none."""
        nameless = Entry(COMPUTER.name, {})
        member = EnrolledMember(ACTIVE_DIRECTORY, "ALPHA", nameless, configuration(), sites=SITES)
        [change] = changes(self.join(member, MemberRequest(usual_dns_name="a.example.com")))
        self.assertEqual(change, Modify(COMPUTER.name, {"dNSHostName": (b"a.example.com",)}))

    def test_refused(self) -> None:
        """An impossible change is refused with the remedy."""
        domain = EnrolledMember(ACTIVE_DIRECTORY, "ALPHA", sites=SITES)
        self.assertIn("samba-tool computer create ALPHA", self.refused(domain, MemberRequest()))
        with_computer = attrs.evolve(domain, computer=COMPUTER)
        self.assertIn("London, Paris", self.refused(with_computer, MemberRequest(("Rome",))))
        own = MemberRequest(identifier=UUID(int=5))
        self.assertIn("an empty data directory", self.refused(with_computer, own))
        joined = attrs.evolve(with_computer, configuration=configuration())
        self.assertIn("start it with the data directory that it had", self.refused(joined, own))
        damaged = attrs.evolve(joined, configuration=configuration(objectguid=b"short"))
        self.assertIn("no usable objectGUID", self.refused(damaged, own))


class NameTests(SynchronousTestCase):
    """Names of computers, before a directory is asked for them."""

    def test_names(self) -> None:
        """An invalid computer name is refused with the reason."""
        for name in ("ALPHA", "alpha-1", "a_b.c", "Ä", "x" * 64):
            check_computer_name(name)
        for name, said in (
            ("", "1 to 64 characters, not 0"),
            ("x" * 65, "not 65"),
            ("a,b", "must not contain ,"),
            ("a*)(cn=*", "must not contain *"),
            ("a\0b", "must not contain U+0000"),
        ):
            error = self.assertRaises(EnrollmentError, check_computer_name, name)
            self.assertIn(said, str(error))
            self.assertTrue(str(error).isprintable())


class ChangeTests(SynchronousTestCase):
    """C{msmq enterprise role}, C{site} and C{leave}."""

    def setUp(self) -> None:
        self.member = EnrolledMember(OPENLDAP, "ALPHA", COMPUTER, configuration(), sites=SITES)

    def test_role(self) -> None:
        """Only the bit of the role changes in mSMQServiceType."""
        first, *settled = changes(plan_change(self.member, MemberRequest(routing=True)))
        self.assertEqual(first.values, {"mSMQRoutingServices": (b"TRUE",), "mSMQServiceType": (b"17",)})
        self.assertEqual([change.name for change in settled], [SERVERS, SERVER, SETTINGS])
        self.assertEqual(settled[2].values["mSMQServices"], (b"17",))
        self.assertEqual(plan_change(self.member, MemberRequest(routing=False)), [])

    def test_site(self) -> None:
        """The member is in exactly the given sites."""
        [change] = changes(plan_change(self.member, MemberRequest(sites=("Paris",))))
        self.assertEqual(change.values, {"mSMQSites": (bytes(15) + b"\2",)})
        [change] = changes(plan_change(self.member, MemberRequest(sites=())))
        self.assertEqual(change.values, {"mSMQSites": ()})

    def test_not_joined(self) -> None:
        """A computer that has not joined has neither a role nor a site."""
        outsider = attrs.evolve(self.member, configuration=None)
        error = self.assertRaises(EnrollmentError, plan_change, outsider, MemberRequest(routing=True))
        self.assertIn("msmq enterprise join ALPHA", str(error))

    def test_leave(self) -> None:
        """All that names a queue manager goes with it; other gates of a link stay."""
        own = configuration()
        other = b"CN=msmq,CN=BETA,CN=Computers,DC=example,DC=com"
        link = Entry("CN=link", {"msmqsitegates": (own.name.lower().encode(), other)})
        held = Entry(SETTINGS, {"objectclass": (b"mSMQSettings",), "msmqqmid": (OWN,)})
        member = attrs.evolve(
            self.member, settings=(held,), references=(link,), servers=(SERVER,), is_alone=True
        )
        self.assertEqual(
            changes(plan_leave(member)),
            [
                Modify("CN=link", {"mSMQSiteGates": (other,)}),
                Delete(SETTINGS),
                Delete(SERVER),
                Delete(own.name),
                Delete(COMPUTER.name),
            ],
        )
        in_domain = attrs.evolve(member, root=ACTIVE_DIRECTORY)
        self.assertNotIn(Delete(COMPUTER.name), changes(plan_leave(in_domain)))
        self.assertEqual(plan_leave(EnrolledMember(OPENLDAP, "ALPHA")), [])

    def test_leave_with_queues(self) -> None:
        """Public queues go only if that is asked for."""
        queue = f"CN=orders,{configuration().name}"
        member = attrs.evolve(self.member, queues=(queue,))
        error = self.assertRaises(EnrollmentError, plan_leave, member)
        self.assertIn(queue, str(error))
        self.assertEqual(changes(plan_leave(member, with_queues=True))[0], Delete(queue))


class LinkTests(SynchronousTestCase):
    """C{msmq enterprise link}."""

    def link(self, *links: Entry, gates: tuple[Entry, ...] = (), cost: int | None = None) -> list[Any]:
        facts = LinkFacts(OPENLDAP, (LONDON, PARIS), links, gates)
        return changes(plan_link(facts, cost=cost, make_identifier=new_identifier))

    def test_created(self) -> None:
        """[MS-MQDSSM] 3.1.6.1.4.2: a link has the identifiers of both sites as its name, and its gates."""
        [change] = self.link(gates=(configuration(),))
        name = f"{UUID(bytes_le=bytes(15) + bytes([1])).hex}{UUID(bytes_le=bytes(15) + bytes([2])).hex}"
        self.assertEqual(change.name, f"CN={name},{OPENLDAP.services}")
        self.assertEqual(change.values["mSMQCost"], (b"1",))
        self.assertEqual(change.values["mSMQSiteGates"], (configuration().name.encode(),))
        self.assertEqual(change.values["objectGUID"], (new_identifier().bytes_le,))

    def test_changed(self) -> None:
        """A link that is there keeps what was not asked for; a second one of the same sites goes."""
        held = Entry("CN=a", {"msmqcost": (b"3",), "msmqsitegates": (configuration().name.encode(),)})
        self.assertEqual(self.link(held), [])
        self.assertEqual(self.link(held, cost=3, gates=(configuration(),)), [])
        self.assertEqual(self.link(held, cost=5), [Modify("CN=a", {"mSMQCost": (b"5",)})])
        self.assertEqual(self.link(held, Entry("CN=b", {})), [Delete("CN=b")])


class LdifTests(SynchronousTestCase):
    """RFC 2849."""

    def test_records(self) -> None:
        """Additions, modifications and deletions are as C{ldapmodify} reads them."""
        text = to_ldif(
            [
                (Add("CN=a", {"objectClass": (b"site",), "objectGUID": (bytes(16),)}), "as it is"),
                (Modify("CN=b", {"mSMQCost": (b"1",), "mSMQSites": ()}), ""),
                (Delete("CN=é"), ""),
            ]
        )
        self.assertEqual(
            text,
            "# as it is\ndn: CN=a\nchangetype: add\nobjectClass: site\n"
            "objectGUID:: AAAAAAAAAAAAAAAAAAAAAA==\n"
            "\ndn: CN=b\nchangetype: modify\nreplace: mSMQCost\nmSMQCost: 1\n-\nreplace: mSMQSites\n-\n"
            "\ndn:: Q049w6k=\nchangetype: delete\n",
        )

    def test_values(self) -> None:
        """A value that would be read otherwise is in base64, and a long line is folded."""
        for value, line in (
            (b" a", "v:: IGE="),
            (b"a ", "v:: YSA="),
            (b":a", "v:: OmE="),
            (b"<a", "v:: PGE="),
            (b"a\nb", "v:: YQpi"),
            (b"", "v: "),
            (b"a:b <c", "v: a:b <c"),
        ):
            self.assertIn(f"\n{line}\n", to_ldif([(Add("CN=a", {"v": (value,)}), "")]))
        lines = to_ldif([(Add("CN=a", {"v": (b"x" * 300,)}), "")]).splitlines()
        self.assertTrue(all(len(line) <= 76 for line in lines))
        self.assertIn(f"v: {'x' * 300}", "\n".join(lines).replace("\n ", ""))
