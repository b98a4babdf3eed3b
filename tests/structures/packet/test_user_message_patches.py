"""Changes of a packet by a hop, and the unchanged rest."""

from __future__ import annotations

import struct
from uuid import UUID

import attrs
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import LocalProtocolError
from msmq.structures.algorithms import AuthenticationLevel
from msmq.structures.identifiers import TxSequenceID
from msmq.structures.names.format_name import FormatName, PrivateFormatName, PublicFormatName
from msmq.structures.names.queue_names import (
    DirectQueueFormatName,
    PrivateQueueFormatName,
    PublicQueueFormatName,
    QueueNameKind,
)
from msmq.structures.packet.kept_packet import kept_headers
from msmq.structures.packet.multi_queue_format_header import (
    MQFDirectQueueFormatName,
    MultiQueueFormatHeader,
)
from msmq.structures.packet.security_header import SecurityHeader
from msmq.structures.packet.session_header import SessionHeader
from msmq.structures.packet.transaction_header import TransactionHeader
from msmq.structures.packet.user_header import UserHeader
from msmq.structures.packet.user_message import UserMessage
from msmq.structures.packet.user_message_patches import patch_queue_manager_address
from msmq.structures.packet.user_message_rewrites import (
    in_transaction,
    patch_authentication_level,
    patch_dead_letter,
    patch_message_class,
    patch_security_header,
    with_admin_queue,
    with_other_queue_manager,
    without_acknowledgements,
)
from msmq.structures.packet.user_message_view import (
    UserMessageView,
    patch_hop_count,
    patch_sequence,
    patch_session_header,
    patch_time_to_reach_queue,
)
from msmq.structures.status import MQError
from tests.builders import GAMMA, session_header, user_packet
from tests.strategies import packet_of, session_headers, tx_sequence_ids, u32s, user_messages

messages = user_messages(has_session_header=False)
hop_counts = st.integers(0, 0x1D)
places = st.integers(1, 0xFFFFFFFF)


def response_queue(header: UserHeader) -> FormatName | None:
    """ResponseQueue; C{None} if its name is invalid."""
    try:
        return header.resolve_response_queue()
    except MQError:
        return None


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

    @given(messages, st.uuids(), u32s, st.booleans())
    def test_administration_queue_is_replaced(
        self, message: UserMessage, identifier: UUID, number: int, is_public: bool
    ) -> None:
        """AdminQueue is the queue with this name, and ResponseQueue and all else stay."""
        name: PrivateFormatName | PublicFormatName
        name, kind, queue = (
            (PublicFormatName(identifier), QueueNameKind.PUBLIC, PublicQueueFormatName(identifier))
            if is_public
            else (
                PrivateFormatName(identifier, number),
                QueueNameKind.PRIVATE,
                PrivateQueueFormatName(identifier, number),
            )
        )
        patched = with_admin_queue(UserMessageView(packet_of(message)), name)
        written = UserMessage.from_bytes(patched.packet).user
        self.assertEqual(response_queue(written), response_queue(message.user))
        user = attrs.evolve(
            message.user,
            admin_kind=kind,
            admin_queue=queue,
            response_kind=written.response_kind,
            response_queue=written.response_queue,
        )
        self.assertEqual(UserMessage.from_bytes(patched.packet), attrs.evolve(message, user=user).completed())

    @given(messages, st.uuids())
    def test_another_identifier_of_a_queue_manager(self, message: UserMessage, identifier: UUID) -> None:
        """The private queues of one queue manager get another identifier, and all else stays."""
        former = message.user.source_queue_manager
        patched = with_other_queue_manager(UserMessageView(packet_of(message)), former, identifier)
        written = UserMessage.from_bytes(patched.packet).user

        def moved(name: FormatName | None) -> FormatName | None:
            if isinstance(name, PrivateFormatName) and name.queue_manager == former:
                return attrs.evolve(name, queue_manager=identifier)
            return name

        self.assertEqual(response_queue(written), moved(response_queue(message.user)))
        user = attrs.evolve(
            message.user,
            admin_kind=written.admin_kind,
            admin_queue=written.admin_queue,
            response_kind=written.response_kind,
            response_queue=written.response_queue,
        )
        self.assertEqual(UserMessage.from_bytes(patched.packet), attrs.evolve(message, user=user).completed())

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
        """MQMQ-2.2.19.2-03: a hop changes neither SourceQueueManager nor ConnectorType.

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

    def test_a_connector_type_passes_unchanged(self) -> None:
        """MQMQ-2.2.19.2-33: a hop leaves ConnectorType as it is, whatever it is."""
        message = UserMessage.from_bytes(user_packet(b"body"))
        for connector_type in (GAMMA, UUID(int=0)):
            user = attrs.evolve(message.user, connector_type=connector_type)
            packet = attrs.evolve(message, user=user).to_bytes()
            passed_on = patch_time_to_reach_queue(patch_hop_count(packet, 5), 60)
            self.assertEqual(UserMessageView(passed_on).connector_type, connector_type)


class RewriteTests(SynchronousTestCase):
    """Headers that a queue manager adds or changes: the exact bytes."""

    def test_places_in_a_transaction(self) -> None:
        """FM and LM are set where the transaction begins and ends, and only there."""
        kept = TransactionHeader(TxSequenceID(9, 9), 9, 9, is_final_ack_wanted=True, transaction_id=9)
        plain = UserMessage.from_bytes(user_packet(b"body", recoverable=True))
        view = UserMessageView(packet_of(attrs.evolve(plain, transaction=kept).completed()))
        for count in (1, 2, 3):
            for has_first, has_last in ((True, True), (True, False), (False, True), (False, False)):
                placed = in_transaction(
                    [view] * count, 0x0000000200000001, 7, 0x12345, has_first=has_first, has_last=has_last
                )
                self.assertEqual(
                    [one.transaction for one in placed],
                    [
                        TransactionHeader(
                            TxSequenceID(1, 2),
                            number,
                            number - 1,
                            is_final_ack_wanted=True,
                            transaction_id=0x12345,
                            is_first=has_first and number == 7,
                            is_last=has_last and number == 6 + count,
                        )
                        for number in range(7, 7 + count)
                    ],
                )
                self.assertEqual([bytes(one.body) for one in placed], [b"body"] * count)
        error = self.assertRaises(
            LocalProtocolError, in_transaction, [UserMessageView(user_packet())], 1, 1, 1
        )
        self.assertEqual(str(error), "TransactionHeader: the message has none")

    def test_a_security_header(self) -> None:
        """It is added where it belongs, with the signature of the lists; local headers stay behind."""
        security = SecurityHeader(signature=b"sign", is_default_provider=True)
        plain = UserMessage.from_bytes(user_packet(b"body", label="label"))
        transaction = TransactionHeader(TxSequenceID(1, 2), 3)
        recoverable = attrs.evolve(plain.user, is_recoverable=True, dead_letter=True)
        lists = MultiQueueFormatHeader.of([MQFDirectQueueFormatName("OS:a\\q")], signature=b"old")
        listed = attrs.evolve(plain, user=recoverable, multi_queue_format=lists)
        for message in (
            plain,
            attrs.evolve(plain, user=recoverable, transaction=transaction),
            listed,
        ):
            packet = packet_of(message.completed())
            for kept in (b"", kept_headers("queue")):
                view = UserMessageView(packet + kept)
                expected = packet_of(attrs.evolve(message, security=security).completed())
                self.assertEqual(patch_security_header(view, security).packet, expected + kept)
        view = UserMessageView(packet_of(listed.completed()))
        signed = attrs.evolve(
            listed,
            security=security,
            multi_queue_format=MultiQueueFormatHeader.of(
                [MQFDirectQueueFormatName("OS:a\\q")], signature=b"signature"
            ),
        )
        self.assertEqual(
            patch_security_header(view, security, b"signature").packet, packet_of(signed.completed())
        )

    def test_no_second_security_header(self) -> None:
        """A message has one, and a signature of lists only where there are lists."""
        security = SecurityHeader(signature=b"sign", is_default_provider=True)
        view = UserMessageView(user_packet(b"body"))
        error = self.assertRaises(LocalProtocolError, patch_security_header, view, security, b"signature")
        self.assertEqual(str(error), "MultiQueueFormatHeader: the message has none")
        signed = patch_security_header(view, security)
        error = self.assertRaises(LocalProtocolError, patch_security_header, signed, security)
        self.assertEqual(str(error), "SecurityHeader: the message has one")

    def test_the_largest_signed_packet(self) -> None:
        """It has exactly 4 MiB."""
        limit = 4 * 1024 * 1024
        security = SecurityHeader(signature=b"sign", is_default_provider=True)
        overhead = len(user_packet()) + len(security.to_bytes())
        view = UserMessageView(user_packet(bytes(limit - overhead)))
        self.assertEqual(patch_security_header(view, security).size, limit)
        view = UserMessageView(user_packet(bytes(limit - overhead + 1)))
        error = self.assertRaises(LocalProtocolError, patch_security_header, view, security)
        self.assertEqual(str(error), f"PacketSize: {limit + 4} is more than {limit}")

    def test_authentication_levels(self) -> None:
        """AS is the level and AU is clear; a message that has both already is the same object."""
        security = SecurityHeader(1, b"id", is_body_encrypted=True)
        view = patch_security_header(UserMessageView(user_packet(b"body")), security)
        at = view.security_offset
        for level in AuthenticationLevel:
            patched = patch_authentication_level(view, level)
            flags = 0x0021 | level << 8
            expected = view.packet[:at] + flags.to_bytes(2, "little") + view.packet[at + 2 :]
            self.assertEqual(patched.packet, expected)
            self.assertIs(patch_authentication_level(patched, level), patched)
            noisy = UserMessageView(
                view.packet[:at] + (flags ^ 0x0F10).to_bytes(2, "little") + view.packet[at + 2 :]
            )
            self.assertEqual(patch_authentication_level(noisy, level).packet, expected)

    def test_properties(self) -> None:
        """Acknowledgements are no more asked for, and a dead letter has its reason; nothing else changes."""
        packet = bytearray(user_packet(b"body", label="label", user_flags=0x0300 | 0x0E))
        at = UserMessageView(bytes(packet)).properties_offset
        packet[at] = 0x0F
        packet[12:16] = packet[48:52] = bytes(4)
        view = UserMessageView(bytes(packet))
        quiet = bytearray(packet)
        quiet[at] = 0
        self.assertEqual(without_acknowledgements(view).packet, bytes(quiet))
        reasoned = bytearray(packet)
        reasoned[at + 2 : at + 4] = b"\x34\x12"
        self.assertEqual(patch_message_class(view, 0x1234), bytes(reasoned))
        reasoned[at] = 0
        reasoned[12:16] = reasoned[48:52] = b"\xff" * 4
        reasoned[61] &= 0xFC
        self.assertEqual(patch_dead_letter(view, 0x1234), bytes(reasoned))

    def test_hops_and_address(self) -> None:
        """From no hops to 29, and the GUID of a queue manager."""
        packet = user_packet(b"body", user_flags=0x0100)
        for hops in (0, 1, 29):
            patched = patch_hop_count(patch_hop_count(packet, 29), hops)
            self.assertEqual(patched, packet[:60] + bytes((packet[60] | hops,)) + packet[61:])
        for hops in (-1, 30):
            error = self.assertRaises(LocalProtocolError, patch_hop_count, packet, hops)
            self.assertEqual(str(error), f"Flags.RC: {hops} is not within 0 to 29")
        self.assertEqual(
            patch_queue_manager_address(packet, GAMMA.bytes_le), packet[:32] + GAMMA.bytes_le + packet[48:]
        )
