"""Who got the messages of a sequence; nobody else says what became of them."""

from __future__ import annotations

from uuid import UUID

MOST_SEQUENCES = 10_000
"""Sequences whose receivers are remembered; those that were sent longest ago are forgotten first."""

MOST_RECEIVERS = 16
"""Receivers of one sequence that are remembered: one, unless another took its place at its address."""


class Receivers:
    """The queue managers to which sequences to direct names were sent (reading 54).

    A direct name says where a queue manager is and not which, so that is learned from the sessions.
    An acknowledgement of a sequence that is not known, because of a restart, may come from anybody.
    """

    def __init__(self) -> None:
        self._by_sequence: dict[int, dict[UUID, None]] = {}

    def sent(self, sequence: int, receiver: UUID) -> None:
        """Messages of a sequence go to this queue manager."""
        receivers = self._by_sequence.pop(sequence, {})
        receivers.pop(receiver, None)
        receivers[receiver] = None
        self._by_sequence[sequence] = receivers
        if len(receivers) > MOST_RECEIVERS:
            del receivers[next(iter(receivers))]
        if len(self._by_sequence) > MOST_SEQUENCES:
            del self._by_sequence[next(iter(self._by_sequence))]

    def may_tell(self, sequence: int, teller: UUID | None) -> bool:
        """Whether this queue manager may acknowledge messages of a sequence."""
        receivers = self._by_sequence.get(sequence)
        return receivers is None or teller in receivers
