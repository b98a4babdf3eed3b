"""Counters of the record log since it was opened, for metrics."""

from __future__ import annotations

import attrs


@attrs.define
class Counters:
    """Counts since the log was opened.

    @ivar groups: written groups; C{inline} of them in the reactor's thread.
    @ivar batches: batches in them.
    @ivar bytes: bytes written for them, padding included.
    @ivar seconds: total duration of these writes.
    @ivar segments: number of switches to another segment.
    @ivar copied: packets copied by compaction; C{copied_bytes} is their size.
    @ivar reclaimed: segments that became free.
    @ivar checkpoints: written checkpoints; C{checkpoint_bytes} is their size.
    @ivar damaged: packets, groups, headers and checkpoints that were found damaged.
    @ivar scrubbed: packets verified in the background; C{scrubbed_bytes} is their size.
    @ivar scrubs: completed passes of the scrubber.
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
