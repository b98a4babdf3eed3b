"""Metadata by which a change of a file is detected."""

from __future__ import annotations

from pathlib import Path

import attrs


@attrs.frozen
class FileStamp:
    """The metadata of a file.

    @ivar size: in bytes.
    @ivar modified: in nanoseconds since 1970-01-01 UTC.
    """

    inode: int
    size: int
    modified: int

    @classmethod
    def of(cls, path: Path) -> FileStamp | None:
        """The stamp of a file now; C{None} if it cannot be read."""
        try:
            found = path.stat()
        except (OSError, ValueError):
            return None
        return cls(found.st_ino, found.st_size, found.st_mtime_ns)
