"""Every rule about messages that are about to leave, as a table. [MS-MQQB] 3.1.7.1, 3.1.7.12."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from msmq.structures.management import OutgoingState
from msmq.transfer.decisions.dispatch_decision import (
    BATCH_BYTES,
    LOADED_AT_ONCE,
    QueueReadiness,
    SendDecision,
    SendFacts,
    decide_readiness,
    decide_sending,
    dispatch_count,
    dispatch_order,
    portion_end,
)

PAUSED, WAITS, SENDS, RESUMES = QueueReadiness


class ReadinessTests(SynchronousTestCase):
    """L{decide_readiness}: whether an outgoing queue sends."""

    def test_each_outcome(self) -> None:
        """A line for each reason to send nothing; a queue sends in every other state (MQQB-3.1.7.12-03)."""
        inactive = OutgoingState.INACTIVE
        for state, facts, expected in (
            (inactive, {}, SENDS),
            (OutgoingState.WAITING, {}, SENDS),
            (OutgoingState.CONNECTED, {}, SENDS),
            (OutgoingState.NEED_VALIDATION, {}, SENDS),
            (OutgoingState.DISCONNECTED, {}, SENDS),
            (OutgoingState.ON_HOLD, {"is_paused": True}, PAUSED),
            (OutgoingState.ON_HOLD, {"is_stopped": True}, WAITS),
            # Its next hop was paused, and it has another one.
            (OutgoingState.ON_HOLD, {}, RESUMES),
            (OutgoingState.ON_HOLD, {"has_messages": False}, RESUMES),
            (OutgoingState.LOCKED, {}, WAITS),
            (inactive, {"has_messages": False}, WAITS),
            (inactive, {"is_offline": True}, WAITS),
            (inactive, {"is_stopped": True}, WAITS),
            # A pause is applied before anything is sent, also to a queue that is empty or offline.
            (inactive, {"is_paused": True}, PAUSED),
            (OutgoingState.LOCKED, {"is_paused": True}, PAUSED),
            (inactive, {"is_paused": True, "has_messages": False}, PAUSED),
            (inactive, {"is_paused": True, "is_offline": True}, PAUSED),
            (inactive, {"is_paused": True, "is_stopped": True}, WAITS),
        ):
            known: dict[str, bool] = {
                "is_paused": False,
                "has_messages": True,
                "is_stopped": False,
                "is_offline": False,
                **facts,
            }
            with self.subTest(state=state, facts=facts):
                self.assertIs(decide_readiness(state, **known), expected)


class OrderTests(SynchronousTestCase):
    """L{dispatch_order} and L{dispatch_count}: the queues of one session."""

    def test_order(self) -> None:
        """The highest sum of both priorities comes first, then the oldest message."""

        def lookup_id(priority: int, number: int) -> int:
            return (7 - priority) << 56 | number

        queues = {
            "urgent queue": dispatch_order(3, lookup_id(0, 9)),
            "urgent message": dispatch_order(0, lookup_id(3, 8)),
            "older": dispatch_order(0, lookup_id(0, 1)),
            "younger": dispatch_order(0, lookup_id(0, 2)),
            "lazy queue": dispatch_order(-1, lookup_id(0, 0)),
        }
        expected = ["urgent message", "urgent queue", "older", "younger", "lazy queue"]
        self.assertEqual(sorted(queues, key=queues.__getitem__), expected)

    def test_count(self) -> None:
        """One message while queues compete; else what the session takes, or what is read at a time."""
        many = LOADED_AT_ONCE * 2
        for capacity, is_alone, is_in_memory, expected in (
            (many, False, True, 1),
            (many, False, False, 1),
            (many, True, True, many),
            (many, True, False, LOADED_AT_ONCE),
            (5, True, False, 5),
        ):
            found = dispatch_count(capacity, is_alone=is_alone, is_in_memory=is_in_memory)
            self.assertEqual(found, expected)

    def test_portion(self) -> None:
        """A portion ends after a mebibyte, or with what the session takes; one message always goes."""
        half, huge = BATCH_BYTES // 2, BATCH_BYTES * 4
        for sizes, start, room, expected in (
            ([1, 1, 1], 0, 9, 3),
            ([1, 1, 1], 0, 2, 2),
            ([1, 1, 1], 1, 1, 2),
            ([half, half, half], 0, 9, 2),
            ([half, half, half], 2, 9, 3),
            ([half - 1, half, half], 0, 9, 3),
            ([huge, 1], 0, 9, 1),
        ):
            with self.subTest(sizes=sizes, start=start, room=room):
                self.assertEqual(portion_end(sizes, start, room), expected)


class SendingTests(SynchronousTestCase):
    """L{decide_sending}: what messages wait for, and how they are sent."""

    def test_each_outcome(self) -> None:
        """A line for each fact; what passes through is neither encrypted nor numbered here."""
        for facts, waits, is_encrypted, is_ordered in (
            ({}, False, False, True),
            ({"is_in_memory": False}, True, False, True),
            ({"lacks_receiver": True}, True, False, True),
            ({"lacks_keys": True}, False, False, True),
            ({"asks_for_privacy": True}, False, True, True),
            ({"asks_for_privacy": True, "lacks_keys": True}, True, True, True),
            ({"is_transit": True}, False, False, False),
            ({"is_transit": True, "asks_for_privacy": True, "lacks_keys": True}, False, False, False),
            ({"is_transit": True, "is_in_memory": False}, True, False, False),
        ):
            known: dict[str, Any] = {
                "is_transit": False,
                "is_in_memory": True,
                "asks_for_privacy": False,
                "lacks_keys": False,
                "lacks_receiver": False,
                **facts,
            }
            with self.subTest(facts=facts):
                expected = SendDecision(waits, is_encrypted, is_ordered)
                self.assertEqual(decide_sending(SendFacts(**known)), expected)
