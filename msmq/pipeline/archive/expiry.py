"""Removal of archived rows by age, which their queue may still have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msmq.pipeline.archive.changes import StreamChanges
from msmq.pipeline.archive.manifest import Archive, StreamManifest
from msmq.pipeline.files.format import EVENTS, read_file


def expire(archive: Archive, changes: StreamChanges, oldest: str, *, is_deleted: bool) -> None:
    """Remove the files of dates before this one; those who are reading them keep them for a while.

    @param is_deleted: whether the queue was deleted; otherwise it may still have the messages.
    @raise ArchiveError: the archive cannot be written.
    """
    manifest = changes.manifest
    gone = [file for file in manifest.files if file.date < oldest]
    if manifest.stream not in ("log", EVENTS) and not is_deleted:
        for file in gone:
            skip(archive, manifest, file.path)
    manifest.files = [file for file in manifest.files if file not in gone]
    manifest.expired += sum(file.rows for file in gone)
    changes.retire(gone)


def skip(
    archive: Archive, manifest: StreamManifest, path: str, mask: Callable[[Any], Any] | None = None
) -> None:
    """Note the rows of a file, or those of a mask, as not to be archived again: the queue may have them."""
    columns = None if mask is not None else ("lookup_id", "timestamp")
    for batch in read_file(archive.directory / path, columns):
        chosen = batch if mask is None else batch.filter(mask(batch))
        numbers = chosen.column("lookup_id").to_pylist()
        times = chosen.column("timestamp").cast("int64").to_pylist()
        manifest.skipped += [(number, moment or 0) for number, moment in zip(numbers, times, strict=True)]
