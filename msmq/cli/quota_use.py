"""How much of its quota a queue uses, from the keys of the control API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def held_bytes(queue: Mapping[str, Any]) -> int:
    """The bytes that count against the quota of a queue: those in subqueues and open transactions too."""
    return int(
        queue["bytes"] + queue["uncommitted_bytes"] + sum(each["bytes"] for each in queue["subqueues"])
    )


def quota_used(queue: Mapping[str, Any]) -> float | None:
    """The used part of the quota of a queue, 1.0 for all; C{None} without a quota."""
    quota = queue["quota"]
    if quota is None:
        return None
    return held_bytes(queue) / (quota * 1024) if quota else 1.0
