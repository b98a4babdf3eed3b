"""Conversion of errors of the record log to storage errors."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

from msmq.interfaces.storage import StorageError, StorageFull

FULL: Final = (errno.ENOSPC, errno.EDQUOT)
"""Error codes of a full disk or an exceeded disk quota."""

REMEDY: Final = "run msmq store repair, or restore the store from a backup"
"""What an operator can do about damage."""

_REMEDIES: Final = {
    errno.ENOSPC: "free space on its file system",
    errno.EDQUOT: "free space, or raise the quota of the server's user",
    errno.EACCES: "give the server's user access",
    errno.EPERM: "give the server's user access",
    errno.EROFS: "make its file system writable",
}
"""What an operator can do."""


class StoreDamaged(StorageError):
    """A file of the store is damaged; nothing was changed.

    @ivar path: the file.
    @ivar offset: position of the damage.
    """

    def __init__(self, path: Path, offset: int, problem: str) -> None:
        super().__init__(f"{path}, offset {offset}: {problem}; {REMEDY}")
        self.path = path
        self.offset = offset


def failure(path: Path, doing: str, error: Exception) -> StorageError:
    """Convert an exception to a storage error.

    @param doing: the attempted operation, such as C{"write"}.
    @return: a L{StorageFull}, if there is no space.
    """
    if isinstance(error, StorageError):
        return error
    if isinstance(error, OSError):
        kind = StorageFull if error.errno in FULL else StorageError
        reason = os.strerror(error.errno) if error.errno else str(error)
        remedy = _REMEDIES.get(error.errno or 0)
        return kind(f"{path}: cannot {doing}: {reason}" + (f"; {remedy}" if remedy else ""))
    return StorageError(f"{path}: cannot {doing}: {error!r}")
