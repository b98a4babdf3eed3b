"""Contract of every L{IAccessControl}."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, TypeVar

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from msmq.interfaces.security.access import Account, AccountUnknown, IAccessControl
from msmq.security.access.rules import Rules
from msmq.windows.access_check import AccessDecision
from msmq.windows.access_masks import QUEUE_KIND
from msmq.windows.sddl import parse_sddl
from msmq.windows.well_known_sids import ANONYMOUS, AUTHENTICATED_USERS, EVERYONE
from msmq.wire.sid import parse_sid

T = TypeVar("T")

ALICE, CLERKS, STAFF = (parse_sid(f"S-1-5-21-1-2-3-{rid}") for rid in (1001, 2001, 2002))
FOREIGN_SID = parse_sid("S-1-5-21-9-9-9-1")
ACCOUNTS = (
    Account(ALICE, "alice", frozenset({CLERKS, STAFF})),
    Account(CLERKS, "clerks", frozenset({STAFF}), is_user=False),
    Account(STAFF, "staff", is_user=False),
)
"""Accounts of the tests: Alice is a clerk, and clerks are staff."""

RULES = Rules({"bosses": parse_sid("S-1-5-21-1-2-3-2003")})
SEND = 4


if TYPE_CHECKING:
    _Base = SynchronousTestCase
else:
    _Base = object


class AccessControlContract(_Base):
    """Mixin for a test case that creates the access control under test in L{make}.

    @ivar accounts: the accounts that it knows.
    @ivar rules: the rules of the operator, which have a name; L{MemoryAccessControl
        <msmq.testing.MemoryAccessControl>} takes both, for an access control that asks another one.
    """

    accounts: ClassVar[Sequence[Account]] = ACCOUNTS
    rules: ClassVar[Rules] = RULES

    def make(self) -> IAccessControl:
        """Create an access control with the L{rules} that knows the L{accounts}."""
        raise NotImplementedError

    def go_away(self) -> None:
        """Make the source of accounts unreachable."""
        raise NotImplementedError

    def setUp(self) -> None:
        self.access = self.make()

    def answer(self, answered: Deferred[T]) -> T:
        """The result of a Deferred that has already fired."""
        return self.successResultOf(answered)

    def refusal(self, answered: object) -> str:
        """The reason why an account is unknown."""
        assert isinstance(answered, Deferred)
        return str(self.failureResultOf(answered, AccountUnknown).value)

    def check(self, sddl: str, sid: bytes) -> AccessDecision:
        """Whether an account may send."""
        decision = self.access.check(parse_sddl(sddl), sid, SEND, QUEUE_KIND)
        return self.answer(decision) if isinstance(decision, Deferred) else decision

    def test_it_is_one(self) -> None:
        """It has the methods of the interface with their arguments."""
        verifyObject(IAccessControl, self.access)

    def test_well_known_accounts_need_no_directory(self) -> None:
        """Anonymous and Everyone are known at once, also while it is unreachable."""
        self.go_away()
        for sid, groups in ((ANONYMOUS, {EVERYONE}), (EVERYONE, set())):
            known = self.access.known_token(sid)
            assert known is not None
            self.assertEqual((known.user, set(known.groups)), (sid, groups))
            self.assertEqual(self.answer(self.access.token(sid)), known)
        self.assertTrue(self.check("D:(A;;0x4;;;WD)", ANONYMOUS).granted)
        self.assertFalse(self.check("D:(A;;0x4;;;AU)", ANONYMOUS).granted)

    def test_groups_of_groups(self) -> None:
        """An account is in the groups of its groups, in Everyone, and among the authenticated users."""
        token = self.answer(self.access.token(ALICE))
        self.assertEqual(token.sids, {ALICE, CLERKS, STAFF, EVERYONE, AUTHENTICATED_USERS})
        for sddl, granted in (
            ("D:(A;;0x4;;;S-1-5-21-1-2-3-2002)", True),
            ("D:(D;;0x4;;;S-1-5-21-1-2-3-2002)(A;;0x4;;;S-1-5-21-1-2-3-1001)", False),
            ("D:(A;;0x4;;;AU)", True),
            ("D:(A;;0x4;;;AN)", False),
        ):
            self.assertEqual(self.check(sddl, ALICE).granted, granted)

    def test_unknown_accounts(self) -> None:
        """An unknown account has no token, and no access decision."""
        everything = parse_sddl("D:(A;;GA;;;WD)")
        for asked in (
            self.access.token(FOREIGN_SID),
            self.access.check(everything, FOREIGN_SID, SEND, QUEUE_KIND),
        ):
            self.assertIn("the groups of S-1-5-21-9-9-9-1 are not known", self.refusal(asked))

    def test_while_it_is_away(self) -> None:
        """No account can be looked up; cached ones are known."""
        self.go_away()
        self.refusal(self.access.token(ALICE))
        self.refusal(self.access.is_domain_user(ALICE))
        self.refusal(self.access.resolve("alice"))
        self.assertEqual(self.answer(self.access.resolve("bosses")), RULES.names["bosses"])

    def test_users(self) -> None:
        """Neither groups nor unknown accounts are users."""
        for sid, is_user in ((ALICE, True), (CLERKS, False), (FOREIGN_SID, False), (EVERYONE, False)):
            self.assertEqual(self.answer(self.access.is_domain_user(sid)), is_user)

    def test_names(self) -> None:
        """SIDs, well-known names, names of the rules, and account names are resolved."""
        for principal, sid in (
            ("S-1-5-21-9-9-9-1", FOREIGN_SID),
            ("Everyone", EVERYONE),
            ("Bosses", RULES.names["bosses"]),
            ("alice", ALICE),
            ("EXAMPLE\\Alice", ALICE),
            ("clerks", CLERKS),
        ):
            self.assertEqual(self.answer(self.access.resolve(principal)), sid)
        self.assertIn("'bob'", self.refusal(self.access.resolve("bob")))

    def test_a_sid_in_words(self) -> None:
        """A SID is shown with its name, if that is known without a query."""
        self.answer(self.access.token(ALICE))
        self.assertEqual(self.access.name_of(ALICE), "alice (S-1-5-21-1-2-3-1001)")
        self.assertEqual(self.access.name_of(EVERYONE), "everyone (S-1-1-0)")
        self.assertEqual(self.access.name_of(RULES.names["bosses"]), "bosses (S-1-5-21-1-2-3-2003)")
        self.assertEqual(self.access.name_of(FOREIGN_SID), "S-1-5-21-9-9-9-1")
