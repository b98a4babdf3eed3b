"""ClaimFiles: a directory with the bodies of messages that have only their reference."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final
from uuid import uuid4

from twisted.internet.threads import deferToThread

from msmq.bridge.claims import BodyClaim
from msmq.durable import make_directory, sync, write_durably
from msmq.interfaces.bridge_messages import MappingError

SWEEP: Final = 3600.0
"""Seconds between two searches for bodies whose time is over."""

LARGEST: Final = 0x40000000
"""The largest body that is read, in bytes."""


class ClaimFiles:
    """A directory with one file for each body, whose name is its reference.

    Several bridges may share it; each removes the bodies that are older than its lifetime.

    @param lifetime: seconds after which a body is removed, from its last publication.
    @param now: seconds since 1970-01-01 UTC.
    """

    def __init__(self, directory: Path, lifetime: float, now: Callable[[], float]) -> None:
        self.directory = directory
        self._lifetime = lifetime
        self._now = now
        self._swept: float | None = None

    async def store(self, claim: BodyClaim, body: bytes) -> None:
        """Store a body; done when it is on disk.

        @raise OSError: it cannot be written.
        """
        await deferToThread(self._store, claim, body)

    async def read(self, claim: BodyClaim) -> bytes:
        """Read a body.

        @raise MappingError: there is none, or it is another one.
        @raise OSError: it cannot be read at present.
        """
        return await deferToThread(self._read, claim)

    def _store(self, claim: BodyClaim, body: bytes) -> None:
        path = self.directory / claim.reference
        now = self._now()
        if not self.directory.is_dir():
            make_directory(self.directory)
        if self._swept is None or now - self._swept >= SWEEP:
            self._swept = now
            self._sweep(now)
        if self._is_stored(path, claim):
            with suppress(FileNotFoundError):
                # Another bridge may remove it at this moment, since its time was over.
                os.utime(path, (now, now))
                return
        # Another bridge may write the same body.
        beginning = path.with_name(f"{claim.reference}.{uuid4().hex}")
        write_durably(beginning, body)
        beginning.replace(path)
        sync(self.directory)

    def _is_stored(self, path: Path, claim: BodyClaim) -> bool:
        """Whether the body is there, and undamaged: a message that refers to a damaged one would be lost."""
        try:
            return _is_there(path, claim.size) and BodyClaim.of(path.read_bytes()) == claim
        except FileNotFoundError:
            return False

    def _read(self, claim: BodyClaim) -> bytes:
        path = self.directory / claim.reference
        if claim.size > LARGEST:
            raise MappingError(
                f"claim check: the body has {claim.size} bytes, and the largest that is read {LARGEST}"
            )
        if not _is_there(path, claim.size):
            raise MappingError(
                f"claim check: {self.directory} has no body {claim.reference} of {claim.size} bytes"
            )
        return path.read_bytes()

    def _sweep(self, now: float) -> None:
        for entry in os.scandir(self.directory):
            # Also what a killed process has left half written.
            is_body = len(entry.name.partition(".")[0]) == len(BodyClaim.of(b"").reference)
            # Another bridge may remove the same ones.
            with suppress(FileNotFoundError):
                if is_body and entry.stat(follow_symlinks=False).st_mtime < now - self._lifetime:
                    _remove(Path(entry.path), now - self._lifetime)


def _remove(path: Path, oldest: float) -> None:
    """Remove a body whose time was over, unless another bridge has published it again meanwhile.

    @param oldest: seconds since 1970-01-01 UTC; one that was published later stays.
    """
    # Under its own name it could be published between a look at its time and its removal.
    aside = path.with_name(f"{path.name.partition('.')[0]}.{uuid4().hex}")
    path.rename(aside)
    if aside.lstat().st_mtime < oldest:
        aside.unlink()
    else:
        aside.rename(path)


def _is_there(path: Path, size: int) -> bool:
    """Whether there is a file with a body of this size.

    @raise OSError: that cannot be seen.
    """
    try:
        found = path.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_size == size
