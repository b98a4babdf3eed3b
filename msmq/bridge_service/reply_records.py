"""Stable storage of the addresses to which replies go: a file, or the store of a queue manager."""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeAlias

import attrs
from twisted.internet.threads import deferToThread

from msmq.bridge.replies import LIFETIME, PendingReplies, ReplyAddress, stored_line
from msmq.bridge_service.queues import ValuesOfSent
from msmq.durable import make_directory, write_durably
from msmq.interfaces.manager.service_values import IServiceValues
from msmq.persistence.state_records import StateChange, numbered

StoredRequest: TypeAlias = tuple[str, ReplyAddress]
"""A request, by the identifier of its message."""

RequestsOfSent: TypeAlias = Callable[[Sequence[str]], Sequence[StoredRequest]]
"""The requests among messages that are sent, by the identifiers of all of these."""

SendMessages: TypeAlias = Callable[[ValuesOfSent | None], Awaitable[Sequence[str]]]
"""Sends the messages; takes and returns what L{IBridgedQueues.send
<msmq.bridge_service.queues.IBridgedQueues.send>} does.
"""

REWRITTEN: Final = 1024 * 1024
"""Bytes of a file that is not rewritten; a larger one is when it has twice the bytes of the last time.

Pages of the store are rewritten beyond this many bytes when they have twice the bytes of the requests.
"""

PAGE_LENGTH: Final = 256
"""Limit on requests that a value of the store has."""

PAGE_SIZE: Final = 256 * 1024
"""Limit on the bytes of such a value; one with a single request may have more."""

PREFIX: Final = "bridge.replies/"
"""The prefix of a value in the store; the name of the route and a number follow."""


class ReplyRecord(ABC):
    """Where the requests of one route are stored.

    @ivar is_moving: whether L{move} has something to do.
    """

    is_moving = False

    @abstractmethod
    def load(self) -> Sequence[StoredRequest]:
        """What is stored, oldest first; call this once, first.

        @raise OSError: it cannot be read.
        """

    @abstractmethod
    async def send(
        self, send: SendMessages, requests: RequestsOfSent, pending: PendingReplies, now: float
    ) -> None:
        """Send messages, and store the requests among them; done when both are on stable storage.

        One call follows the other.

        @param pending: all requests that may be answered, to which these are added; others may be forgotten.
        @param now: seconds since 1970-01-01 UTC.
        @raise OSError: a file cannot be written.
        @raise MQError: the queue manager cannot store them, or as C{send}.
        """

    @abstractmethod
    async def move(self, pending: PendingReplies, now: float) -> None:
        """Store here what an earlier version has stored elsewhere.

        @raise MQError: the queue manager cannot store it.
        """


class ReplyFile(ReplyRecord):
    """A file with a line for each request.

    It is written after the messages are sent: a crash in between leaves requests without addresses, until the
    broker delivers them again.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        # Bytes of the file, and what the last rewrite has left.
        self._size = self._needed = 0

    def load(self) -> Sequence[StoredRequest]:
        """See L{ReplyRecord}; its directory is created."""
        make_directory(self._path.parent)
        with suppress(FileNotFoundError):
            content = self._path.read_bytes()
            self._size = len(content)
            return list(_decoded(content))
        return ()

    async def send(
        self, send: SendMessages, requests: RequestsOfSent, pending: PendingReplies, now: float
    ) -> None:
        """See L{ReplyRecord}."""
        found = requests(await send(None))
        for request in found:
            pending.add(*request)
        await self._write(found, pending, now)

    async def move(self, pending: PendingReplies, now: float) -> None:
        """See L{ReplyRecord}; no version has stored them elsewhere."""

    async def _write(self, found: Sequence[StoredRequest], pending: PendingReplies, now: float) -> None:
        added = _encoded(found)
        if self._size + len(added) > max(REWRITTEN, 2 * self._needed):
            # Encoding so many lines would keep the reactor from everything else for a second.
            kept = list(pending.items(now))
            self._size = self._needed = await deferToThread(_rewrite, self._path, kept)
        else:
            # What a failed write has left counts too.
            self._size += len(added)
            await deferToThread(_append, self._path, added)


class ReplyPages(ReplyRecord):
    """Values in the store of the queue manager, where the messages of the requests are: each has the requests
    that were sent together.

    So a standby that takes the store over publishes the replies to requests of the former active server.

    @param route: the name of the route.
    @param former: the file in which an earlier version has stored them, and which is deleted when the store
        has them; C{None} for none.
    """

    def __init__(self, values: IServiceValues, route: str, former: Path | None) -> None:
        self._values = values
        self._prefix = f"{PREFIX}{route}/"
        self._former = former
        # Of each page its bytes, and the requests that no later one has.
        self._sizes: dict[int, int] = {}
        self._size = 0
        self._pages: dict[int, set[str]] = {}
        self._page_of: dict[str, int] = {}
        self._empty: set[int] = set()
        self._last = 0

    def load(self) -> Sequence[StoredRequest]:
        """See L{ReplyRecord}."""
        found: list[StoredRequest] = []
        if self._former is not None and self._former.exists():
            found += _decoded(self._former.read_bytes())
            self.is_moving = True
        stored = self._values.read(self._prefix)
        for number, _, value in numbered(stored, self._prefix):
            requests = list(_decoded(value))
            self._added(number, requests, len(value))
            found += requests
        return found

    async def send(
        self, send: SendMessages, requests: RequestsOfSent, pending: PendingReplies, now: float
    ) -> None:
        """See L{ReplyRecord}; the messages and their requests have one commit."""
        if self.is_moving or self._size > max(REWRITTEN, 2 * pending.size):
            await self._replace(pending, now)
        replacement = _Replacement([], [])

        def values(identifiers: Sequence[str]) -> Sequence[StateChange]:
            nonlocal replacement
            replacement = self._replacement(_pages_of(requests(identifiers)), self._needless(pending, now))
            return self._changes(replacement)

        await send(values)
        self._stored(replacement)
        for _, page in replacement.pages:
            for request in page.requests:
                pending.add(*request)

    async def move(self, pending: PendingReplies, now: float) -> None:
        """See L{ReplyRecord}."""
        if self.is_moving:
            await self._replace(pending, now)

    async def _replace(self, pending: PendingReplies, now: float) -> None:
        """Store all requests in new pages: a file has them, or the pages have mostly what later ones have."""
        # Encoding so many lines would keep the reactor from everything else for a second.
        pages = await deferToThread(_pages_of, list(pending.items(now)))
        replacement = self._replacement(pages, list(self._pages))
        await self._values.store(self._changes(replacement))
        self._stored(replacement)
        if self._former is not None and self.is_moving:
            self.is_moving = False
            with suppress(OSError):
                # The next start moves them again.
                self._former.unlink()

    def _replacement(self, pages: Sequence[_Page], needless: Sequence[int]) -> _Replacement:
        # A commit whose result is unknown may have stored the numbers of a failed attempt.
        first = self._last + 1
        self._last += len(pages)
        return _Replacement(list(enumerate(pages, first)), needless)

    def _changes(self, replacement: _Replacement) -> list[StateChange]:
        changes: list[StateChange] = [(f"{self._prefix}{n}", page.value) for n, page in replacement.pages]
        return changes + [(f"{self._prefix}{number}", None) for number in replacement.needless]

    def _stored(self, replacement: _Replacement) -> None:
        for number in replacement.needless:
            self._size -= self._sizes.pop(number)
            for identifier in self._pages.pop(number):
                del self._page_of[identifier]
        self._empty.difference_update(replacement.needless)
        for number, page in replacement.pages:
            self._added(number, page.requests, len(page.value))

    def _added(self, number: int, requests: Iterable[StoredRequest], size: int) -> None:
        self._last = max(self._last, number)
        self._sizes[number] = size
        self._size += size
        self._pages[number] = page = set()
        for identifier, _ in requests:
            # A message that was published twice is one request, maybe twice in the same page.
            if (former := self._page_of.get(identifier)) not in (None, number):
                self._pages[former].discard(identifier)
                if not self._pages[former]:
                    self._empty.add(former)
            self._page_of[identifier] = number
            page.add(identifier)

    def _needless(self, pending: PendingReplies, now: float) -> list[int]:
        """The pages without requests that no later one has, and the oldest as far as those are forgotten."""
        found = list(self._empty)
        for number, identifiers in self._pages.items():
            if any(pending.find(identifier, now) is not None for identifier in identifiers):
                break
            if number not in self._empty:
                found.append(number)
        return found


def needless_pages(values: IServiceValues, routes: Collection[str], now: float) -> list[StateChange]:
    """The changes that remove the requests of routes that do not exist any more, when they are too old.

    @param routes: the names of those that do.
    """
    changes: list[StateChange] = []
    for name, value in values.read(PREFIX).items():
        route = name.removeprefix(PREFIX).rpartition("/")[0]
        if route not in routes and all(each.since + LIFETIME < now for _, each in _decoded(value)):
            changes.append((name, None))
    return changes


@attrs.frozen
class _Page:
    """Requests that one value of the store has."""

    requests: Sequence[StoredRequest]
    value: bytes


@attrs.frozen
class _Replacement:
    """Pages to store, by their numbers, and the numbers of those to remove."""

    pages: Sequence[tuple[int, _Page]]
    needless: Sequence[int]


def _pages_of(requests: Sequence[StoredRequest]) -> list[_Page]:
    pages: list[_Page] = []
    part: list[StoredRequest] = []
    value = b""
    for request in requests:
        line = _encoded((request,))
        if part and (len(part) >= PAGE_LENGTH or len(value) + len(line) > PAGE_SIZE):
            pages.append(_Page(part, value))
            part, value = [], b""
        part.append(request)
        value += line
    if part:
        pages.append(_Page(part, value))
    return pages


def _rewrite(path: Path, requests: Sequence[StoredRequest]) -> int:
    """Replace the file; returns its bytes."""
    content = _encoded(requests)
    write_durably(path, content)
    return len(content)


def _append(path: Path, content: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o600), "ab") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _encoded(requests: Iterable[StoredRequest]) -> bytes:
    # The line break comes first: a line that a power failure has cut ends there.
    return b"".join(b"\n" + stored_line(*request) for request in requests)


def _decoded(content: bytes) -> Iterator[StoredRequest]:
    """The requests, without lines that were cut."""
    for line in content.split(b"\n"):
        try:
            found: Any = json.loads(line)
        except ValueError:
            continue
        match found:
            case [str(identifier), str(reply_to), str() | None as correlation_id, int() | float() as since]:
                yield identifier, ReplyAddress(reply_to, correlation_id, float(since))
