"""Where replies go, kept in a file so that a restart does not lose the addresses of requests."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from twisted.internet.defer import DeferredLock
from twisted.internet.threads import deferToThread

from msmq.bridge.replies import PendingReplies, ReplyAddress
from msmq.durable import make_directory, write_durably

REWRITTEN: Final = 1024 * 1024
"""Bytes of a file that is not rewritten; a larger one is when it has twice the bytes of the last time."""


class ReplyStore:
    """The requests of one route that may still be answered, in memory and in a file.

    A line is added, and synchronised to disk, before the request is acknowledged at the broker.

    @param path: the file; C{None} keeps them in memory alone.
    @param now: seconds since 1970-01-01 UTC.
    @ivar last_addition: the number of the addition that began last.
    """

    def __init__(self, path: Path | None, now: Callable[[], float]) -> None:
        self._path = path
        self._now = now
        self._pending = PendingReplies()
        # Bytes of the file, and what the last rewrite has left.
        self._size = self._needed = 0
        self._lock = DeferredLock()
        self._adding: set[int] = set()
        self.last_addition = 0
        if path is not None:
            self._load(path)

    def is_adding(self, last: int) -> bool:
        """Whether requests are being sent whose addresses are added then.

        @param last: the last addition that counts, a L{last_addition} of before.
        """
        return any(each <= last for each in self._adding)

    @contextmanager
    def adding(self) -> Iterator[None]:
        """Requests are sent, and their addresses added, inside this context."""
        self.last_addition += 1
        number = self.last_addition
        self._adding.add(number)
        try:
            yield
        finally:
            self._adding.discard(number)

    def find(self, correlation_id: str | None) -> ReplyAddress | None:
        """The request that a message answers."""
        return self._pending.find(correlation_id, self._now())

    async def add(self, requests: Sequence[tuple[str, ReplyAddress]]) -> None:
        """Keep the addresses of requests, by the identifiers of their messages; done when they are on disk.

        @raise OSError: they cannot be written.
        """
        await self._lock.acquire()
        try:
            for identifier, address in requests:
                self._pending.add(identifier, address)
            if self._path is not None:
                added = _encoded(requests)
                if self._size + len(added) > max(REWRITTEN, 2 * self._needed):
                    # Encoding so many lines would keep the reactor from everything else for a second.
                    kept = list(self._pending.items(self._now()))
                    self._size = self._needed = await deferToThread(_rewrite, self._path, kept)
                else:
                    # What a failed write has left counts too.
                    self._size += len(added)
                    await deferToThread(_append, self._path, added)
        finally:
            self._lock.release()

    def _load(self, path: Path) -> None:
        make_directory(path.parent)
        try:
            lines = path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return
        for line in lines:
            self._size += len(line) + 1
            if (found := _decoded(line)) is not None:
                self._pending.add(*found)


def _rewrite(path: Path, requests: Sequence[tuple[str, ReplyAddress]]) -> int:
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


def _encoded(requests: Iterable[tuple[str, ReplyAddress]]) -> bytes:
    # The line break comes first: a line that a power failure has cut ends there.
    return b"".join(
        b"\n" + json.dumps([identifier, each.reply_to, each.correlation_id, each.since]).encode("ascii")
        for identifier, each in requests
    )


def _decoded(line: bytes) -> tuple[str, ReplyAddress] | None:
    """A line of the file; C{None} for one that was cut."""
    try:
        found: Any = json.loads(line)
    except ValueError:
        return None
    match found:
        case [str(identifier), str(reply_to), str() | None as correlation_id, int() | float() as since]:
            return identifier, ReplyAddress(reply_to, correlation_id, float(since))
    return None
