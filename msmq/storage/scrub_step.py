"""Position and result of a verification step."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from msmq.storage.damage import DamagedRow


@attrs.frozen
class ScrubPosition:
    """Position of the next step of a pass: after a row of a table.

    @ivar table: its number, in the order in which tables are verified.
    @ivar queue: the row of a queue; C{key} is the LookupIdentifier as it is stored, or the sequence.
    """

    table: int
    queue: int
    key: int


@attrs.frozen
class ScrubStep:
    """Result of a verification step.

    @ivar position: position of the next step; C{None} after the last.
    @ivar size: bytes of packets.
    """

    position: ScrubPosition | None
    rows: int
    size: int
    damaged: Sequence[DamagedRow]
