"""The budget of each attack: twice what it was measured to cost, more where a busy machine adds to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tests.budgets.budget import Cost

ALL: Final = Cost(
    log_lines=100, log_bytes=20_000, resident=30_000, held=220, left=8, disk=17_000, processor=25_000, turn=60
)
"""All attacks together; lines and bytes of the log are the ceiling of a minute, and they take less."""


def _budget(*, resident: float, held: float, processor: float, lines: float = 15, turn: float = 15) -> Cost:
    return Cost(
        log_lines=lines,
        log_bytes=400 * lines,
        resident=resident,
        held=held,
        left=8,
        # The record log is preallocated: nothing that a peer does grows it before a segment is full.
        disk=1_024,
        processor=processor,
        turn=turn,
    )


BUDGETS: Final[Mapping[str, Cost]] = {
    "handshakes": _budget(resident=2_000, held=8, processor=3_000),
    "unfinished_handshakes": _budget(resident=4_000, held=310, processor=1_500),
    "garbage": _budget(resident=2_000, held=8, processor=3_000),
    "half_packets": _budget(resident=4_000, held=72, processor=2_000),
    "datagrams": _budget(resident=1_000, held=8, processor=2_000),
    "idle_sessions": _budget(resident=4_000, held=210, processor=2_000, turn=25),
    "idle_connections": _budget(resident=2_000, held=210, processor=1_500, turn=25),
    "slow_readers": _budget(resident=6_000, held=28, processor=6_000, turn=40),
    "unread_answers": _budget(resident=6_000, held=58, processor=9_000, turn=40),
    "streams": _budget(resident=4_000, held=9, processor=1_500),
    "sequences": _budget(resident=2_000, held=9, processor=1_500),
    "names": _budget(resident=4_000, held=9, processor=3_000, turn=60),
    "identifiers": _budget(resident=4_000, held=9, processor=1_500),
    "deep_bodies": _budget(resident=4_000, held=8, processor=2_000, turn=40),
}
