"""Builders of packets for the tests of others."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from twisted.trial.unittest import SynchronousTestCase

from msmq import Delivery, Message
from msmq.errors import LocalProtocolError
from msmq.structures.status import MQError
from msmq.testing import message_packet, message_view
from tests.builders import ALPHA, user_packet


class MessagePacketTests(SynchronousTestCase):
    """L{message_packet}."""

    def test_same_bytes_as_another_encoder(self) -> None:
        """A packet is what an independent encoder makes of the same values."""
        message = Message(body=b"text", label="order", delivery=Delivery.RECOVERABLE)
        packet = message_packet(
            message, "DIRECT=OS:beta\\private$\\orders", source=ALPHA, message_id=7, sent_time=5
        )
        other = user_packet(b"text", label="order", recoverable=True, message_id=7, source=ALPHA, sent_time=5)
        self.assertEqual(packet[:8], other[:8])
        self.assertEqual(packet[16:], other[16:])

    def test_bodies_and_numbers(self) -> None:
        """A body alone is enough, as bytes or text, and each packet has a MessageID of its own."""
        one, other = message_view(message_packet("ä")), message_view(message_packet(b"body"))
        self.assertEqual((one.body_size, bytes(other.body)), (2, b"body"))
        self.assertNotEqual(one.identifier, other.identifier)

    def test_sequence(self) -> None:
        """A packet of a transaction has the position in its stream that the test chooses."""
        view = message_view(message_packet(b"x", sequence=(1 << 32 | 2, 9, 8)))
        header = view.transaction
        assert header is not None
        self.assertTrue(view.is_transactional)
        self.assertEqual(
            (header.tx_sequence_id.value, header.tx_sequence_number, header.previous_tx_sequence_number),
            (1 << 32 | 2, 9, 8),
        )

    def test_arguments_that_cannot_be_used(self) -> None:
        """Each error names its argument."""
        wrong: Any = 5
        for call, kind, words in (
            (lambda: message_packet(wrong), LocalProtocolError, "message is an int"),
            (lambda: message_packet(Message(), sequence=(1, 1, 0)), LocalProtocolError, "sequence is given"),
            (lambda: message_packet(b"", "nonsense"), MQError, "nonsense"),
            (lambda: message_packet(b"", message_id=1 << 32), LocalProtocolError, "MessageID"),
            (lambda: message_packet(b"", source=UUID(int=1), sent_time=-1), LocalProtocolError, "SentTime"),
        ):
            self.assertIn(words, str(self.assertRaises(kind, call)))
