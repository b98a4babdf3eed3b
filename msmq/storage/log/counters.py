"""Counters of the record log since it was opened, for metrics."""

from __future__ import annotations

import attrs


@attrs.define
class Counters:
    """Counts since the log was opened.

    @ivar groups: groups that were written; C{inline} of them in the reactor's thread.
    @ivar batches: batches in them.
    @ivar bytes: bytes that were written for them, with the space up to the next block.
    @ivar seconds: what writing them took.
    @ivar segments: how often the log went on in another segment.
    @ivar copied: packets that were copied out of nearly empty segments; C{copied_bytes} has their bytes.
    @ivar reclaimed: segments that became free.
    @ivar checkpoints: checkpoints that were written; C{checkpoint_bytes} has their bytes.
    @ivar damaged: packets, groups, headers and checkpoints that were found damaged.
    @ivar scrubbed: packets that were verified in the background; C{scrubbed_bytes} has their bytes.
    @ivar scrubs: passes over everything that is stored.
    """

    groups: int = 0
    inline: int = 0
    batches: int = 0
    bytes: int = 0
    seconds: float = 0.0
    segments: int = 0
    copied: int = 0
    copied_bytes: int = 0
    reclaimed: int = 0
    checkpoints: int = 0
    checkpoint_bytes: int = 0
    damaged: int = 0
    scrubbed: int = 0
    scrubbed_bytes: int = 0
    scrubs: int = 0
