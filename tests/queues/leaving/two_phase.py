"""[MS-MQDMPR] 3.1.7.1.12: a read in two phases comes to its end."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

import attrs

from msmq.moment import Moment
from msmq.queues.effects import Effect
from msmq.queues.leaving.departure_kinds import Removal
from msmq.queues.position import PositionState
from msmq.queues.queue import MessagePosition
from msmq.queues.reading.descriptor import OpenQueueDescriptor
from msmq.structures.status import Status

if TYPE_CHECKING:
    from msmq.queues.model import QueueManagerModel


@attrs.frozen
class DequeueEnd:
    """The result of the end of a read.

    @ivar status: rStatus.
    @ivar removal: the message leaves when its changes are stored
        (L{msmq.queues.model.QueueManagerModel.removed}).
    @ivar effects: the message was returned.
    """

    status: Status
    removal: Removal | None = None
    effects: Sequence[Effect] = ()


def dequeue_end(
    model: QueueManagerModel,
    descriptor: OpenQueueDescriptor,
    position: MessagePosition,
    *,
    owner: Hashable,
    delete: bool,
    is_transactional: bool = False,
    now: Moment,
) -> DequeueEnd:
    """[MS-MQDMPR] 3.1.7.1.12 Dequeue Message End.

    If its queue was purged meanwhile, a message that was not received leaves as purged (reading 27).

    @param owner: the owner of the lock: by default the tag of the read.
    @param delete: whether it was received; otherwise it is returned to the queue.
    @param is_transactional: whether the transaction that owns it decides instead.
    @return: MQ_ERROR_QUEUE_NOT_AVAILABLE; MQ_ERROR_TRANSACTION_SEQUENCE for a message that is not locked, or
        not for this owner; MQ_ERROR_MESSAGE_NOT_FOUND for one that is gone (reading 36); or MQ_OK.
    """
    if descriptor.queue is None:
        return DequeueEnd(Status.MQ_ERROR_QUEUE_NOT_AVAILABLE)
    match position.state:
        case PositionState.AVAILABLE | PositionState.ARRIVING:
            return DequeueEnd(Status.MQ_ERROR_TRANSACTION_SEQUENCE)
        case PositionState.REMOVING | PositionState.LEAVING | PositionState.DELETED:
            return DequeueEnd(Status.MQ_ERROR_MESSAGE_NOT_FOUND)
    if is_transactional:
        return DequeueEnd(Status.MQ_OK)
    if position.owner != owner:
        return DequeueEnd(Status.MQ_ERROR_TRANSACTION_SEQUENCE)
    if delete:
        return DequeueEnd(Status.MQ_OK, model.remove([position]))
    return DequeueEnd(Status.MQ_OK, effects=model.release([position], now))
