"""The interface by which operators change messages that are in queues, by their LookupIdentifiers."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any

import attrs
from zope.interface import Attribute, Interface

from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.status import MQError


@attrs.frozen
class MessageChange:
    """Result of an operation on one message.

    @ivar identifier: C{None} of one that was removed and could not be read.
    @ivar new: the identifier of the message that was sent in its place, or as its copy.
    @ivar error: why nothing was done with it; C{None} if it was.
    """

    lookup_id: int
    identifier: MessageIdentifier | None
    new: MessageIdentifier | None = None
    error: MQError | None = None


class IMessageAdministration(Interface):
    """Operators remove, move, copy and requeue messages of a queue.

    Each method takes LookupIdentifiers of one queue, a path or a format name, and does nothing with those
    that are not available any more: received, locked or removed meanwhile. Each call of L{remove} and L{move}
    is one commit, all or none; the caller chooses how many messages it has.
    Every refusal is an L{msmq.structures.status.MQError}.
    """

    last_sequential: int = Attribute(
        """The SequentialID, the lower 56 bits of a LookupIdentifier, of the newest message of all queues."""
    )

    def remove(queue: str, lookup_ids: Sequence[int]) -> Awaitable[Sequence[MessageChange]]:
        """Remove messages unread, as a purge does: each with an event, and with the acknowledgement and the
        dead letter that its sender requested.

        @param queue: also an outgoing queue.
        """

    def move(queue: str, lookup_ids: Sequence[int], target: str) -> Awaitable[Sequence[MessageChange]]:
        """Move messages to another local queue; their packets and identifiers stay as they are.

        @raise MQError: MQ_ERROR_TRANSACTION_USAGE if only one of the queues is transactional,
            MQ_ERROR_INVALID_PARAMETER for queues between which messages cannot be moved, or a message that
            the target does not accept; MQ_ERROR_INSUFFICIENT_RESOURCES over its quota. Nothing was moved.
        """

    def copy(
        queue: str,
        lookup_ids: Sequence[int],
        destination: str,
        *,
        in_clear: bool = False,
        edited: Mapping[str, Any] | None = None,
    ) -> Awaitable[Sequence[MessageChange]]:
        """Send copies of messages, which stay where they are; done once the recoverable ones are on disk.

        A copy requests no acknowledgements and no copies, and does not expire. It is transactional if a local
        destination is; to another queue manager, if the message is.

        @param queue: also an outgoing queue.
        @param destination: as of C{send}.
        @param in_clear: send all of them unencrypted, even if their senders requested encryption.
        @param edited: what differs from the message in its copy: arguments of
            L{Message<msmq.queues.arriving.message.Message>}; for one message only.
        @raise MQError: as C{send}; of a slice with transactional and other messages, some may be sent.
        """

    def requeue(
        queue: str,
        lookup_ids: Sequence[int],
        *,
        to: str | None = None,
        edited: Mapping[str, Any] | None = None,
    ) -> Awaitable[Sequence[MessageChange]]:
        """Send dead letters again, each in one commit with its removal; one that is refused stays.

        @param queue: a dead-letter queue.
        @param to: the destination, one queue; by default the queue that each was for.
        @param edited: what differs from the dead letter in the message that is sent: arguments of
            L{Message<msmq.queues.arriving.message.Message>}; for one dead letter only.
        @raise MQError: the queue is not a dead-letter queue, or C{to} is not one destination.
        """
