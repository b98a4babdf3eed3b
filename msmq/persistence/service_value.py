"""Names of the values that services beside the queue manager keep in its store."""

from __future__ import annotations

from typing import Final

PREFIX: Final = "service/"
"""The prefix of their names; the name that the service has chosen follows."""
