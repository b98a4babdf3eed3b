"""SQL expressions for the checksums of message rows."""

from __future__ import annotations

from typing import Final

from msmq.storage.checksums import sum_after_move, sum_in_sql

_BITS: Final = "(('x' || encode(float8send(arrived), 'hex'))::bit(64)::bigint)"

SUM: Final = sum_in_sql(_BITS, packet=None, integer="bigint")
"""The expected checksum of a message row."""

IS_SOUND: Final = f"(row_checksum IS NOT DISTINCT FROM {SUM})"
"""Whether a message row matches its checksum; the packet is verified separately."""

IS_OLDER: Final = "(checksum IS NULL AND NOT (SELECT is_checked FROM progress))"
"""Whether a row was written before checksums existed."""

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
"""The checksum of a row after a move."""

ABORTED: Final = sum_after_move("m", {"aborts": "a.aborts"}, "bigint")
"""The checksum of a row after a change of AbortCount."""
