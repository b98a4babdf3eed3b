"""Next hops with their outgoing queues and sessions. [MS-MQQB] 3.1.1.3.1."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from uuid import UUID

from msmq.interfaces.session import ISession, RoutedHop
from msmq.interfaces.sessions import ISessions
from msmq.manager.membership.public_names import PublicNames
from msmq.manager.peers.ack_sessions import EXAMINED_MESSAGES, AckSessions
from msmq.manager.peers.peer_table import Peers
from msmq.manager.routes.hop_carriers import HopCarriers, open_session
from msmq.manager.routes.moved_senders import MovedSenders
from msmq.manager.routes.next_hop import NO_QUEUE_MANAGER, NextHop
from msmq.manager.routes.route_table import RouteTable
from msmq.queues.holds import HoldReason, Holds
from msmq.queues.outgoing import OutgoingQueue
from msmq.queues.queue import MessagePosition
from msmq.queues.redirects import Redirects
from msmq.structures.names.direct_format_name import DirectFormatName
from msmq.structures.names.format_name import PublicFormatName
from msmq.structures.packet.user_message_patches import patch_queue_manager_address
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.transfer.acknowledgements import is_order_queue
from msmq.transfer.decisions.next_hop_decision import (
    CarriedFacts,
    Key,
    NextHopChoice,
    carrier_of,
    dialled_hop,
    is_carried,
    routed_hop,
)
from msmq.transfer.receivers import named_owners
from msmq.wire.guid import format_guid


class NextHops:
    """Every next hop of a queue manager.

    A direct name contains the address to connect to; any other names a queue manager, which is reached over a
    session that it opened (reading 28), or by a route.
    A session that the peer opened is used for a direct name too, once the name was dialled and the peer has
    identified itself: the address of a peer alone is not sufficient, since several queue managers may share
    one.
    """

    def __init__(
        self,
        sessions: ISessions,
        peers: Peers,
        acks: AckSessions,
        moved: MovedSenders,
        route_table: RouteTable,
        names: PublicNames | None,
        holds: Holds,
        redirects: Redirects,
    ) -> None:
        """Create the table of next hops.

        @param moved: confirms senders at other addresses than those of their acknowledgements.
        @param holds: paused next hops; messages use those that are not paused.
        @param redirects: direct names for which another host is dialled.
        @param names: finds the owners of public queues; C{None} in workgroup mode.
        """
        self._sessions = sessions
        self._peers = peers
        self._acks = acks
        self._moved = moved
        self._route_table = route_table
        self._names = names
        self._holds = holds
        self._redirects = redirects
        self._by_destination: dict[UUID, dict[OutgoingQueue, None]] = {}
        self._destinations: dict[OutgoingQueue, UUID] = {}
        self._public: dict[UUID, OutgoingQueue] = {}
        self._hops: dict[Key, NextHop] = {}
        self._by_queue: dict[OutgoingQueue, NextHop] = {}
        self._by_identifier: dict[UUID, dict[NextHop, None]] = {}
        self._divided: set[OutgoingQueue] = set()
        self._elsewhere: dict[OutgoingQueue, dict[Key, None]] = {}
        self._missed: dict[str, dict[NextHop, None]] = {}

    def __iter__(self) -> Iterator[NextHop]:
        return iter(list(self._hops.values()))

    def is_divided(self, queue: OutgoingQueue) -> bool:
        """Whether each message of a queue has a session of its own: it takes OrderAcks and FinalAcks."""
        return queue in self._divided

    def of(self, queue: OutgoingQueue) -> NextHop:
        """The next hop of a queue, created if necessary."""
        hop = self._by_queue.get(queue)
        return self._assign(queue) if hop is None else hop

    def find(self, queue: OutgoingQueue) -> NextHop | None:
        """The next hop of a queue, if it has one yet."""
        return self._by_queue.get(queue)

    def note(self, queue: OutgoingQueue) -> None:
        """Record that a queue has pending messages."""
        hop = self._by_queue.get(queue)
        if hop is not None:
            hop.busy[queue] = None

    def _assign(self, queue: OutgoingQueue) -> NextHop:
        choice = self._choice(queue)
        hop = self._hops.get(choice.key)
        if hop is None:
            hop = self._hops[choice.key] = self._make(choice)
        hop.queues[queue] = hop.busy[queue] = None
        self._by_queue[queue] = hop
        if is_order_queue(queue.destination):
            self._divided.add(queue)
        return hop

    def _make(self, choice: NextHopChoice[RoutedHop]) -> NextHop:
        hop = NextHop(choice.key, self._sessions, choice.host, choice.routed)
        for identifier in hop.identifiers:
            self._by_identifier.setdefault(identifier, {})[hop] = None
        return hop

    def _choice(self, queue: OutgoingQueue) -> NextHopChoice[RoutedHop]:
        """The next hop of a queue, by its name, the directory and routing. [MS-MQQB] 3.1.7.4 and 3.1.7.5."""
        name = queue.destination
        if isinstance(name, DirectFormatName):
            return dialled_hop(self._redirects.dialled(name))
        owner = next(iter(named_owners(name)), None)
        if isinstance(name, PublicFormatName):
            self._public[name.queue] = queue
            owner = self._owner(name)
        hops: Sequence[RoutedHop] = ()
        if owner is not None:
            self._forget_destination(queue)
            self._destinations[queue] = owner
            self._by_destination.setdefault(owner, {})[queue] = None
            hops = [
                RoutedHop(hop.identifier, hop.qualified_computer_name or hop.name)
                for hop in self._route_table.hops(owner)
            ]
        return routed_hop(name, owner, hops, self._is_paused)

    def _is_paused(self, hop: RoutedHop) -> bool:
        return bool(self._holds.hosts) and self._holds.holds_host(_texts(hop))

    # Look-up

    def held_by(self, queue: OutgoingQueue) -> tuple[HoldReason, ...]:
        """Why an operator has paused a queue; empty if it is not paused."""
        if not self._holds:
            return ()
        known_as = self.known_as(queue) if self._holds.hosts else ()
        return self._holds.reasons(queue.destination, known_as)

    def known_as(self, queue: OutgoingQueue) -> list[frozenset[str]]:
        """The addresses, names and identifiers of each next hop of a queue, in lower case."""
        hop = self.of(queue)
        if hop.routed:
            return [_texts(routed) for routed in hop.routed]
        known = [hop.key] if isinstance(hop.key, str) else []
        if hop.connector is not None:
            known += hop.connector.addresses
        known += map(format_guid, hop.identifiers)
        return [frozenset(text.lower() for text in known)]

    def names_of_host(self, host: str) -> list[str]:
        """The hosts of direct names that are known to lead to a host."""
        return [
            hop.key
            for hop in self
            if isinstance(hop.key, str)
            and hop.connector is not None
            and not hop.routed
            and host in map(str.lower, (*hop.connector.addresses, *map(format_guid, hop.identifiers)))
        ]

    def reroute_all(self) -> list[OutgoingQueue]:
        """Choose all next hops again; returns the queues whose route has changed."""
        return [queue for destination in list(self._by_destination) for queue in self.reroute(destination)]

    # Routes

    def reroute(self, destination: UUID) -> list[OutgoingQueue]:
        """Choose the next hops to a queue manager again; returns the queues whose route has changed."""
        moved = []
        for queue in list(self._by_destination.get(destination, ())):
            before = self._by_queue.get(queue)
            if before is None:
                # It has just queried the route, and gets the result directly.
                continue
            choice = self._choice(queue)
            if choice.key == before.key:
                before.routed = choice.routed
                continue
            self._leave(queue)
            self._assign(queue)
            moved.append(queue)
        return moved

    def owner_found(self, identifier: UUID) -> OutgoingQueue | None:
        """The owner of a public queue was found or has changed: returns the queue with its new next hop."""
        queue = self._public.get(identifier)
        before = None if queue is None else self._by_queue.get(queue)
        if queue is None or before is None:
            return None
        self._forget_destination(queue)
        choice = self._choice(queue)
        if choice.key == before.key:
            before.routed = choice.routed
            return None
        self._leave(queue)
        self._assign(queue)
        return queue

    def redirected(self, queue: OutgoingQueue) -> None:
        """Dial another host for a queue from now on."""
        if queue in self._by_queue:
            self._leave(queue)
        self._assign(queue)

    def _leave(self, queue: OutgoingQueue) -> None:
        """A queue uses another route; its messages on an open session stay there."""
        hop = self._by_queue.pop(queue)
        del hop.queues[queue]
        hop.busy.pop(queue, None)
        hop.reported.pop(queue, None)
        if not hop.queues:
            self._drop(hop)

    def forget(self, queue: OutgoingQueue) -> None:
        """Remove a deleted queue, and its next hop with the last queue. [MS-MQDMPR] 3.1.7.1.34."""
        if queue in self._divided:
            self._divided.discard(queue)
            self._acks.forget(queue)
            for key in self._elsewhere.pop(queue, ()):
                elsewhere = self._hops.get(key)
                if elsewhere is not None:
                    elsewhere.busy.pop(queue, None)
                    if not elsewhere.queues and not elsewhere.busy:
                        self._drop(elsewhere)
        if queue not in self._by_queue:
            return
        self._leave(queue)
        self._forget_destination(queue)
        name = queue.destination
        if isinstance(name, PublicFormatName):
            self._public.pop(name.queue, None)

    def _forget_destination(self, queue: OutgoingQueue) -> None:
        owner = self._destinations.pop(queue, None)
        if owner is not None:
            queues = self._by_destination[owner]
            del queues[queue]
            if not queues:
                del self._by_destination[owner]

    def is_last_of_session(self, queue: OutgoingQueue) -> bool:
        """Whether L{forget} would close an open session, since it was dialled for this queue only."""
        hop = self._by_queue.get(queue)
        return hop is not None and len(hop.queues) == 1 and hop.dialled_session is not None

    def _drop(self, hop: NextHop) -> None:
        del self._hops[hop.key]
        self._unlearn(hop)
        self._found(hop)
        if hop.connector is not None:
            session = hop.connector.session
            if not hop.routed or session is None or not session.is_open:
                hop.connector.stop()

    # Sessions

    def leading_to(self, queue: OutgoingQueue) -> list[ISession]:
        """The open sessions that may carry pending messages of a queue."""
        hop = self.of(queue)
        if queue in self._divided:
            examined = (*queue.peek(EXAMINED_MESSAGES), *self._acks.note(queue))
            found = dict.fromkeys(self.acknowledgement_session(hop, position) for position in examined)
            return [session for session in found if session is not None]
        session = self._session(hop)
        return [] if session is None else [session]

    def dispatched(self, queue: OutgoingQueue) -> None:
        """The sessions that L{leading_to} has returned are about to be dispatched; until then a queue with
        acknowledgements has those of all messages that were added.
        """
        if queue in self._divided:
            self._acks.dispatched(queue)

    def is_reached(self, queue: OutgoingQueue) -> bool:
        """Whether open sessions may carry all pending messages of a queue."""
        hop = self.of(queue)
        if queue in self._divided:
            return all(
                self.acknowledgement_session(hop, position) for position in queue.peek(EXAMINED_MESSAGES)
            )
        return self._session(hop) is not None

    def address(self, queue: OutgoingQueue, positions: Iterable[MessagePosition]) -> None:
        """Set the owner in messages that were sent before it was known. [MS-MQQB] 3.1.7.4."""
        name = queue.destination
        owner = self._owner(name) if isinstance(name, PublicFormatName) else None
        if owner is None:
            return
        for position in positions:
            view = position.view
            if view is not None and view.queue_manager_address == NO_QUEUE_MANAGER:
                position.view = UserMessageView(patch_queue_manager_address(view.packet, owner.bytes_le))

    def part(
        self, session: ISession, queue: OutgoingQueue, positions: list[MessagePosition]
    ) -> tuple[list[MessagePosition], list[MessagePosition]]:
        """Split messages of a queue into those that a session may carry, and the others."""
        if queue not in self._divided:
            return positions, []
        hop = self.of(queue)
        parts: tuple[list[MessagePosition], list[MessagePosition]] = [], []
        reaches = self._reaches(session, hop)
        for position in positions:
            parts[not reaches(position)].append(position)
        return parts

    def may_carry(self, session: ISession, queue: OutgoingQueue) -> bool:
        """Whether a session leads to the next hop of a queue, or, of a divided one, may lead to that of some
        messages.
        """
        return queue in self._divided or session is self._session(self.of(queue))

    def carried(self, session: ISession, queue: OutgoingQueue) -> list[MessagePosition] | None:
        """The first messages of a queue that a session may carry; C{None} if it may carry all of them.

        What has to be read to be known is among them, and may turn out to be for another session.
        Acknowledgements for the peer are among them wherever they are in the queue.
        """
        if queue not in self._divided:
            return None
        reaches = self._reaches(session, self.of(queue))
        head = queue.peek(EXAMINED_MESSAGES)
        carried = list(filter(reaches, head))
        if len(head) == EXAMINED_MESSAGES and not carried:
            pending = self._acks.pending(queue, session.remote_identifier, EXAMINED_MESSAGES)
            carried = list(filter(reaches, pending))
        return carried

    def _reaches(self, session: ISession, hop: NextHop) -> Callable[[MessagePosition], bool]:
        """Whether a session may carry messages of one queue; each addressee is examined once."""
        known: dict[UUID | None, bool] = {}

        def reaches(position: MessagePosition) -> bool:
            addressee = self._acks.source(position)
            if addressee not in known:
                known[addressee] = self._reaches_addressee(session, hop, position, addressee)
            return known[addressee]

        return reaches

    def _reaches_addressee(
        self, session: ISession, hop: NextHop, position: MessagePosition, addressee: UUID | None
    ) -> bool:
        facts = CarriedFacts(
            addressee=addressee,
            router=None if addressee is None else self._peers.brought_by(addressee),
            address=self._acks.address(position),
            peer=session.remote_identifier,
            peer_address=session.remote_address,
            trusts=self._peers.trusts,
        )
        carriers = HopCarriers(self._peers, self._moved, hop)
        return (
            is_carried(facts, lambda: carriers.is_moved(session, addressee))
            or self.acknowledgement_session(hop, position) is session
        )

    def acknowledgement_session(self, hop: NextHop, position: MessagePosition) -> ISession | None:
        """The session on which an acknowledgement leaves; C{None} if it waits for one."""
        return carrier_of(
            self._acks.source(position),
            self._acks.address(position),
            HopCarriers(self._peers, self._moved, hop),
            is_for_host=isinstance(hop.key, str),
            trusts=self._peers.trusts,
        )

    def _session(self, hop: NextHop) -> ISession | None:
        return open_session(hop, self._peers)

    def of_session(self, session: ISession) -> list[NextHop]:
        """The next hops to which a session leads: the one that dialled it, and those of its peer."""
        hops = []
        dialled_for = session.dialled_for
        if isinstance(dialled_for, NextHop) and dialled_for.is_served_by(session):
            hops.append(dialled_for)
        identifier = session.remote_identifier
        if identifier is not None:
            known = self._by_identifier.get(identifier, ())
            hops += [hop for hop in known if hop not in hops and self._session(hop) is session]
        return hops

    def queues_of(self, session: ISession) -> list[OutgoingQueue]:
        """The queues whose messages a session may carry."""
        return self._with_acknowledgements(
            session, {queue: None for hop in self.of_session(session) for queue in hop.queues}
        )

    def busy_of(self, session: ISession) -> list[OutgoingQueue]:
        """Those of them with pending messages."""
        return self._with_acknowledgements(
            session, {queue: None for hop in self.of_session(session) for queue in self.busy(hop)}
        )

    def busy(self, hop: NextHop) -> list[OutgoingQueue]:
        """The queues of a next hop with pending messages."""
        for queue in [queue for queue in hop.busy if not queue.positions]:
            del hop.busy[queue]
        return list(hop.busy)

    def _with_acknowledgements(
        self, session: ISession, queues: dict[OutgoingQueue, None]
    ) -> list[OutgoingQueue]:
        for queue in self._acks.queues(session.remote_identifier):
            if queue not in queues and (session in self.leading_to(queue) or self.carried(session, queue)):
                queues[queue] = None
        return list(queues)

    def _owner(self, name: PublicFormatName) -> UUID | None:
        """The owner of a public queue; C{None} while it is unknown."""
        return None if self._names is None else self._names.owner_of(name.queue)

    # Events

    def opened(self, session: ISession) -> None:
        """A session is open: the peer is identified, and queues that wait for it are connected at once."""
        hop = session.dialled_for
        if isinstance(hop, NextHop) and hop.is_served_by(session):
            self._found(hop)
            hop.unanswered_since = None
            hop.reported.clear()
            is_other = hop.identifier != session.remote_identifier
            if is_other and session.remote_identifier is not None and not hop.routed:
                self._unlearn(hop)
                hop.identifier = session.remote_identifier
                self._by_identifier.setdefault(hop.identifier, {})[hop] = None
        if not session.is_initiator:
            for missed in list(self._missed.get(session.remote_address, ())):
                if missed.connector is not None:
                    missed.connector.peer_is_there()

    def elsewhere(self, queue: OutgoingQueue, source: UUID, routed: RoutedHop) -> NextHop:
        """The next hop that leads to the sender of messages, where an acknowledgement in a queue goes too."""
        key = (source,)
        hop = self._hops.get(key)
        if hop is None:
            hop = self._hops[key] = self._make(NextHopChoice(key, None, (routed,)))
        hop.busy[queue] = None
        self._elsewhere.setdefault(queue, {})[key] = None
        return hop

    def missed(self, hop: NextHop, session: ISession, now: float) -> None:
        """A next hop was not reached, or has lost its session.

        @param session: the one that has ended.
        @param now: seconds since 1970-01-01 UTC.
        """
        if session.opened is None and hop.unanswered_since is None:
            hop.unanswered_since = now
        # One that was dropped, whose session ends with it or later, would never be found again.
        if hop.connector is not None and self._hops.get(hop.key) is hop:
            self._found(hop)
            hop.missed_at = tuple(dict.fromkeys(hop.connector.addresses))
            for address in hop.missed_at:
                self._missed.setdefault(address, {})[hop] = None

    def _found(self, hop: NextHop) -> None:
        for address in hop.missed_at:
            hops = self._missed[address]
            del hops[hop]
            if not hops:
                del self._missed[address]
        hop.missed_at = ()

    def _unlearn(self, hop: NextHop) -> None:
        for identifier in hop.identifiers:
            known = self._by_identifier.get(identifier)
            if known is not None:
                known.pop(hop, None)
                if not known:
                    del self._by_identifier[identifier]


def _texts(hop: RoutedHop) -> frozenset[str]:
    name = hop.host.lower()
    return frozenset((format_guid(hop.identifier).lower(), name, name.partition(".")[0]))
