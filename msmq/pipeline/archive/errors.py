"""Errors of an archive."""

from __future__ import annotations

from msmq.pipeline.files.errors import FilesError


class ArchiveError(FilesError):
    """The archive is not as it must be; the text names the file or the numbers, and what to do."""


class StoreRestored(ArchiveError):
    """The store is not the one that was archived: it was restored from a backup."""
