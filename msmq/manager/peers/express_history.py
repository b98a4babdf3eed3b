"""Duplicate detection of express messages. [MS-MQQB] 3.1.5.8.1."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from uuid import UUID

from msmq.manager.peers.arrival_batch import ArrivalBatch
from msmq.manager.securing.trusted_peers import TrustedPeers
from msmq.moment import Moment
from msmq.queues.queue import Queue
from msmq.settings import SessionSettings
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.transfer.express_duplicates import ExpressDuplicates, is_recorded
from msmq.wire.guid import NULL_GUID


class ExpressHistory:
    """The history of express messages of one queue manager; which are recorded is L{is_recorded}."""

    def __init__(self, identifier: UUID, trusted_peers: TrustedPeers, settings: SessionSettings) -> None:
        """Create an empty history.

        @param identifier: that of this queue manager.
        @param trusted_peers: the addresses whose messages are trusted without a signature.
        """
        self._own = (NULL_GUID.bytes_le, identifier.bytes_le)
        self._trusted_peers = trusted_peers
        self._duplicates = ExpressDuplicates(settings)

    def configure(self, settings: SessionSettings) -> None:
        """Apply another size and lifetime from the next message on."""
        self._duplicates.configure(settings)

    def classify(
        self,
        batch: ArrivalBatch,
        messages: Sequence[UserMessageView],
        different: Sequence[UserMessageView],
        queues: Sequence[Queue | None],
        now: Moment,
    ) -> Container[UserMessageView]:
        """The express messages among these that are duplicates; the others are recorded.

        @param different: as of L{ArrivalFacts<msmq.transfer.decisions.arrival_decision.ArrivalFacts>}.
        @param queues: the local queue of each message.
        """
        if None in queues or batch.refused:
            is_trusted = self._trusted_peers.admits(batch.session.remote_address)
            messages = [
                message
                for message, queue in zip(messages, queues, strict=False)
                if is_recorded(
                    message,
                    has_queue=queue is not None,
                    is_trusted=is_trusted,
                    is_refused=message in batch.refused,
                )
            ]
        recoverable = 0
        for message in different:
            recoverable += message.is_recoverable
        if recoverable == len(different):
            return ()
        express = [message for message in messages if not message.is_recoverable] if recoverable else messages
        if not express:
            return ()
        batch.express.extend(express)
        return self._duplicates.classify(express, self._own, batch.peer, now)

    def take_back(self, views: Iterable[UserMessageView]) -> None:
        """Remove messages that were not accepted and not acknowledged: they are sent again."""
        self._duplicates.take_back(views)
