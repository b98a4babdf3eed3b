"""Reports of a traced message in C{msmq explain}."""

from __future__ import annotations

from uuid import UUID

from twisted.trial.unittest import SynchronousTestCase

from msmq.control.server.messages.queued_messages_json import explanation_of
from msmq.interfaces.manager.received_messages import Explanation, FoundReport
from msmq.queues.arriving.reports import Hop
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.packet.user_message_view import UserMessageView
from tests.builders import ALPHA, BETA, user_packet

TRACED = MessageIdentifier(ALPHA, 7)


def found(reporter: UUID, next_hop: str | None, sent_time: int) -> FoundReport:
    view = UserMessageView(user_packet(source=reporter, sent_time=sent_time))
    return FoundReport(".\\reports", view, Hop(TRACED, 2, "DIRECT=OS:beta\\q", next_hop))


EXPLANATION = Explanation(
    TRACED, [], [], [found(ALPHA, "10.0.0.5", 1_700_000_000), found(BETA, None, 1_700_000_002)]
)


class ReportTests(SynchronousTestCase):
    """Two reports, of a sending and of an arrival."""

    def test_json(self) -> None:
        """Which queue manager reports what, and when."""
        common = {"hops": 2, "target_queue": "DIRECT=OS:beta\\q", "queue": ".\\reports"}
        self.assertEqual(
            explanation_of(EXPLANATION)["reports"],
            [
                {
                    "time": "2023-11-14T22:13:20+00:00",
                    "event": "sent",
                    "queue_manager": str(ALPHA).upper(),
                    "next_hop": "10.0.0.5",
                    **common,
                },
                {
                    "time": "2023-11-14T22:13:22+00:00",
                    "event": "arrived",
                    "queue_manager": str(BETA).upper(),
                    "next_hop": None,
                    **common,
                },
            ],
        )
