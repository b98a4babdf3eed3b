"""[MS-MQRR] 2.2.5: what is kept with a packet, and never sent to a peer."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import RemoteProtocolError
from msmq.queues.arriving.message import Message
from msmq.queues.arriving.packet_builder import build_packet
from msmq.structures.names.format_name import PrivateFormatName
from msmq.structures.packet.kept_packet import (
    DEAD_LETTERS,
    UNTIL_ARRIVAL,
    DeadLetterHeader,
    ExtensionHeader,
    dead_letter_queue_of,
    is_kept_until_arrival,
    is_marked_for_dead_letters,
    kept_headers,
    marked_for_dead_letters,
    marked_until_arrival,
    packet_of,
)
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.user_message_rewrites import patch_dead_letter, patch_message_class
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.wire.reader import Reader
from tests.builders import ALPHA, BETA

FAILED = ".\\private$\\failed"
names = st.text(st.characters(min_codepoint=1), max_size=120)


def packet(*, dead_letter: bool = True, dead_letter_queue: str = "", **properties: Any) -> bytes:
    """A message with a DestinationQueue, made as usual."""
    message = Message(
        body=b"body", dead_letter=dead_letter, dead_letter_queue=dead_letter_queue, **properties
    )
    return build_packet(message, PrivateFormatName(BETA, 16), source=ALPHA, message_id=7, sent_time=1)


class HeaderTests(SynchronousTestCase):
    """ExtensionHeader and DeadLetterHeader."""

    def test_layout(self) -> None:
        """HeaderSize, RemainingHeadersSize, Flags with DL; then HeaderSize and the name, padded to four."""
        self.assertEqual(
            kept_headers("ab"),
            bytes.fromhex("0c000000 0c000000 01000000") + bytes.fromhex("0c000000 6100 6200 0000 0000"),
        )
        self.assertEqual(len(kept_headers("abc")), 24)

    @given(names)
    def test_any_name(self, name: str) -> None:
        """Every name is read back."""
        reader = Reader(kept_headers(name))
        extension = ExtensionHeader.read(reader)
        self.assertTrue(extension.has_dead_letter_header)
        self.assertEqual(extension.remaining_headers_size, reader.remaining)
        self.assertEqual(DeadLetterHeader.read(reader), DeadLetterHeader(name))
        self.assertEqual(reader.remaining, 0)


class MarkTests(SynchronousTestCase):
    """Marks of messages in transit."""

    def test_until_arrival(self) -> None:
        """A message that is kept until its arrival is acknowledged becomes a dead letter like the others in
        transit; only its mark says that it is kept.
        """
        sent = packet()
        kept, other = marked_until_arrival(sent), marked_for_dead_letters(sent)
        found = [is_kept_until_arrival(record) for record in (kept, other, sent)]
        self.assertEqual(found, [True, False, False])
        for record in (kept, other):
            self.assertTrue(is_marked_for_dead_letters(record))
            self.assertEqual((dead_letter_queue_of(record), packet_of(record)), (DEAD_LETTERS, sent))

    def test_the_end_of_a_body(self) -> None:
        """A body that ends like the mark is none."""
        sent = packet()
        for record in (sent + kept_headers("x") + kept_headers(UNTIL_ARRIVAL), sent[:-1] + b"x"):
            self.assertFalse(is_kept_until_arrival(record))
        sender = build_packet(
            Message(body=kept_headers(UNTIL_ARRIVAL)),
            PrivateFormatName(BETA, 16),
            source=ALPHA,
            message_id=7,
            sent_time=1,
        )
        self.assertFalse(is_kept_until_arrival(sender))


class RecordTests(SynchronousTestCase):
    """Packets as they are stored."""

    def test_what_is_sent_and_what_is_kept(self) -> None:
        """The name is kept behind the packet, and changes nothing in it."""
        plain, record = packet(), packet(dead_letter_queue=FAILED)
        self.assertEqual(packet_of(record), plain)
        self.assertEqual(packet_of(plain), plain)
        view = UserMessageView(record)
        self.assertEqual((view.dead_letter_queue, view.size, view.packet), (FAILED, len(record), record))
        self.assertEqual(UserMessageView(plain).dead_letter_queue, "")
        self.assertEqual(bytes(view.body), b"body")
        self.assertEqual(view.parse(), UserMessageView(plain).parse())

    def test_only_with_negative_journaling(self) -> None:
        """Without a request for dead letters nothing is kept."""
        self.assertEqual(packet(dead_letter=False, dead_letter_queue=FAILED), packet(dead_letter=False))

    def test_patched(self) -> None:
        """A patch leaves it; a dead letter for an application has none, and asks for nothing any more."""
        view = UserMessageView(packet(dead_letter_queue=FAILED, time_to_be_received=5, journal=True))
        dead_letter = UserMessageView(patch_message_class(view, MessageClass.NACK_RECEIVE_TIMEOUT))
        self.assertEqual(dead_letter.dead_letter_queue, FAILED)
        dead_letter = UserMessageView(patch_dead_letter(view, MessageClass.NACK_RECEIVE_TIMEOUT))
        self.assertEqual(dead_letter.message_class, MessageClass.NACK_RECEIVE_TIMEOUT)
        self.assertEqual(
            (
                dead_letter.dead_letter_queue,
                dead_letter.dead_letter,
                dead_letter.journal,
                dead_letter.acknowledge,
            ),
            ("", False, False, 0),
        )
        self.assertEqual({dead_letter.time_to_reach_queue, dead_letter.time_to_be_received}, {0xFFFFFFFF})
        self.assertEqual((dead_letter.identifier, bytes(dead_letter.body)), (view.identifier, b"body"))

    @given(st.binary(min_size=1, max_size=40))
    def test_anything_else_behind_a_packet(self, rubbish: bytes) -> None:
        """It is refused, as ever."""
        with self.assertRaises(RemoteProtocolError):
            UserMessageView(packet() + rubbish)

    @given(st.data())
    def test_a_damaged_record(self, data: st.DataObject) -> None:
        """Only headers that were written are read as local headers."""
        record = packet(dead_letter_queue=FAILED)
        size = len(packet())
        end = data.draw(st.integers(size + 1, len(record) - 1))
        with self.assertRaises(RemoteProtocolError):
            UserMessageView(record[:end])
        with self.assertRaises(RemoteProtocolError):
            UserMessageView(record + bytes(4))
