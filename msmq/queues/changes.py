"""What the queue model asks the store to do; all changes of one batch are done, or none of them."""

from __future__ import annotations

from typing import TypeAlias
from uuid import UUID

import attrs

from msmq.queues.definition import QueueDefinition


@attrs.frozen
class PutQueue:
    """Keep this queue, in place of what was kept under its identifier; its messages stay."""

    definition: QueueDefinition


@attrs.frozen
class RemoveQueue:
    """Forget a queue and all its messages; an identifier that is not kept is no error."""

    identifier: UUID


@attrs.frozen
class PutMessage:
    """Keep a message of a queue that is kept.

    @ivar lookup_id: LookupIdentifier, unsigned 64 bits; the messages of a queue lie in its order.
    @ivar packet: the UserMessage packet, without a SessionHeader.
    @ivar arrived: ArrivalTime, seconds since 1970-01-01 UTC.
    """

    queue: UUID
    lookup_id: int
    packet: bytes = attrs.field(repr=False)
    arrived: float


@attrs.frozen
class RemoveMessages:
    """Forget these messages of a queue; what is not kept is no error."""

    queue: UUID
    lookup_ids: tuple[int, ...]


@attrs.frozen
class PutState:
    """Keep a value of the queue manager itself, in place of what was kept under its name."""

    name: str
    value: bytes


Change: TypeAlias = PutQueue | RemoveQueue | PutMessage | RemoveMessages | PutState
