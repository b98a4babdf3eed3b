"""[MS-MQQB] 3.1.5.6 and 3.1.5.7: OrderAcks and FinalAcks that sessions bring, and who is believed."""

from __future__ import annotations

from typing import ClassVar

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from msmq.errors import RemoteProtocolError
from msmq.manager.log_summaries import RefusalLog
from msmq.manager.peers.arrival_batch import ArrivalBatch
from msmq.manager.peers.receivers import AcknowledgementEvidence
from msmq.manager.peers.sequences import Sequences
from msmq.manager.performer import Performer
from msmq.manager.securing.trusted_peers import TrustedPeers
from msmq.quoting import quoted
from msmq.structures.internal.final_ack import FinalAck
from msmq.structures.internal.order_ack import OrderAck
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.transfer.acknowledgement_guesses import GuessLimit
from msmq.transfer.acknowledgements import read_acknowledgement


class Acknowledgements:
    """Takes what is said about messages that were sent from here, or counts why not.

    @param gate: the addresses that are trusted, and those that may acknowledge.
    @param refusals: what is not taken.
    """

    log: ClassVar[Logger] = Logger()

    def __init__(
        self, performer: Performer, sequences: Sequences, gate: TrustedPeers, refusals: RefusalLog
    ) -> None:
        self._performer = performer
        self._sequences = sequences
        self._refused = refusals.counts
        self._lines = refusals.lines
        self._guesses = GuessLimit()
        self._gate = gate

    def take(self, batch: ArrivalBatch, message: UserMessageView) -> bool:
        """Take a message that is for no queue of ours; false if it is no acknowledgement."""
        try:
            ack = read_acknowledgement(message.packet, self._performer.model.identifier)
        except RemoteProtocolError as error:
            self._refuse(batch, "MALFORMED_ACKNOWLEDGEMENT", f"is malformed: {error}")
            return True
        if ack is None:
            return False
        told = self._sequences.judge(ack, batch.session)
        if told is AcknowledgementEvidence.BY_ANOTHER:
            self._by_another(batch)
        elif told is AcknowledgementEvidence.BY_RECEIVER or self._is_heard(batch, ack, told):
            is_vouched = told is AcknowledgementEvidence.BY_RECEIVER or self._gate.vouches(
                batch.session.remote_address
            )
            acknowledged = self._sequences.acknowledged(ack, is_vouched=is_vouched)
            batch.acknowledgements.append(Deferred.fromCoroutine(acknowledged))
        return True

    def _is_heard(self, batch: ArrivalBatch, ack: OrderAck | FinalAck, told: AcknowledgementEvidence) -> bool:
        """Whether an acknowledgement from an untrusted address is processed."""
        address = batch.session.remote_address
        if not self._gate.admits(address) and not self._may_guess(batch, ack, told):
            return False
        may_acknowledge = self._gate.may_acknowledge(address)
        if told is AcknowledgementEvidence.UNKNOWN:
            is_heard = self._sequences.may_tell_early(batch.session, is_acknowledger=may_acknowledge)
            if not is_heard:
                self._by_another(batch)
            return is_heard
        if not may_acknowledge:
            self._refuse(
                batch,
                "ACKNOWLEDGEMENT_FROM_ELSEWHERE",
                f"is from none of [security] acknowledgements_from, which would believe it with"
                f" {quoted(address)}",
            )
        return may_acknowledge

    def _may_guess(
        self, batch: ArrivalBatch, ack: OrderAck | FinalAck, told: AcknowledgementEvidence
    ) -> bool:
        """Whether an untrusted address has not exceeded its limit of errors."""
        address = batch.session.remote_address
        now = self._performer.clock.now()
        if self._guesses.hears(address, now):
            if told is AcknowledgementEvidence.UNKNOWN:
                self._guesses.was_wrong(address, now)
                self._refused["ACKNOWLEDGEMENT_OF_NOTHING"] += 1
            return True
        self._refuse(
            batch,
            "ACKNOWLEDGEMENTS_GUESSED",
            "is not looked at, since too many from there were about nothing; it has to come again, "
            f"unless [security] peers has {quoted(address)}",
        )
        # Nothing sends a FinalAck twice, unless the session has not acknowledged it.
        batch.is_cut = isinstance(ack, FinalAck)
        return False

    def _by_another(self, batch: ArrivalBatch) -> None:
        self._refuse(
            batch,
            "ACKNOWLEDGEMENT_BY_ANOTHER",
            "is about messages that others got, or that went to another address; "
            "[security] trust_identifiers would believe it of their receiver wherever that is",
        )

    def _refuse(self, batch: ArrivalBatch, reason: str, why: str) -> None:
        self._refused[reason] += 1
        if (others := self._lines.take(self._performer.clock.now())) is not None:
            self.log.warn(
                "acknowledgement from {address} {why}{others}",
                address=batch.session.remote_address,
                why=why,
                others=others,
            )
