"""Facts about the peers that send acknowledgements: their sessions, addresses and errors."""

from __future__ import annotations

from msmq.interfaces.clock import IClock
from msmq.interfaces.session import ISession
from msmq.manager.securing.trusted_peers import TrustedPeers
from msmq.transfer.acknowledgement_guesses import GuessLimit
from msmq.transfer.decisions.acknowledgement_decision import AcknowledgingPeer
from msmq.transfer.receivers import Receiver


class AcknowledgingPeers:
    """Gathers the facts about a peer for decisions about its acknowledgements.

    @param trusted_peers: the trusted addresses, and those that may acknowledge.
    @param guesses: the limit on acknowledgements of unknown messages.
    """

    def __init__(self, clock: IClock, trusted_peers: TrustedPeers, guesses: GuessLimit) -> None:
        self._clock = clock
        self._trusted_peers = trusted_peers
        self._guesses = guesses

    def of_session(self, session: ISession) -> AcknowledgingPeer:
        """The current facts about the peer of a session."""
        address, trusted_peers = session.remote_address, self._trusted_peers
        return AcknowledgingPeer(
            receiver=peer_of(session),
            address=address,
            is_admitted=trusted_peers.admits(address),
            may_acknowledge=trusted_peers.may_acknowledge(address),
            is_configured=trusted_peers.accepts_acknowledgements(address),
            has_guesses_left=self._guesses.admits(address, self._clock.now()),
        )


def peer_of(session: ISession) -> Receiver | None:
    """The recorded peer of a session; C{None} before it has stated its identifier."""
    identifier = session.remote_identifier
    return None if identifier is None else Receiver(identifier, session.remote_address)
