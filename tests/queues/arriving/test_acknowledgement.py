"""[MS-MQQB] 3.1.7.15: acknowledgements as packets, and messages that draw none."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from twisted.trial.unittest import SynchronousTestCase

from msmq.queues.arriving.acknowledgement import INSECURE, acknowledgement, is_quiet
from msmq.queues.arriving.message import Acknowledge, Message
from msmq.queues.arriving.packet_builder import build_packet
from msmq.queues.leaving.departure_kinds import Departure
from msmq.structures.names.format_name import PrivateFormatName, PublicFormatName, parse_format_name
from msmq.structures.packet.body_encryption import EncryptedBody, with_encrypted_body
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.user_message_view import UserMessageView
from tests.builders import ALPHA, BETA, GAMMA
from tests.queues.builders import NOW, model

ADMIN = parse_format_name("DIRECT=TCP:127.0.0.4\\private$\\admin")
TO_BETA = "DIRECT=TCP:127.0.0.3\\private$\\orders"
EVERY = Acknowledge(0x0F)


def message(destination: str = TO_BETA, **properties: Any) -> UserMessageView:
    """A message of ALPHA's that asks for everything."""
    packet = build_packet(
        Message(acknowledge=EVERY, admin_queue=ADMIN, **properties),
        parse_format_name(destination),
        source=ALPHA,
        message_id=1,
        sent_time=NOW.unix_seconds,
    )
    return UserMessageView(packet)


class ClassTests(SynchronousTestCase):
    """The class of an answer is what happened."""

    def test_each_class(self) -> None:
        """0x0002, 0x4000, and every negative class; those that reveal queues only if permitted.

        MQQB-3.1.7.15-03.
        """
        for message_class in (
            *(0x0002, 0x4000, 0x8000, 0x8001, 0x8002, 0x8003, 0x8004, 0x8005, 0x8006, 0x8007),
            *(0x8009, 0x800A, 0x800B, 0xC000, 0xC001, 0xC002, 0xC004),
        ):
            what = MessageClass(message_class)
            answer = acknowledgement(message(), what, queue_manager=BETA, send_insecure=True)
            assert answer is not None
            packet = build_packet(
                answer.message, answer.destination, source=BETA, message_id=2, sent_time=NOW.unix_seconds
            )
            self.assertEqual(UserMessageView(packet).message_class, message_class)
            by_default = acknowledgement(message(), what, queue_manager=BETA)
            self.assertEqual(by_default is None, what in INSECURE)

    def test_an_encrypted_body_is_left_out(self) -> None:
        """The flag says that a body is encrypted, whatever PrivacyLevel says (MQQB-3.1.7.15-13)."""
        plain = message(body=b"in clear")
        for level in (0, 5):
            packet = with_encrypted_body(plain, EncryptedBody(b"cipher text", level, 0x6610, b"key"))
            for view, body in ((plain, b"in clear"), (UserMessageView(packet), b"")):
                answer = acknowledgement(view, MessageClass.NACK_Q_EXCEED_QUOTA, queue_manager=BETA)
                assert answer is not None
                self.assertEqual((answer.message.body, answer.message.body_type), (body, view.body_type))

    def test_none_requested(self) -> None:
        """Without a request there is none, of any class, though an administration queue is named.

        MQDMPR-3.1.1.12-31.
        """
        packet = bytearray(message().packet)
        packet[message().properties_offset] = 0
        view = UserMessageView(bytes(packet))
        self.assertEqual((view.acknowledge, view.admin_format_name()), (0, ADMIN))
        for what in MessageClass:
            self.assertIsNone(acknowledgement(view, what, queue_manager=BETA, send_insecure=True))

    def test_a_null_queue_manager_is_this_one(self) -> None:
        """An administration queue or a destination at no queue manager is at the acknowledging one."""
        null_guid, gamma = UUID(int=0), parse_format_name(f"PRIVATE={ALPHA}\\00000011")
        for admin, expected in (
            (PrivateFormatName(null_guid, 17), PrivateFormatName(BETA, 17)),
            (gamma, gamma),
        ):
            packet = build_packet(
                Message(acknowledge=EVERY, admin_queue=admin),
                PrivateFormatName(null_guid, 18),
                source=ALPHA,
                destination_queue_manager=null_guid,
                message_id=1,
                sent_time=NOW.unix_seconds,
            )
            answer = acknowledgement(
                UserMessageView(packet), MessageClass.ACK_REACH_QUEUE, queue_manager=BETA
            )
            assert answer is not None
            self.assertEqual(answer.destination, expected)
            self.assertEqual(answer.message.response_queue, PrivateFormatName(BETA, 18))

    def test_where_to_answer(self) -> None:
        """ResponseQueue is the queue that the message was for, by the name that it had (MQQB-3.1.7.15-10)."""
        for name in (TO_BETA, f"PUBLIC={GAMMA}", f"PRIVATE={BETA}\\00000011"):
            packet = build_packet(
                Message(acknowledge=EVERY, admin_queue=ADMIN, response_queue=ADMIN),
                parse_format_name(name),
                source=ALPHA,
                destination_queue_manager=BETA,
                message_id=1,
                sent_time=NOW.unix_seconds,
            )
            answer = acknowledgement(UserMessageView(packet), MessageClass.ACK_RECEIVE, queue_manager=BETA)
            assert answer is not None
            self.assertEqual(answer.message.response_queue, parse_format_name(name))

    def test_insecure_classes(self) -> None:
        """[MS-MQQB] 5.1: those that are sent only if that is permitted (MQQB-3.1.7.15-02)."""
        self.assertEqual(set(INSECURE), {0x8000, 0x8004, 0x8006, 0x8007, 0x800B})


class QuietTests(SynchronousTestCase):
    """[MS-MQQB] note 2: no copy is kept of what is for an administration, notification or order queue."""

    def copies(self, view: UserMessageView) -> tuple[int, int]:
        """How many journal copies and dead letters there are of a message, delivered or not delivered."""
        alpha = model()
        outgoing = alpha.outgoing(parse_format_name(TO_BETA), NOW)
        alpha.commit(alpha.admit([(outgoing, view), (outgoing, view)], NOW), NOW)
        [delivered, failed], _ = alpha.take(outgoing, 2, "session", NOW)
        alpha.removed(alpha.remove([delivered]), NOW)
        timeout = MessageClass.NACK_REACH_QUEUE_TIMEOUT
        alpha.settled(alpha.settle(Departure(outgoing, [failed], timeout), NOW), NOW)
        return alpha.copying.machine_journal.message_count, alpha.copying.deadletter.message_count

    def test_quiet(self) -> None:
        """Messages for the notification and order queues are quiet, and acknowledgements; others are not."""
        for destination, expected in (
            (f"PRIVATE={BETA}\\00000002", False),
            (f"PRIVATE={BETA}\\00000003", True),
            (f"PRIVATE={BETA}\\00000004", True),
            (f"PRIVATE={BETA}\\00000005", False),
            (TO_BETA, False),
            (TO_BETA.replace("orders", "Order_Queue$"), True),
        ):
            self.assertIs(is_quiet(message(destination)), expected, destination)
        public = build_packet(
            Message(),
            PublicFormatName(BETA),
            source=ALPHA,
            destination_queue_manager=BETA,
            message_id=1,
            sent_time=NOW.unix_seconds,
        )
        self.assertIs(is_quiet(UserMessageView(public)), False)
        self.assertIs(is_quiet(message(message_class=MessageClass.ACK_RECEIVE)), True)
        self.assertIs(is_quiet(message(message_class=MessageClass.REPORT)), False)

    def test_source_journaling(self) -> None:
        """An acknowledgement with JP and JN leaves no copy; a message does.

        MQQB-3.1.5.5.4-02.
        """
        asked: dict[str, Any] = {"journal": True, "dead_letter": True}
        for message_class in (0x0002, 0x4000, 0x8003, 0xC001):
            self.assertEqual(self.copies(message(message_class=message_class, **asked)), (0, 0))
        for name in ("notify_queue$", "ORDER_QUEUE$"):
            view = message(TO_BETA.replace("orders", name), **asked)
            self.assertEqual(self.copies(view), (0, 0))
        number = f"PRIVATE={BETA}\\00000003"
        self.assertEqual(self.copies(message(number, **asked)), (0, 0))
        self.assertEqual(self.copies(message(message_class=1, **asked)), (1, 1))
        self.assertEqual(self.copies(message(**asked)), (1, 1))
