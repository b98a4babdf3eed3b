"""Every rule about an arriving message, as a table of facts and outcomes. [MS-MQQB] 3.1.5.8."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs
from twisted.trial.unittest import SynchronousTestCase

from msmq.moment import Moment
from msmq.session.effects import CloseReason
from msmq.structures.identifiers import TxSequenceID
from msmq.structures.internal.final_ack import FinalAck
from msmq.structures.internal.order_queue import AckEnvelope
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.user_message_patches import patch_hop_count
from msmq.structures.packet.user_message_view import UserMessageView, different_ones, total_size
from msmq.transfer.decisions.arrival_decision import (
    ABSENT_DESTINATION,
    LOCAL_DESTINATION,
    ArrivalDecision,
    ArrivalFacts,
    ArrivalOutcome,
    ArrivalRefusal,
    Closure,
    Destination,
    MessageOutcome,
    cut_at,
    decide,
)
from msmq.transfer.decisions.forwarding_decision import NOT_FOR_US, TOO_MANY_QUEUES
from msmq.transfer.incoming_stream import Verdict
from tests.builders import ALPHA, BETA, GAMMA, user_packet
from tests.transfer.support import transactional_packet

NOW: Final = 1_700_000_000.0
QUEUE, TRANSACTIONAL, MISSING, ELSEWHERE = Destination
LATE: Final = {"sent_time": int(NOW) - 100, "time_to_reach_queue": 50}


@attrs.frozen
class Security:
    """A refusal by security."""

    message_class: MessageClass = MessageClass.NACK_ACCESS_DENIED
    reason: str = "no right to send"
    precedes_queue: bool = False


@attrs.define
class History:
    """Streams and duplicates as a test wants them.

    @ivar passed: messages that were accepted before.
    @ivar verdicts: what judging says.
    @ivar judged: the messages that were judged.
    """

    passed: Sequence[UserMessageView] = ()
    verdicts: Mapping[UserMessageView, Verdict] = attrs.field(factory=dict)
    judged: list[UserMessageView] = attrs.field(factory=list)

    def has_passed(self, message: UserMessageView) -> bool:
        return message in self.passed

    def classify(
        self, messages: Sequence[UserMessageView], address: str, now: Moment
    ) -> Mapping[UserMessageView, Verdict]:
        self.judged += messages
        return self.verdicts


def express(number: int = 1, **kwargs: Any) -> UserMessageView:
    return message(number, recoverable=False, **kwargs)


def recoverable(number: int = 1, **kwargs: Any) -> UserMessageView:
    return message(number, recoverable=True, **kwargs)


def message(
    number: int, *, hops: int = 0, time_to_reach_queue: int | None = None, **kwargs: Any
) -> UserMessageView:
    packet = user_packet(b"x", message_id=number, **kwargs)
    if time_to_reach_queue is not None:
        packet = packet[:12] + time_to_reach_queue.to_bytes(4, "little") + packet[16:]
    return UserMessageView(patch_hop_count(packet, hops) if hops else packet)


def in_stream(number: int = 1) -> UserMessageView:
    """A transactional message."""
    return UserMessageView(transactional_packet(place=(0, number, number - 1), message_id=number))


class DecisionTestCase(SynchronousTestCase):
    """Facts of an ordinary batch, some of which a test changes."""

    def decide(
        self,
        *pairs: tuple[UserMessageView, Destination],
        history: History | None = None,
        **facts: Any,
    ) -> ArrivalDecision:
        views = [view for view, _ in pairs]
        known: dict[str, Any] = {
            "address": "10.0.0.5",
            "is_trusted": True,
            "peer": None,
            "destinations": [destination for _, destination in pairs],
            "security": {},
            "is_durable": True,
            "free": 1 << 30,
            "is_routing_server": False,
            "without_route": {},
            "duplicates": (),
            "different": different_ones(views),
            "size": total_size(views),
            **facts,
        }
        self.history = History() if history is None else history
        return decide(views, ArrivalFacts(**known), self.history, Moment(0.0, NOW))

    def outcome(self, view: UserMessageView, destination: Destination, **facts: Any) -> MessageOutcome:
        [outcome] = self.decide((view, destination), **facts).outcomes
        return outcome


class RunTests(DecisionTestCase):
    """Recoverable messages that arrive together for a queue that is there."""

    def check(self, run: Sequence[UserMessageView], **facts: Any) -> ArrivalDecision:
        """An express message before it makes it no run, and has to make no difference to the others."""
        pairs = [(view, QUEUE) for view in run]
        history = History(verdicts=facts.pop("verdicts", {}))
        alone = self.decide(*pairs, history=attrs.evolve(history, judged=[]), **facts)
        judged = self.history.judged
        before = express(99)
        if "free" in facts:
            facts["free"] += before.size
        mixed = self.decide((before, QUEUE), *pairs, history=attrs.evolve(history, judged=[]), **facts)
        self.assertEqual(judged, self.history.judged)
        self.assertEqual(list(alone.outcomes), list(mixed.outcomes)[1:])
        self.assertEqual(
            (alone.acknowledged, alone.is_classified, alone.closure, set(alone.unverified)),  # type: ignore[call-overload]
            (mixed.acknowledged, mixed.is_classified, mixed.closure, set(mixed.unverified)),  # type: ignore[call-overload]
        )
        return alone

    def test_all_enter_the_queue(self) -> None:
        """All are acknowledged, also from an address whose senders have to be verified."""
        run = [recoverable(number) for number in range(1, 65)]
        for is_trusted in (True, False):
            decision = self.check(run, is_trusted=is_trusted)
            self.assertEqual(
                (list(decision.outcomes), decision.acknowledged), ([ArrivalOutcome.ENQUEUED] * 64, 64)
            )

    def test_duplicates_among_them(self) -> None:
        """They are acknowledged, and dropped."""
        run = [recoverable(number) for number in range(1, 5)]
        decision = self.check(run, verdicts={run[2]: Verdict.DUPLICATE, run[3]: Verdict.ACCEPTED})
        self.assertEqual(
            list(decision.outcomes),
            [
                ArrivalOutcome.ENQUEUED,
                ArrivalOutcome.ENQUEUED,
                ArrivalOutcome.DUPLICATE,
                ArrivalOutcome.ENQUEUED,
            ],
        )

    def test_one_is_different(self) -> None:
        """A message that is late, transactional, refused, of another sender or over a quota is
        decided alone.
        """
        run = [recoverable(number) for number in range(1, 4)]
        for different, facts in (
            (recoverable(4, **LATE), {}),
            (in_stream(4), {}),
            (express(4), {}),
            (recoverable(4), {"is_durable": False}),
            (recoverable(4), {"free": sum(view.size for view in run)}),
            (recoverable(4, source=GAMMA), {"peer": ALPHA.bytes_le}),
        ):
            with self.subTest(facts=facts, packet=different):
                decision = self.check([*run, different], **facts)
                if different.is_recoverable:
                    self.assertNotEqual(decision.outcomes[-1:], [ArrivalOutcome.ENQUEUED])
        refused = recoverable(4)
        decision = self.check([*run, refused], security={refused: Security()})
        self.assertEqual(
            decision.outcomes[-1], ArrivalRefusal(Security().message_class, ": no right to send")
        )


class OneMessageTests(DecisionTestCase):
    """A message alone."""

    def test_each_outcome(self) -> None:
        """MQQB-3.1.5.8.2-12: a line for each fate and for each class that refuses a message."""
        nack = MessageClass
        routing = {"is_routing_server": True}
        for view, destination, facts, expected in (
            (express(), QUEUE, {}, ArrivalOutcome.ENQUEUED),
            (recoverable(), QUEUE, {}, ArrivalOutcome.ENQUEUED),
            (in_stream(), TRANSACTIONAL, {}, ArrivalOutcome.ENQUEUED),
            (express(), MISSING, {}, ArrivalOutcome.ACKNOWLEDGEMENT),
            (express(), TRANSACTIONAL, {}, ArrivalRefusal(nack.NACK_NOT_TRANSACTIONAL_MSG)),
            (recoverable(), TRANSACTIONAL, {}, ArrivalRefusal(nack.NACK_NOT_TRANSACTIONAL_MSG)),
            (in_stream(), QUEUE, {}, ArrivalRefusal(nack.NACK_NOT_TRANSACTIONAL_Q)),
            (express(**LATE), QUEUE, {}, ArrivalRefusal(nack.NACK_REACH_QUEUE_TIMEOUT)),
            (recoverable(**LATE), QUEUE, {}, ArrivalRefusal(nack.NACK_REACH_QUEUE_TIMEOUT)),
            (express(**LATE), ELSEWHERE, routing, ArrivalRefusal(nack.NACK_REACH_QUEUE_TIMEOUT)),
            (express(), ELSEWHERE, {}, ArrivalRefusal(NOT_FOR_US)),
            (express(), ELSEWHERE, routing, ArrivalOutcome.FORWARDED),
            (recoverable(), ELSEWHERE, routing, ArrivalOutcome.FORWARDED),
            (express(hops=29), ELSEWHERE, routing, ArrivalRefusal(nack.NACK_HOP_COUNT_EXCEEDED)),
            (express(hops=28), ELSEWHERE, routing, ArrivalOutcome.FORWARDED),
            (express(hops=29), QUEUE, {}, ArrivalOutcome.ENQUEUED),
        ):
            with self.subTest(destination=destination, expected=expected):
                self.assertEqual(self.outcome(view, destination, **facts), expected)

    def test_order_of_the_rules(self) -> None:
        """Reading 63: the type of the queue decides before security, and security before expiration.

        MQQB-3.1.5.8-03.
        """
        denied = ArrivalRefusal(MessageClass.NACK_ACCESS_DENIED, ": no right to send")
        no_transaction = ArrivalRefusal(MessageClass.NACK_NOT_TRANSACTIONAL_MSG)
        no_queue_for_it = ArrivalRefusal(MessageClass.NACK_NOT_TRANSACTIONAL_Q)
        for view, own, other, of_another_type in (
            (express(**LATE), QUEUE, TRANSACTIONAL, no_transaction),
            (recoverable(**LATE), QUEUE, TRANSACTIONAL, no_transaction),
            (in_stream(), TRANSACTIONAL, QUEUE, no_queue_for_it),
        ):
            with self.subTest(packet=view):
                refused = {view: Security()}
                self.assertEqual(self.outcome(view, other, security=refused), of_another_type)
                self.assertEqual(self.outcome(view, own, security=refused), denied)

    def test_an_unauthenticated_peer_comes_first(self) -> None:
        """A peer that may not send, or the policy of its session, decides before the type of the queue."""
        for make in (express, recoverable):
            view = make(**LATE)
            refused = {view: Security(precedes_queue=True)}
            self.assertEqual(
                self.outcome(view, TRANSACTIONAL, security=refused),
                ArrivalRefusal(MessageClass.NACK_ACCESS_DENIED, ": no right to send"),
            )

    def test_refused_wherever_it_goes(self) -> None:
        """A policy refuses messages in transit, and those for the order queue and for missing queues, too."""
        for make in (express, recoverable):
            for destination in (Destination.ELSEWHERE, Destination.MISSING):
                view = make()
                outcome = self.outcome(view, destination, security={view: Security()})
                self.assertIsInstance(outcome, ArrivalRefusal, destination)

    def test_duplicates(self) -> None:
        """A duplicate is dropped and acknowledged, with any other facts."""
        view = express(**LATE)
        self.assertIs(self.outcome(view, QUEUE, duplicates=(view,)), ArrivalOutcome.DUPLICATE)
        for verdict, fate in (
            (Verdict.DUPLICATE, ArrivalOutcome.DUPLICATE),
            (Verdict.OUT_OF_ORDER, ArrivalOutcome.OUT_OF_ORDER),
        ):
            view = recoverable(**LATE)
            decision = self.decide((view, QUEUE), history=History(verdicts={view: verdict}))
            self.assertEqual((list(decision.outcomes), decision.acknowledged), ([fate], 1))

    def test_refused_messages_are_acknowledged(self) -> None:
        """Reading 51: a recoverable message that is refused has been passed, and does not come again."""
        decision = self.decide((recoverable(**LATE), QUEUE))
        self.assertEqual((decision.acknowledged, decision.closure), (1, None))


class ClosureTests(DecisionTestCase):
    """Reasons to close the session: the message concerned and later ones are not acknowledged."""

    def test_store_that_is_not_durable(self) -> None:
        """A recoverable message cannot be kept; what is before it is accepted."""
        for view, name in ((recoverable(2), "RECOVERABLE"), (in_stream(2), "TRANSACTIONAL")):
            decision = self.decide((express(1), QUEUE), (view, QUEUE), (express(3), QUEUE), is_durable=False)
            self.assertEqual(
                decision.outcomes, [ArrivalOutcome.ENQUEUED, ArrivalRefusal(f"UNSUPPORTED_{name}")]
            )
            self.assertIs(decision.closure, Closure.UNSUPPORTED_MESSAGE)
            self.assertEqual((decision.is_classified, decision.acknowledged), (False, 0))
            self.assertEqual(self.history.judged, [])

    def test_message_of_another(self) -> None:
        """By a direct name only the peer's own messages come; another source is not judged."""
        mine, forged = recoverable(1, source=ALPHA), recoverable(2, source=GAMMA)
        pairs = ((mine, QUEUE), (forged, QUEUE), (recoverable(3), QUEUE))
        decision = self.decide(*pairs, peer=ALPHA.bytes_le)
        self.assertEqual(decision.outcomes, [ArrivalOutcome.ENQUEUED, ArrivalRefusal("NOT_FROM_ITS_SENDER")])
        self.assertIs(decision.closure, Closure.NOT_FROM_ITS_SENDER)
        self.assertEqual((self.history.judged, decision.acknowledged), ([mine], 1))
        self.assertIsNone(self.decide(*pairs).closure)
        for alone in (pairs[1:2], (pairs[1], (recoverable(3, source=GAMMA), QUEUE))):
            decision = self.decide(*alone, peer=ALPHA.bytes_le)
            self.assertEqual(decision.outcomes, [ArrivalRefusal("NOT_FROM_ITS_SENDER")])
            self.assertEqual((self.history.judged, decision.acknowledged), ([], 0))
        routed = recoverable(4, source=GAMMA, queue_manager=BETA, private_number=1)
        self.assertIsNone(self.decide((routed, QUEUE), peer=ALPHA.bytes_le).closure)

    def test_quota_of_the_queue_manager(self) -> None:
        """Reading 67: what does not fit is not acknowledged; duplicates need no space."""
        first, second, third = (recoverable(number) for number in (1, 2, 3))
        pairs = ((first, QUEUE), (second, QUEUE), (third, QUEUE))
        decision = self.decide(*pairs, free=first.size)
        self.assertEqual(
            decision.outcomes, [ArrivalOutcome.ENQUEUED, ArrivalRefusal("QUEUE_MANAGER_QUOTA_EXCEEDED")]
        )
        self.assertEqual((decision.closure, decision.acknowledged), (Closure.NO_RESOURCES, 1))
        self.assertEqual(self.history.judged, [first])
        known = History(passed=[first], verdicts={first: Verdict.DUPLICATE})
        decision = self.decide(*pairs, free=first.size, history=known)
        self.assertEqual(decision.outcomes[:2], [ArrivalOutcome.DUPLICATE, ArrivalOutcome.ENQUEUED])
        self.assertEqual(decision.acknowledged, 2)

    def test_streams(self) -> None:
        """At the limit on streams nothing from there on is acknowledged; express messages are ignored."""
        first, second = in_stream(1), in_stream(2)
        history = History(verdicts={first: Verdict.NO_ROOM})
        decision = self.decide(
            (recoverable(7), QUEUE),
            (first, TRANSACTIONAL),
            (express(3), QUEUE),
            (second, TRANSACTIONAL),
            history=history,
        )
        self.assertEqual(
            decision.outcomes,
            [
                ArrivalOutcome.ENQUEUED,
                ArrivalOutcome.NO_ROOM,
                ArrivalOutcome.IGNORED,
                ArrivalOutcome.ENQUEUED,
            ],
        )
        self.assertEqual((decision.closure, decision.acknowledged), (Closure.NO_RESOURCES, 1))

    def test_outgoing_queues(self) -> None:
        """A recoverable message for which no outgoing queue may be created stays with its sender."""
        view = recoverable(1)
        facts: dict[str, Any] = {"is_routing_server": True, "without_route": {view: TOO_MANY_QUEUES}}
        decision = self.decide((view, ELSEWHERE), (recoverable(2), QUEUE), **facts)
        self.assertEqual(decision.outcomes[0], ArrivalRefusal(TOO_MANY_QUEUES, is_sent_again=True))
        self.assertEqual((decision.closure, decision.acknowledged), (Closure.NO_RESOURCES, 0))
        lost = express(1)
        decision = self.decide(
            (lost, ELSEWHERE), is_routing_server=True, without_route={lost: TOO_MANY_QUEUES}
        )
        self.assertEqual((decision.outcomes, decision.closure), ([ArrivalRefusal(TOO_MANY_QUEUES)], None))

    def test_names(self) -> None:
        """Each closure is a reason for which sessions close."""
        self.assertEqual([CloseReason[each.name].name for each in Closure], [each.name for each in Closure])


class UnverifiedTests(DecisionTestCase):
    """Recoverable messages without a verified sender."""

    def test_not_judged(self) -> None:
        """From an address that is not trusted they move no stream and no history."""
        refused, missing, fine = recoverable(1), recoverable(2), recoverable(3)
        pairs = ((refused, QUEUE), (missing, MISSING), (fine, QUEUE))
        decision = self.decide(*pairs, is_trusted=False, security={refused: Security()})
        self.assertEqual(self.history.judged, [fine])
        self.assertEqual([view in decision.unverified for view, _ in pairs], [True, True, False])
        self.decide(*pairs, security={refused: Security()})
        self.assertEqual(self.history.judged, [refused, missing, fine])

    def test_acknowledgements_are_not_judged(self) -> None:
        """OrderAcks and FinalAcks are not in the history of duplicates."""
        envelope = AckEnvelope(BETA, ALPHA, 5, int(NOW))
        made = FinalAck(envelope, MessageClass.ACK_RECEIVE, TxSequenceID(1, 1), 1, 0, ALPHA, 9)
        ack = UserMessageView(made.to_bytes())
        self.decide((ack, MISSING))
        self.assertEqual(self.history.judged, [])


class DestinationTests(SynchronousTestCase):
    """The kind of a destination, by one fact."""

    def test_each_kind(self) -> None:
        """Of a local queue whether it is transactional, of none whether it should be here."""
        self.assertEqual(LOCAL_DESTINATION, {True: TRANSACTIONAL, False: QUEUE})
        self.assertEqual(ABSENT_DESTINATION, {True: MISSING, False: ELSEWHERE})


class CutTests(DecisionTestCase):
    """L{cut_at}: an acknowledgement that is not looked at has to come again."""

    def test_cut(self) -> None:
        """No message from it on is acknowledged; later express messages are sent again too."""
        pairs = [
            (recoverable(1), QUEUE),
            (recoverable(2), MISSING),
            (express(3), QUEUE),
            (recoverable(4), QUEUE),
        ]
        decision = self.decide(*pairs)
        self.assertEqual(decision.acknowledged, 3)
        closed = attrs.evolve(decision, outcomes=decision.outcomes[:3], closure=Closure.NO_RESOURCES)
        self.assertEqual(
            cut_at(closed, [view for view, _ in pairs], 0).outcomes,
            [ArrivalOutcome.ENQUEUED, ArrivalOutcome.ACKNOWLEDGEMENT, ArrivalOutcome.IGNORED],
        )
        cut = cut_at(decision, [view for view, _ in pairs], 1)
        self.assertEqual(
            cut.outcomes,
            [
                ArrivalOutcome.ENQUEUED,
                ArrivalOutcome.ACKNOWLEDGEMENT,
                ArrivalOutcome.IGNORED,
                ArrivalOutcome.ENQUEUED,
            ],
        )
        self.assertEqual(cut.acknowledged, 1)


class ExpressTests(DecisionTestCase):
    """Express messages alone."""

    def test_nothing_is_stored(self) -> None:
        """Streams and duplicates do not change, and none is acknowledged as stored, whether all of them
        are for a queue that is there or not.
        """
        for destination, is_durable in ((QUEUE, True), (QUEUE, False), (MISSING, True), (MISSING, False)):
            decision = self.decide((express(1), QUEUE), (express(2), destination), is_durable=is_durable)
            self.assertEqual(
                (decision.acknowledged, decision.is_classified, decision.closure), (0, False, None)
            )
            self.assertEqual(self.history.judged, [])
        empty = self.decide()
        self.assertEqual((list(empty.outcomes), empty.acknowledged, empty.is_classified), ([], 0, False))

    def test_duplicates(self) -> None:
        """They are dropped, and the others of their batch are delivered."""
        first, second = express(1), express(2)
        for duplicates, enqueued in (((), [True, True]), (frozenset({first}), [False, True])):
            decision = self.decide((first, QUEUE), (second, QUEUE), duplicates=duplicates)
            self.assertEqual([each is ArrivalOutcome.ENQUEUED for each in decision.outcomes], enqueued)

    def test_security(self) -> None:
        """A message that it refuses is refused, and the others are delivered."""
        first, second = express(1), express(2)
        decision = self.decide((first, QUEUE), (second, QUEUE), security={first: Security()})
        refusal = ArrivalRefusal(Security().message_class, ": no right to send")
        self.assertEqual(decision.outcomes, [refusal, ArrivalOutcome.ENQUEUED])

    def test_the_last_second(self) -> None:
        """A message is in time in the second of its limit, and late in the next one, of either kind."""
        for make in (express, recoverable):
            in_time = make(1, sent_time=int(NOW) - 50, time_to_reach_queue=50)
            late = make(2, sent_time=int(NOW) - 51, time_to_reach_queue=50)
            self.assertEqual(self.outcome(in_time, QUEUE), ArrivalOutcome.ENQUEUED)
            self.assertNotEqual(self.outcome(late, QUEUE), ArrivalOutcome.ENQUEUED)
            for view, is_forwarded in ((in_time, True), (late, False)):
                outcome = self.outcome(view, ELSEWHERE, is_routing_server=True)
                self.assertEqual(outcome is ArrivalOutcome.FORWARDED, is_forwarded)

    def test_quota(self) -> None:
        """Recoverable messages fit if they take all that is free, and not with a byte more."""
        pair = recoverable(1), recoverable(2)
        size = sum(view.size for view in pair)
        for free, closure in ((size, None), (size - 1, Closure.NO_RESOURCES)):
            decision = self.decide(*((view, QUEUE) for view in pair), free=free)
            self.assertIs(decision.closure, closure)
            self.assertEqual(decision.acknowledged, 2 if closure is None else 1)
