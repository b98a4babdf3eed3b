"""IDrains: queues whose messages are moved to another queue manager, for operators."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Final

import attrs
from zope.interface import Interface

from msmq.interfaces.manager.summaries import TIME

ARRIVAL_ACKNOWLEDGED: Final = "acknowledged"
"""A message stays here until its arrival is acknowledged; one that is refused becomes a dead letter here."""

ARRIVAL_UNPROVEN: Final = "unproven"
"""A message is removed here at its hand-over, after which the destination may refuse it without notice."""


@attrs.frozen(kw_only=True)
class DrainSummary:
    """One drain.

    @ivar queue: the path of the queue.
    @ivar destination: the format name to which its messages are sent.
    @ivar condition: C{running} or C{waiting}.
    @ivar reason: why it waits; empty otherwise.
    @ivar began: when it was started.
    @ivar remaining: messages that are in the queue.
    @ivar in_transit: messages to the destination that it has not acknowledged, from all senders; with
        C{acknowledge_to} also those whose arrival is not acknowledged.
    @ivar acknowledge_to: the format name of the queue for acknowledgements of arrival; empty if messages are
        not kept until then.
    @ivar arrival: whether the arrival of messages is known: L{ARRIVAL_ACKNOWLEDGED} for a transactional queue
        and with C{acknowledge_to}, otherwise L{ARRIVAL_UNPROVEN}.
    @ivar refused: messages that were kept and became dead letters, since the start of the queue manager:
        refused by the destination, or not acknowledged in time. 0 if messages are not kept, also if the
        destination has refused all.
    @ivar moved: messages that have left the queue for the destination.
    @ivar bytes: the size of these.
    @ivar digest: of the identifiers that they have at the destination
        (L{add_to_digest<msmq.structures.identifier_digest.add_to_digest>}).
    @ivar first_identifier: how many of these identifiers are not kept any more; L{IDrains.identifiers} begins
        after them.
    """

    queue: str
    destination: str
    condition: str
    reason: str
    began: float = attrs.field(metadata=TIME)
    remaining: int
    in_transit: int
    acknowledge_to: str
    arrival: str
    refused: int
    moved: int
    bytes: int
    digest: str
    first_identifier: int


class IDrains(Interface):
    """The drains of a queue manager; they continue after a restart.

    Every refusal is an L{msmq.structures.status.MQError}; MQ_ERROR_QUEUE_NOT_FOUND for a queue that is not
    drained.
    """

    def begin(
        queue: str, destination: str, *, in_clear: bool = False, acknowledge_to: str | None = None
    ) -> Awaitable[DrainSummary]:
        """Move the messages of a queue, and those that arrive from now on, until L{end}.

        No effect if the queue is drained to this destination already.

        @param queue: a path or format name.
        @param destination: the format name of a queue of another queue manager.
        @param in_clear: also move messages whose senders requested encryption, without it.
        @param acknowledge_to: keep each message here until its arrival is acknowledged in this queue, which
            is one of this queue manager under a format name that the destination knows; what is refused, or
            not acknowledged in time, becomes a dead letter here. Messages whose senders request the
            acknowledgement of their receipt keep their administration queue, and are not kept here. Not for a
            transactional queue, whose messages are kept in any case.
        @raise MQError: MQ_ERROR_ILLEGAL_OPERATION if it is drained to another destination or with other
            options; MQ_ERROR_QUEUE_NOT_FOUND or MQ_ERROR_INVALID_PARAMETER for a queue that cannot get the
            acknowledgements.
        """

    def end(queue: str) -> Awaitable[DrainSummary]:
        """End a drain; messages that remain and later ones stay in the queue.

        @return: the final figures, which are not kept.
        """

    def summaries() -> Sequence[DrainSummary]:
        """All drains, the oldest first."""

    def summary(queue: str) -> DrainSummary:
        """One drain."""

    def identifiers(queue: str, after: int = 0, count: int = 1000) -> Sequence[str]:
        """The identifiers that moved messages have at the destination, in the order of their departure.

        @param after: how many to skip, counted from the beginning of the drain.
        """
