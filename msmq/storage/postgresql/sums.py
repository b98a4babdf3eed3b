"""Expressions for the checksums of the rows of messages."""

from __future__ import annotations

from typing import Final

from msmq.storage.checksums import sum_after_move, sum_in_sql

_BITS: Final = "(('x' || encode(float8send(arrived), 'hex'))::bit(64)::bigint)"

SUM: Final = sum_in_sql(_BITS, packet=None, integer="bigint")
"""The checksum that the row of a message has to have."""

IS_SOUND: Final = f"(row_checksum IS NOT DISTINCT FROM {SUM})"
"""Whether the row of a message is as it was written, its packet aside."""

IS_OLDER: Final = "(checksum IS NULL AND NOT (SELECT is_checked FROM progress))"
"""Whether a row is older than checksums."""

MOVED: Final = sum_after_move(
    "m",
    {
        "queue": "v.target",
        "lookup_id": "v.new_lookup_id",
        "due": "v.due",
        "aborts": "v.aborts",
        "moves": "v.moves",
    },
    "bigint",
)
"""The checksum of a row that moves."""

ABORTED: Final = sum_after_move("m", {"aborts": "a.aborts"}, "bigint")
"""The checksum of a row whose AbortCount changes."""
