"""The view of a packet agrees with the values of its headers, on every question and every packet."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

import attrs
from hypothesis import example, given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import RemoteProtocolError
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.names.format_name import parse_format_name
from msmq.structures.names.queue_names import (
    DirectQueueFormatName,
    PrivateQueueFormatNameId,
    PublicQueueFormatName,
    QueueNameKind,
)
from msmq.structures.packet.base_header import INFINITE, BaseHeader
from msmq.structures.packet.message_properties_header import MessagePropertiesHeader
from msmq.structures.packet.security_header import ProviderInfo, SecurityHeader
from msmq.structures.packet.session_header import SessionHeader
from msmq.structures.packet.user_header import UserHeader
from msmq.structures.packet.user_message import UserMessage
from msmq.structures.packet.user_message_view import (
    UserMessageView,
    have_one_destination,
    measure_user_message,
    patch_session_header,
)
from msmq.structures.status import MQError
from tests.builders import ALPHA, BETA, GAMMA, base_header, session_header, user_packet
from tests.samples import examples
from tests.strategies import packet_of, spoilt_packets, user_messages, user_packets
from tests.vectors import vector

HEADER = session_header(received=3, sent=1)


def judgement(judge: object, data: bytes) -> str | None:
    """The text of the error about a packet; C{None} for a valid one."""
    assert callable(judge)
    try:
        judge(data)
    except RemoteProtocolError as error:
        return str(error)
    return None


class UserMessageViewTests(SynchronousTestCase):
    """L{UserMessageView}."""

    def assert_agrees(self, view: UserMessageView, message: UserMessage) -> None:
        """The view answers each question as the values do."""
        base, user, properties = message.base, message.user, message.properties
        transaction = message.transaction
        self.assertEqual(
            (view.size, view.priority, view.is_traced, view.time_to_reach_queue),
            (base.packet_size, base.priority, base.is_traced, base.time_to_reach_queue),
        )
        self.assertEqual(view.source_queue_manager, user.source_queue_manager.bytes_le)
        self.assertEqual(view.queue_manager_address, user.queue_manager_address.bytes_le)
        self.assertEqual(
            (view.time_to_be_received, view.sent_time, view.message_id, view.identifier),
            (user.time_to_be_received, user.sent_time, user.message_id, user.identifier),
        )
        self.assertEqual(
            (view.hop_count, view.is_recoverable, view.is_transactional, view.dead_letter, view.journal),
            (
                user.hop_count,
                user.is_recoverable,
                transaction is not None,
                user.dead_letter,
                user.journal,
            ),
        )
        self.assertEqual(
            (view.destination_kind, view.destination, view.connector_type, view.user_header),
            (user.destination_kind, user.destination_queue, user.connector_type, user),
        )
        self.assertEqual(view.transaction, transaction)
        if transaction is None:
            self.assertEqual((view.tx_sequence_id, view.tx_sequence_number), (None, 0))
            self.assertEqual(
                (view.previous_tx_sequence_number, view.is_first, view.is_last), (0, False, False)
            )
        else:
            self.assertEqual(view.tx_sequence_id, transaction.tx_sequence_id)
            self.assertEqual(
                (view.tx_sequence_number, view.previous_tx_sequence_number, view.is_first, view.is_last),
                (
                    transaction.tx_sequence_number,
                    transaction.previous_tx_sequence_number,
                    transaction.is_first,
                    transaction.is_last,
                ),
            )
        self.assertEqual(
            (view.message_class, view.acknowledge, view.correlation_id, view.body_type),
            (properties.message_class, properties.flags, properties.correlation_id, properties.body_type),
        )
        self.assertEqual(
            (view.application_tag, view.allocation_body_size, view.privacy_level),
            (properties.application_tag, properties.allocation_body_size, properties.privacy_level),
        )
        self.assertEqual(
            (view.hash_algorithm, view.encryption_algorithm),
            (properties.hash_algorithm, properties.encryption_algorithm),
        )
        self.assertEqual(
            (view.label, view.extension, bytes(view.body), view.body_size),
            (
                properties.label,
                properties.extension_data,
                properties.message_body,
                len(properties.message_body),
            ),
        )
        self.assertEqual(
            (view.security, view.debug, view.soap, view.multi_queue_format),
            (message.security, message.debug, message.soap, message.multi_queue_format),
        )

    @given(user_messages(has_session_header=False))
    def test_answers_as_the_values_do(self, message: UserMessage) -> None:
        """Every question about any message."""
        view = UserMessageView(packet_of(message))
        self.assert_agrees(view, message)
        self.assertEqual(view.parse(), message)

    @settings(max_examples=examples(150))
    @given(spoilt_packets())
    @example(user_packet(b"x", label="A\u0100B"))
    @example(user_packet(b"x", destination="A\u0100B"))
    @example(user_packet(b"x", label="A\0\0"))
    def test_accepts_what_the_values_accept(self, data: bytes) -> None:
        """Any packet is good for both or malformed for both, with the same error; if good, they agree."""
        if len(data) > 2 and data[2] & 0x10:
            self.assertIsNotNone(judgement(UserMessageView, data))
            return
        self.assertEqual(judgement(UserMessageView, data), judgement(UserMessage.from_bytes, data))
        if judgement(UserMessageView, data) is None:
            self.assert_agrees(UserMessageView(data), UserMessage.from_bytes(data))

    def test_every_rule_of_a_packet_is_held(self) -> None:
        """The view and the values reject the same packets, with the same error."""
        plain = user_packet(b"body", label="label", destination="OS:beta\\q")
        name, properties = 64, 64 + 24
        self.assertEqual(plain[properties : properties + 2], b"\0\x06")
        for offset, replacement, field in (
            (0, b"\x11", "VersionNumber"),
            (4, b"ROIL", "Signature"),
            (8, b"\xff\xff\xff\xff", "PacketSize"),
            (8, (len(plain) - 4).to_bytes(4, "little"), "MessageBody"),
            (2, b"\x0b", "PacketSize"),
            (2, b"\x03\x01", "Flags"),
            (2, b"\x23", "Flags"),
            (60, b"\x1e", "Flags"),
            (60, b"\x40", "Flags"),
            (61, b"\x04", "Flags"),
            (61, b"\x3c", "Flags"),
            (61, b"\x9c", "Flags"),
            (62, b"\0", "Flags"),
            (62, b"\x30", "Flags"),
            (name, b"\0", "Count"),
            (name, b"\x15", "Count"),
            (name, b"\x12", "DirectFormatName"),
            (name, b"\xff\xff", "Count"),
            (name, b"\xfe\xff", "DirectFormatName"),
            (name + 2, b"\0\0", "DirectFormatName"),
            (properties + 1, b"\xfb", "LabelLength"),
            (properties + 1, b"\x05", "Label"),
            (properties + 56, b"\0\0", "Label"),
            (properties + 32, b"\x09", "MessageBody"),
            (properties + 32, b"\0", "PacketSize"),
            (properties + 52, b"\xff\xff\xff\xff", "ExtensionData"),
        ):
            data = plain[:offset] + replacement + plain[offset + len(replacement) :]
            if (offset, replacement) == (2, b"\x23"):
                # DH announces a DebugHeader; the four bytes behind the packet have a QT of 2.
                data += b"\x02\0\0\0"
                data = data[:8] + len(data).to_bytes(4, "little") + data[12:]
            error = self.assertRaises(RemoteProtocolError, UserMessageView, data)
            self.assertEqual(error.field, field, (offset, replacement))
            self.assertEqual(str(error), judgement(UserMessage.from_bytes, data))

    @given(
        st.binary(max_size=250),
        st.integers(0, 0xFFFF),
        st.sampled_from((0x00200000, 0x00201C00, 0x00280C20, 0x00301C20, 0x00A00000, 0x10200000, 0x0020FC00)),
    )
    def test_accepts_what_the_values_accept_of_garbage(self, rubbish: bytes, flags: int, user: int) -> None:
        """The same for packets with only a valid signature, size and flags."""
        data = base_header(flags & 0xFFEF, 16 + len(rubbish)) + rubbish
        data = data[:60] + user.to_bytes(4, "little") + data[64:]
        self.assertEqual(judgement(UserMessageView, data), judgement(UserMessage.from_bytes, data))
        self.assertEqual(judgement(UserMessageView, rubbish), judgement(UserMessage.from_bytes, rubbish))

    @given(user_packets(), st.data())
    def test_no_part_of_a_packet_is_one(self, packet: bytes, data: st.DataObject) -> None:
        """A packet truncated anywhere, or with trailing bytes, is malformed, even with its new size."""
        size = data.draw(st.integers(0, len(packet) - 1))
        for part in (packet[:size], packet + b"rubbish!"):
            self.assertRaises(RemoteProtocolError, UserMessageView, part)
            resized = part[:8] + len(part).to_bytes(4, "little") + part[12:]
            self.assertRaises(RemoteProtocolError, UserMessageView, resized)

    def test_no_part_of_the_message_of_the_document_is_one(self) -> None:
        """Byte by byte, for its headers."""
        packet = vector("mqqb-4.1.7-user-message")
        for size in range(230):
            self.assertRaises(RemoteProtocolError, UserMessageView, packet[:size])

    def test_the_message_of_the_document(self) -> None:
        """Frame 7, question by question."""
        view = UserMessageView(vector("mqqb-4.1.7-user-message"))
        client = UUID("557358D1-9150-9595-4997-B6E611EA26C6")
        self.assertEqual(view.identifier, MessageIdentifier(client, 0x8EE))
        self.assertEqual((view.size, view.body_size, view.priority), (2224, 2000, 3))
        self.assertEqual((view.time_to_reach_queue, view.time_to_be_received), (0x54600, INFINITE))
        self.assertEqual(view.label, "mqsender label")
        self.assertEqual(bytes(view.body), b"a\0" * 1000)
        self.assertEqual(view.acknowledge, 0x0F)
        self.assertEqual(view.destination_format_name(), parse_format_name("DIRECT=OS:a04bm02\\q"))
        self.assertIsNone(view.admin_format_name())
        self.assertIsNone(view.response_format_name())
        self.assertEqual(view.sender_id, "S-1-5-21-3181267629-1039849782-3663111779-1000")
        self.assertFalse(view.is_recoverable or view.is_transactional or view.is_traced)
        self.assertIn("{557358D1-9150-9595-4997-B6E611EA26C6}\\2286", repr(view))

    def test_a_packet_has_lost_its_session_header(self) -> None:
        """Flags.SH in a packet that a queue keeps is malformed, with the header behind it or without."""
        for packet in (
            user_packet(b"body", header=HEADER),
            user_packet(b"body", header=HEADER, header_is_counted=True),
            user_packet(b"body", header=b""),
        ):
            self.assertRaises(RemoteProtocolError, UserMessageView, packet)
        attached = user_packet(b"body", header=HEADER)
        error = self.assertRaises(RemoteProtocolError, UserMessageView, attached)
        self.assertEqual((error.header, error.field, error.offset), ("BaseHeader", "Flags", 2))

    def test_the_body_is_not_copied(self) -> None:
        """It is a part of the packet."""
        packet = user_packet(b"body")
        self.assertIs(UserMessageView(packet).body.obj, packet)

    def test_a_sender_is_named(self) -> None:
        """By the text of a SID, or of the GUID of a queue manager; by hex digits if it is neither."""
        for security, expected in (
            (None, None),
            (SecurityHeader(signature=b"sign"), None),
            (SecurityHeader(1, bytes.fromhex("010100000000000512000000")), "S-1-5-18"),
            (SecurityHeader(1, b"no SID"), b"no SID".hex()),
            (SecurityHeader(2, GAMMA.bytes_le), f"{{{str(GAMMA).upper()}}}"),
            (SecurityHeader(2, b"no GUID"), b"no GUID".hex()),
        ):
            message = UserMessage(
                BaseHeader(), UserHeader(ALPHA), MessagePropertiesHeader(), security=security
            )
            self.assertEqual(UserMessageView(message.to_bytes()).sender_id, expected)

    def test_names_that_name_no_queue_are_found_out_late(self) -> None:
        """The packet is well formed; only its destination cannot be found."""
        view = UserMessageView(user_packet(b"body", destination="nonsense"))
        self.assertEqual(view.destination, DirectQueueFormatName("nonsense"))
        self.assertRaises(MQError, view.destination_format_name)

    def test_a_provider_is_checked(self) -> None:
        """A ProviderInfo that is not a number and text is malformed, behind a good fixed part."""
        security = SecurityHeader(signature=b"sign", provider_info=ProviderInfo(1, "p"))
        message = UserMessage(BaseHeader(), UserHeader(ALPHA), MessagePropertiesHeader(), security=security)
        packet = message.to_bytes()
        self.assertEqual(UserMessageView(packet).security, security)
        place = packet.index(b"p\0\0\0")
        spoilt = packet[:place] + b"p\0p\1" + packet[place + 4 :]
        error = self.assertRaises(RemoteProtocolError, UserMessageView, spoilt)
        self.assertEqual((error.header, error.field), ("SecurityHeader", "ProviderName"))


class DestinationKeyTests(SynchronousTestCase):
    """C{destination_key} is the same for messages to one destination, and for no others."""

    @given(user_messages(has_session_header=False), user_messages(has_session_header=False))
    def test_keys_of_destinations(self, one: UserMessage, other: UserMessage) -> None:
        """Two messages have one key if and only if they name one queue in one notation."""

        def named(message: UserMessage) -> object:
            user = message.user
            host = user.queue_manager_address if user.destination_kind == 3 else None
            return user.destination_kind, user.destination_queue, host

        keys = [UserMessageView(packet_of(message)).destination_key for message in (one, other)]
        self.assertEqual(keys[0] == keys[1], named(one) == named(other))

    def test_is_kind_and_name(self) -> None:
        """A private number goes with its host, a direct name without its padding."""
        for kind, name, address, expected in (
            (QueueNameKind.NONE, None, BETA, b"\0"),
            (
                QueueNameKind.PRIVATE_ON_DESTINATION,
                PrivateQueueFormatNameId(9),
                BETA,
                b"\x03" + BETA.bytes_le + b"\x09\0\0\0",
            ),
            (QueueNameKind.PUBLIC, PublicQueueFormatName(GAMMA), BETA, b"\x05" + GAMMA.bytes_le),
            (QueueNameKind.DIRECT, DirectQueueFormatName("OS"), BETA, b"\x07\x06\0O\0S\0\0\0"),
            (QueueNameKind.DIRECT, DirectQueueFormatName("OSx"), BETA, b"\x07\x08\0O\0S\0x\0\0\0"),
        ):
            user = UserHeader(ALPHA, address, destination_kind=kind, destination_queue=name)
            message = UserMessage(BaseHeader(), user, MessagePropertiesHeader()).completed()
            self.assertEqual(UserMessageView(packet_of(message)).destination_key, expected)

    def test_padding_makes_no_difference(self) -> None:
        """It may be anything."""
        packet = user_packet(b"", destination="OSx")
        spoilt = packet[:74] + b"!!" + packet[76:]
        self.assertEqual(UserMessageView(spoilt).destination_key, UserMessageView(packet).destination_key)


class MeasureTests(SynchronousTestCase):
    """L{measure_user_message}."""

    @given(user_messages(has_session_header=True))
    def test_headers_end_where_packet_size_says(self, message: UserMessage) -> None:
        """A SessionHeader that PacketSize does not count follows the headers."""
        packet = packet_of(message)[: message.base.packet_size]
        self.assertEqual(measure_user_message(memoryview(packet)), len(packet))

    @given(user_messages(has_session_header=False))
    def test_a_counted_session_header_is_left_over(self, message: UserMessage) -> None:
        """Sixteen bytes before the end of what PacketSize counts (MQQB-2.2-16)."""
        packet = packet_of(message)
        counted = patch_session_header(packet, SessionHeader.from_bytes(HEADER))
        size = len(counted).to_bytes(4, "little")
        counted = counted[:8] + size + counted[12:]
        self.assertEqual(measure_user_message(memoryview(counted)), len(packet))
        parsed = UserMessage.from_bytes(counted)
        self.assertEqual(attrs.evolve(parsed, session=None).completed(), message)

    @given(spoilt_packets() | st.binary(max_size=150))
    def test_any_bytes_are_measured_or_malformed(self, data: bytes) -> None:
        """No peer can cause any other error, and nothing is measured beyond the end."""
        try:
            self.assertLessEqual(measure_user_message(memoryview(data)), len(data))
        except RemoteProtocolError:
            pass


class OneDestinationTests(SynchronousTestCase):
    """Batches of messages about whose destination one question is enough."""

    def views(self, *fields: Mapping[str, object]) -> list[UserMessageView]:
        return [
            UserMessageView(user_packet(b"x", message_id=number, **each))  # type: ignore[arg-type]
            for number, each in enumerate(fields)
        ]

    def test_same_queue(self) -> None:
        """Messages to one queue, however they differ otherwise."""
        views = self.views({"label": "one"}, {"priority": 7}, {"sent_time": 9, "source": GAMMA})
        self.assertTrue(have_one_destination(views))

    def test_different_destinations(self) -> None:
        """Another name, kind of name, queue manager or set of flags is another destination."""
        for other in (
            {"destination": "OS:beta\\private$\\others"},
            {"destination": "OS:beta\\private$\\order"},
            {"private_number": 7},
            {"queue_manager": BETA},
            {"recoverable": True},
        ):
            self.assertFalse(have_one_destination(self.views({}, other, {})), other)

    @given(st.lists(user_packets(), min_size=1, max_size=4))
    def test_agrees_with_the_names(self, packets: list[bytes]) -> None:
        """Wherever the answer is yes, every message has the destination of the first."""
        views = [UserMessageView(packet) for packet in packets]
        if have_one_destination(views):
            self.assertEqual({view.destination_key for view in views}, {views[0].destination_key})
