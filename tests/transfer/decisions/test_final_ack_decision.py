"""Every rule about FinalAcks: when one is sent, where to, what it says. [MS-MQQB] 3.1.7.2.2."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

import attrs
from twisted.trial.unittest import SynchronousTestCase

from msmq.moment import Moment
from msmq.structures.names.format_name import FormatName, PrivateFormatName
from msmq.structures.names.queue_names import DirectQueueFormatName, QueueNameKind
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.message_properties_header import MessagePropertiesHeader
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.transfer.acknowledgements import order_queue
from msmq.transfer.decisions.final_ack_decision import (
    MOST_UNVERIFIED,
    FinalAckAddress,
    FinalAckFacts,
    UnsentFinalAck,
    decide_final_ack,
    may_be_answered,
    settlement_event,
)
from msmq.transfer.stream_changes import Disposal
from tests.builders import BETA, GAMMA, user_packet
from tests.transfer.support import JN, transactional_packet

REACHED, RECEIVED = MessageClass.ACK_REACH_QUEUE, MessageClass.ACK_RECEIVE
REFUSED, EXPIRED = MessageClass.NACK_BAD_DST_Q, MessageClass.NACK_RECEIVE_TIMEOUT


@attrs.frozen
class Addresses:
    """Where the acknowledgements of every stream go."""

    known: UUID | str | None

    def answer_to(self, view: UserMessageView) -> UUID | str | None:
        return self.known


def message(**kwargs: Any) -> UserMessageView:
    """A transactional message of GAMMA that requests a FinalAck, by a direct name."""
    return UserMessageView(transactional_packet(**{"source": GAMMA, "user_flags": JN, **kwargs}))


WANTED: Final = message()
UNWANTED: Final = message(user_flags=0)
NAMED: Final = message(queue_manager=BETA, private_number=7)
PLAIN: Final = UserMessageView(user_packet(b"x", source=GAMMA, recoverable=True))
JOURNALED: Final = UserMessageView(user_packet(b"x", source=GAMMA, recoverable=True, user_flags=JN))


class DecisionTests(SynchronousTestCase):
    """L{decide_final_ack}."""

    def decide(
        self,
        view: UserMessageView,
        message_class: MessageClass,
        *,
        address: UUID | str | None = "TCP:10.0.0.9",
        pending: int = 0,
        **facts: Any,
    ) -> FinalAckAddress | UnsentFinalAck:
        known: dict[str, Any] = {
            "own": BETA.bytes_le,
            "is_refusal": False,
            "is_final_destination": True,
            "only_at": None,
            "send_insecure": False,
            **facts,
        }

        def waiting(queue: FormatName) -> int:
            self.asked = queue
            return pending

        return decide_final_ack(
            view, message_class, FinalAckFacts(pending=waiting, **known), Addresses(address)
        )

    def test_each_outcome(self) -> None:
        """A line for each FinalAck that is sent, and for each reason to send none.

        MQQB-3.1.7.2.2-02: a message that is not transactional has none, whether it is received, removed or
        refused.
        """
        direct = FinalAckAddress("TCP:10.0.0.9", order_queue("TCP:10.0.0.9"))
        to_sender = FinalAckAddress("TCP:10.0.0.5", order_queue("TCP:10.0.0.5"))
        named = FinalAckAddress(GAMMA, PrivateFormatName(GAMMA, 4))
        none = UnsentFinalAck
        refusal: dict[str, Any] = {"is_refusal": True}
        unverified: dict[str, Any] = {"is_refusal": True, "only_at": "10.0.0.5", "send_insecure": True}
        for view, message_class, facts, expected in (
            (WANTED, RECEIVED, {}, direct),
            (WANTED, EXPIRED, {}, direct),
            (NAMED, RECEIVED, {"address": GAMMA}, named),
            # Nothing is said of an arrival, nor of a message of which nothing was requested.
            (WANTED, REACHED, {}, none.NOT_REQUESTED),
            (UNWANTED, RECEIVED, {}, none.NOT_REQUESTED),
            (PLAIN, REFUSED, refusal, none.NOT_REQUESTED),
            (JOURNALED, REFUSED, refusal, none.NOT_REQUESTED),
            (JOURNALED, RECEIVED, {}, none.NOT_REQUESTED),
            (JOURNALED, EXPIRED, {}, none.NOT_REQUESTED),
            # A refusal in sequence is reported in any case, also of a message for another queue manager.
            (UNWANTED, REFUSED, refusal, direct),
            (UNWANTED, REFUSED, {**refusal, "is_final_destination": False}, direct),
            (WANTED, RECEIVED, {"is_final_destination": False}, none.OF_ANOTHER),
            (message(source=BETA), RECEIVED, {}, none.OWN_MESSAGE),
            (WANTED, RECEIVED, {"address": None}, none.ADDRESS_UNKNOWN),
            # Where nothing verifies the sender, at most its address gets a FinalAck.
            (WANTED, REFUSED, unverified, to_sender),
            (WANTED, REFUSED, {**unverified, "send_insecure": False}, none.SENDER_UNVERIFIED),
            (NAMED, REFUSED, unverified, none.SENDER_UNVERIFIED),
            (WANTED, REFUSED, {**unverified, "pending": MOST_UNVERIFIED - 1}, to_sender),
            (WANTED, REFUSED, {**unverified, "pending": MOST_UNVERIFIED}, none.TOO_MANY),
            (WANTED, REFUSED, {**refusal, "pending": MOST_UNVERIFIED}, direct),
        ):
            with self.subTest(message_class=message_class, facts=facts, expected=expected):
                self.assertEqual(self.decide(view, message_class, **facts), expected)

    def test_pending_ones_are_of_the_same_queue(self) -> None:
        """The limit counts what waits for the address that would get the FinalAck."""
        self.decide(WANTED, REFUSED, is_refusal=True, only_at="10.0.0.5", send_insecure=True)
        self.assertEqual(self.asked, order_queue("TCP:10.0.0.5"))

    def test_possible_answers(self) -> None:
        """An arrival draws only an administration acknowledgement; anything else a FinalAck too."""
        parsed = PLAIN.parse()
        properties = attrs.evolve(parsed.properties, flags=MessagePropertiesHeader.PA)
        admin = DirectQueueFormatName("TCP:10.0.0.9\\private$\\admin")
        user = attrs.evolve(parsed.user, admin_kind=QueueNameKind.DIRECT, admin_queue=admin)
        asking = UserMessageView(attrs.evolve(parsed, user=user, properties=properties).to_bytes())
        for view, message_class, expected in (
            (PLAIN, REACHED, False),
            (PLAIN, RECEIVED, False),
            (UNWANTED, REACHED, False),
            (UNWANTED, RECEIVED, True),
            (asking, REACHED, True),
        ):
            self.assertIs(may_be_answered(view, message_class), expected)


class SettlementTests(SynchronousTestCase):
    """L{settlement_event}: what the event log says when the FinalAck of a message has come."""

    def test_each_outcome(self) -> None:
        """A line for each class and disposal; a journal copy is its own evidence."""
        received, expired = (f"MQMSG_CLASS_{name}" for name in ("ACK_RECEIVE", "NACK_RECEIVE_TIMEOUT"))
        for view, message_class, disposal, is_kept, expected in (
            (NAMED, RECEIVED, Disposal.FORGET, False, ("received", received)),
            (NAMED, RECEIVED, Disposal.JOURNAL, True, None),
            (
                NAMED,
                RECEIVED,
                Disposal.JOURNAL,
                False,
                ("received", f"{received}; the journal copy was not kept, for lack of space"),
            ),
            (NAMED, EXPIRED, Disposal.FORGET, False, ("failed", expired)),
            (NAMED, EXPIRED, Disposal.DEAD_LETTER, True, ("failed", f"{expired}; kept as a dead letter")),
            (
                NAMED,
                EXPIRED,
                Disposal.DEAD_LETTER,
                False,
                ("failed", f"{expired}; the dead letter was not kept, for lack of space"),
            ),
            (
                None,
                EXPIRED,
                Disposal.DEAD_LETTER,
                False,
                (
                    "failed",
                    f"{expired}; the dead letter was not kept, since the store no longer has the message",
                ),
            ),
            (NAMED, 0, Disposal.FORGET, False, None),
        ):
            event = settlement_event(view, message_class, disposal, Moment(0.0, 5.0), is_kept=is_kept)
            with self.subTest(message_class=message_class, disposal=disposal):
                found = None
                if event is not None:
                    found = event.event, event.reason.removeprefix("final acknowledgement ")
                self.assertEqual(found, expected)
        event = settlement_event(NAMED, RECEIVED, Disposal.FORGET, Moment(0.0, 5.0), is_kept=False)
        assert event is not None
        self.assertEqual((event.time, event.identity, event.message_class), (5.0, NAMED.identity, RECEIVED))
        self.assertEqual(event.queue, str(PrivateFormatName(BETA, 7)))
