"""Access control by a directory, and its twin in memory."""

from __future__ import annotations

from twisted.internet.defer import Deferred, succeed
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from msmq.directory.memory import MemoryDirectory
from msmq.interfaces.security.access import Account, IAccounts
from msmq.security.access import control
from msmq.security.access.control import LIFETIME, AccessControl
from msmq.testing.access_control import MemoryAccessControl
from msmq.testing.clock import ManualClock
from msmq.testing.contracts.access_control import (
    ACCOUNTS,
    ALICE,
    CLERKS,
    FOREIGN_SID,
    RULES,
    AccessControlContract,
)
from msmq.windows.well_known_sids import AUTHENTICATED_USERS, EVERYONE


@implementer(IAccounts)
class OneAccount:
    """A directory of an application that has alice for every SID."""

    def account(self, sid: bytes) -> Deferred[Account]:
        return succeed(Account(ALICE, "alice", frozenset({CLERKS})))

    def account_named(self, name: str) -> Deferred[Account]:
        return self.account(b"")


@implementer(IAccounts)
class LateAccounts:
    """A directory of an application that answers when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[Deferred[Account]] = []

    def account(self, sid: bytes) -> Deferred[Account]:
        self.waiting.append(Deferred())
        return self.waiting[-1]

    def account_named(self, name: str) -> Deferred[Account]:
        return self.account(b"")


class MemoryTests(AccessControlContract, SynchronousTestCase):
    """L{MemoryAccessControl}."""

    def make(self) -> MemoryAccessControl:
        made = self.memory = MemoryAccessControl(RULES)
        for account in ACCOUNTS:
            made.add(account)
        return made

    def go_away(self) -> None:
        self.memory.is_connected = False


class DirectoryTests(AccessControlContract, SynchronousTestCase):
    """L{AccessControl}."""

    def make(self) -> AccessControl:
        self.clock = ManualClock()
        self.directory = MemoryDirectory(self.clock)
        for account in ACCOUNTS:
            self.directory.add_account(account)
        return AccessControl(self.directory, self.clock, RULES)

    def go_away(self) -> None:
        self.directory.is_connected = False

    def test_groups_are_remembered_for_a_while(self) -> None:
        """Five minutes, be the directory away or not."""
        self.assertIsNone(self.access.known_token(ALICE))
        token = self.answer(self.access.token(ALICE))
        self.go_away()
        self.clock.advance(LIFETIME - 1)
        self.assertEqual(self.access.known_token(ALICE), token)
        self.assertEqual(self.answer(self.access.token(ALICE)), token)
        self.clock.advance(1)
        self.assertIsNone(self.access.known_token(ALICE))
        self.refusal(self.access.token(ALICE))

    def test_groups_that_have_changed(self) -> None:
        """They are known after that, or at once on request."""
        self.answer(self.access.token(ALICE))
        self.directory.add_account(Account(ALICE, "alice"))
        self.assertIn(CLERKS, self.answer(self.access.token(ALICE)).groups)
        assert isinstance(self.access, AccessControl)
        self.access.forget()
        self.assertNotIn(CLERKS, self.answer(self.access.token(ALICE)).groups)

    def test_groups_that_change_while_they_are_read(self) -> None:
        """An answer from before the change decides what waits for it, and nothing later."""
        accounts = LateAccounts()
        access = AccessControl(accounts, self.clock, RULES)
        reading = access.token(ALICE)
        naming = access.resolve("alice")
        access.forget()
        for answer in accounts.waiting:
            answer.callback(Account(ALICE, "alice", frozenset({CLERKS})))
        self.assertIn(CLERKS, self.answer(reading).groups)
        self.assertEqual(self.answer(naming), ALICE)
        self.assertIsNone(access.known_token(ALICE))

    def test_an_account_with_another_sid(self) -> None:
        """Groups of another account than the one that was asked for decide nothing, now or later."""
        access = AccessControl(OneAccount(), self.clock, RULES)
        self.assertIn("another SID", self.refusal(access.token(FOREIGN_SID)))
        self.assertIn("another SID", self.refusal(access.is_domain_user(FOREIGN_SID)))
        self.assertIsNone(access.known_token(ALICE))
        self.assertIn(CLERKS, self.answer(access.token(ALICE)).groups)

    def test_not_everybody_is_remembered(self) -> None:
        """The oldest half goes when there are too many."""
        self.patch(control, "MOST", 2)
        for account in ACCOUNTS:
            self.answer(self.access.token(account.sid))
        known = [account.name for account in ACCOUNTS if self.access.known_token(account.sid)]
        self.assertEqual(known, ["clerks", "staff"])

    def test_without_a_directory(self) -> None:
        """An authenticated account belongs to the authenticated users, and to no other group."""
        access = AccessControl(None, ManualClock())
        known = access.known_token(FOREIGN_SID)
        assert known is not None
        self.assertEqual(known.groups, {EVERYONE, AUTHENTICATED_USERS})
        self.assertEqual(self.successResultOf(access.token(FOREIGN_SID)), known)
        self.assertFalse(self.successResultOf(access.is_domain_user(FOREIGN_SID)))
        self.assertIn("'alice' is neither a SID", self.refusal(access.resolve("alice")))
