"""The open sessions that may carry acknowledgements whose outgoing queue has one next hop."""

from __future__ import annotations

from uuid import UUID

import attrs

from msmq.interfaces.session import ISession
from msmq.manager.peers.peer_table import Peers
from msmq.manager.routes.moved_senders import MovedSenders
from msmq.manager.routes.next_hop import NextHop


@attrs.frozen
class HopCarriers:
    """Finds sessions for L{carrier_of<msmq.transfer.decisions.next_hop_decision.carrier_of>}."""

    _peers: Peers
    _moved: MovedSenders
    _hop: NextHop

    def at_address(self, addressee: UUID, address: str) -> ISession | None:
        """See L{msmq.transfer.decisions.next_hop_decision.Carriers}, as for the other methods."""
        return self._peers.session_at(addressee, address)

    def moved(self, addressee: UUID) -> ISession | None:
        """A session that leads to the addressee at another address."""
        return self._moved.session(addressee, is_unanswered=self._hop.unanswered_since is not None)

    def of_addressee(self, addressee: UUID) -> ISession | None:
        """The session whose peer states the identifier of the addressee."""
        return self._peers.session(addressee)

    def of_router(self, addressee: UUID) -> ISession | None:
        """The session whose peer forwarded messages of the addressee last."""
        return self._peers.session(self._peers.brought_by(addressee))

    def dialled(self) -> ISession | None:
        """The session that the next hop has dialled."""
        return self._hop.dialled_session

    def of_next_hop(self) -> ISession | None:
        """Any session with the next hop."""
        return open_session(self._hop, self._peers)

    def is_moved(self, session: ISession, addressee: UUID | None) -> bool:
        """Whether a session leads to the addressee at another address."""
        is_unanswered = self._hop.unanswered_since is not None
        return addressee is not None and self._moved.leads(session, addressee, is_unanswered=is_unanswered)


def open_session(hop: NextHop, peers: Peers) -> ISession | None:
    """The open session with a next hop: the one that it dialled, or else one that the peer opened."""
    dialled = hop.dialled_session
    if dialled is not None:
        return dialled
    sessions = map(peers.session, hop.identifiers)
    return next((session for session in sessions if session is not None), None)
