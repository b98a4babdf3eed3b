"""Errors of a store migration."""

from __future__ import annotations

from msmq.interfaces.storage import StorageError


class MigrationError(StorageError):
    """A store cannot be migrated; the source holds all that it held."""


class TargetInUse(MigrationError):
    """The target holds something that is not of this migration."""


class AlreadyMoved(MigrationError):
    """The source was migrated before, and the target is complete."""


class DigestMismatch(MigrationError):
    """The target does not hold what the source holds."""
