"""Received OrderAcks and FinalAcks. [MS-MQQB] 3.1.5.6 and 3.1.5.7."""

from __future__ import annotations

from typing import ClassVar

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from msmq.errors import RemoteProtocolError
from msmq.manager.log_summaries import RefusalLog
from msmq.manager.peers.acknowledging_peers import AcknowledgingPeers
from msmq.manager.peers.arrival_batch import ArrivalBatch
from msmq.manager.peers.sequences import Sequences
from msmq.manager.performer import Performer
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.transfer.acknowledgement_guesses import GuessLimit
from msmq.transfer.acknowledgements import read_acknowledgement
from msmq.transfer.decisions.acknowledgement_decision import AcknowledgementRefusal, decide_acknowledgement
from msmq.transfer.receivers import Receivers


class Acknowledgements:
    """Gathers the facts about acknowledgements of messages that were sent from here; performs the decision.

    @param receivers: the receivers of the sequences that were sent.
    @param peers: facts about the peers that send acknowledgements.
    @param guesses: the limit on acknowledgements of unknown messages.
    @param refusals: logs rejected acknowledgements.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(
        self,
        performer: Performer,
        sequences: Sequences,
        receivers: Receivers,
        peers: AcknowledgingPeers,
        guesses: GuessLimit,
        refusals: RefusalLog,
    ) -> None:
        self._performer = performer
        self._sequences = sequences
        self._receivers = receivers
        self._peers = peers
        self._guesses = guesses
        self._refusals = refusals

    def take(self, batch: ArrivalBatch, message: UserMessageView) -> bool:
        """Process a message for an internal queue; false if it is not an acknowledgement."""
        address = batch.session.remote_address
        try:
            ack = read_acknowledgement(message.packet, self._performer.model.identifier)
        except RemoteProtocolError as error:
            malformed = AcknowledgementRefusal("MALFORMED_ACKNOWLEDGEMENT", f"is malformed: {error}")
            self._refuse(address, malformed)
            return True
        if ack is None:
            return False
        decision = decide_acknowledgement(
            ack,
            self._peers.of_session(batch.session),
            self._sequences.facts(ack.tx_sequence_id.value),
            self._receivers,
        )
        if decision.is_wrong:
            now = self._performer.clock.now()
            self._guesses.count_wrong(address, now)
            self._refusals.count("ACKNOWLEDGEMENT_OF_NOTHING", now)
        if decision.refusal is not None:
            self._refuse(address, decision.refusal)
        batch.is_cut = decision.has_to_come_again
        if decision.is_believed:
            acknowledged = self._sequences.acknowledged(
                ack, batch.session.remote_address, is_verified=decision.is_verified
            )
            batch.acknowledgements.append(Deferred.fromCoroutine(acknowledged))
        return True

    def _refuse(self, address: str, refusal: AcknowledgementRefusal) -> None:
        now = self._performer.clock.now()
        self._refusals.count(refusal.reason, now)
        if (others := self._refusals.lines.take(now)) is not None:
            self.log.warn(
                "acknowledgement from {address} {why}{others}",
                address=address,
                why=refusal.text,
                others=others,
            )
