"""A message as a JSON object."""

import json
from typing import Any

import attrs
from twisted.trial.unittest import SynchronousTestCase

from msmq.decoding.message_json import message_json
from msmq.structures.identifiers import TxSequenceID
from msmq.structures.names.queue_names import (
    DirectQueueFormatName,
    PrivateQueueFormatName,
    PrivateQueueFormatNameId,
    QueueNameKind,
)
from msmq.structures.packet.base_header import BaseHeader
from msmq.structures.packet.message_properties_header import MessagePropertiesHeader
from msmq.structures.packet.transaction_header import TransactionHeader
from msmq.structures.packet.user_header import UserHeader
from msmq.structures.packet.user_message import UserMessage
from msmq.structures.packet.user_message_view import UserMessageView
from tests.vectors import ACCEPTOR as BETA
from tests.vectors import INITIATOR as ALPHA
from tests.vectors import vector

KEYS = (
    "id lookup_id label body body_size body_type priority class class_name delivery transactional sent_time"
    " arrived_time source_queue_manager destination_queue admin_queue response_queue correlation_id"
    " application_tag hops journal dead_letter dead_letter_queue acknowledge extension_base64"
    " authenticated signature_version sender_id"
    " transaction"
).split()

DIRECT = UserHeader(
    source_queue_manager=ALPHA,
    message_id=2286,
    sent_time=1_000_000_000,
    destination_kind=QueueNameKind.DIRECT,
    destination_queue=DirectQueueFormatName("TCP:127.0.0.2\\private$\\orders"),
)


def view(
    user: UserHeader = DIRECT,
    properties: MessagePropertiesHeader | None = None,
    transaction: TransactionHeader | None = None,
    priority: int = 3,
) -> UserMessageView:
    message = UserMessage(
        BaseHeader(120, priority=priority), user, properties or MessagePropertiesHeader(), transaction
    )
    return UserMessageView(message.to_bytes())


def as_read(view: UserMessageView, **options: Any) -> dict[str, Any]:
    """The object as a script reads it."""
    loaded: dict[str, Any] = json.loads(json.dumps(message_json(view, **options)))
    return loaded


class MessageJsonTests(SynchronousTestCase):
    def test_an_ordinary_message(self) -> None:
        """Each key is there, in its order, with what the sender said."""
        properties = MessagePropertiesHeader(b"hello", "greeting", body_type=31, application_tag=7)
        message = as_read(view(properties=properties, priority=5), lookup_id=12, arrived=1_000_000_001.5)
        self.assertEqual(list(message), KEYS)
        self.assertEqual(
            message,
            {
                "id": "{557358D1-9150-9595-4997-B6E611EA26C6}\\2286",
                "lookup_id": 12,
                "label": "greeting",
                "body": "hello",
                "body_size": 5,
                "body_type": 31,
                "priority": 5,
                "class": 0,
                "class_name": "MQMSG_CLASS_NORMAL",
                "delivery": "express",
                "transactional": False,
                "sent_time": "2001-09-09T01:46:40+00:00",
                "arrived_time": "2001-09-09T01:46:41.500000+00:00",
                "source_queue_manager": "557358D1-9150-9595-4997-B6E611EA26C6",
                "destination_queue": "DIRECT=TCP:127.0.0.2\\private$\\orders",
                "admin_queue": None,
                "response_queue": None,
                "correlation_id": "{00000000-0000-0000-0000-000000000000}\\0",
                "application_tag": 7,
                "hops": 0,
                "journal": False,
                "dead_letter": False,
                "dead_letter_queue": None,
                "acknowledge": [],
                "extension_base64": "",
                "authenticated": False,
                "signature_version": None,
                "sender_id": None,
                "transaction": None,
            },
        )

    def test_a_transactional_message(self) -> None:
        """It is recoverable, and has its position in sequence and transaction."""
        user = attrs.evolve(
            DIRECT,
            is_recoverable=True,
            journal=True,
            dead_letter=True,
            hop_count=2,
            admin_kind=QueueNameKind.PRIVATE,
            admin_queue=PrivateQueueFormatName(ALPHA, 11),
            response_kind=QueueNameKind.PRIVATE_ON_ADMIN_QUEUE_HOST,
            response_queue=PrivateQueueFormatNameId(12),
        )
        properties = MessagePropertiesHeader(
            flags=0x05,
            extension_data=b"\1\2",
            message_class=0x0123,
            correlation_id=BETA.bytes_le + b"\7\0\0\0",
        )
        transaction = TransactionHeader(TxSequenceID(5, 6), 7, 4, is_first=True)
        message = as_read(view(user, properties, transaction))
        expected = {
            "body": "",
            "class": 0x0123,
            "class_name": "0x0123",
            "delivery": "recoverable",
            "transactional": True,
            "priority": 0,
            "journal": True,
            "dead_letter": True,
            "dead_letter_queue": None,
            "hops": 2,
            "admin_queue": "PRIVATE=557358D1-9150-9595-4997-B6E611EA26C6\\0000000B",
            "response_queue": "PRIVATE=557358D1-9150-9595-4997-B6E611EA26C6\\0000000C",
            "correlation_id": "{43CD8907-394C-8F11-4445-9078909EA0FC}\\7",
            "acknowledge": ["full-reach"],
            "extension_base64": "AQI=",
            "arrived_time": None,
            "lookup_id": None,
            "transaction": {
                "sequence_id": (6 << 32) + 5,
                "sequence_number": 7,
                "previous": 4,
                "first": True,
                "last": False,
            },
        }
        self.assertEqual({key: message[key] for key in expected}, expected)

    def test_frame_7(self) -> None:
        """The worked example has a sender, and a body that is not UTF-8 text."""
        message = as_read(UserMessageView(vector("mqqb-4.1.7-user-message")))
        self.assertEqual(message["sender_id"], "S-1-5-21-3181267629-1039849782-3663111779-1000")
        self.assertEqual(message["label"], "mqsender label")
        self.assertEqual(message["destination_queue"], "DIRECT=OS:a04bm02\\q")
        self.assertNotIn("body", message)
        self.assertTrue(message["body_base64"].startswith("YQBhAGEA"))
        self.assertEqual(message["acknowledge"], ["full-reach", "full-receive"])

    def test_the_body_can_be_left_out(self) -> None:
        """An object without the body has neither of its keys, and its size."""
        for body in (b"text", b"\xff"):
            message = as_read(view(properties=MessagePropertiesHeader(body)), body=False)
            self.assertNotIn("body", message)
            self.assertNotIn("body_base64", message)
            self.assertEqual(message["body_size"], len(body))

    def test_acknowledgements_have_the_names_that_senders_use(self) -> None:
        """Each name stands for what it asks for, and the largest are taken first."""
        admin = attrs.evolve(
            DIRECT, admin_kind=QueueNameKind.PRIVATE, admin_queue=PrivateQueueFormatName(ALPHA, 11)
        )
        for flags, names in (
            (0x01, ["reach"]),
            (0x02, ["receive"]),
            (0x03, ["reach", "receive"]),
            (0x04, ["nack-reach"]),
            (0x05, ["full-reach"]),
            (0x06, ["nack-reach", "receive"]),
            (0x08, ["nack-receive"]),
            (0x0C, ["nack-receive"]),
            (0x0D, ["full-reach", "nack-receive"]),
            (0x0E, ["full-receive"]),
            (0x0F, ["full-reach", "full-receive"]),
        ):
            message = as_read(view(admin, MessagePropertiesHeader(flags=flags)))
            self.assertEqual(message["acknowledge"], names, flags)

    def test_an_invalid_direct_name_is_returned_unchanged(self) -> None:
        """A message with a name that cannot be read is still listed."""
        user = attrs.evolve(DIRECT, destination_queue=DirectQueueFormatName("nonsense"))
        self.assertEqual(as_read(view(user))["destination_queue"], "DIRECT=nonsense")

    def test_a_queue_of_an_unknown_host_is_none(self) -> None:
        """A response queue on the host of an admin queue that has none cannot be named."""
        user = attrs.evolve(
            DIRECT,
            response_kind=QueueNameKind.PRIVATE_ON_ADMIN_QUEUE_HOST,
            response_queue=PrivateQueueFormatNameId(12),
        )
        self.assertIsNone(as_read(view(user))["response_queue"])

    def test_a_response_queue_like_an_unreadable_admin_queue_is_none(self) -> None:
        """A response queue equal to an invalid admin queue is not shown either."""
        user = attrs.evolve(
            DIRECT,
            admin_kind=QueueNameKind.DIRECT,
            admin_queue=DirectQueueFormatName("nonsense"),
            response_kind=QueueNameKind.SAME_AS_ADMIN_QUEUE,
        )
        message = as_read(view(user, MessagePropertiesHeader(flags=1)))
        self.assertEqual((message["admin_queue"], message["response_queue"]), ("DIRECT=nonsense", None))

    def test_times_out_of_range_are_null(self) -> None:
        """A clock that runs wild does not hide the message."""
        self.assertIsNone(as_read(view(), arrived=1e30)["arrived_time"])
