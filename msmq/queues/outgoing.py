"""OutgoingQueue: messages that are pending for another queue manager. [MS-MQDMPR] 3.1.1.3."""

from __future__ import annotations

from collections import deque
from typing import Final
from uuid import UUID

import attrs

from msmq.queues.available_positions import PRIORITIES
from msmq.queues.queue import Queue
from msmq.structures.management import ConnectionStatus, OutgoingState
from msmq.structures.names.format_name import FormatName, PrivateFormatName

HISTORY_LENGTH = 64
"""Limit on the entries of the ConnectionHistory of an outgoing queue."""


TRANSIT_NUMBER: Final = 0
"""No private queue has this number ([MS-MQDMPR] 3.1.1.2 PrivateQueueNumber); what passes through to a queue
manager waits under it."""


def transit_name(queue_manager: UUID) -> PrivateFormatName:
    """The name of the transit queue for a queue manager."""
    return PrivateFormatName(queue_manager, TRANSIT_NUMBER)


@attrs.frozen
class ConnectionHistoryEntry:
    """One member of ConnectionHistory. [MS-MQDMPR] 3.1.1.3.

    @ivar time: ConnectionHistoryTime, seconds since 1970-01-01 UTC.
    @ivar error: an HRESULT; 0 if there was no error.
    @ivar addresses: AddressList, the next hops that were tried.
    """

    status: ConnectionStatus
    time: int
    error: int = 0
    addresses: tuple[str, ...] = ()


@attrs.define(eq=False, kw_only=True)
class OutgoingQueue(Queue):
    """The queue of pending messages to one format name; each name has its own. [MS-MQDMPR] 3.1.1.3.

    @ivar destination: DestinationFormatName.
    @ivar next_hops: NextHops, the addresses to which its messages can be sent next.
    @ivar history: ConnectionHistory, the newest entry last; the oldest are dropped.
    @ivar idle_since: the check at which it was first found empty and unused, in seconds of the monotonic
        clock; C{None} if it has been used since.
    """

    destination: FormatName
    state: OutgoingState = OutgoingState.INACTIVE
    next_hops: tuple[str, ...] = ()
    history: deque[ConnectionHistoryEntry] = attrs.field(
        factory=lambda: deque(maxlen=HISTORY_LENGTH), repr=False
    )
    idle_since: float | None = None

    @property
    def is_transit(self) -> bool:
        """Whether it is a transit queue, for forwarded messages only."""
        name = self.destination
        return isinstance(name, PrivateFormatName) and name.number == TRANSIT_NUMBER

    @property
    def is_active(self) -> bool:
        """Active: messages are pending, or it is open. [MS-MQDMPR] 3.1.1.2."""
        return self.has_available or bool(self.descriptors)

    def may_pack(self, level: int) -> bool:
        """Transactional messages, which are among those of priority 0, stay objects for their stream."""
        return level != PRIORITIES - 1
