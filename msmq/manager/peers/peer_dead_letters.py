"""Dead letters of messages from peers that are refused here. [MS-MQQB] 3.1.5.8.8, reading 64."""

from __future__ import annotations

from msmq.manager.peers.arrival_batch import ArrivalBatch
from msmq.manager.performer import Performer
from msmq.manager.securing.trusted_peers import TrustedPeers
from msmq.queues.arriving.arrivals import wants_local_dead_letter
from msmq.structures.algorithms import AuthenticationLevel
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.user_header import UserHeader
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.transfer.decisions.forwarding_decision import RefusedFacts, decide_dead_letter


class PeerDeadLetters:
    """Keeps a message that is refused on arrival, if its sender requested a dead letter and is trusted.

    Trusted are messages from trusted addresses, and messages with a valid signature.
    """

    def __init__(self, performer: Performer, trusted_peers: TrustedPeers, *, over_quota: bool) -> None:
        """Create the part, with its policies.

        @param trusted_peers: the addresses that are trusted without a signature.
        @param over_quota: whether a message over the quota of its queue is kept as well.
        """
        self._performer = performer
        self._trusted_peers = trusted_peers
        self._over_quota = over_quota

    def keep(self, batch: ArrivalBatch, message: UserMessageView, why: MessageClass | str) -> str:
        """Add a dead letter of a refused message to the batch, if it is to be kept.

        @param why: the reason of a refusal after which the message is not sent again.
        @return: an addition to the reason in the event of the refusal.
        """
        facts = RefusedFacts(
            asks_for_dead_letter=wants_local_dead_letter(message),
            is_admitted=self._trusted_peers.admits(batch.session.remote_address),
            is_authenticated=_is_authenticated(batch, message),
            keeps_over_quota=self._over_quota,
        )
        decision = decide_dead_letter(why, facts)
        if decision.message_class is None:
            return decision.note
        model, now = self._performer.model, self._performer.clock.now()
        if model.dead_letter_refused(message, decision.message_class, now, batch.dead_letters, batch.changes):
            return decision.note
        batch.dropped += 1
        return "; the dead-letter queue is full"


def _is_authenticated(batch: ArrivalBatch, message: UserMessageView) -> bool:
    """Whether a signature authenticates the sender of a message."""
    refused = batch.refused.get(message)
    if refused is not None:
        # Its packet is unchanged, including the claim about its own signature.
        return refused.is_authenticated
    if not message.flags & UserHeader.SH:
        return False
    return message.authentication_level is not AuthenticationLevel.NONE
