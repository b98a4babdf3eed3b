"""Stored message keys, so that a repeated send under a key is detected."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Set
from hashlib import blake2b
from itertools import count
from struct import Struct
from typing import Final
from uuid import UUID

import attrs

from msmq.moment import Moment
from msmq.persistence.send_key import FORMER_VERSION, OWN_VERSION, PAGE_PREFIX, check_key
from msmq.persistence.state_records import StateChange, numbered, reading
from msmq.wire.guid import guid_from_bytes

PREFIX: Final = PAGE_PREFIX
"""Prefix of the names of stored values; a number follows."""

DEFAULT_KEYS: Final = 200_000
"""Default limit on stored keys."""

DEFAULT_LIFETIME: Final = 86_400.0
"""Default lifetime of a key in seconds."""

_CLOSED_AT_ONCE: Final = 256
"""Pages that one commit removes: more than one, so that a backlog shrinks."""

_HEAD: Final = Struct("<BII")
_DIGEST_SIZE: Final = 16
_ENTRY: Final = Struct(f"<{_DIGEST_SIZE}sI")


def digest_of(key: str, scope: Iterable[str]) -> bytes:
    """The stored digest of a key and its destinations.

    @raise MQError: as L{check_key}.
    """
    text = check_key(key)
    digest = blake2b(len(text).to_bytes(4, "little") + text, digest_size=_DIGEST_SIZE)
    for name in sorted(scope):
        digest.update(b"\0" + name.encode("utf-8", "surrogatepass"))
    return digest.digest()


@attrs.frozen(eq=False)
class KeyPage:
    """Keys that are stored together, with their messages.

    @ivar time: when they were stored, seconds since 1970-01-01 UTC.
    @ivar numbers: the MessageID of each key.
    @ivar unstored: the keys of express messages: they are kept in memory, as the messages are, so that a
    restart loses both.
    @ivar closed: the names of older pages without remaining keys.
    """

    number: int
    time: int
    numbers: Mapping[bytes, int]
    unstored: Set[bytes] = frozenset()
    closed: tuple[str, ...] = ()

    def changes(self) -> list[StateChange]:
        """The changes to store with the messages; none if all of these are express."""
        stored = {digest: number for digest, number in self.numbers.items() if digest not in self.unstored}
        if not stored:
            return []
        value = _HEAD.pack(OWN_VERSION, self.time, len(stored)) + b"".join(
            _ENTRY.pack(digest, number) for digest, number in stored.items()
        )
        return [*((name, None) for name in self.closed), (f"{PREFIX}{self.number}", value)]


@attrs.frozen(eq=False)
class _Kept:
    """A page of keys that are kept.

    @ivar since: when it was sent, by the clock that is never set.
    @ivar is_stored: whether the store has a value for it.
    """

    number: int
    since: float
    digests: tuple[bytes, ...]
    is_stored: bool


class SendKeys:
    """The keys that are kept, with the MessageIDs of their messages.

    The key of a recoverable message is stored in one commit with it; that of an express message is kept in
    memory, so that it never outlives the message. Keys are removed by pages, when they are too old, or the
    oldest beyond the limit.

    @param limit: limit on keys; a single page may exceed it.
    @param lifetime: of a key, in seconds.
    """

    def __init__(self, limit: int = DEFAULT_KEYS, lifetime: float = DEFAULT_LIFETIME) -> None:
        self._limit = limit
        self._lifetime = lifetime
        # The number of the message, and that of the page.
        self._found: dict[bytes, tuple[int, int]] = {}
        self._pages: deque[_Kept] = deque()
        # The former identifiers of the queue manager, by the numbers of the pages that it stored then.
        self._sources: dict[int, UUID] = {}
        self._closed: list[str] = []
        self._numbers = count(1)

    def configure(self, limit: int, lifetime: float) -> None:
        """Apply another limit and lifetime, also to existing keys."""
        self._limit = limit
        self._lifetime = lifetime

    def __len__(self) -> int:
        return len(self._found)

    def load(self, state: Mapping[str, bytes], now: Moment) -> None:
        """Load the stored state; call this first.

        @raise StateError: a value is damaged.
        """
        last = 0
        for number, name, value in numbered(state, PREFIX):
            last = number
            found: dict[bytes, int] = {}
            is_former = value[:1] == bytes([FORMER_VERSION])
            with reading(name, value, FORMER_VERSION if is_former else OWN_VERSION) as reader:
                time = reader.u32("Time")
                keys = reader.u32("Count")
                if is_former:
                    self._sources[number] = guid_from_bytes(reader.bytes(16, "QueueManager"))
                for _ in range(keys):
                    digest = reader.bytes(_DIGEST_SIZE, "Key")
                    found[digest] = reader.u32("MessageID")
            # The clock may have been set while the process did not run; that of the process then goes on.
            self._keep(KeyPage(number, time, found), now.monotonic - max(0, now.unix_seconds - time))
        self._numbers = count(last + 1)
        self._forget(now)

    def find(self, digest: bytes, now: Moment) -> int | None:
        """The number of the message that was sent under a key; C{None} if it is unknown."""
        self._forget(now)
        found = self._found.get(digest)
        return None if found is None else found[0]

    def source(self, digest: bytes) -> UUID | None:
        """The former identifier of the queue manager under which it sent the message of a key that is known.

        C{None} if that was the present one.
        """
        found = self._found.get(digest)
        return None if found is None else self._sources.get(found[1])

    def page(self, numbers: Mapping[bytes, int], now: Moment, unstored: Set[bytes] = frozenset()) -> KeyPage:
        """A page for keys whose messages are about to be sent; call L{stored} or L{failed} afterwards.

        @param unstored: those of express messages.
        """
        self._forget(now)
        closed: list[str] = []
        if numbers.keys() - unstored:
            closed, self._closed = self._closed[:_CLOSED_AT_ONCE], self._closed[_CLOSED_AT_ONCE:]
        return KeyPage(next(self._numbers), now.unix_seconds, dict(numbers), unstored, tuple(closed))

    def expire(self, now: Moment) -> list[StateChange]:
        """Remove expired keys; returns the changes to store, some pages at a time."""
        self._forget(now)
        closed, self._closed = self._closed[:_CLOSED_AT_ONCE], self._closed[_CLOSED_AT_ONCE:]
        return [(name, None) for name in closed]

    def stored(self, page: KeyPage, now: Moment) -> None:
        """A page is stored, as far as it is durable, and its messages are sent."""
        self._keep(page, now.monotonic)
        self._forget(now)

    def failed(self, page: KeyPage) -> None:
        """A page could not be stored; its messages may be sent again."""
        self._closed += page.closed

    def _keep(self, page: KeyPage, since: float) -> None:
        is_stored = bool(page.numbers.keys() - page.unstored)
        self._pages.append(_Kept(page.number, since, tuple(page.numbers), is_stored))
        for digest, message in page.numbers.items():
            self._found[digest] = (message, page.number)

    def _forget(self, now: Moment) -> None:
        """Remove expired keys, and the oldest beyond the limit."""
        pages = self._pages
        oldest = now.monotonic - self._lifetime
        while pages and (pages[0].since <= oldest or (len(self._found) > self._limit and len(pages) > 1)):
            page = pages.popleft()
            for digest in page.digests:
                found = self._found.get(digest)
                # A key that was sent again after it was forgotten is on a younger page, too.
                if found is not None and found[1] == page.number:
                    del self._found[digest]
            self._sources.pop(page.number, None)
            if page.is_stored:
                self._closed.append(f"{PREFIX}{page.number}")
