"""KeptArrivals: results of messages that are kept until their arrival is acknowledged, by destination."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from msmq.persistence.state_records import StateChange
from msmq.structures.packet.message_class import MessageClass
from msmq.transfer.awaiting_acknowledgements import SourceSettlement
from msmq.transfer.source_journaling import KEEPS_NO_COPY
from msmq.transfer.stream_changes import Disposal

USED: Final = "source/kept"
"""The name of the value that is stored while there may be such messages."""


@attrs.define(eq=False)
class ArrivalCounts:
    """Results of the messages for one destination since the start.

    @ivar arrived: messages whose arrival was acknowledged.
    @ivar failed: messages that were refused, or not acknowledged in time.
    @ivar last_class: of the last of these.
    """

    arrived: int = 0
    failed: int = 0
    last_class: int = MessageClass.NORMAL


class KeptArrivals:
    """Whether there may be messages that are kept, and what became of those for watched destinations.

    @ivar is_used: whether there may be such messages; while there are none, acknowledged messages need not be
        examined.
    """

    def __init__(self) -> None:
        self.is_used = False
        self._counts: dict[str, ArrivalCounts] = {}

    def load(self, state: Mapping[str, bytes]) -> None:
        """Restore L{is_used} from the store."""
        self.is_used = USED in state

    def use(self) -> list[StateChange]:
        """The changes to store before the first message is kept; L{used} has to follow."""
        return [] if self.is_used else [(USED, b"1")]

    def used(self) -> None:
        """The changes of L{use} are stored."""
        self.is_used = True

    def release(self) -> list[StateChange]:
        """No message is kept, or will be; returns the changes to store."""
        self.is_used = False
        return [(USED, None)]

    def watch(self, destination: str) -> ArrivalCounts:
        """The counts of a destination, which are kept until L{forget}."""
        return self._counts.setdefault(destination.casefold(), ArrivalCounts())

    def forget(self, destination: str) -> None:
        """Count the messages for a destination no longer."""
        self._counts.pop(destination.casefold(), None)

    def settled(self, settlement: SourceSettlement) -> None:
        """The result of a message is stored; others than kept ones do not count."""
        message = settlement.message
        counts = self._counts.get(message.destination.casefold())
        if counts is None or not message.wanted & KEEPS_NO_COPY:
            return
        if is_arrival(settlement):
            counts.arrived += 1
        else:
            counts.failed += 1
            counts.last_class = settlement.message_class


def is_arrival(settlement: SourceSettlement) -> bool:
    """Whether a message has arrived, so that it is removed without a copy and without an event."""
    return settlement.disposal is Disposal.FORGET and settlement.message_class in (
        MessageClass.ACK_REACH_QUEUE,
        MessageClass.ACK_RECEIVE,
    )
