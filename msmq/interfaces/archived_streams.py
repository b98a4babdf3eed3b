"""The streams that an archive can contain; a module of its own, since readers of stores load nothing else."""

from __future__ import annotations

from typing import Final

ARCHIVED_STREAMS: Final = (
    *("log", "journal", "source_journal", "dead_letter", "dead_letter_transactional", "events"),
)
"""What an archive can contain, under the names of the data source."""
