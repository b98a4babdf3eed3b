"""Handling of damage and loss for stores in tests."""

from __future__ import annotations

from pathlib import Path

from msmq.storage.damage import DamagePolicy
from msmq.storage.scrub_policy import SCRUBBING

NOW = 1_700_000_000.0


def policy_of(path: Path, *, accepts_loss: bool = False) -> DamagePolicy:
    """The policy of a store in a file, or in a schema of this name, with its mark in the same directory."""
    return policy_at(path.with_name(f"{path.name}-mark"), accepts_loss=accepts_loss)


def policy_at(mark: Path, *, accepts_loss: bool = False) -> DamagePolicy:
    """The policy of a store with this mark."""
    return DamagePolicy(mark, accepts_loss, lambda: NOW, SCRUBBING)
