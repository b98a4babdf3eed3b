"""Errors of a store migration."""

from __future__ import annotations

from msmq.interfaces.storage import StorageError


class MigrationError(StorageError):
    """A store cannot be migrated; the source is unchanged."""


class TargetInUse(MigrationError):
    """The target has data that is not of this migration."""


class AlreadyMoved(MigrationError):
    """The source was migrated before, and the target is complete."""


class DigestMismatch(MigrationError):
    """The contents of source and target differ."""
