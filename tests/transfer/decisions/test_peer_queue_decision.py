"""Every limit on outgoing queues that peers cause, as a table."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from msmq.structures.names.format_name import parse_format_name
from msmq.transfer.decisions.peer_queue_decision import (
    MARGIN,
    MOST_DIALLED_FOR_A_HOST,
    MOST_OUTGOING_QUEUES,
    PAUSE,
    PeerQueueCheck,
    PeerQueueCounts,
    PeerQueueFacts,
    check_room,
    decide_room,
    has_too_many_names,
    is_dialled_name,
)

ALL, DIALLED = MOST_OUTGOING_QUEUES, MOST_DIALLED_FOR_A_HOST
CREATED, COUNTED, REFUSED = PeerQueueCheck.CREATED, PeerQueueCheck.COUNTED, PeerQueueCheck.REFUSED
TOGETHER = ALL // MARGIN


class PeerQueueTests(SynchronousTestCase):
    """L{check_room} and L{decide_room}: whether one more outgoing queue is created for a peer."""

    def test_check(self) -> None:
        """A line for each answer that needs no count."""
        for queues, of_host, is_dialled, refused_for, expected in (
            (0, 0, True, None, CREATED),
            (ALL - 1, 0, False, None, CREATED),
            (ALL, 0, False, None, COUNTED),
            (ALL - 10, 9, False, None, CREATED),
            (ALL - 10, 10, False, None, COUNTED),
            (DIALLED, DIALLED - 1, True, None, CREATED),
            (DIALLED, DIALLED, True, None, COUNTED),
            (DIALLED, DIALLED, False, None, CREATED),
            (ALL, 0, False, 0.0, REFUSED),
            (ALL, 0, False, PAUSE, COUNTED),
            (DIALLED, DIALLED, True, 0.0, REFUSED),
            (0, 0, True, 0.0, CREATED),
        ):
            with self.subTest(queues=queues, of_host=of_host, dialled=is_dialled, refused=refused_for):
                facts = PeerQueueFacts(
                    queues=queues, of_host=of_host, is_dialled=is_dialled, refused_for=refused_for
                )
                self.assertIs(check_room(facts), expected)

    def test_decisions_by_number_of_queues(self) -> None:
        """A line for each decision, by the queues with messages: the number of idle ones to drop, or a
        refusal.
        """
        for queues, idle, busy, dialled, is_dialled, expected in (
            (ALL, 1, 0, 0, False, TOGETHER),
            (ALL, 0, 0, 0, False, None),
            (ALL + 500, 501, 0, 0, False, 501),
            (ALL + 500, 500, 0, 0, False, None),
            (ALL - 10, 0, 10, 0, False, TOGETHER),
            (ALL - 10, 0, 11, 0, False, None),
            (DIALLED, 0, DIALLED, DIALLED - 1, True, TOGETHER),
            (DIALLED, 0, DIALLED, DIALLED, True, None),
            (DIALLED, 0, DIALLED, DIALLED, False, TOGETHER),
        ):
            with self.subTest(queues=queues, idle=idle, busy=busy, dialled=dialled, is_dialled=is_dialled):
                counts = PeerQueueCounts(
                    queues=queues,
                    idle=idle,
                    busy_of_host=busy,
                    dialled_of_host=dialled,
                    is_dialled=is_dialled,
                )
                self.assertEqual(decide_room(counts), expected)

    def test_dialled_names(self) -> None:
        """The narrower limit is on direct names of a host that is known."""
        for name, host, expected in (
            (r"DIRECT=TCP:127.31.0.2\private$\q", "127.31.0.3", True),
            (r"DIRECT=TCP:127.31.0.2\private$\q", "", False),
            (r"PRIVATE=00000000-0000-0000-0000-000000000001\00000002", "127.31.0.3", False),
        ):
            self.assertIs(is_dialled_name(parse_format_name(name), host), expected)

    def test_names(self) -> None:
        """Names without a queue are forgotten at twice the limit."""
        self.assertEqual([has_too_many_names(2 * ALL + each) for each in (0, 1)], [False, True])
