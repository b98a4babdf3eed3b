"""Decision about an OrderAck, FinalAck or administration acknowledgement from a session.

[MS-MQQB] 3.1.5.6 and 3.1.5.7 process the first two, 3.1.5.5.4 the last for journal copies that wait for it.
The identifiers that peers state are not authenticated, so the rules here decide from which peer an
acknowledgement is accepted, to what extent, and how others are handled.
The effect of an accepted one is in L{OutgoingStreams<msmq.transfer.outgoing_streams.OutgoingStreams>},
L{AwaitingFinalAcks<msmq.transfer.awaiting_final_acks.AwaitingFinalAcks>} and
L{AwaitingAcknowledgements<msmq.transfer.awaiting_acknowledgements.AwaitingAcknowledgements>}.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Final
from uuid import UUID

import attrs

from msmq.moment import Moment
from msmq.persistence.changes import AppendEvent
from msmq.quoting import quoted
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.internal.final_ack import FinalAck
from msmq.structures.internal.order_ack import OrderAck
from msmq.structures.names.direct_format_name import DirectFormatName
from msmq.structures.names.format_name import FormatName
from msmq.transfer.receivers import (
    Receiver,
    Receivers,
    direct_destination,
    is_of_receiver,
    named_owners,
)
from msmq.transfer.source_journaling import MessageAnswer, is_of_destination

_NO_SEQUENCE: Final = -1
"""No sequence has this identifier."""


class AcknowledgementEvidence(enum.Enum):
    """The evidence for or against an acknowledgement."""

    BY_RECEIVER = "it comes from the receiver of the messages, at its address"
    BY_IDENTIFIER = "it states the identifier of the queue manager that the messages were for"
    UNKNOWN = "the sequence is unknown"
    BY_ANOTHER = "another queue manager got the messages"


@attrs.frozen(kw_only=True)
class AcknowledgingPeer:
    """Facts about the peer that sent an acknowledgement.

    @ivar receiver: its identifier and address; C{None} before it has stated an identifier.
    @ivar address: of the session, as text.
    @ivar is_admitted: whether the configuration accepts messages from that address without verification.
    @ivar may_acknowledge: whether it may acknowledge messages to names without an address: C{[security]
        acknowledgements_from}.
    @ivar is_configured: whether the configuration lists that address.
    @ivar has_guesses_left: whether its acknowledgements of unknown messages are within the limit.
    """

    receiver: Receiver | None
    address: str
    is_admitted: bool
    may_acknowledge: bool
    is_configured: bool
    has_guesses_left: bool


@attrs.frozen(kw_only=True)
class SequenceFacts:
    """Facts about the sequence of an OrderAck or FinalAck.

    @ivar destination: the destination of the outgoing queue whose active sequence it is; C{None} without one.
    @ivar was_begun: the sequence is active, or began since the start.
    @ivar is_awaited: messages of it wait for FinalAcks.
    @ivar is_answered_for: whether another queue manager may acknowledge for this one, such as the connector
    of a foreign site.
    @ivar sends_to_names: whether messages wait for names without an address; evaluated only for an unknown
    sequence, since it iterates over all outgoing queues.
    """

    destination: FormatName | None
    was_begun: bool
    is_awaited: bool
    is_answered_for: Callable[[UUID], bool]
    sends_to_names: Callable[[], bool]


@attrs.frozen
class AcknowledgementRefusal:
    """Why an acknowledgement is rejected.

    @ivar reason: its name in C{msmq status}.
    @ivar text: the text of the log line after the address.
    """

    reason: str
    text: str


@attrs.frozen(kw_only=True)
class AcknowledgementDecision:
    """The decision about an OrderAck or FinalAck.

    @ivar is_believed: it is accepted, and releases its messages.
    @ivar is_verified: its peer is the receiver at its address, or one that the configuration lists. An
    unverified OrderAck releases only messages that the receiver has stored.
    @ivar is_wrong: its sequence is unknown, which counts against an address that is not admitted.
    @ivar has_to_come_again: the session must not acknowledge it.
    """

    is_believed: bool
    is_verified: bool = False
    is_wrong: bool = False
    refusal: AcknowledgementRefusal | None = None
    has_to_come_again: bool = False


_BY_ANOTHER: Final = AcknowledgementRefusal(
    "ACKNOWLEDGEMENT_BY_ANOTHER",
    "is about messages that others got, or that went to another address; "
    "[security] trust_identifiers would believe it of their receiver wherever that is",
)


def evidence_of(
    ack: OrderAck | FinalAck, peer: Receiver | None, sequence: SequenceFacts, receivers: Receivers
) -> AcknowledgementEvidence:
    """The evidence for an OrderAck or FinalAck.

    Messages to a direct name are acknowledged by the queue manager that got them.
    Any other name contains a queue manager without an address: the acknowledgement may come through any
    router, so only its identifier and sequence can be checked.
    """
    if peer is None:
        return AcknowledgementEvidence.BY_ANOTHER
    identifier = ack.tx_sequence_id.value
    named = receivers.named(identifier) or named_owners(sequence.destination)
    if named:
        is_credible = (
            ack.envelope.source_queue_manager in named
            or not is_of_receiver(ack)
            or any(map(sequence.is_answered_for, named))
        )
        return AcknowledgementEvidence.BY_IDENTIFIER if is_credible else AcknowledgementEvidence.BY_ANOTHER
    direct = None if sequence.destination is None else direct_destination(sequence.destination)
    if not receivers.is_recorded(identifier):
        if not sequence.was_begun and not sequence.is_awaited:
            return AcknowledgementEvidence.UNKNOWN
        if sequence.is_awaited or (sequence.destination is not None and direct is None):
            # Its receiver was dropped, or was never known.
            return AcknowledgementEvidence.BY_IDENTIFIER
    if receivers.may_acknowledge(identifier, direct, peer):
        return AcknowledgementEvidence.BY_RECEIVER
    return AcknowledgementEvidence.BY_ANOTHER


def decide_acknowledgement(
    ack: OrderAck | FinalAck, peer: AcknowledgingPeer, sequence: SequenceFacts, receivers: Receivers
) -> AcknowledgementDecision:
    """Decide about an OrderAck or FinalAck. [MS-MQQB] 3.1.5.6, 3.1.5.7."""
    evidence = evidence_of(ack, peer.receiver, sequence, receivers)
    if evidence is AcknowledgementEvidence.BY_RECEIVER:
        return AcknowledgementDecision(is_believed=True, is_verified=True)
    if evidence is AcknowledgementEvidence.BY_ANOTHER:
        return AcknowledgementDecision(is_believed=False, refusal=_BY_ANOTHER)
    if not peer.is_admitted and not peer.has_guesses_left:
        return AcknowledgementDecision(
            is_believed=False,
            refusal=AcknowledgementRefusal(
                "ACKNOWLEDGEMENTS_GUESSED",
                "is not looked at, since too many from there were about nothing; it has to come again, "
                f"unless [security] peers has {quoted(peer.address)}",
            ),
            # A FinalAck is sent again only if the session has not acknowledged it.
            has_to_come_again=isinstance(ack, FinalAck),
        )
    is_unknown = evidence is AcknowledgementEvidence.UNKNOWN
    refusal = _unknown_refusal(peer, sequence, receivers) if is_unknown else _named_refusal(peer)
    return AcknowledgementDecision(
        is_believed=refusal is None,
        is_verified=peer.is_configured,
        is_wrong=is_unknown and not peer.is_admitted,
        refusal=refusal,
    )


def _unknown_refusal(
    peer: AcknowledgingPeer, sequence: SequenceFacts, receivers: Receivers
) -> AcknowledgementRefusal | None:
    """The refusal of an acknowledgement of an unknown sequence, or of one that is not known again yet."""
    if peer.receiver is not None and receivers.may_acknowledge(_NO_SEQUENCE, None, peer.receiver):
        return None
    return None if peer.may_acknowledge and sequence.sends_to_names() else _BY_ANOTHER


def _named_refusal(peer: AcknowledgingPeer) -> AcknowledgementRefusal | None:
    if peer.may_acknowledge:
        return None
    return AcknowledgementRefusal(
        "ACKNOWLEDGEMENT_FROM_ELSEWHERE",
        "is from none of [security] acknowledgements_from, which would believe it with"
        f" {quoted(peer.address)}",
    )


def passed_event(name: FormatName, sequence: int, count: int, now: Moment, *, is_former: bool) -> AppendEvent:
    """The event of messages that their receiver refuses as duplicates, since it has a later sequence.

    @param name: of their outgoing queue.
    @param sequence: their sequence: others in the queue, of a higher priority for example, have to stay.
    @param count: how many were sent.
    @param is_former: whether they were sent before the start. Those that were sent since it, by a clock that
        is behind, were not delivered.
    """
    if is_former:
        reason = (
            f"the receiver of {name} has messages that were sent after the {count} that are sent to it now, "
            "and refuses these as duplicates: the store was restored from a backup, and they were delivered "
            "or removed after it. They hold up all later messages of the queue until they are removed: pause "
            f"it, close its session, remove its messages with transaction.sequence_id {sequence}, and resume "
            "it. Copy those first that were sent since the restore by a clock that was behind: they were not "
            "delivered"
        )
    else:
        reason = (
            f"the receiver of {name} has messages of a later sequence than this queue manager has begun, and "
            f"refuses the {count} that are sent to it now as duplicates: the store was restored from a "
            "backup while the clock was behind, or a copy of this queue manager is running. They were not "
            "delivered, and hold up all later messages of the queue: set the clock, or stop the copy; "
            "restart the server, pause the queue, close its session, copy its messages with "
            f"transaction.sequence_id {sequence} to {name}, remove them, and resume it"
        )
    return AppendEvent(now.wall, b"", "sequence_passed", reason, queue=str(name))


def disputed_event(
    name: FormatName,
    first: tuple[int, MessageIdentifier],
    last: tuple[int, MessageIdentifier],
    sequence: int,
    acknowledged: int,
    now: Moment,
) -> AppendEvent:
    """The event of messages whose receiver has acknowledged numbers that were not sent since the start.

    @param name: of their outgoing queue.
    @param first: the number and identifier of the first message that is not acknowledged.
    @param last: those of the last one that was sent.
    @param acknowledged: the number that the receiver has acknowledged.
    """
    reason = (
        f"the receiver of {name} has numbers up to {acknowledged} of the sequence {sequence}, of which this "
        f"server has sent {last[0]}: it was resumed from a snapshot with its memory, or a copy of it is "
        f"running. Of the messages {first[1]} to {last[1]}, numbers {first[0]} to {last[0]}, the receiver "
        "has those that were sent before the snapshot, and drops the others as duplicates. They hold up all "
        "later messages of the queue. Before any restart: pause the queue, close its session, copy its "
        f"transactional messages that were not sent before the snapshot to {name}, in their order, remove "
        "the originals, and resume it; then set the clock and restart the server, or stop the copy"
    )
    return AppendEvent(now.wall, b"", "sequence_passed", reason, queue=str(name))


def answer_refusal(
    answer: MessageAnswer,
    destination: FormatName,
    peer: AcknowledgingPeer,
    receivers: Receivers,
    is_answered_for: Callable[[UUID], bool],
) -> AcknowledgementRefusal | None:
    """Why an administration acknowledgement does not settle a journal copy; C{None} if it does. 3.1.5.5.4.

    The peers that may acknowledge are those of OrderAcks and FinalAcks.

    @param destination: the destination of the acknowledged message.
    @param is_answered_for: see L{SequenceFacts}.
    """
    if isinstance(destination, DirectFormatName):
        if peer.receiver is not None and receivers.may_acknowledge(
            _NO_SEQUENCE, answer.destination.casefold(), peer.receiver
        ):
            return None
        return AcknowledgementRefusal(
            "ACKNOWLEDGEMENT_BY_ANOTHER", "is not from the peer that got the message"
        )
    for owner in named_owners(destination):
        if answer.source != owner and is_of_destination(answer.message_class) and not is_answered_for(owner):
            return AcknowledgementRefusal(
                "ACKNOWLEDGEMENT_BY_ANOTHER",
                "does not state the identifier of the queue manager that the message was for",
            )
    if peer.is_admitted and peer.may_acknowledge:
        return None
    return AcknowledgementRefusal(
        "ACKNOWLEDGEMENT_FROM_ELSEWHERE", "is from none of [security] acknowledgements_from"
    )
