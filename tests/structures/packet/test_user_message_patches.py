"""Changes of a packet by a hop, and the unchanged rest."""

from __future__ import annotations

import struct

import attrs
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import LocalProtocolError
from msmq.structures.identifiers import TxSequenceID
from msmq.structures.names.queue_names import DirectQueueFormatName
from msmq.structures.packet.session_header import SessionHeader
from msmq.structures.packet.transaction_header import TransactionHeader
from msmq.structures.packet.user_message import UserMessage
from msmq.structures.packet.user_message_view import (
    UserMessageView,
    patch_hop_count,
    patch_sequence,
    patch_session_header,
    patch_time_to_reach_queue,
)
from tests.builders import session_header, user_packet
from tests.strategies import packet_of, session_headers, tx_sequence_ids, u32s, user_messages

messages = user_messages(has_session_header=False)
hop_counts = st.integers(0, 0x1D)
places = st.integers(1, 0xFFFFFFFF)


class PatchTests(SynchronousTestCase):
    """Each patch changes one thing of any message."""

    @given(messages, hop_counts)
    def test_hops_are_counted(self, message: UserMessage, hop_count: int) -> None:
        """Flags.RC is the number given."""
        patched = UserMessage.from_bytes(patch_hop_count(packet_of(message), hop_count))
        self.assertEqual(patched, attrs.evolve(message, user=attrs.evolve(message.user, hop_count=hop_count)))

    def test_hops_end_at_29(self) -> None:
        """No packet says 0x1E."""
        for hop_count in (-1, 0x1E):
            self.assertRaises(LocalProtocolError, patch_hop_count, user_packet(), hop_count)

    @given(messages, u32s)
    def test_time_may_be_short(self, message: UserMessage, seconds: int) -> None:
        """TimeToReachQueue is the number given."""
        patched = UserMessage.from_bytes(patch_time_to_reach_queue(packet_of(message), seconds))
        base = attrs.evolve(message.base, time_to_reach_queue=seconds)
        self.assertEqual(patched, attrs.evolve(message, base=base))

    def test_time_fits_32_bits(self) -> None:
        """More is our mistake."""
        for seconds in (-1, 1 << 32):
            self.assertRaises(LocalProtocolError, patch_time_to_reach_queue, user_packet(), seconds)

    @given(messages.filter(lambda message: message.transaction is not None), tx_sequence_ids, places, u32s)
    def test_a_message_gets_its_position(
        self, message: UserMessage, sequence_id: TxSequenceID, number: int, previous: int
    ) -> None:
        """Sequence, position and the position before are those given."""
        assert message.transaction is not None
        patched = UserMessage.from_bytes(patch_sequence(packet_of(message), sequence_id, number, previous))
        transaction = attrs.evolve(
            message.transaction,
            tx_sequence_id=sequence_id,
            tx_sequence_number=number,
            previous_tx_sequence_number=previous,
        )
        self.assertEqual(patched, attrs.evolve(message, transaction=transaction))

    def test_a_name_with_a_zero_byte(self) -> None:
        """A character whose lower byte is zero, as the Chinese one, makes a pair of zeros within the text."""
        plain = user_packet(destination="OS:b\\private$\\\u4e00", user_flags=0x20)
        before = UserMessageView(plain).properties_offset
        transaction = TransactionHeader(TxSequenceID(3, 4), 1)
        packet = bytearray(plain[:before] + transaction.to_bytes() + plain[before:])
        struct.pack_into("<I", packet, 8, len(packet))
        struct.pack_into("<I", packet, 60, 0x00301C20)
        patched = UserMessage.from_bytes(patch_sequence(bytes(packet), TxSequenceID(1, 2), 5, 4))
        expected = attrs.evolve(
            transaction,
            tx_sequence_id=TxSequenceID(1, 2),
            tx_sequence_number=5,
            previous_tx_sequence_number=4,
        )
        self.assertEqual(patched.transaction, expected)
        self.assertEqual(patched.user.destination_queue, DirectQueueFormatName("OS:b\\private$\\\u4e00"))

    def test_only_transactional_messages_have_a_position(self) -> None:
        """And none has the position 0."""
        self.assertRaises(LocalProtocolError, patch_sequence, user_packet(), TxSequenceID(1, 1), 1, 0)
        self.assertRaises(
            LocalProtocolError, patch_sequence, user_packet(user_flags=0x100020), TxSequenceID(1, 1), 0, 0
        )

    @given(messages, session_headers)
    def test_a_session_header_rides_on_a_message(self, message: UserMessage, header: SessionHeader) -> None:
        """It is announced, and PacketSize does not count it; taken off, the packet is what it was."""
        packet = packet_of(message)
        with_header = patch_session_header(packet, header)
        self.assertEqual(with_header, packet_of(attrs.evolve(message, session=header).completed()))
        self.assertEqual(patch_session_header(with_header, None), packet)

    @given(session_headers, session_headers)
    def test_the_latest_session_header_rides(self, one: SessionHeader, other: SessionHeader) -> None:
        """One that the packet had is replaced."""
        packet = user_packet(b"body")
        self.assertEqual(
            patch_session_header(patch_session_header(packet, one), other),
            patch_session_header(packet, other),
        )

    def test_a_session_header_follows_the_packet(self) -> None:
        """As the plain encoder puts it."""
        header = SessionHeader(3, 0, 0, 1, 0, 64)
        attached = user_packet(b"body", header=session_header(received=3, sent=1))
        self.assertEqual(patch_session_header(user_packet(b"body"), header), attached)

    @given(messages, hop_counts, u32s, session_headers)
    def test_what_identifies_a_message_never_changes(
        self, message: UserMessage, hop_count: int, seconds: int, header: SessionHeader
    ) -> None:
        """MQMQ-2.2.19.2-03, MQMQ-2.2.19.2-33: a hop changes neither SourceQueueManager nor ConnectorType.

        A hop has only the patches; all of them together leave every other byte as it was.
        """
        packet = packet_of(message)
        passed_on = patch_time_to_reach_queue(patch_hop_count(packet, hop_count), seconds)
        arrived = patch_session_header(patch_session_header(passed_on, header), None)
        view = UserMessageView(arrived)
        self.assertEqual(view.source_queue_manager, message.user.source_queue_manager.bytes_le)
        self.assertEqual(view.connector_type, message.user.connector_type)
        changed = {place for place in range(len(packet)) if packet[place] != arrived[place]}
        self.assertLessEqual(changed, {*range(12, 16), 60})
