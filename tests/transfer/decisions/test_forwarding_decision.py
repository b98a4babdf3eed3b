"""Every rule about messages in transit and dead letters of refused ones, as a table. [MS-MQQB] 3.1.5.8.5."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from msmq.structures.packet.kept_packet import is_marked_for_dead_letters, packet_of
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.user_message_patches import patch_hop_count
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.transfer.decisions.forwarding_decision import (
    ENTERPRISE_UNKNOWN,
    KEPT,
    NOT_FOR_US,
    TOO_MANY_QUEUES,
    DeadLetterDecision,
    RefusedFacts,
    decide_dead_letter,
    forwarded_packet,
    passing_refusal,
    route_obstacle,
)
from tests.builders import BETA, user_packet

NACK = MessageClass


def message(*, hops: int = 0, recoverable: bool = False) -> UserMessageView:
    packet = user_packet(b"x", queue_manager=BETA, private_number=7, recoverable=recoverable)
    return UserMessageView(patch_hop_count(packet, hops))


class TransitTests(SynchronousTestCase):
    """Messages for other queue managers."""

    def test_refusals(self) -> None:
        """A line for each reason not to forward a message, in the order in which they are looked at."""
        for hops, is_routing_server, is_late, expected in (
            (0, True, False, None),
            (28, True, False, None),
            (29, True, False, NACK.NACK_HOP_COUNT_EXCEEDED),
            (29, False, False, NOT_FOR_US),
            (29, False, True, NACK.NACK_REACH_QUEUE_TIMEOUT),
        ):
            found = passing_refusal(message(hops=hops), is_routing_server=is_routing_server, is_late=is_late)
            self.assertEqual(found, expected)

    def test_obstacles(self) -> None:
        """A recoverable message waits for the directory; no queue is dropped for one that has no
        queue then.
        """
        asked: list[bool] = []
        for recoverable, is_unknown, has_room, expected, is_asked in (
            (True, False, True, None, True),
            (True, False, False, TOO_MANY_QUEUES, True),
            (True, True, True, ENTERPRISE_UNKNOWN, False),
            (False, True, True, None, True),
            (False, True, False, TOO_MANY_QUEUES, True),
        ):
            asked.clear()

            def ask(answer: bool = has_room) -> bool:
                asked.append(answer)
                return answer

            def unknown(answer: bool = is_unknown) -> bool:
                return answer

            view = message(recoverable=recoverable)
            found = route_obstacle(view, is_enterprise_unknown=unknown, has_room=ask)
            self.assertEqual((found, bool(asked)), (expected, is_asked))

    def test_packet(self) -> None:
        """It has made one hop more; whether it becomes a dead letter here is not sent on."""
        view = message(hops=3)
        for keeps in (False, True):
            packet = forwarded_packet(view, keeps_dead_letter=keeps)
            self.assertEqual(UserMessageView(packet).hop_count, 4)
            self.assertIs(is_marked_for_dead_letters(packet), keeps)
            self.assertEqual(packet_of(packet), patch_hop_count(view.packet, 4))


class DeadLetterTests(SynchronousTestCase):
    """L{decide_dead_letter}: where a message is refused permanently."""

    def test_each_outcome(self) -> None:
        """Reading 64: a line for each reason to keep a message, and not to."""
        untrusted: dict[str, Any] = {"is_admitted": False, "is_authenticated": False}
        over_quota = NACK.NACK_Q_EXCEED_QUOTA
        for why, facts, message_class, note in (
            (NACK.NACK_BAD_DST_Q, {}, NACK.NACK_BAD_DST_Q, KEPT),
            (NOT_FOR_US, {}, NACK.NACK_BAD_DST_Q, KEPT),
            (TOO_MANY_QUEUES, {}, NACK.NACK_BAD_DST_Q, KEPT),
            (ENTERPRISE_UNKNOWN, {}, NACK.NACK_BAD_DST_Q, KEPT),
            ("NOT_FROM_ITS_SENDER", {}, None, ""),
            (NACK.NACK_BAD_DST_Q, {"asks_for_dead_letter": False}, None, ""),
            (over_quota, {}, None, ""),
            (over_quota, {"keeps_over_quota": True}, over_quota, KEPT),
            (NACK.NACK_BAD_DST_Q, {**untrusted, "is_admitted": True}, NACK.NACK_BAD_DST_Q, KEPT),
            (NACK.NACK_BAD_DST_Q, {**untrusted, "is_authenticated": True}, NACK.NACK_BAD_DST_Q, KEPT),
        ):
            with self.subTest(why=why, facts=facts):
                self.assertEqual(self.decide(why, **facts), DeadLetterDecision(message_class, note))
        refused = self.decide(NACK.NACK_BAD_DST_Q, **untrusted)
        self.assertIsNone(refused.message_class)
        self.assertIn("[security] does not trust its address", refused.note)

    def decide(self, why: MessageClass | str, **facts: Any) -> DeadLetterDecision:
        known: dict[str, Any] = {
            "asks_for_dead_letter": True,
            "is_admitted": True,
            "is_authenticated": True,
            "keeps_over_quota": False,
            **facts,
        }
        return decide_dead_letter(why, RefusedFacts(**known))
