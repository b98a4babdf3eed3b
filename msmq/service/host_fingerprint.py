"""Where a data directory is: tells a copy of it, or of its computer, from the original."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

HOST_NAME: Final = "host.json"
"""The file of a data directory that says where it was used last."""

MACHINE_ID: Final = Path("/etc/machine-id")
"""The identifier of an installation of Linux; a container may have none."""


def machine_fingerprint(machine_id: Path = MACHINE_ID) -> str:
    """A hash of the identifier of this computer, which must not be published itself; empty if it has none."""
    try:
        text = machine_id.read_text("ascii").strip()
    except (OSError, ValueError):
        return ""
    return hashlib.sha256(f"msmq {text}".encode()).hexdigest()[:32] if text else ""
