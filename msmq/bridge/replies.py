"""Requests that are waiting for a reply across the bridge, by the identifiers of their messages in MSMQ."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

import attrs

PENDING: Final = 100_000
"""Limit on requests whose replies are awaited; the oldest is forgotten first."""

PENDING_SIZE: Final = 32 * 1024 * 1024
"""Limit on the bytes of these requests together, as they are stored: a requester chooses how long an address
is.
"""

LIFETIME: Final = 86_400.0
"""Seconds for which a reply is awaited."""


@attrs.frozen
class ReplyAddress:
    """Where the reply to a request goes.

    @ivar reply_to: the reply-to of the request, a queue of the broker.
    @ivar correlation_id: the correlation-id that the requester expects; C{None} for none.
    @ivar since: when the request was forwarded, in seconds since 1970-01-01 UTC.
    """

    reply_to: str
    correlation_id: str | None
    since: float


@attrs.define
class PendingReplies:
    """Pending requests, oldest first; bounded by number, size and age.

    A request stays after its reply, because it may have several.

    @ivar size: their bytes together, as they are stored.
    """

    limit: int = PENDING
    size_limit: int = PENDING_SIZE
    lifetime: float = LIFETIME
    _addresses: OrderedDict[str, ReplyAddress] = attrs.field(factory=OrderedDict, init=False)
    size: int = attrs.field(default=0, init=False)

    def __len__(self) -> int:
        return len(self._addresses)

    def add(self, identifier: str, address: ReplyAddress) -> None:
        """Add a request; one that was forwarded twice keeps its identifier and is added once."""
        if (former := self._addresses.pop(identifier, None)) is not None:
            self.size -= _size(identifier, former)
        self._addresses[identifier] = address
        self.size += _size(identifier, address)
        while len(self._addresses) > self.limit or self.size > self.size_limit:
            self.size -= _size(*self._addresses.popitem(last=False))

    def find(self, correlation_id: str | None, now: float) -> ReplyAddress | None:
        """The request that a message answers, by its correlation identifier."""
        found = self._addresses.get(correlation_id or "")
        return None if found is None or found.since + self.lifetime < now else found

    def items(self, now: float) -> Iterable[tuple[str, ReplyAddress]]:
        """Those that are not too old, oldest first."""
        return [
            (identifier, each)
            for identifier, each in self._addresses.items()
            if each.since + self.lifetime >= now
        ]


def stored_line(identifier: str, address: ReplyAddress) -> bytes:
    """A request as a line of JSON in ASCII, without a line break."""
    found = [identifier, address.reply_to, address.correlation_id, address.since]
    return json.dumps(found).encode("ascii")


def _size(identifier: str, address: ReplyAddress) -> int:
    return len(stored_line(identifier, address))
