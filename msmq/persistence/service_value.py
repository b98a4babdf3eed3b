"""Names of the values that services of the same server keep in the store of the queue manager."""

from __future__ import annotations

from typing import Final

PREFIX: Final = "service/"
"""The prefix of their names; the name that the service has chosen follows."""
