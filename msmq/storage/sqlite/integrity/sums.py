"""Expressions for the checksums of the rows of messages."""

from __future__ import annotations

from typing import Final

from msmq.storage.checksums import TICKS, sum_after_move, sum_in_sql

SUM: Final = sum_in_sql(f"CAST(arrived * {TICKS} AS INTEGER)", packet="packet")
"""The checksum that the row of a message has to have."""

IS_SOUND: Final = f"(row_checksum IS {SUM})"
"""Whether the row of a message is as it was written, its packet aside."""

IS_SOUND_OR_OLDER: Final = (
    f"({IS_SOUND} OR (row_checksum IS NULL AND checksum IS NULL"
    " AND (SELECT is_checked FROM generation) IS 0))"
)
"""The same in a file some of whose rows are older than checksums."""

_COLUMNS: Final = ("due", "aborts", "moves")

MOVED: Final = sum_after_move(
    "kept",
    {
        "queue": "change.target",
        "lookup_id": "change.new_lookup_id",
        **{column: f"change.{column}" for column in _COLUMNS},
    },
)
"""The checksum of a row that moves."""

ABORTED: Final = sum_after_move("kept", {"aborts": "change.aborts"})
"""The checksum of a row whose AbortCount changes."""
