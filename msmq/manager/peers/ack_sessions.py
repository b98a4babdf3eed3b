"""Chooses the sessions on which OrderAcks and FinalAcks are sent. [MS-MQQB] 2.1.1 and 3.1.7.17."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from msmq.manager.peers.peer_table import Peers
from msmq.queues.outgoing import OutgoingQueue
from msmq.queues.queue import MessagePosition
from msmq.queues.redirects import Redirects
from msmq.structures.names.direct_format_name import DirectFormatName
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.transfer.acknowledgements import final_ack_addressee, is_order_queue, requester_of
from msmq.wire.guid import NULL_GUID

READ_AT_HEAD: Final = 16
"""Limit on messages at the head of a queue that are read to find administration acknowledgements."""

LARGEST_READ: Final = 65536
"""Limit on the size of a packet that is read for that, in bytes."""

MOST_SOURCES: Final = 10_000
"""Limit on cached addressees of acknowledgements of either kind."""

EXAMINED_MESSAGES: Final = 64
"""Acknowledgements at the head of a queue that are examined in one batch."""


class AckSessions:
    """Finds the addressee of each acknowledgement, and the queue managers that may carry it.

    Those are the sender of the acknowledged message and the router that forwarded it, whichever side opened
    the session; L{carrier_of<msmq.transfer.decisions.next_hop_decision.carrier_of>} decides between sessions.
    Several queue managers may be at one address, behind one name of C{order_queue$}; each gets its own.

    @param redirects: queues that are sent to another address than the one in their names.
    """

    def __init__(self, peers: Peers, redirects: Redirects) -> None:
        self._peers = peers
        self._redirects = redirects
        self._sources: dict[int, UUID] = {}
        self._read: dict[int, UUID] = {}
        self._requesters: dict[int, UUID] = {}
        # By the peer that can carry their acknowledgements.
        self._queues: dict[UUID, dict[OutgoingQueue, None]] = {}
        self._carriers: dict[OutgoingQueue, set[UUID]] = {}

    def order_ack(self, message_id: int, source: UUID) -> None:
        """Record the addressee of an OrderAck, which its packet does not contain.

        @param message_id: its own MessageID.
        """
        _remember(self._sources, message_id, source)

    def source(self, position: MessagePosition) -> UUID | None:
        """The addressee of an acknowledgement; C{None} if that is unknown until it is read."""
        view = position.view
        if view is None:
            return self._read.get(position.lookup_id) or self.requester(position)
        return self.learn(position, view)

    def requester(self, position: MessagePosition) -> UUID | None:
        """The queue manager that requested an administration acknowledgement; C{None} for other messages.

        C{None} also while neither the packet nor what L{learn} read of it is in memory.
        """
        if position.view is None:
            found = self._requesters.get(position.lookup_id, NULL_GUID)
            return None if found == NULL_GUID else found
        return requester_of(position.view)

    def unread(self, queue: OutgoingQueue) -> list[MessagePosition]:
        """Messages at the head of a queue that L{requester} has to read."""
        return [
            position
            for position in queue.peek(READ_AT_HEAD)
            if position.view is None
            and position.size <= LARGEST_READ
            and position.lookup_id not in self._requesters
        ]

    def learn(self, position: MessagePosition, view: UserMessageView) -> UUID | None:
        """Record the addressee of an acknowledgement that was read."""
        queue = position.queue
        if isinstance(queue, OutgoingQueue) and not is_order_queue(queue.destination):
            requester = requester_of(view)
            _remember(self._requesters, position.lookup_id, requester or NULL_GUID)
            return requester
        if (addressee := final_ack_addressee(view)) is not None:
            _remember(self._read, position.lookup_id, addressee)
            return addressee
        return self._sources.get(view.message_id)

    def note(self, queue: OutgoingQueue) -> None:
        """Record the peer that can carry the acknowledgements of a queue."""
        for position in queue.peek(EXAMINED_MESSAGES):
            source = self.source(position)
            if source is not None:
                for carrier in {source, self._peers.brought_by(source) or source}:
                    self._queues.setdefault(carrier, {})[queue] = None
                    self._carriers.setdefault(queue, set()).add(carrier)

    def queues(self, carrier: UUID | None) -> list[OutgoingQueue]:
        """The queues with pending acknowledgements that this queue manager may carry."""
        queues = self._queues.get(carrier) if carrier is not None else None
        if not queues or carrier is None:
            return []
        for queue in [queue for queue in queues if not queue.positions]:
            del queues[queue]
            self._uncarried(queue, carrier)
        if not queues:
            del self._queues[carrier]
        return list(queues)

    def _uncarried(self, queue: OutgoingQueue, carrier: UUID) -> None:
        carriers = self._carriers[queue]
        carriers.discard(carrier)
        if not carriers:
            del self._carriers[queue]

    def forget(self, queue: OutgoingQueue) -> None:
        """Remove the records of a deleted queue."""
        for carrier in self._carriers.pop(queue, ()):
            queues = self._queues[carrier]
            del queues[queue]
            if not queues:
                del self._queues[carrier]

    def address(self, position: MessagePosition) -> str | None:
        """The address of an acknowledgement, if the name of its queue contains one."""
        queue = position.queue
        name = queue.destination if isinstance(queue, OutgoingQueue) else None
        return self._redirects.dialled(name) if isinstance(name, DirectFormatName) else None


def _remember(sources: dict[int, UUID], key: int, source: UUID) -> None:
    sources[key] = source
    if len(sources) > MOST_SOURCES:
        del sources[next(iter(sources))]
