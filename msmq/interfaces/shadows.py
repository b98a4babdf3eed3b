"""IShadows: queues whose messages are copied to a second consumer, for operators."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
from zope.interface import Interface, implementer

from msmq.structures.status import MQError, Status


@attrs.frozen(kw_only=True)
class ShadowSummary:
    """One shadow.

    @ivar queue: the path of the queue whose messages are copied.
    @ivar destination: where the copies are sent.
    @ivar original_answers: the queue with what the consumer of the messages answers; empty for none, and then
        there is nothing to compare.
    @ivar shadow_answers: the same of the consumer of the copies.
    @ivar paired_by: how answers are paired: C{correlation}, C{label} or C{body}.
    @ivar late: seconds after the original answer from which the other one is late.
    @ivar condition: C{running} or C{waiting}.
    @ivar reason: why it waits; empty otherwise.
    @ivar copied: messages that were copied since the shadow began.
    @ivar skipped: messages that could not be copied.
    @ivar sequence: the sequence number in the message log of the last one.
    @ivar behind: messages in the message log behind that one, which are not copied yet.
    @ivar copied_since_start: those of C{copied} since the start of the server, and C{skipped_since_start}
        those of C{skipped}.
    @ivar gaps_since_start: how often messages were trimmed from the message log before they were copied.
    @ivar gap_first: the first number in the message log of the latest of these; C{gap_last} the last one,
        which is that of a message of this queue; 0 without one since the start.
    """

    queue: str
    destination: str
    original_answers: str
    shadow_answers: str
    paired_by: str
    late: float
    condition: str
    reason: str
    copied: int
    skipped: int
    sequence: int
    behind: int
    copied_since_start: int
    skipped_since_start: int
    gaps_since_start: int = 0
    gap_first: int = 0
    gap_last: int = 0


@attrs.frozen
class CopiedMessage:
    """A message and its copy.

    @ivar sequence: the sequence number of the message in the message log.
    @ivar copy: the identifier of the copy; empty if it could not be copied.
    """

    sequence: int
    original: str
    copy: str


class IShadows(Interface):
    """The shadows of a server.

    Every refusal is an L{msmq.structures.status.MQError}; MQ_ERROR_QUEUE_NOT_FOUND for a queue without a
    shadow.
    """

    def summaries() -> Sequence[ShadowSummary]:
        """All shadows, in the order of the configuration."""

    def summary(queue: str) -> ShadowSummary:
        """The shadow of one queue."""

    def copies(queue: str, after: int = 0, count: int = 1000) -> Sequence[CopiedMessage]:
        """Messages and their copies, in order, without the first C{after} of those that are known."""


def no_shadow(queue: str) -> MQError:
    """The refusal of a queue without a shadow."""
    return MQError(Status.MQ_ERROR_QUEUE_NOT_FOUND, f"queue {queue} has no shadow")


@implementer(IShadows)
class NoShadows:
    """The shadows of a server without any."""

    def summaries(self) -> Sequence[ShadowSummary]:
        """See L{IShadows}."""
        return ()

    def summary(self, queue: str) -> ShadowSummary:
        """See L{IShadows}."""
        raise no_shadow(queue)

    def copies(self, queue: str, after: int = 0, count: int = 1000) -> Sequence[CopiedMessage]:
        """See L{IShadows}."""
        raise no_shadow(queue)
