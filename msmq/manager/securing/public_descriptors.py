"""The security descriptors of public queues in the directory. [MS-MQQB] 3.1.5.8.3.

The document queries the directory for each message; here an answer is cached for a minute.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final
from uuid import UUID

import attrs
from twisted.internet.defer import Deferred

from msmq.errors import RemoteProtocolError
from msmq.interfaces.clock import IClock
from msmq.membership.rights import from_directory, is_untranslated, lists_rights
from msmq.windows.security_descriptor import SecurityDescriptor
from msmq.windows.security_descriptor_aces import Ace, AceFlags, Acl

LIFETIME: Final = 60.0
"""Seconds for which an answer of the directory is cached."""

MOST: Final = 10_000

IN_THE_DIRECTORY: Final = "its descriptor in the directory"
"""Source of such a descriptor."""

ReadSecurity = Callable[[UUID], Awaitable[bytes]]


@attrs.frozen
class PublishedList:
    """The access list of a queue's object in the directory, for rights to its messages.

    @ivar found: its descriptor, with directory rights.
    @ivar descriptor: the same with queue rights.
    @ivar is_untranslated: it has masks of MSMQ, as earlier versions wrote them.
    """

    found: SecurityDescriptor
    descriptor: SecurityDescriptor
    is_untranslated: bool = False


class PublicDescriptors:
    """Reads the Security of public queues from the directory.

    @param read: returns the nTSecurityDescriptor of a queue, cached while the directory is unreachable; empty
    without one.
    """

    def __init__(self, read: ReadSecurity, clock: IClock) -> None:
        self._read = read
        self._clock = clock
        self._known: dict[UUID, tuple[float, PublishedList | None]] = {}
        self._changes = 0

    def get(self, identifier: UUID) -> PublishedList | Deferred[PublishedList | None] | None:
        """The list in the directory; C{None} if it does not concern messages."""
        until, published = self._known.get(identifier, (0.0, None))
        if until > self._clock.now().monotonic:
            return published
        return Deferred.fromCoroutine(self._ask(identifier))

    def forget(self, identifier: UUID) -> None:
        """Drop the cached list of a queue, whose descriptor has changed."""
        self._known.pop(identifier, None)
        self._changes += 1

    async def _ask(self, identifier: UUID) -> PublishedList | None:
        changes = self._changes
        published = published_list(await self._read(identifier))
        if changes != self._changes:
            # The answer may be from before the change; the next request queries again.
            return published
        if len(self._known) >= MOST:
            self._known.clear()
        self._known[identifier] = self._clock.now().monotonic + LIFETIME, published
        return published


def published_list(security: bytes) -> PublishedList | None:
    """The list for messages in the nTSecurityDescriptor of a queue; C{None} without one.

    Every object of a directory has a descriptor. One without rights to messages only controls access to the
    directory, and the queue manager's own list applies; likewise if the descriptor cannot be read.
    """
    found = parsed(security)
    if found is None:
        return None
    if lists_rights(found):
        return PublishedList(found, from_directory(found))
    if is_untranslated(found):
        return PublishedList(found, SecurityDescriptor(dacl=Acl(own_entries(found))), is_untranslated=True)
    return None


def parsed(security: bytes) -> SecurityDescriptor | None:
    """A descriptor of a directory; C{None} for an empty or malformed one."""
    try:
        return SecurityDescriptor.from_bytes(security)
    except RemoteProtocolError:
        return None


def own_entries(found: SecurityDescriptor) -> tuple[Ace, ...]:
    """The entries that are not inherited."""
    aces = () if found.dacl is None else found.dacl.aces
    return tuple(ace for ace in aces if isinstance(ace, Ace) and not ace.flags & AceFlags.INHERITED)
