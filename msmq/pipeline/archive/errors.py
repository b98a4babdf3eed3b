"""Errors of an archive."""

from __future__ import annotations

from msmq.errors import MsmqError


class ArchiveError(MsmqError):
    """The archive cannot be read or written; the text names the file or the numbers, and what to do."""


class ArchiveUnwritable(ArchiveError):
    """The archive cannot be written now, since the disk is full for example; it is as it was before."""
