"""Every rule about an acknowledgement that a session brings, as a table. [MS-MQQB] 3.1.5.6, 3.1.5.7."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

import attrs
from twisted.trial.unittest import SynchronousTestCase

from msmq.structures.identifiers import TxSequenceID
from msmq.structures.internal.final_ack import FinalAck
from msmq.structures.internal.order_ack import OrderAck
from msmq.structures.internal.order_queue import AckEnvelope
from msmq.structures.names.format_name import FormatName, parse_format_name
from msmq.structures.packet.message_class import MessageClass
from msmq.transfer.decisions.acknowledgement_decision import (
    AcknowledgementDecision,
    AcknowledgementEvidence,
    AcknowledgingPeer,
    SequenceFacts,
    answer_refusal,
    decide_acknowledgement,
    evidence_of,
)
from msmq.transfer.receivers import ANYWHERE, Receiver, Receivers
from msmq.transfer.source_journaling import MessageAnswer
from tests.builders import ALPHA, BETA, GAMMA

BY_RECEIVER, BY_IDENTIFIER, UNKNOWN, BY_ANOTHER = AcknowledgementEvidence
SEQUENCE: Final = TxSequenceID(1, 7)
DIRECT: Final = parse_format_name("DIRECT=TCP:10.0.0.2\\private$\\orders")
NAMED: Final = parse_format_name(f"PRIVATE={BETA}\\00000007")
PUBLIC: Final = parse_format_name(f"PUBLIC={GAMMA}")
PEER: Final = Receiver(BETA, "10.0.0.2")
ELSEWHERE: Final = Receiver(BETA, "10.0.0.9")
FOREIGN: Final = UUID(int=9)


@attrs.frozen
class Redirects:
    """No redirects."""

    folded: tuple[tuple[str, str], ...] = ()


def order_ack(source: UUID = BETA) -> OrderAck:
    return OrderAck(AckEnvelope(source, ALPHA, 5, 1_700_000_000), SEQUENCE, 3)


def final_ack(source: UUID = BETA, message_class: int = MessageClass.ACK_RECEIVE) -> FinalAck:
    envelope = AckEnvelope(source, ALPHA, 5, 1_700_000_000)
    return FinalAck(envelope, message_class, SEQUENCE, 3, 2, ALPHA, 9)


def peer(receiver: Receiver | None = PEER, **known: Any) -> AcknowledgingPeer:
    """A peer that the configuration admits, without listing it."""
    values = {
        "receiver": receiver,
        "address": "10.0.0.2",
        "is_admitted": True,
        "may_acknowledge": True,
        "is_configured": True,
        "has_guesses_left": True,
        **known,
    }
    return AcknowledgingPeer(**values)


def sequence(destination: FormatName | None = None, **known: Any) -> SequenceFacts:
    """A sequence in transit to a destination, or an unknown one."""
    values = {
        "destination": destination,
        "was_begun": destination is not None,
        "is_awaited": False,
        "is_answered_for": lambda queue_manager: queue_manager == FOREIGN,
        "sends_to_names": lambda: False,
        **known,
    }
    return SequenceFacts(**values)


def receivers(*sent: Receiver, introduced: Receiver | None = None) -> Receivers:
    """The records after messages of the sequence have left for some receivers."""
    made = Receivers(Redirects(), trusts=False)
    for each in sent:
        made.sent(SEQUENCE.value, each)
    if introduced is not None:
        made.introduce(str(DIRECT).casefold(), [introduced])
    return made


class EvidenceTests(SynchronousTestCase):
    """L{evidence_of}: what makes an acknowledgement credible."""

    def test_each_kind(self) -> None:
        """A line for each reason to trust it, and not to."""
        known, moved = receivers(PEER), receivers(Receiver(BETA, ANYWHERE))
        nothing = receivers()
        refused = MessageClass.NACK_HOP_COUNT_EXCEEDED
        for ack, who, facts, records, expected in (
            # A direct name: the peer that got the messages, at its address.
            (order_ack(), PEER, sequence(DIRECT), known, BY_RECEIVER),
            (order_ack(GAMMA), PEER, sequence(DIRECT), known, BY_RECEIVER),
            (order_ack(), ELSEWHERE, sequence(DIRECT), known, BY_ANOTHER),
            (order_ack(), Receiver(GAMMA, "10.0.0.2"), sequence(DIRECT), known, BY_ANOTHER),
            (order_ack(), None, sequence(DIRECT), known, BY_ANOTHER),
            # A direct name after a restart: the receiver that was introduced for it.
            (order_ack(), PEER, sequence(DIRECT), receivers(introduced=PEER), BY_RECEIVER),
            (order_ack(), ELSEWHERE, sequence(DIRECT), receivers(introduced=PEER), BY_ANOTHER),
            # A name that contains a queue manager: its identifier, from any router.
            (order_ack(), ELSEWHERE, sequence(NAMED), nothing, BY_IDENTIFIER),
            (order_ack(GAMMA), ELSEWHERE, sequence(NAMED), nothing, BY_ANOTHER),
            (final_ack(GAMMA), ELSEWHERE, sequence(NAMED), nothing, BY_ANOTHER),
            (final_ack(GAMMA, refused), ELSEWHERE, sequence(NAMED), nothing, BY_IDENTIFIER),
            (order_ack(), ELSEWHERE, sequence(), moved, BY_IDENTIFIER),
            (order_ack(GAMMA), ELSEWHERE, sequence(), moved, BY_ANOTHER),
            # Another queue manager acknowledges for one of a foreign site.
            (order_ack(GAMMA), PEER, sequence(), receivers(Receiver(FOREIGN, ANYWHERE)), BY_IDENTIFIER),
            # A public name whose owner is not known.
            (order_ack(), ELSEWHERE, sequence(PUBLIC), nothing, BY_IDENTIFIER),
            # Messages that wait for FinalAcks, whose receiver is forgotten.
            (final_ack(), ELSEWHERE, sequence(is_awaited=True), nothing, BY_IDENTIFIER),
            # A sequence that began here, and whose queue is gone.
            (order_ack(), PEER, sequence(was_begun=True), nothing, BY_ANOTHER),
            (order_ack(), PEER, sequence(), nothing, UNKNOWN),
        ):
            with self.subTest(ack=ack, peer=who, facts=facts):
                self.assertIs(evidence_of(ack, who, facts, records), expected)


class DecisionTests(SynchronousTestCase):
    """L{decide_acknowledgement}."""

    def decide(
        self, ack: OrderAck | FinalAck, who: AcknowledgingPeer, facts: SequenceFacts, records: Receivers
    ) -> tuple[bool, bool, str]:
        """Whether it is believed, whether it is verified, and the reason of a refusal."""
        self.decision: AcknowledgementDecision = decide_acknowledgement(ack, who, facts, records)
        refusal = self.decision.refusal
        return self.decision.is_believed, self.decision.is_verified, "" if refusal is None else refusal.reason

    def test_each_outcome(self) -> None:
        """A line for each acknowledgement that is believed, and for each refusal."""
        another, elsewhere = "ACKNOWLEDGEMENT_BY_ANOTHER", "ACKNOWLEDGEMENT_FROM_ELSEWHERE"
        closed: dict[str, Any] = {"is_admitted": False, "is_configured": False, "may_acknowledge": False}
        waits: dict[str, Any] = {"sends_to_names": lambda: True}
        known, nothing = receivers(PEER), receivers()
        for who, facts, records, expected in (
            # The receiver is believed whatever the configuration says of its address.
            (peer(**closed, has_guesses_left=False), sequence(DIRECT), known, (True, True, "")),
            (peer(ELSEWHERE), sequence(DIRECT), known, (False, False, another)),
            # An identifier needs an address that may acknowledge.
            (peer(), sequence(NAMED), nothing, (True, True, "")),
            (peer(is_configured=False), sequence(NAMED), nothing, (True, False, "")),
            (peer(may_acknowledge=False), sequence(NAMED), nothing, (False, True, elsewhere)),
            (peer(**closed), sequence(NAMED), nothing, (False, False, elsewhere)),
            # An unknown sequence: a receiver of other messages, or an address that may acknowledge.
            (peer(**closed), sequence(), receivers(introduced=PEER), (True, False, "")),
            (peer(ELSEWHERE, **closed), sequence(), receivers(introduced=PEER), (False, False, another)),
            (peer(), sequence(), nothing, (False, True, another)),
            (peer(), sequence(**waits), nothing, (True, True, "")),
            (peer(may_acknowledge=False), sequence(**waits), nothing, (False, True, another)),
        ):
            with self.subTest(peer=who, facts=facts):
                self.assertEqual(self.decide(order_ack(), who, facts, records), expected)

    def test_guesses(self) -> None:
        """From an address that is not admitted, acknowledgements about nothing count, up to a limit."""
        unlisted: dict[str, Any] = {"is_admitted": False, "is_configured": False}
        for who, is_wrong in ((peer(), False), (peer(**unlisted), True)):
            self.decide(order_ack(), who, sequence(), receivers())
            self.assertIs(self.decision.is_wrong, is_wrong)
        self.decide(order_ack(), peer(**unlisted), sequence(NAMED), receivers())
        self.assertFalse(self.decision.is_wrong)
        exhausted = peer(**unlisted, has_guesses_left=False)
        for ack, comes_again in ((order_ack(), False), (final_ack(), True)):
            for facts in (sequence(), sequence(NAMED)):
                refused = self.decide(ack, exhausted, facts, receivers())
                self.assertEqual(refused, (False, False, "ACKNOWLEDGEMENTS_GUESSED"))
                self.assertEqual(
                    (self.decision.has_to_come_again, self.decision.is_wrong), (comes_again, False)
                )
        admitted = peer(has_guesses_left=False)
        self.assertEqual(self.decide(order_ack(), admitted, sequence(NAMED), receivers()), (True, True, ""))


class AnswerTests(SynchronousTestCase):
    """L{answer_refusal}: an administration acknowledgement that a journal copy waits for."""

    def test_each_outcome(self) -> None:
        """A line for each that settles its message, and for each refusal."""
        another, elsewhere = "ACKNOWLEDGEMENT_BY_ANOTHER", "ACKNOWLEDGEMENT_FROM_ELSEWHERE"
        known = receivers(introduced=PEER)
        reached, refused = MessageClass.ACK_REACH_QUEUE, MessageClass.NACK_HOP_COUNT_EXCEEDED
        for who, name, message_class, source, expected in (
            (peer(is_admitted=False, may_acknowledge=False), DIRECT, reached, BETA, None),
            (peer(ELSEWHERE), DIRECT, reached, BETA, another),
            (peer(None), DIRECT, reached, BETA, another),
            (peer(ELSEWHERE), NAMED, reached, BETA, None),
            (peer(), NAMED, reached, GAMMA, another),
            (peer(), NAMED, MessageClass.ACK_RECEIVE, GAMMA, another),
            (peer(), NAMED, refused, GAMMA, None),
            (peer(), parse_format_name(f"PRIVATE={FOREIGN}\\00000007"), reached, GAMMA, None),
            (peer(), PUBLIC, reached, GAMMA, None),
            (peer(is_admitted=False), NAMED, reached, BETA, elsewhere),
            (peer(may_acknowledge=False), NAMED, reached, BETA, elsewhere),
        ):
            answer = MessageAnswer(9, str(name), message_class, source, ALPHA)
            refusal = answer_refusal(answer, name, who, known, lambda each: each == FOREIGN)
            with self.subTest(peer=who, name=name, message_class=message_class):
                self.assertEqual(None if refusal is None else refusal.reason, expected)
