"""[MS-MQMQ] 2.2.20: each field of a packet that is read on demand, compared with the parsed values."""

from __future__ import annotations

from typing import Any

import attrs
from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import RemoteProtocolError
from msmq.structures.algorithms import AuthenticationLevel
from msmq.structures.identifiers import MessageIdentifier, TxSequenceID
from msmq.structures.names.queue_names import (
    DirectQueueFormatName,
    PrivateQueueFormatName,
    PrivateQueueFormatNameId,
    PublicQueueFormatName,
    QueueNameKind,
)
from msmq.structures.packet.debug_header import DebugHeader
from msmq.structures.packet.message_properties_header import MessagePropertiesHeader
from msmq.structures.packet.multi_queue_format_header import (
    MQFDirectQueueFormatName,
    MultiQueueFormatHeader,
)
from msmq.structures.packet.security_header import ProviderInfo, SecurityHeader
from msmq.structures.packet.session_header import SessionHeader
from msmq.structures.packet.soap_header import SoapHeader
from msmq.structures.packet.transaction_header import TransactionHeader
from msmq.structures.packet.user_message import UserMessage
from msmq.structures.packet.user_message_patches import patch_session_header
from msmq.structures.packet.user_message_view import (
    NEVER,
    UserMessageView,
    measure_user_message,
    views_of,
)
from tests.builders import ALPHA, BETA, GAMMA, user_packet
from tests.strategies import packet_of

PLAIN = UserMessage.from_bytes(user_packet(b"body"))
USER = attrs.evolve(
    PLAIN.user,
    source_queue_manager=ALPHA,
    queue_manager_address=BETA,
    message_id=0x04030201,
    sent_time=0x08070605,
    time_to_be_received=0x0C0B0A09,
    hop_count=0x15,
)
PROPERTIES = MessagePropertiesHeader(
    message_body=b"the body",
    label="label",
    extension_data=b"extension",
    flags=5,
    message_class=0x4321,
    correlation_id=bytes(range(20)),
    body_type=0x14131211,
    application_tag=0x18171615,
    allocation_body_size=0x1C1B1A19,
    privacy_level=3,
    hash_algorithm=0x24232221,
    encryption_algorithm=0x28272625,
)
TRANSACTION = TransactionHeader(TxSequenceID(0x34333231, 0x38373635), 0x3C3B3A39, 0x44434241)
SIGNED = SecurityHeader(1, b"identity!", b"key", b"sign!", b"certificate", is_default_provider=True)
SOAP = SoapHeader("header", "body")
LISTS = MultiQueueFormatHeader.of([MQFDirectQueueFormatName("OS:a\\q")], signature=b"sign")
DEBUG = DebugHeader()


def packet(user: dict[str, Any] | None = None, **parts: Any) -> bytes:
    """A packet in which each field has a value of its own."""
    whole = attrs.evolve(PLAIN, user=attrs.evolve(USER, **(user or {})), properties=PROPERTIES)
    return packet_of(attrs.evolve(whole, **parts).completed())


PARTS: tuple[dict[str, Any], ...] = (
    {},
    {"transaction": TRANSACTION},
    {"transaction": attrs.evolve(TRANSACTION, connector_qm_guid=GAMMA, is_first=True)},
    {"transaction": attrs.evolve(TRANSACTION, is_last=True, is_final_ack_wanted=True)},
    {"security": SIGNED},
    {"security": SecurityHeader(provider_info=ProviderInfo(1, "provider"), is_body_encrypted=True)},
    {"transaction": TRANSACTION, "security": SIGNED, "debug": DEBUG, "soap": SOAP},
    {"debug": DEBUG, "multi_queue_format": LISTS},
    {
        "transaction": attrs.evolve(TRANSACTION, connector_qm_guid=GAMMA),
        "security": SIGNED,
        "soap": SOAP,
        "multi_queue_format": LISTS,
    },
)
"""Optional headers, alone and together."""
USERS: tuple[dict[str, Any], ...] = (
    {"is_recoverable": True},
    {"is_recoverable": True, "dead_letter": True, "connector_type": GAMMA},
    {"is_recoverable": True, "journal": True, "hop_count": 0},
    {
        "is_recoverable": True,
        "admin_kind": QueueNameKind.DIRECT,
        "admin_queue": DirectQueueFormatName("OS:a\u0100\\q"),
        "response_kind": QueueNameKind.PRIVATE,
        "response_queue": PrivateQueueFormatName(GAMMA, 3),
    },
)
"""Values of the UserHeader; the name of the last one is left to the full parser."""


class FieldTests(SynchronousTestCase):
    """L{UserMessageView}."""

    def test_each_field(self) -> None:
        """It is that of the header, whichever other headers there are."""
        for parts in PARTS:
            for values in USERS:
                data = packet(values, **parts)
                view, whole = UserMessageView(data), UserMessage.from_bytes(data)
                self.assertEqual(view.parse(), whole)
                self.check_headers(view, whole)
                self.check_properties(view, whole.properties)
                self.check_transaction(view, whole.transaction)
                again = views_of([data, data])
                self.assertEqual([bytes(one.body) for one in again], [b"the body"] * 2)

    def check_headers(self, view: UserMessageView, whole: UserMessage) -> None:
        """BaseHeader, UserHeader and the optional ones."""
        user, base = whole.user, whole.base
        number = user.message_id.to_bytes(4, "little")
        self.assertEqual(view.user_header, user)
        self.assertEqual((view.size, view.base_flags, view.flags), (len(view.packet), base.flags, user.flags))
        self.assertEqual((view.priority, view.is_traced), (base.priority, base.is_traced))
        self.assertEqual(view.time_to_reach_queue, base.time_to_reach_queue)
        self.assertEqual(view.time_to_be_received, user.time_to_be_received)
        self.assertEqual((view.message_id, view.sent_time), (user.message_id, user.sent_time))
        self.assertEqual(view.identifier, MessageIdentifier(ALPHA, user.message_id))
        self.assertEqual(view.identity, ALPHA.bytes_le + number)
        self.assertEqual(view.source_queue_manager, ALPHA.bytes_le)
        self.assertEqual(view.queue_manager_address, BETA.bytes_le)
        self.assertEqual((view.hop_count, view.is_recoverable), (user.hop_count, user.is_recoverable))
        self.assertEqual((view.dead_letter, view.journal), (user.dead_letter, user.journal))
        self.assertEqual(view.destination_kind, user.destination_kind)
        self.assertEqual(view.destination, user.destination_queue)
        self.assertEqual(view.connector_type, user.connector_type)
        self.assertEqual(view.dead_letter_queue, "")
        self.assertEqual((view.security, view.debug), (whole.security, whole.debug))
        self.assertEqual((view.soap, view.multi_queue_format), (whole.soap, whole.multi_queue_format))
        self.assertEqual(view.destination_format_name(), user.resolve_destination())
        self.assertEqual(view.admin_format_name(), user.resolve_admin_queue())
        self.assertEqual(view.response_format_name(), user.resolve_response_queue())

    def check_properties(self, view: UserMessageView, properties: MessagePropertiesHeader) -> None:
        """MessagePropertiesHeader."""
        self.assertEqual((view.acknowledge, view.message_class), (5, 0x4321))
        self.assertEqual(view.correlation_id, properties.correlation_id)
        self.assertEqual((view.body_type, view.application_tag), (0x14131211, 0x18171615))
        self.assertEqual(view.allocation_body_size, 0x1C1B1A19)
        self.assertEqual((view.privacy_level, view.asks_for_privacy), (3, True))
        self.assertEqual((view.hash_algorithm, view.encryption_algorithm), (0x24232221, 0x28272625))
        self.assertEqual((view.label, view.extension, view.extension_size), ("label", b"extension", 9))
        self.assertEqual((bytes(view.body), view.body_size), (b"the body", 8))

    def check_transaction(self, view: UserMessageView, header: TransactionHeader | None) -> None:
        """TransactionHeader."""
        self.assertEqual((view.transaction, view.is_transactional), (header, header is not None))
        if header is None:
            self.assertEqual((view.tx_sequence_id, view.tx_sequence_number), (None, 0))
            self.assertEqual(view.previous_tx_sequence_number, 0)
            self.assertEqual((view.is_first, view.is_last), (False, False))
            self.assertEqual(view.security_offset, view.transaction_offset)
            return
        self.assertEqual(view.tx_sequence_id, header.tx_sequence_id)
        self.assertEqual(view.tx_sequence_number, header.tx_sequence_number)
        self.assertEqual(view.previous_tx_sequence_number, header.previous_tx_sequence_number)
        self.assertEqual((view.is_first, view.is_last), (header.is_first, header.is_last))
        size = 20 if header.connector_qm_guid is None else 36
        self.assertEqual(view.security_offset, view.transaction_offset + size)

    def test_limits_of_time(self) -> None:
        """A message expires in transit in the second after its limit, or never."""
        for seconds, expected in ((0xFFFFFFFF, NEVER), (0, 0x08070606), (7, 0x0807060D)):
            base = attrs.evolve(PLAIN.base, time_to_reach_queue=seconds)
            for values in (USERS[0], USERS[-1]):
                view = UserMessageView(packet(values, base=base))
                self.assertEqual((view.reach_limit, view.time_to_reach_queue), (expected, seconds))

    def test_keys_of_destinations(self) -> None:
        """The kind, and the name without its padding; a number has the host before it."""
        name = "OS:b\\q\0".encode("utf-16-le")
        long = ("OS:b\\" + "q" * 124 + "\0").encode("utf-16-le")
        for kind, queue, expected in (
            (QueueNameKind.NONE, None, b"\0"),
            (QueueNameKind.DIRECT, DirectQueueFormatName("OS:b\\q"), b"\7\x0e\0" + name),
            (QueueNameKind.DIRECT, DirectQueueFormatName("OS:b\\" + "q" * 124), b"\7\4\1" + long),
            (QueueNameKind.PUBLIC, PublicQueueFormatName(GAMMA), b"\5" + GAMMA.bytes_le),
            (
                QueueNameKind.PRIVATE_ON_DESTINATION,
                PrivateQueueFormatNameId(0x01020304),
                b"\3" + BETA.bytes_le + b"\4\3\2\1",
            ),
        ):
            view = UserMessageView(packet({"destination_kind": kind, "destination_queue": queue}))
            self.assertEqual(view.destination_key, expected)

    def test_senders(self) -> None:
        """A SID as text, the GUID of a queue manager in braces, and anything else in hex."""
        sid = bytes.fromhex("010100000000000512000000")
        for sender_type, data, expected in (
            (1, sid, "S-1-5-18"),
            (2, GAMMA.bytes_le, f"{{{str(GAMMA).upper()}}}"),
            (1, GAMMA.bytes_le, GAMMA.bytes_le.hex()),
            (2, b"\1\2\3", "010203"),
            (0, b"", None),
        ):
            header = SecurityHeader(sender_type, data, signature=b"sign", is_default_provider=True)
            self.assertEqual(UserMessageView(packet(security=header)).sender_id, expected)
        self.assertIsNone(UserMessageView(packet()).sender_id)

    def test_authentication_levels(self) -> None:
        """AS of a stored packet; a number that is not a level, and no header, are no authentication."""
        for values, parts in (({}, {}), ({"is_recoverable": True}, {"transaction": TRANSACTION})):
            self.assertIs(
                UserMessageView(packet(values, **parts)).authentication_level, AuthenticationLevel.NONE
            )
            data = bytearray(packet(values, security=SIGNED, **parts))
            offset = UserMessageView(bytes(data)).security_offset
            known = {level.value: level for level in AuthenticationLevel}
            for number in range(0x20):
                data[offset + 1] = number
                found = UserMessageView(bytes(data)).authentication_level
                self.assertIs(found, known.get(number & 0x0F, AuthenticationLevel.NONE))

    def test_privacy(self) -> None:
        """Any level of the document but 0 asks for it."""
        for level, expected in ((0, False), (1, True), (3, True), (5, True)):
            view = UserMessageView(packet(properties=attrs.evolve(PROPERTIES, privacy_level=level)))
            self.assertIs(view.asks_for_privacy, expected)

    def test_parts_behind_the_body(self) -> None:
        """They are found behind a body of any length, and are common to messages, without the padding."""
        for size in range(9):
            properties = attrs.evolve(PROPERTIES, message_body=b"x" * size, extension_data=b"")
            for parts in ({"debug": DEBUG}, {"soap": SOAP}, {"multi_queue_format": LISTS}):
                view = UserMessageView(packet(properties=properties, **parts))
                self.assertEqual({name: getattr(view, name) for name in parts}, parts)
                base = view.packet[2:4]
                user = ALPHA.bytes_le + BETA.bytes_le + USER.time_to_be_received.to_bytes(4, "little")
                names = view.packet[60 : 64 + 2 + 2 * len("OS:beta\\private$\\orders") + 4]
                at = view.properties_offset
                self.assertEqual(at, 60 + len(names))
                values = view.packet[at : at + 32] + view.packet[at + 40 : at + 56]
                label = "label\0".encode("utf-16-le")
                [behind] = parts.values()
                self.assertEqual(
                    view.common_bytes(), base + user + names + values + label + behind.to_bytes()
                )

    def test_common_bytes(self) -> None:
        """Messages that differ in number, time, transaction and body alone have the same ones."""
        original = UserMessageView(packet()).common_bytes()
        assert original is not None
        for values in ({"message_id": 9}, {"sent_time": 9}):
            self.assertEqual(UserMessageView(packet(values)).common_bytes(), original)
        for size in range(1, 9):
            body = attrs.evolve(PROPERTIES, message_body=b"x" * size, allocation_body_size=0x1C1B1A19)
            self.assertEqual(UserMessageView(packet(properties=body)).common_bytes(), original)
        users: tuple[dict[str, Any], ...] = (
            {"source_queue_manager": GAMMA},
            {"journal": True},
            {"time_to_be_received": 1},
        )
        for user in users:
            self.assertNotEqual(UserMessageView(packet(user)).common_bytes(), original)
        for changed in (
            attrs.evolve(PROPERTIES, label="labem"),
            attrs.evolve(PROPERTIES, extension_data=b"extensiom"),
            attrs.evolve(PROPERTIES, application_tag=1),
            attrs.evolve(PROPERTIES, privacy_level=0),
            attrs.evolve(PROPERTIES, encryption_algorithm=1),
        ):
            self.assertNotEqual(UserMessageView(packet(properties=changed)).common_bytes(), original)
        placed = {"is_recoverable": True}
        one = UserMessageView(packet(placed, transaction=TRANSACTION)).common_bytes()
        following = attrs.evolve(TRANSACTION, tx_sequence_number=8, connector_qm_guid=GAMMA)
        self.assertEqual(UserMessageView(packet(placed, transaction=following)).common_bytes(), one)
        behind = UserMessageView(packet(multi_queue_format=LISTS)).common_bytes()
        assert behind is not None
        self.assertTrue(behind.endswith(LISTS.to_bytes()))
        self.assertIsNone(UserMessageView(packet(security=SIGNED)).common_bytes())
        for size, is_short in ((256, True), (257, False)):
            long = attrs.evolve(PROPERTIES, extension_data=bytes(size))
            found = UserMessageView(packet(properties=long)).common_bytes()
            self.assertIs(found is not None, is_short)


class MeasureTests(SynchronousTestCase):
    """L{measure_user_message}."""

    def test_with_and_without_a_session_header(self) -> None:
        """PacketSize should not count it; if it does, the packet is sixteen bytes shorter."""
        header = SessionHeader(1, 0, 0, 1, 1, 64)
        for parts in PARTS:
            plain = packet({"is_recoverable": True}, **parts)
            self.assertEqual(measure_user_message(memoryview(plain)), len(plain))
            attached = bytearray(patch_session_header(plain, header))
            self.assertEqual(measure_user_message(memoryview(attached)[: len(plain)]), len(plain))
            attached[8:12] = len(attached).to_bytes(4, "little")
            self.assertEqual(measure_user_message(memoryview(attached)), len(plain))
        for size in (0, 15, 16, 63, 119):
            self.assertRaises(RemoteProtocolError, measure_user_message, memoryview(packet())[:size])
