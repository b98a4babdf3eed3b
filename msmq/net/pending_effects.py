"""The effects of a session that are not performed yet, in their order."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import islice

from msmq.session.effects import Closed, Deliver, Effect, Transmit


class PendingEffects(deque[Effect]):
    """The queue of effects of one session; more of them wait while a hook is at work."""

    def ends(self, first: int) -> list[Closed]:
        """The ends of the session among the effects from this index on."""
        return [effect for effect in islice(self, first, None) if isinstance(effect, Closed)]

    def move_packets_first(self, first: int) -> bool:
        """Move all packets to the front if there are any from this index on; whether there are.

        Packets leave in the order in which they were created, since each states the counts of its time.
        """
        if not any(isinstance(effect, Transmit) for effect in islice(self, first, None)):
            return False
        # The sort is stable.
        ordered = sorted(self, key=lambda effect: not isinstance(effect, Transmit))
        self.clear()
        self.extend(ordered)
        return True

    def with_following(self, chunks: Sequence[bytes]) -> Sequence[bytes]:
        """These bytes and those of the acknowledgements at the front, which are removed from it."""
        while self and isinstance(self[0], Transmit) and self[0].is_awaited:
            chunks = (*chunks, *self[0].chunks)
            self.popleft()
        return chunks

    def discard_unperformed(self) -> None:
        """The session ends: discard messages that arrived, and packets, so that nothing is acknowledged."""
        kept = [effect for effect in self if not isinstance(effect, Transmit | Deliver)]
        self.clear()
        self.extend(kept)
