"""Dead letters of messages that sessions bring and that are refused here. [MS-MQQB] 3.1.5.8.8, reading 64."""

from __future__ import annotations

from typing import Final

from msmq.manager.peers.arrival_batch import ArrivalBatch
from msmq.manager.performer import Performer
from msmq.manager.securing.trusted_peers import TrustedPeers
from msmq.queues.arriving.arrivals import wants_burial
from msmq.structures.algorithms import AuthenticationLevel
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.user_header import UserHeader
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.transfer.decision import NOT_FOR_US, PASSING

_WITHOUT_CLASS: Final = dict.fromkeys((NOT_FOR_US, *PASSING), MessageClass.NACK_BAD_DST_Q)
"""The class of the dead letter where the protocol has no negative acknowledgement for the reason."""

KEPT: Final = "; kept as a dead letter"
"""What the event of a refused message says if there is a dead letter of it."""


class PeerDeadLetters:
    """Keeps a message that is refused on arrival, if its sender asked for a dead letter and is trusted.

    Trusted is what comes from an address that the configuration trusts, and what a signature proves to be
    from its sender.
    """

    def __init__(self, performer: Performer, gate: TrustedPeers, *, over_quota: bool) -> None:
        """Keep what fails here.

        @param gate: the addresses that are trusted without a signature.
        @param over_quota: whether a message over the quota of its queue is kept as well.
        """
        self._performer = performer
        self._gate = gate
        self._over_quota = over_quota

    def keep(self, batch: ArrivalBatch, message: UserMessageView, why: MessageClass | str) -> str:
        """Put a dead letter of a refused message into the batch, if it is to be kept.

        @param why: the reason of the refusal, after which the message does not come again.
        @return: what the event of the refusal says about it, to be appended to the reason.
        """
        message_class = why if isinstance(why, MessageClass) else _WITHOUT_CLASS.get(why)
        if message_class is None or not wants_burial(message):
            return ""
        if message_class is MessageClass.NACK_Q_EXCEED_QUOTA and not self._over_quota:
            return ""
        address = batch.session.remote_address
        if not self._gate.admits(address) and not _is_authenticated(batch, message):
            return "; no dead letter, since [security] does not trust its address and no signature its sender"
        model, now = self._performer.model, self._performer.clock.now()
        if model.bury(message, message_class, now, batch.letters, batch.changes):
            return KEPT
        return "; the dead-letter queue is full"


def _is_authenticated(batch: ArrivalBatch, message: UserMessageView) -> bool:
    """Whether a signature proves who sent a message."""
    refused = batch.refused.get(message)
    if refused is not None:
        # Its packet is as it came, and so is what it says of its own signature.
        return refused.is_authenticated
    if not message.flags & UserHeader.SH:
        return False
    return message.authentication_level is not AuthenticationLevel.NONE
