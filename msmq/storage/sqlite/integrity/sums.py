"""SQL expressions for the checksums of message rows."""

from __future__ import annotations

from typing import Final

from msmq.storage.checksums import TICKS, sum_after_move, sum_in_sql

SUM: Final = sum_in_sql(f"CAST(arrived * {TICKS} AS INTEGER)", packet="packet")
"""The expected checksum of a message row."""

IS_SOUND: Final = f"(row_checksum IS {SUM})"
"""Whether a message row matches its checksum; the packet is verified separately."""

IS_SOUND_OR_OLDER: Final = (
    f"({IS_SOUND} OR (row_checksum IS NULL AND checksum IS NULL"
    " AND (SELECT is_checked FROM generation) IS 0))"
)
"""The same in a file with rows that were written before checksums existed."""

_COLUMNS: Final = ("due", "aborts", "moves")

MOVED: Final = sum_after_move(
    "kept",
    {
        "queue": "change.target",
        "lookup_id": "change.new_lookup_id",
        **{column: f"change.{column}" for column in _COLUMNS},
    },
)
"""The checksum of a row after a move."""

ABORTED: Final = sum_after_move("kept", {"aborts": "change.aborts"})
"""The checksum of a row after a change of AbortCount."""
