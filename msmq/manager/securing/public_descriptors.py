"""[MS-MQQB] 3.1.5.8.3 the descriptors of public queues, which the directory has.

The document asks the directory for each message; here what it said is believed for a while.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final
from uuid import UUID

import attrs
from twisted.internet.defer import Deferred

from msmq.errors import LocalProtocolError, RemoteProtocolError
from msmq.interfaces.clock import IClock
from msmq.structures.access_masks import QUEUE_KIND
from msmq.structures.security_descriptor import SecurityDescriptor, restricted
from msmq.structures.security_descriptor_aces import Ace, AceFlags

LIFETIME: Final = 60.0
"""Seconds for which an answer of the directory is believed."""

MOST: Final = 10_000

IN_THE_DIRECTORY: Final = "its descriptor in the directory"
"""Where such a descriptor stands."""

ReadSecurity = Callable[[UUID], Awaitable[bytes]]


class PublicDescriptors:
    """Asks the directory for the Security of public queues.

    @param read: gives the bytes of the Security of a queue, as far as is known while the directory is away;
        nothing if it has none.
    """

    def __init__(self, read: ReadSecurity, clock: IClock) -> None:
        self._read = read
        self._clock = clock
        self._known: dict[UUID, tuple[float, SecurityDescriptor | None]] = {}
        self._changes = 0

    def get(self, identifier: UUID) -> SecurityDescriptor | Deferred[SecurityDescriptor | None] | None:
        """What the directory says; C{None} if nothing that a queue could have."""
        until, descriptor = self._known.get(identifier, (0.0, None))
        if until > self._clock.now().monotonic:
            return descriptor
        return Deferred.fromCoroutine(self._ask(identifier))

    def forget(self, identifier: UUID) -> None:
        """Ask anew about a queue, whose descriptor has changed."""
        self._known.pop(identifier, None)
        self._changes += 1

    async def _ask(self, identifier: UUID) -> SecurityDescriptor | None:
        changes = self._changes
        descriptor = of_a_queue(await self._read(identifier))
        if changes != self._changes:
            # It may be what was there before; whoever asks next asks anew.
            return descriptor
        if len(self._known) >= MOST:
            self._known.clear()
        self._known[identifier] = self._clock.now().monotonic + LIFETIME, descriptor
        return descriptor


def of_a_queue(security: bytes) -> SecurityDescriptor | None:
    """What a directory has as the Security of a queue, if it can be that of one ([MS-MQDMPR] 3.1.1.2).

    A directory gives every object a descriptor, and entries that objects inherit. Those say who may do what
    in the directory; they have rights that there are not to queues. So inherited entries are passed over, and
    a descriptor with other entries that have such rights is none of a queue.
    """
    try:
        found = SecurityDescriptor.from_bytes(security)
    except RemoteProtocolError:
        return None
    if found.dacl is None:
        return None
    own = tuple(ace for ace in found.dacl.aces if isinstance(ace, Ace) and not ace.flags & AceFlags.INHERITED)
    try:
        return restricted(attrs.evolve(found, dacl=attrs.evolve(found.dacl, aces=own)), QUEUE_KIND)
    except LocalProtocolError:
        return None
