"""State that all outgoing streams of a queue manager share: deadlines, sequences, early FinalAcks."""

from __future__ import annotations

from collections import Counter
from typing import Final, Generic, TypeVar

import attrs

from msmq.settings import SessionSettings
from msmq.transfer.deadlines import Deadlines
from msmq.transfer.disputed_sequences import DisputedSequences
from msmq.transfer.early_final_acks import EarlyFinalAcks
from msmq.transfer.sequence_identifiers import SequenceIdentifiers

EARLY_FINAL_ACKS: Final = 10_000
"""Limit on early FinalAcks after a restart, kept until their messages have been read."""

S = TypeVar("S")
"""The streams."""


@attrs.define(eq=False)
class StreamContext(Generic[S]):
    """The shared state of a queue manager's streams.

    @ivar source: the bytes of its identifier.
    @ivar resend_timer_table: ResendTimerTable, in seconds.
    @ivar by_sequence: the streams by their active sequences.
    @ivar former: the streams whose active sequences were begun before the start.
    @ivar restoring: the streams that have not read all of their stored messages.
    @ivar early: FinalAcks that came before those had.
    @ivar disputed: the sequences that are held, also over restarts.
    @ivar ignored: acknowledgements without effect, by reason.
    """

    source: bytes
    settings: SessionSettings
    identifiers: SequenceIdentifiers
    resend_timer_table: tuple[float, ...]
    deadlines: Deadlines[S] = attrs.field(factory=Deadlines)
    by_sequence: dict[int, S] = attrs.field(factory=dict)
    former: set[S] = attrs.field(factory=set)
    restoring: set[S] = attrs.field(factory=set)
    early: EarlyFinalAcks = attrs.field(factory=lambda: EarlyFinalAcks(EARLY_FINAL_ACKS))
    disputed: DisputedSequences = attrs.field(factory=DisputedSequences)
    ignored: Counter[str] = attrs.field(factory=Counter)

    def forget_restoring(self, stream: S) -> None:
        """A stream has read all of its stored messages."""
        self.restoring.discard(stream)
        if not self.restoring:
            self.early.clear()
