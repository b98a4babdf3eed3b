"""The mark of the queue manager that owns a store."""

from __future__ import annotations

from typing import Final

OWNER: Final = "queue_manager"
"""Name of the stored value with the 16 bytes of the owner's GUID, in the order in which they are printed."""
