"""Stores the receivers of messages for direct names before the first message is sent. Reading 54."""

from __future__ import annotations

from collections.abc import Sequence

from msmq.interfaces.session import ISession
from msmq.manager.peers.acknowledging_peers import peer_of
from msmq.manager.peers.sequences import Sequences
from msmq.manager.peers.source_journal import SourceJournal
from msmq.manager.performer import Performer
from msmq.manager.states import as_changes
from msmq.queues.outgoing import OutgoingQueue
from msmq.queues.queue import MessagePosition
from msmq.structures.status import MQError
from msmq.transfer.receivers import Receivers, direct_destination, is_introduction_due, receivers_at


class Introductions:
    """Stores the receivers whose acknowledgements release messages.

    These are transactional messages, and those whose journal copy waits for an acknowledgement.

    @param receivers: the records, which L{Sequences} loads.
    """

    def __init__(
        self, performer: Performer, receivers: Receivers, sequences: Sequences, source_journal: SourceJournal
    ) -> None:
        self._performer = performer
        self._receivers = receivers
        self._sequences = sequences
        self._source_journal = source_journal

    def are_due(
        self,
        queue: OutgoingQueue,
        session: ISession,
        positions: Sequence[MessagePosition],
        *,
        is_ordered: bool,
    ) -> bool:
        """Whether messages of a queue have to wait until their receiver is stored.

        @param is_ordered: some of them are transactional.
        """
        # Only transactional messages and those that wait for an acknowledgement depend on it.
        return (is_ordered or self._source_journal.concerns(positions)) and is_introduction_due(
            queue.destination, peer_of(session), self._receivers
        )

    async def introduce(
        self, queue: OutgoingQueue, session: ISession, positions: Sequence[MessagePosition]
    ) -> None:
        """Store the receiver of messages of a queue, if that is due.

        @raise MQError: the store failed.
        """
        name = queue.destination
        destination, receivers = direct_destination(name), receivers_at(name, peer_of(session))
        is_ordered = self._sequences.find(queue) is not None
        if destination is not None and self.are_due(queue, session, positions, is_ordered=is_ordered):
            unknown = self._receivers.unknown(destination, receivers)
            try:
                await self._performer.commit(as_changes(self._receivers.introduce(destination, receivers)))
            except MQError:
                # What was stored before stays: its acknowledgements are accepted meanwhile.
                self._receivers.withdraw(destination, unknown)
                raise
