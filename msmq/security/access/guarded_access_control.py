"""Wrapper of the access control of a plugin or an application: an error in it denies access."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import ClassVar, Final, TypeVar

from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from msmq.interfaces.clock import IClock
from msmq.interfaces.security.access import AccountUnknown, IAccessControl, Ruling
from msmq.line_limit import LineLimit
from msmq.windows.access_check import AccessDecision, Token
from msmq.windows.access_masks import ObjectKind
from msmq.windows.security_descriptor import SecurityDescriptor
from msmq.windows.security_descriptor_aces import Acl
from msmq.wire.sid import format_sid

LINES: Final = 2
"""Errors that are logged in a minute: each message of a peer may cause one."""

D = TypeVar("D")
T = TypeVar("T")


@implementer(IAccessControl)
class GuardedAccessControl:
    """Passes each question to another access control; an error, or a result of another type, denies.

    An L{AccountUnknown} is passed on, which denies too; any other error is logged with its traceback, within
    a limit.
    The result of L{check} is always a Deferred, so that no decision is cached and a policy may depend on the
    time.

    @param guarded: the access control.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(self, guarded: IAccessControl, clock: IClock) -> None:
        self._guarded = guarded
        self._clock = clock
        self._lines = LineLimit.a_minute(LINES)

    def known_token(self, sid: bytes) -> Token | None:
        """See L{IAccessControl.known_token}; after an error, C{None}."""
        return self._read(self._guarded.known_token, None, sid)

    def token(self, sid: bytes) -> Deferred[Token]:
        """See L{IAccessControl.token}."""
        return self._asked(Token, self._guarded.token, sid)

    def check(
        self, descriptor: SecurityDescriptor, sid: bytes, asked: int, kind: ObjectKind
    ) -> Deferred[AccessDecision]:
        """See L{IAccessControl.check}."""
        return self._asked(AccessDecision, self._guarded.check, descriptor, sid, asked, kind)

    def is_domain_user(self, sid: bytes) -> Deferred[bool]:
        """See L{IAccessControl.is_domain_user}."""
        return self._asked(bool, self._guarded.is_domain_user, sid)

    def resolve(self, principal: str) -> Deferred[bytes]:
        """See L{IAccessControl.resolve}."""
        return self._asked(bytes, self._guarded.resolve, principal)

    def name_of(self, sid: bytes) -> str:
        """See L{IAccessControl.name_of}; after an error, the SID alone."""
        return str(self._read(self._guarded.name_of, format_sid(sid), sid))

    def ruling(self, path: str) -> Ruling | None:
        """See L{IAccessControl.ruling}; after an error, a rule that denies all access."""
        return _rule(self._read(self._guarded.ruling, _DENIED, path))

    def machine_ruling(self) -> Ruling | None:
        """See L{IAccessControl.machine_ruling}; after an error, a rule that denies all access."""
        return _rule(self._read(self._guarded.machine_ruling, _DENIED))

    def _read(self, question: Callable[..., T | None], otherwise: D, *args: object) -> T | D | None:
        """The answer to a question about a cache or a rule, whose type its use checks."""
        try:
            return question(*args)
        except Exception:
            self._failed()
            return otherwise

    def _asked(self, kind: type[T], question: Callable[..., object], *args: object) -> Deferred[T]:
        """The answer to a question; cancelling it is no error of the access control."""
        given_up: list[Deferred[T]] = []

        def give_up(cancelled: Deferred[T]) -> None:
            given_up.append(cancelled)
            asking.cancel()

        asked: Deferred[T] = Deferred(give_up)

        def answer(outcome: T | Failure) -> None:
            # What is given up may still have an answer later.
            if not asked.called:
                asked.callback(outcome)

        asking = Deferred.fromCoroutine(self._ask(kind, given_up, question, *args))
        asking.addBoth(answer)
        return asked

    async def _ask(
        self,
        kind: type[T],
        given_up: Sequence[Deferred[T]],
        question: Callable[..., object],
        *args: object,
    ) -> T:
        try:
            answer = question(*args)
            found: object = await answer if isinstance(answer, Awaitable) else answer
            if not isinstance(found, kind):
                raise TypeError(f"access control returned a {type(found).__name__}")
            return found
        except AccountUnknown:
            raise
        except (Exception, asyncio.CancelledError) as error:
            if given_up:
                raise CancelledError from error
            self._failed()
            raise AccountUnknown(f"access control failed: {type(error).__name__}") from error

    def _failed(self) -> None:
        if (others := self._lines.take(self._clock.now())) is not None:
            self.log.failure("access control failed, and access is denied{others}", Failure(), others=others)


def _rule(found: object) -> Ruling | None:
    """A rule, or none; anything else denies."""
    return found if found is None or isinstance(found, Ruling) else _DENIED


_DENIED = Ruling(SecurityDescriptor(dacl=Acl(())), "the failed access control")
