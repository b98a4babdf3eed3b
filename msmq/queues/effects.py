"""Effects of the queue model, performed in order after the call that returned them.

They are the events of [MS-MQDMPR] 3.1.7.2 for the parts that read and send messages.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import attrs

from msmq.queues.leaving.departure_kinds import Departure
from msmq.structures.status import Status

if TYPE_CHECKING:
    from msmq.queues.outgoing import OutgoingQueue
    from msmq.queues.queue import MessagePosition


@attrs.frozen
class ReadCompleted:
    """A read found messages: locked for its tag, or unlocked if it was a peek."""

    tag: Hashable
    positions: Sequence[MessagePosition] = attrs.field(repr=False)


@attrs.frozen
class ReadFailed:
    """A read ended without a message.

    @ivar status: MQ_ERROR_IO_TIMEOUT, MQ_ERROR_QUEUE_DELETED, MQ_ERROR_QUEUE_NOT_AVAILABLE,
        or the status of its cancellation.
    """

    tag: Hashable
    status: Status


@attrs.frozen
class OutgoingReady:
    """Messages are pending in an outgoing queue."""

    queue: OutgoingQueue


Effect: TypeAlias = ReadCompleted | ReadFailed | OutgoingReady | Departure
