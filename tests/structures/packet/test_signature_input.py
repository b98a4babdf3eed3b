"""The input of signatures equals the lists of the documents, byte for byte."""

from __future__ import annotations

from typing import Any

import attrs
from twisted.trial.unittest import SynchronousTestCase

from msmq.structures.algorithms import AuthenticationLevel
from msmq.structures.names.queue_names import (
    PrivateQueueFormatName,
    PrivateQueueFormatNameId,
    PublicQueueFormatName,
    QueueNameKind,
)
from msmq.structures.packet.base_header import BaseHeader
from msmq.structures.packet.message_properties_header import MessagePropertiesHeader
from msmq.structures.packet.signature_input import SIGNATURE_INPUTS
from msmq.structures.packet.user_header import UserHeader
from msmq.structures.packet.user_message import UserMessage
from msmq.structures.packet.user_message_view import UserMessageView
from tests.builders import ALPHA, BETA, GAMMA
from tests.signed_messages import CHANGES, COVERED, Fields
from tests.strategies import packet_of

SEVERAL = ("TCP:127.0.0.3\\private$\\plain", "OS:gamma\\private$\\others")


class SignatureInputTests(SynchronousTestCase):
    """L{SIGNATURE_INPUTS}, compared with a second list that was written from the documents."""

    def check(self, **fields: Any) -> None:
        """All three, of one message."""
        message = Fields(**fields)
        view = UserMessageView(message.packet())
        for level, make in SIGNATURE_INPUTS.items():
            self.assertEqual(make(view), message.signed_over(level), (level, fields))

    def test_each_field(self) -> None:
        """Every field in its order, with each of its values (MQMQ-2.5.1-01)."""
        self.check()
        for name, value in CHANGES.items():
            self.check(**{name: value})
            self.check(**{name: value}, destinations=SEVERAL)

    def test_without_fields(self) -> None:
        """A field that is not there contributes nothing, but for ConnectorType; lengths of all kinds."""
        self.check(response="", admin="", label="", extension=b"", body=b"", connector=None)
        for length in range(5):
            self.check(body=b"b" * length, extension=b"e" * (length + 1), label="l" * length)
            self.check(destination=f"OS:h\\q{'x' * length}", admin=f"OS:h\\{'y' * (length + 1)}")

    def test_what_is_covered(self) -> None:
        """A change of a covered field changes what is signed; that of any other does not."""
        original = Fields(destinations=SEVERAL)
        changes = {**CHANGES, "destinations": SEVERAL[:1]}
        for name, value in changes.items():
            changed = UserMessageView(Fields(**{**attrs.asdict(original), name: value}).packet())
            for level, make in SIGNATURE_INPUTS.items():
                is_changed = make(changed) != make(UserMessageView(original.packet()))
                self.assertEqual(is_changed, name in COVERED[level], (name, level))

    def test_security_header(self) -> None:
        """A SecurityHeader is not a part of it, so it may be made before the header."""
        message = Fields()
        signed = UserMessageView(message.with_security(b"\1" * 28, b"signature", b"certificate"))
        for level, make in SIGNATURE_INPUTS.items():
            self.assertEqual(make(signed), message.signed_over(level))

    def test_the_order_of_versions(self) -> None:
        """A receiver tries 2.0, then 1.0, then 3.0 (reading 71)."""
        self.assertEqual([level.value for level in SIGNATURE_INPUTS], [3, 1, 5])

    def test_names_that_are_not_direct(self) -> None:
        """Each is signed as it is on the wire: the number, the GUID, or both."""
        user = UserHeader(
            source_queue_manager=ALPHA,
            queue_manager_address=BETA,
            destination_kind=QueueNameKind.PRIVATE_ON_DESTINATION,
            destination_queue=PrivateQueueFormatNameId(0x01020304),
            admin_kind=QueueNameKind.PUBLIC,
            admin_queue=PublicQueueFormatName(GAMMA),
            response_kind=QueueNameKind.PRIVATE,
            response_queue=PrivateQueueFormatName(BETA, 5),
        )
        properties = MessagePropertiesHeader(message_body=b"body", label="l")
        packet = packet_of(UserMessage(BaseHeader(), user, properties).completed())
        admin, response = GAMMA.bytes_le, BETA.bytes_le + b"\5\0\0\0"
        beginning = bytes(24) + b"body" + b"l\0\0\0"
        end = ALPHA.bytes_le + bytes((0, 3, 0, 0)) + bytes(6) + bytes(16)
        destination = b"\4\3\2\1"
        view = UserMessageView(packet)
        inputs = {level: make(view) for level, make in SIGNATURE_INPUTS.items()}
        self.assertEqual(inputs[AuthenticationLevel.SIG_1_0], beginning + response + admin)
        self.assertEqual(
            inputs[AuthenticationLevel.SIG_2_0], beginning + response + admin + end + destination
        )
        self.assertEqual(inputs[AuthenticationLevel.SIG_3_0], beginning + response + admin + end)
