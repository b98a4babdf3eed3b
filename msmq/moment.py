"""Time for the pure cores: a pair of monotonic and wall-clock seconds."""

from __future__ import annotations

import attrs


# Without slots: attrs assigns those of a frozen class with one call each, and several moments are read for
# each batch of messages.
@attrs.frozen(slots=False)
class Moment:
    """One instant, read from both clocks at once.

    Waiting is measured with C{monotonic}, which no one can set back; what the documents
    stamp on messages (seconds since 1970-01-01 UTC) comes from C{wall}.

    @ivar monotonic: seconds from an arbitrary start, never decreasing.
    @ivar wall: seconds since 1970-01-01 UTC; may jump in either direction.
    """

    monotonic: float
    wall: float

    @property
    def milliseconds(self) -> int:
        """Milliseconds since the arbitrary start, modulo 2**32 ([MS-MQQB] 2.2.3.1 TimeStamp)."""
        return int(self.monotonic * 1000) & 0xFFFFFFFF

    @property
    def unix_seconds(self) -> int:
        """Whole seconds since 1970-01-01 UTC as the unsigned 32 bits of [MS-MQMQ] 2.2.19.2 SentTime."""
        return int(self.wall) & 0xFFFFFFFF

    def later(self, seconds: float) -> Moment:
        """The instant C{seconds} after this one, if neither clock is set in between."""
        return Moment(self.monotonic + seconds, self.wall + seconds)
