"""Messages of a queue manager that gets another identifier."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid5

from twisted.trial.unittest import SynchronousTestCase

from msmq.manager.applications.search import message_of
from msmq.persistence.changes import PutMessage
from msmq.persistence.definition import QueueDefinition, QueueType
from msmq.queues.arriving.message import Acknowledge, Delivery, Message
from msmq.queues.arriving.packet_builder import build_packet
from msmq.storage.backup.new_identity import NewIdentity
from msmq.structures.names.format_name import PrivateFormatName, parse_format_name
from msmq.structures.packet.base_header import BaseHeader
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.security_header import SecurityHeader, SenderIdType
from msmq.structures.packet.signature_input import SIGNATURE_INPUTS
from msmq.structures.packet.user_message_rewrites import patch_message_class, patch_security_header
from msmq.structures.packet.user_message_view import UserMessageView
from tests.builders import ALPHA, BETA, GAMMA

ORDERS = UUID(int=1)
TO_GAMMA = UUID(int=2)
ANSWERS = PrivateFormatName(ALPHA, 7)
NAME = "DIRECT=OS:GAMMA\\private$\\orders"
ACKNOWLEDGED = Acknowledge.POSITIVE_ARRIVAL | Acknowledge.NEGATIVE_RECEIVE


class NewIdentityTests(SynchronousTestCase):
    """ALPHA becomes BETA."""

    def setUp(self) -> None:
        self.renewal = NewIdentity(ALPHA, BETA)
        self.renewal.begin(
            [
                QueueDefinition(ORDERS, "private$\\orders", number=1),
                QueueDefinition(TO_GAMMA, NAME, type=QueueType.OUTGOING),
                *(
                    QueueDefinition(uuid5(ALPHA, path), path, type=QueueType.SYSTEM)
                    for path in ("system$;deadletter", "system$;deadxact")
                ),
            ]
        )

    def packet(self, *, source: UUID = ALPHA, **properties: Any) -> bytes:
        chosen = {"admin_queue": ANSWERS, "acknowledge": ACKNOWLEDGED, **properties}
        message = Message(delivery=Delivery.RECOVERABLE, **chosen)
        return build_packet(message, parse_format_name(NAME), source=source, message_id=5, sent_time=1000)

    def converted(self, queue: UUID, packet: bytes) -> PutMessage:
        [change] = self.renewal.convert([PutMessage(queue, 9, packet, 1000.0, 2000)])
        assert isinstance(change, PutMessage)
        return change

    def test_dead_letters(self) -> None:
        """A message for another queue manager, which is a dead letter of the copy, can be requeued as what it
        was: its limits, acknowledgements and copies are those that its sender requested.
        """
        for transactional, path in ((False, "system$;deadletter"), (True, "system$;deadxact")):
            for dead_letter_queue in ("", ".\\private$\\failed"):
                packet = self.packet(
                    transactional=transactional,
                    time_to_be_received=60,
                    journal=True,
                    dead_letter=True,
                    dead_letter_queue=dead_letter_queue,
                )
                dead_letter = self.converted(TO_GAMMA, packet)
                self.assertEqual((dead_letter.queue, dead_letter.due), (uuid5(BETA, path), None))
                view = UserMessageView(dead_letter.packet)
                self.assertEqual(view.message_class, MessageClass.NACK_DELETED)
                again, before = message_of(view), message_of(UserMessageView(packet))
                self.assertEqual(again.admin_queue, PrivateFormatName(BETA, 7))
                self.assertEqual(again.time_to_be_received, 60)
                self.assertEqual((again.journal, again.dead_letter), (True, True))
                self.assertEqual(again.dead_letter_queue, dead_letter_queue)
                self.assertEqual(again.acknowledge, before.acknowledge)

    def test_names(self) -> None:
        """Acknowledgements and responses of messages that the copy has go to its own queues; names of other
        queue managers stay.
        """
        other = PrivateFormatName(GAMMA, 7)
        direct = parse_format_name("DIRECT=OS:ALPHA\\private$\\answers")
        own = PrivateFormatName(BETA, 7)
        for source in (ALPHA, GAMMA):
            for admin, response, new_admin, new_response in (
                (ANSWERS, None, own, None),
                (ANSWERS, ANSWERS, own, own),
                (other, ANSWERS, other, own),
                (direct, direct, direct, direct),
                (ANSWERS, PrivateFormatName(ALPHA, 8), own, PrivateFormatName(BETA, 8)),
                (ANSWERS, other, own, other),
            ):
                packet = self.packet(source=source, admin_queue=admin, response_queue=response, body=b"x")
                change = self.converted(ORDERS, packet)
                view = UserMessageView(change.packet)
                self.assertEqual((change.queue, change.due), (ORDERS, 2000))
                self.assertEqual(view.admin_format_name(), new_admin)
                self.assertEqual(view.response_format_name(), new_response)
                self.assertEqual((bytes(view.body), view.identity), (b"x", UserMessageView(packet).identity))

    def test_signed(self) -> None:
        """A signed dead letter keeps its names, which its signature covers: it is signed again only if the
        signature is valid.
        """
        header = SecurityHeader(
            sender_id_type=SenderIdType.SID, security_id=bytes(12), signature=bytes(4), sender_cert=b"cert"
        )
        signed = patch_security_header(UserMessageView(self.packet()), header).packet
        dead_letter = self.converted(TO_GAMMA, signed)
        self.assertEqual(
            patch_message_class(UserMessageView(dead_letter.packet), MessageClass.NORMAL), signed
        )
        self.assertEqual(self.converted(uuid5(ALPHA, "system$;deadletter"), signed).packet, signed)
        received = UserMessageView(self.converted(ORDERS, signed).packet)
        self.assertEqual(received.admin_format_name(), PrivateFormatName(BETA, 7))

    def test_destination(self) -> None:
        """A message in a private queue is for that of the copy: its dead letter would be requeued to the
        original, also a signed one.
        """
        header = SecurityHeader(sender_id_type=SenderIdType.SID, security_id=bytes(12), sender_cert=b"cert")
        own, remote = PrivateFormatName(ALPHA, 1), PrivateFormatName(GAMMA, 1)
        for target, wanted in ((own, PrivateFormatName(BETA, 1)), (remote, remote)):
            message = Message(delivery=Delivery.RECOVERABLE, admin_queue=ANSWERS, body=b"x")
            packet = build_packet(message, target, source=ALPHA, message_id=5, sent_time=1000)
            signed = patch_security_header(UserMessageView(packet), header).packet
            for queue in (ORDERS, uuid5(ALPHA, "system$;deadletter")):
                for each in (packet, signed):
                    view = UserMessageView(self.converted(queue, each).packet)
                    self.assertEqual((view.destination_format_name(), bytes(view.body)), (wanted, b"x"))
            dead_letter = UserMessageView(self.converted(uuid5(ALPHA, "system$;deadletter"), signed).packet)
            for covered in SIGNATURE_INPUTS.values():
                self.assertEqual(covered(dead_letter), covered(UserMessageView(signed)))

    def test_packets_that_stay(self) -> None:
        """What would be too large with another name, or is damaged, is copied as it is."""
        short = UserMessageView(self.packet()).size
        large = self.packet(extension=bytes(BaseHeader.MAXIMUM_PACKET_SIZE - short))
        for packet in (large, b"damaged"):
            self.assertEqual(self.converted(ORDERS, packet).packet, packet)
