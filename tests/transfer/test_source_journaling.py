"""Every rule about which journal copies wait, and the event of one that does not come, as tables."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from twisted.trial.unittest import SynchronousTestCase

from msmq.moment import Moment
from msmq.queues.arriving.message import Acknowledge, Message
from msmq.queues.arriving.packet_builder import build_packet
from msmq.structures.names.format_name import FormatName, parse_format_name
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.transfer.awaiting_acknowledgements import SourceSettlement, WaitEnd
from msmq.transfer.decisions.source_event import source_event
from msmq.transfer.source_journaling import (
    AwaitedMessage,
    HandedOverFacts,
    answered_destination,
    awaited_message,
    destination_owner,
)
from msmq.transfer.stream_changes import Disposal
from tests.builders import ALPHA, BETA, GAMMA, NULL
from tests.nodes.scripted import NEGATIVE, POSITIVE, transactional

ORDERS = "DIRECT=TCP:127.31.0.2\\private$\\orders"
ADMIN_NAME = "TCP:127.31.0.3\\private$\\admin"
ADMIN = UUID(int=0xAD)
NOW = 1_700_000_000.0
ARRIVAL, NEITHER = Acknowledge.POSITIVE_ARRIVAL, Acknowledge.NEGATIVE_ARRIVAL


def message(**properties: Any) -> UserMessageView:
    known: dict[str, Any] = {
        "user_flags": POSITIVE,
        "acknowledge": ARRIVAL,
        "admin": ADMIN_NAME,
        "is_transactional": False,
        "message_id": 7,
    }
    return UserMessageView(transactional(b"", (0, 1, 0), **{**known, **properties}))


class AwaitedMessageTests(SynchronousTestCase):
    """L{awaited_message}: whether the journal copy of a message that was handed over waits."""

    def awaited(
        self, view: UserMessageView, *, admin: UUID | None = ADMIN, is_quiet: bool = False, **facts: Any
    ) -> AwaitedMessage | None:
        known: dict[str, Any] = {
            "sender": None,
            "is_journaled": True,
            "is_held": True,
            "is_unacknowledged": lambda each: is_quiet,
            "destination": parse_format_name(ORDERS),
            "is_recoverable": True,
            "now": NOW,
            "wait": 100.0,
        }

        def admin_queue(name: FormatName) -> UUID | None:
            self.assertEqual(str(name), f"DIRECT={ADMIN_NAME}")
            return admin

        return awaited_message(view, HandedOverFacts(**{**known, **facts}), admin_queue)

    def test_waits(self) -> None:
        """It is known by its destination, its MessageID and its administration queue."""
        expected = AwaitedMessage(7, ORDERS, None, ADMIN, 0, int(NOW) + 100, True)
        self.assertEqual(self.awaited(message()), expected)

    def test_each_reason_not_to_wait(self) -> None:
        """A line for each: it is copied, or forgotten, as soon as it is handed over."""
        for view, facts in (
            (message(user_flags=0), {}),
            (message(user_flags=NEGATIVE), {}),
            (message(acknowledge=NEITHER), {}),
            (message(is_transactional=True), {}),
            (message(admin=""), {}),
            (message(), {"admin": None}),
            (message(), {"sender": GAMMA}),
            (message(), {"is_journaled": False}),
            (message(), {"is_held": False}),
            (message(), {"is_quiet": True}),
            (message(), {"destination": None}),
        ):
            with self.subTest(facts=facts):
                self.assertIsNone(self.awaited(view, **facts))

    def test_malformed_administration_queue(self) -> None:
        """A name that cannot be read is the queue of no acknowledgement."""
        self.assertIsNone(self.awaited(message(admin="TCP:")))

    def test_owner(self) -> None:
        """A line for each kind of name: which queue manager has to acknowledge."""
        public = f"PUBLIC={UUID(int=5)}"
        for name, queue_manager, expected in (
            (ORDERS, None, None),
            (ORDERS, ALPHA, None),
            (f"PRIVATE={BETA}\\00000007", ALPHA, BETA),
            (public, ALPHA, ALPHA),
            (public, UUID(int=0), None),
        ):
            view = message(queue_manager=queue_manager, number=7)
            self.assertEqual(destination_owner(parse_format_name(name), view), expected)


class SourceEventTests(SynchronousTestCase):
    """L{source_event}: what C{msmq explain} says of a message that was not proven to have arrived."""

    def test_each_text(self) -> None:
        """A line for each end of the wait, and for each fate of the dead letter."""
        full = MessageClass.NACK_Q_EXCEED_QUOTA
        answered = "acknowledgement MQMSG_CLASS_NACK_Q_EXCEED_QUOTA"
        for end, disposal, is_kept, name, reason in (
            (WaitEnd.ANSWERED, Disposal.FORGET, False, "failed", answered),
            (WaitEnd.ANSWERED, Disposal.DEAD_LETTER, True, "failed", f"{answered}; kept as a dead letter"),
            (
                WaitEnd.ANSWERED,
                Disposal.DEAD_LETTER,
                False,
                "failed",
                f"{answered}; the dead letter was not kept, for lack of space",
            ),
            (
                WaitEnd.EXPIRED,
                Disposal.FORGET,
                False,
                "unacknowledged",
                "no acknowledgement came in time; it may have arrived",
            ),
            (
                WaitEnd.EVICTED,
                Disposal.FORGET,
                False,
                "unacknowledged",
                "more messages than [limits] awaiting_acknowledgements waited; it may have arrived",
            ),
        ):
            with self.subTest(end=end, disposal=disposal, is_kept=is_kept):
                waiting = AwaitedMessage(7, ORDERS, None, ADMIN, 0, int(NOW))
                settlement = SourceSettlement(waiting, 1, disposal, full, end, ())
                event = source_event(settlement, ALPHA.bytes_le, Moment(1.0, NOW), is_kept=is_kept)
                self.assertEqual((event.event, event.reason, event.queue), (name, reason, ORDERS))
                self.assertEqual(event.identity, ALPHA.bytes_le + b"\7\0\0\0")
                noted = source_event(
                    settlement, ALPHA.bytes_le, Moment(1.0, NOW), is_kept=is_kept, note="not there"
                )
                kept = "; kept as a dead letter"
                self.assertEqual(noted.reason, reason.replace(kept, f"; not there{kept}"))


class AnsweredDestinationTests(SynchronousTestCase):
    """L{answered_destination}."""

    def test_the_queue_that_an_answer_is_about(self) -> None:
        """Its response queue; one that is private to the sender of the answer gets the identifier of that."""
        for response, expected in (
            (ORDERS, ORDERS),
            (f"PRIVATE={NULL}\\00000007", f"PRIVATE={str(BETA).upper()}\\00000007"),
            (f"PRIVATE={GAMMA}\\00000007", f"PRIVATE={str(GAMMA).upper()}\\00000007"),
        ):
            properties = Message(
                b"",
                message_class=MessageClass.ACK_REACH_QUEUE,
                correlation_id=ALPHA.bytes_le + bytes(4),
                response_queue=response,
            )
            packet = build_packet(
                properties, parse_format_name(ORDERS), source=BETA, message_id=1, sent_time=int(NOW)
            )
            view = UserMessageView(packet)
            self.assertEqual(str(answered_destination(view, ALPHA)), expected)
            self.assertIsNone(answered_destination(view, GAMMA))
            self.assertEqual(str(answered_destination(view, GAMMA, has_others=True)), expected)
