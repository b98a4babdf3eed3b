"""Access control of plugins and applications: the contract, and that its failures deny."""

from __future__ import annotations

import asyncio
from typing import Any

from twisted.internet.defer import CancelledError, Deferred, fail, succeed
from twisted.logger import capturedLogs, formatEvent
from twisted.trial.unittest import SynchronousTestCase

from msmq.interfaces.security.access import AccountUnknown
from msmq.security.access.guarded_access_control import LINES, GuardedAccessControl
from msmq.testing.access_control import MemoryAccessControl
from msmq.testing.clock import ManualClock
from msmq.testing.contracts.access_control import ACCOUNTS, ALICE, RULES, SEND, AccessControlContract
from msmq.windows.access_masks import QUEUE_KIND
from msmq.windows.sddl import parse_sddl
from msmq.windows.well_known_sids import ANONYMOUS

OPEN = parse_sddl("D:(A;;0x4;;;WD)")


class GuardedTests(AccessControlContract, SynchronousTestCase):
    """L{GuardedAccessControl} around one that answers."""

    def make(self) -> GuardedAccessControl:
        self.memory = MemoryAccessControl(RULES)
        for account in ACCOUNTS:
            self.memory.add(account)
        return GuardedAccessControl(self.memory, ManualClock())

    def go_away(self) -> None:
        self.memory.is_connected = False


class FailingTests(SynchronousTestCase):
    """L{GuardedAccessControl} around one that fails."""

    def failing(self, answer: Any) -> GuardedAccessControl:
        """An access control each of whose methods raises an error, or returns a constant."""

        class Failing:
            def __getattr__(self, name: str) -> Any:
                def call(*_: object) -> Any:
                    if isinstance(answer, Exception):
                        raise answer
                    return answer

                return call

        failing: Any = Failing()
        self.clock = ManualClock()
        return GuardedAccessControl(failing, self.clock)

    def denied(self, answered: Deferred[Any]) -> str:
        return str(self.failureResultOf(answered, AccountUnknown).value)

    def test_errors_deny(self) -> None:
        """An error in access control denies access, also to a queue that is open to all, and is logged."""
        access = self.failing(ZeroDivisionError("a mistake"))
        self.assertEqual(
            self.denied(access.check(OPEN, ANONYMOUS, SEND, QUEUE_KIND)),
            "access control failed: ZeroDivisionError",
        )
        self.denied(access.token(ALICE))
        self.denied(access.resolve("alice"))
        self.denied(access.is_domain_user(ALICE))
        for ruling in (access.ruling("private$\\orders"), access.machine_ruling()):
            assert ruling is not None and ruling.descriptor.dacl is not None
            self.assertEqual(ruling.descriptor.dacl.aces, ())
        self.assertIsNone(access.known_token(ALICE))
        self.assertEqual(access.name_of(ANONYMOUS), "S-1-5-7")
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), LINES)

    def test_errors_are_logged_within_a_limit(self) -> None:
        """However many messages meet an error, the log has a few tracebacks a minute, with the count."""
        access = self.failing(ZeroDivisionError("a mistake"))
        with capturedLogs() as logged:
            for _ in range(100):
                access.known_token(ALICE)
            self.clock.advance(60)
            access.known_token(ALICE)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), LINES + 1)
        self.assertIn(f"; {100 - LINES} more since the last such line", formatEvent(logged[-1]))

    def test_late_errors_deny(self) -> None:
        """So does an error after a while."""
        answer: Deferred[Any] = fail(ZeroDivisionError("a mistake"))
        self.denied(self.failing(answer).check(OPEN, ANONYMOUS, SEND, QUEUE_KIND))
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    def test_given_up(self) -> None:
        """A question whose caller gives up is no error of the access control."""
        answered = self.failing(Deferred()).check(OPEN, ANONYMOUS, SEND, QUEUE_KIND)
        answered.cancel()
        self.failureResultOf(answered, CancelledError)

    def test_cancelled_by_itself(self) -> None:
        """A cancellation that is not the caller's is an error like any other, and denies."""
        for error in (CancelledError(), asyncio.CancelledError()):
            answered = self.failing(fail(error)).check(OPEN, ANONYMOUS, SEND, QUEUE_KIND)
            self.assertEqual(self.denied(answered), "access control failed: CancelledError")
        self.assertEqual(len(self.flushLoggedErrors(CancelledError, asyncio.CancelledError)), 2)

    def test_answer_after_the_caller_has_given_up(self) -> None:
        """It changes nothing."""
        late: Deferred[Any] = Deferred()

        async def stubborn() -> Any:
            try:
                await Deferred()
            except CancelledError:
                return await late

        answered = self.failing(stubborn()).check(OPEN, ANONYMOUS, SEND, QUEUE_KIND)
        answered.cancel()
        self.failureResultOf(answered, CancelledError)
        late.callback(True)

    def test_answers_of_another_type_deny(self) -> None:
        """C{True} is not an access decision, nor is C{None}: access is denied."""
        for answer in (True, None, "granted", succeed(True)):
            access = self.failing(answer)
            self.denied(access.check(OPEN, ANONYMOUS, SEND, QUEUE_KIND))
        self.assertEqual(len(self.flushLoggedErrors(TypeError)), 4)
        ruling = self.failing("open").ruling("private$\\orders")
        assert ruling is not None and ruling.descriptor.dacl is not None
        self.assertEqual(ruling.descriptor.dacl.aces, ())

    def test_unknown_account(self) -> None:
        """The reason of an access control is kept."""
        access = self.failing(AccountUnknown("closed after 18:00"))
        self.assertEqual(self.denied(access.check(OPEN, ANONYMOUS, SEND, QUEUE_KIND)), "closed after 18:00")
