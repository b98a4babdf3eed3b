"""Chooses the sessions on which OrderAcks and FinalAcks are sent. [MS-MQQB] 2.1.1 and 3.1.7.17."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from msmq.manager.peers.peer_table import Peers
from msmq.queues.outgoing import OutgoingQueue
from msmq.queues.position import PositionState
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

NOTED_AT_ONCE: Final = 1024
"""Limit on acknowledgements whose addressees are recorded in one call."""


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
        self._addressed: dict[OutgoingQueue, _Addressed] = {}

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
            if position.lookup_id not in self._read and isinstance(queue, OutgoingQueue):
                self._record(queue, position, addressee)
            _remember(self._read, position.lookup_id, addressee)
            return addressee
        return self._sources.get(view.message_id)

    def is_unknown(self, position: MessagePosition) -> bool:
        """Whether an acknowledgement has to be read for L{source} to know its addressee."""
        return self.source(position) is None and position.view is None

    def next_unknown(self, queue: OutgoingQueue, count: int) -> list[MessagePosition]:
        """The next acknowledgements whose addressees were never known, wherever they are in a queue.

        A restart leaves them behind any number of those for an absent peer.

        @param count: how many are looked at together.
        """
        addressed = self._addressed.setdefault(queue, _Addressed())
        while page := queue.available.page(addressed.last_known, count):
            if unknown := list(filter(self.is_unknown, page)):
                return unknown
            addressed.last_known = page[-1].lookup_id
        return []

    def note(self, queue: OutgoingQueue) -> list[MessagePosition]:
        """Record the addressees of the acknowledgements of a queue, and the peers that can carry them.

        @return: one acknowledgement for each addressee that was recorded since L{dispatched} was called last,
            wherever it is in the queue.
        """
        for position in queue.peek(EXAMINED_MESSAGES):
            source = self.source(position)
            if source is not None:
                self._record_carriers(queue, source)
        addressed = self._addressed.setdefault(queue, _Addressed())
        for position in queue.available.page(addressed.last, NOTED_AT_ONCE):
            addressed.last = position.lookup_id
            source = self.source(position)
            if source is not None:
                self._record(queue, position, source)
        return list(addressed.latest.values())

    def dispatched(self, queue: OutgoingQueue) -> None:
        """The sessions for all acknowledgements that L{note} has returned are about to be dispatched."""
        if (addressed := self._addressed.get(queue)) is not None:
            addressed.latest.clear()

    def _record(self, queue: OutgoingQueue, position: MessagePosition, source: UUID) -> None:
        addressed = self._addressed.get(queue)
        if addressed is not None:
            addressed.add(source, position)
            addressed.drop_sent(queue)
            self._record_carriers(queue, source)

    def _record_carriers(self, queue: OutgoingQueue, source: UUID) -> None:
        for carrier in {source, self._peers.brought_by(source) or source}:
            self._queues.setdefault(carrier, {})[queue] = None
            self._carriers.setdefault(queue, set()).add(carrier)

    def pending(self, queue: OutgoingQueue, addressee: UUID | None, count: int) -> list[MessagePosition]:
        """The first available acknowledgements for an addressee, anywhere in a queue.

        Those for others, which may be absent for days, do not hold them up.
        """
        addressed = self._addressed.get(queue)
        if addressed is None or addressee is None:
            return []
        found = addressed.pending(queue, addressee, count)
        for position in found:
            if position.view is None:
                # Those of many that were read since may have replaced it.
                _remember(self._read, position.lookup_id, addressee)
        return found

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
        self._addressed.pop(queue, None)
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


class _Addressed:
    """The acknowledgements of a queue by addressee, as far as they were recorded.

    @ivar last: the greatest LookupIdentifier that was looked at.
    @ivar last_known: the addressees of those up to this LookupIdentifier are recorded.
    @ivar latest: the last recorded one for each addressee, until L{AckSessions.dispatched} is called.
    """

    def __init__(self) -> None:
        self.last = -1
        self.last_known = -1
        self.latest: dict[UUID, MessagePosition] = {}
        self._by_addressee: dict[UUID, dict[int, None]] = {}
        self._count = 0

    def add(self, addressee: UUID, position: MessagePosition) -> None:
        """Record an acknowledgement."""
        numbers = self._by_addressee.setdefault(addressee, {})
        self._count += position.lookup_id not in numbers
        numbers[position.lookup_id] = None
        self.latest[addressee] = position

    def pending(self, queue: OutgoingQueue, addressee: UUID, count: int) -> list[MessagePosition]:
        """See L{AckSessions.pending}."""
        found: list[MessagePosition] = []
        numbers = self._by_addressee.get(addressee, {})
        sent = []
        for number in numbers:
            position = queue.positions.get(number)
            if position is None:
                sent.append(number)
            elif position.state is PositionState.AVAILABLE:
                found.append(position)
                if len(found) == count:
                    break
        for number in sent:
            del numbers[number]
        self._count -= len(sent)
        if not numbers:
            self._by_addressee.pop(addressee, None)
        return found

    def drop_sent(self, queue: OutgoingQueue) -> None:
        """Drop records of acknowledgements that are not in the queue any more, once they are most of all."""
        if self._count <= 2 * len(queue.positions) + NOTED_AT_ONCE:
            return
        for addressee, numbers in list(self._by_addressee.items()):
            kept = dict.fromkeys(number for number in numbers if number in queue.positions)
            if kept:
                self._by_addressee[addressee] = kept
            else:
                del self._by_addressee[addressee]
        self._count = sum(map(len, self._by_addressee.values()))


def _remember(sources: dict[int, UUID], key: int, source: UUID) -> None:
    sources[key] = source
    if len(sources) > MOST_SOURCES:
        del sources[next(iter(sources))]
