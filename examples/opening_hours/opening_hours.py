"""An access control as a plugin: outside opening hours the queues accept no messages.

After C{pip install examples/opening_hours} a configuration says::

    [security]
    access = "hours:8-18"

From 08:00 to 18:00 UTC the security descriptors and the rules decide, as without the plugin; at all other
times the right to send is denied, with the reason. All other rights are as without the plugin.
"""

from __future__ import annotations

import re
from typing import Final

from twisted.internet.defer import Deferred, fail
from zope.interface import implementer

from msmq.interfaces import (
    AccessDecision,
    AccountUnknown,
    IAccessControl,
    IAccessControlFactory,
    IArgumentProbe,
    IClock,
    ObjectKind,
    Ruling,
    SecurityDescriptor,
    ServerContext,
    Token,
)

WRITE_MESSAGE: Final = 0x4
"""MQSEC_WRITE_MESSAGE, the right to send to a queue; other kinds of objects use the bit for other rights.
[MS-MQMQ] 2.2.24.
"""

HOURS: Final = re.compile(r"([0-9]{1,2})-([0-9]{1,2})")


@implementer(IAccessControl)
class OpeningHours:
    """Denies the right to send outside opening hours; another access control decides on all else.

    @param first: the hour, UTC, at which they begin, 0 to 23.
    @param last: the hour at which they end, 1 to 24; those that include midnight end at a smaller one.
    @param documented: the other access control.
    @param clock: has the time.
    """

    def __init__(self, first: int, last: int, documented: IAccessControl, clock: IClock) -> None:
        self._first = first
        self._last = last
        self._documented = documented
        self._clock = clock

    def check(
        self, descriptor: SecurityDescriptor, sid: bytes, asked: int, kind: ObjectKind
    ) -> AccessDecision | Deferred[AccessDecision]:
        """See L{IAccessControl.check}: called for each message that arrives, and for each operation."""
        if kind.name == "queue" and asked & WRITE_MESSAGE and not self._is_open():
            # An AccountUnknown denies, and its text is the reason that operators see.
            return fail(AccountUnknown(f"messages are accepted from {self._first}:00 to {self._last}:00 UTC"))
        return self._documented.check(descriptor, sid, asked, kind)

    def _is_open(self) -> bool:
        hour = int(self._clock.now().wall // 3600) % 24
        if self._first < self._last:
            return self._first <= hour < self._last
        return hour >= self._first or hour < self._last

    # Everything else is decided without the time.

    def known_token(self, sid: bytes) -> Token | None:
        """See L{IAccessControl.known_token}."""
        return self._documented.known_token(sid)

    def token(self, sid: bytes) -> Deferred[Token]:
        """See L{IAccessControl.token}."""
        return self._documented.token(sid)

    def is_domain_user(self, sid: bytes) -> Deferred[bool]:
        """See L{IAccessControl.is_domain_user}."""
        return self._documented.is_domain_user(sid)

    def resolve(self, principal: str) -> Deferred[bytes]:
        """See L{IAccessControl.resolve}."""
        return self._documented.resolve(principal)

    def name_of(self, sid: bytes) -> str:
        """See L{IAccessControl.name_of}."""
        return self._documented.name_of(sid)

    def ruling(self, path: str) -> Ruling | None:
        """See L{IAccessControl.ruling}."""
        return self._documented.ruling(path)

    def machine_ruling(self) -> Ruling | None:
        """See L{IAccessControl.machine_ruling}."""
        return self._documented.machine_ruling()


@implementer(IAccessControlFactory, IArgumentProbe)
class OpeningHoursFactory:
    """C{hours:FIRST-LAST}: the hours, UTC, at which sending begins and ends."""

    name = "hours"
    description = "messages are accepted during opening hours only"

    def make_access_control(
        self, argument: str, context: ServerContext, documented: IAccessControl
    ) -> OpeningHours:
        """See L{IAccessControlFactory.make_access_control}."""
        first, last = self._read(argument)
        return OpeningHours(first, last, documented, context.clock)

    def probe(self, argument: str) -> None:
        """See L{IArgumentProbe.probe}."""
        self._read(argument)

    def _read(self, argument: str) -> tuple[int, int]:
        found = HOURS.fullmatch(argument)
        first, last = (int(found[1]), int(found[2])) if found else (0, 0)
        if first > 23 or not 1 <= last <= 24 or first == last:
            raise ValueError(
                "needs two different hours, as in hours:8-18; the first is 0 to 23, the last 1 to 24"
            )
        return first, last
