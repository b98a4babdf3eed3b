"""IBridgedQueues: the queues of a queue manager as a bridge uses them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Final, TypeAlias

import attrs
from zope.interface import Attribute, Interface

from msmq.interfaces.bridge_messages import MessageForQueue, QueuedMessage
from msmq.interfaces.manager.service_values import IServiceValues
from msmq.persistence.state_records import StateChange
from msmq.structures.status import Status

OF_A_MESSAGE: Final = frozenset(
    {
        Status.MQ_ERROR_INVALID_PARAMETER,
        Status.MQ_ERROR_ILLEGAL_FORMATNAME,
        Status.MQ_ERROR_ILLEGAL_PROPERTY_SIZE,
        Status.MQ_ERROR_ILLEGAL_PROPERTY_VALUE,
        Status.MQ_ERROR_ILLEGAL_PROPERTY_VT,
        Status.MQ_ERROR_LABEL_TOO_LONG,
        Status.MQ_ERROR_PROPERTY,
        Status.MQ_ERROR_PROPERTY_NOTALLOWED,
    }
)
"""Refusals for which a message is to blame; all others pass, or an operator ends them."""


ValuesOfSent: TypeAlias = Callable[[Sequence[str]], Sequence[StateChange]]
"""The changes of values that are stored in the commit of messages, by the identifiers of these."""


@attrs.frozen
class HeldMessages:
    """Messages that are locked until they are confirmed or released.

    @ivar confirm: removes them; done when that is stored.
    @ivar release: returns them to the queue.
    """

    messages: Sequence[QueuedMessage]
    confirm: Callable[[], Awaitable[None]] = attrs.field(repr=False)
    release: Callable[[], None] = attrs.field(repr=False)


class IBridgedQueues(Interface):
    """The queue manager of a route.

    Every refusal is an L{msmq.structures.status.MQError}.
    """

    sends_all_or_none: bool = Attribute(
        "Whether no message of a send is sent if one is refused; otherwise those before it are."
    )

    service_values: IServiceValues | None = Attribute(
        "Stores the addresses of requests with their messages; C{None} if a file has to keep them."
    )

    def suspicion() -> str:
        """Why the queue manager may be a clone, which forwards nothing; empty if it is not."""

    def receive(queue: str, count: int, size: int) -> Awaitable[HeldMessages]:
        """Wait for messages, and lock at most C{count} of them; cancelling the wait loses none.

        @param size: bytes that they may have together; a single one may have more.
        """

    def rest() -> None:
        """No L{receive} follows for some time: no message shall be locked that it has not returned."""

    def peek(queue: str, count: int) -> Awaitable[Sequence[QueuedMessage]]:
        """The first messages of a queue, at most C{count}, without waiting or locking."""

    def holding(queue: str, messages: Mapping[str, int]) -> Awaitable[Collection[str]]:
        """Those of the messages that are in a queue, locked or not.

        @param messages: identifiers, and the LookupIdentifiers that the messages have in the queue.
        """

    def send(
        destination: str, messages: Sequence[MessageForQueue], values: ValuesOfSent | None = None
    ) -> Awaitable[Sequence[str]]:
        """Send messages; returns their identifiers.

        A message with a key that was sent before is not sent again, and its first identifier is returned.

        @param values: changes of L{service_values} for the same commit; C{None} if there are no such values.
        """

    def create_queue(path: str) -> Awaitable[None]:
        """Create a queue for dead letters, unless it exists."""

    def note(event: str, reason: str, queue: str, identifier: str) -> None:
        """Append to the event log of the queue manager.

        @param identifier: of the message that the event is about; empty for none.
        """
