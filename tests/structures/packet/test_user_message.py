"""[MS-MQMQ] 2.2.20: a message with all its headers."""

from __future__ import annotations

import itertools
from typing import Any

import attrs
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import LocalProtocolError, RemoteProtocolError
from msmq.structures.identifiers import TxSequenceID
from msmq.structures.internal.classification import PacketKind, classify
from msmq.structures.internal.session_ack import SessionAck
from msmq.structures.names.queue_names import (
    DirectQueueFormatName,
    PrivateQueueFormatName,
    PrivateQueueFormatNameId,
    PublicQueueFormatName,
    QueueNameKind,
)
from msmq.structures.packet.base_header import INFINITE, BaseHeader
from msmq.structures.packet.debug_header import DebugHeader
from msmq.structures.packet.message_properties_header import MessagePropertiesHeader
from msmq.structures.packet.multi_queue_format_header import MultiQueueFormatHeader
from msmq.structures.packet.security_header import SecurityHeader, SenderIdType
from msmq.structures.packet.session_header import SessionHeader
from msmq.structures.packet.soap_header import SoapHeader
from msmq.structures.packet.transaction_header import TransactionHeader
from msmq.structures.packet.user_header import UserHeader
from msmq.structures.packet.user_message import UserMessage
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.wire.guid import NULL_GUID
from tests.builders import ALPHA, BETA, GAMMA, session_header, user_packet
from tests.strategies import packet_of, spoilt_packets, user_messages
from tests.vectors import vector

SID = bytes.fromhex("010500000000000515000000ad4a9ebd36d9fa3d63a656dae8030000")
SESSION = SessionHeader(3, 0, 0, 1, 0, 64)
TRANSACTION = TransactionHeader(TxSequenceID(1, 2), 1)
PLAIN = UserMessage(
    BaseHeader(),
    UserHeader(
        ALPHA,
        destination_kind=QueueNameKind.DIRECT,
        destination_queue=DirectQueueFormatName("OS:beta\\private$\\orders"),
    ),
    MessagePropertiesHeader(b"body", "label"),
)
RECOVERABLE = attrs.evolve(PLAIN, user=attrs.evolve(PLAIN.user, is_recoverable=True))
WITH_TRANSACTION = attrs.evolve(RECOVERABLE, transaction=TRANSACTION)
WITH_DEBUG = attrs.evolve(PLAIN, debug=DebugHeader(GAMMA))
WITH_SOAP = attrs.evolve(PLAIN, soap=SoapHeader("header", "body"))
WITH_LISTS = attrs.evolve(PLAIN, multi_queue_format=MultiQueueFormatHeader.of([PublicQueueFormatName(GAMMA)]))
FULL = attrs.evolve(
    WITH_TRANSACTION,
    security=SecurityHeader(SenderIdType.SID, SID),
    debug=DebugHeader(GAMMA),
    soap=SoapHeader("header", "body"),
    multi_queue_format=MultiQueueFormatHeader.of([PublicQueueFormatName(GAMMA)]),
    session=SESSION,
)


class UserMessageTests(SynchronousTestCase):
    """L{UserMessage}."""

    def test_the_message_of_the_document_is_understood(self) -> None:
        """Frame 7, header by header, and back to the same bytes."""
        data = vector("mqqb-4.1.7-user-message")
        message = UserMessage.from_bytes(data)
        self.assertEqual(message.base, BaseHeader(2224, 3, time_to_reach_queue=0x54600))
        self.assertEqual(message.user.destination_queue, DirectQueueFormatName("OS:a04bm02\\q"))
        self.assertEqual(message.user.queue_manager_address, NULL_GUID)
        self.assertEqual(message.user.time_to_be_received, INFINITE)
        self.assertEqual(message.security, SecurityHeader(SenderIdType.SID, SID))
        self.assertEqual(message.properties.label, "mqsender label")
        self.assertEqual(message.properties.message_body, b"a\0" * 1000)
        self.assertEqual((message.transaction, message.debug, message.soap), (None, None, None))
        self.assertEqual((message.multi_queue_format, message.session), (None, None))
        self.assertEqual(packet_of(message), data)

    def test_the_message_as_printed_is_cut_short(self) -> None:
        """The document prints 1650 of its 2224 bytes."""
        error = self.assertRaises(
            RemoteProtocolError, UserMessage.from_bytes, vector("mqqb-4.1.7-user-message-as-printed")
        )
        self.assertEqual((error.header, error.field), ("BaseHeader", "PacketSize"))

    def test_headers_follow_each_other_in_their_order(self) -> None:
        """Base, User, Transaction, Security, MessageProperties, Debug, Soap, MultiQueueFormat, Session.

        MQQB-2.2-13, MQMQ-2.2.20-01.
        """
        data = FULL.to_bytes()
        message = UserMessage.from_bytes(data)
        assert message.transaction is not None and message.security is not None
        assert message.debug is not None and message.soap is not None
        assert message.multi_queue_format is not None and message.session is not None
        self.assertEqual(
            data,
            message.base.to_bytes()
            + message.user.to_bytes()
            + message.transaction.to_bytes()
            + message.security.to_bytes()
            + message.properties.to_bytes()
            + message.debug.to_bytes()
            + message.soap.to_bytes()
            + message.multi_queue_format.to_bytes()
            + message.session.to_bytes(),
        )

    def test_three_headers_are_always_there(self) -> None:
        """MQMQ-2.2.20-02: a packet without its BaseHeader, UserHeader or properties is malformed."""
        message = PLAIN.completed()
        base, user, properties = (
            message.base.to_bytes(),
            message.user.to_bytes(),
            message.properties.to_bytes() + bytes(64),
        )
        self.assertRaises(RemoteProtocolError, UserMessage.from_bytes, user + properties)
        # As long as the shortest message.
        name = DirectQueueFormatName("OS:beta\\private$\\" + "q" * 30)
        alone = attrs.evolve(message.user, destination_queue=name).to_bytes()
        for rest in (properties, user, user + bytes(16), alone):
            size = BaseHeader.SIZE + len(rest)
            data = base[:8] + size.to_bytes(4, "little") + base[12:] + rest
            self.assertRaises(RemoteProtocolError, UserMessage.from_bytes, data)
            self.assertRaises(RemoteProtocolError, UserMessageView, data)

    def test_optional_headers_are_there_as_announced(self) -> None:
        """MQMQ-2.2.20-04: all 64 combinations of TH, SH, HH and MQ, DH and SH come back."""
        names = ("transaction", "security", "debug", "soap", "multi_queue_format", "session")
        seen = set()
        for present in itertools.product((False, True), repeat=len(names)):
            absent: dict[str, Any] = {
                name: None for name, there in zip(names, present, strict=True) if not there
            }
            message = attrs.evolve(FULL, **absent).completed()
            data = packet_of(message)
            self.assertEqual(UserMessage.from_bytes(data), message)
            user_flags = int.from_bytes(data[60:64], "little")
            base_flags = int.from_bytes(data[2:4], "little")
            announced = (
                bool(user_flags & 0x00100000),
                bool(user_flags & 0x00080000),
                bool(base_flags & 0x0020),
                bool(user_flags & 0x10000000),
                bool(user_flags & 0x00800000),
                bool(base_flags & 0x0010),
            )
            self.assertEqual(announced, present)
            seen.add(data)
        self.assertEqual(len(seen), 64)

    def test_a_debug_header_is_announced_by_the_base_header(self) -> None:
        """MQMQ-2.2.19.1-10: DH is set if and only if there is one."""
        with_debug = WITH_DEBUG.to_bytes()
        self.assertEqual(with_debug[2] & 0x20, 0x20)
        self.assertEqual(UserMessage.from_bytes(with_debug).debug, DebugHeader(GAMMA))
        without = PLAIN.to_bytes()
        self.assertEqual(without[2] & 0x20, 0)
        self.assertIsNone(UserMessage.from_bytes(without).debug)
        self.assert_announced(with_debug, 2, 0x20)
        self.assert_announced(without, 2, 0x20)

    def assert_announced(self, data: bytes, offset: int, bit: int) -> None:
        """The packet is malformed if this bit says the contrary."""
        self.assertRaises(
            RemoteProtocolError,
            UserMessage.from_bytes,
            data[:offset] + bytes([data[offset] ^ bit]) + data[offset + 1 :],
        )

    def test_a_security_header_is_announced(self) -> None:
        """MQMQ-2.2.19.2-26: frame 7 has it; a packet that says the contrary of what it holds is malformed."""
        frame = vector("mqqb-4.1.7-user-message")
        self.assertIsNotNone(UserMessage.from_bytes(frame).security)
        self.assert_announced(frame, 62, 0x08)
        self.assert_announced(PLAIN.to_bytes(), 62, 0x08)

    def test_a_transaction_header_is_announced(self) -> None:
        """MQMQ-2.2.19.2-27: TH is set if and only if there is one, and only with DM 1."""
        data = WITH_TRANSACTION.to_bytes()
        self.assertEqual((data[62] & 0x10, data[60] & 0x20), (0x10, 0x20))
        self.assertEqual(UserMessage.from_bytes(data).transaction, TRANSACTION)
        self.assert_announced(data, 62, 0x10)
        self.assert_announced(PLAIN.to_bytes(), 62, 0x10)
        express = data[:60] + bytes([data[60] & ~0x20]) + data[61:]
        error = self.assertRaises(RemoteProtocolError, UserMessage.from_bytes, express)
        self.assertEqual((error.header, error.field, error.offset), ("UserHeader", "Flags", 60))

    def test_a_message_to_several_queues_says_so(self) -> None:
        """MQMQ-2.2.19.2-30: MQ is set if and only if there is a MultiQueueFormatHeader."""
        message = WITH_LISTS
        data = message.to_bytes()
        self.assertEqual(data[62] & 0x80, 0x80)
        self.assertEqual(UserMessage.from_bytes(data).multi_queue_format, message.multi_queue_format)
        self.assert_announced(data, 62, 0x80)
        self.assert_announced(PLAIN.to_bytes(), 62, 0x80)

    def test_a_soap_header_is_announced(self) -> None:
        """MQMQ-2.2.19.2-32: HH is set if and only if there is one."""
        message = WITH_SOAP
        data = message.to_bytes()
        self.assertEqual(data[63] & 0x10, 0x10)
        self.assertEqual(UserMessage.from_bytes(data).soap, message.soap)
        self.assert_announced(data, 63, 0x10)
        self.assert_announced(PLAIN.to_bytes(), 63, 0x10)

    def test_a_transactional_message_has_no_priority(self) -> None:
        """MQMQ-2.2.19.1-06: PR is 0 for any priority of its sender."""
        message = attrs.evolve(WITH_TRANSACTION, base=BaseHeader(priority=5))
        self.assertEqual(message.to_bytes()[2] & 7, 0)
        self.assertEqual(attrs.evolve(PLAIN, base=BaseHeader(priority=5)).to_bytes()[2] & 7, 5)

    def test_packet_size_does_not_count_the_session_header(self) -> None:
        """MQQB-2.2-09: frame 7 with one is 2240 bytes on the wire and says 2224; a SessionAck says 36."""
        message = UserMessage.from_bytes(vector("mqqb-4.1.7-user-message"))
        data = packet_of(attrs.evolve(message, session=SESSION).completed())
        self.assertEqual((data[8:12].hex(), len(data)), ("b0080000", 2240))
        self.assertEqual(UserMessage.from_bytes(data).session, SESSION)
        self.assertEqual((vector("mqqb-4.1.8-session-ack")[8], SessionAck(SESSION).to_bytes()[8]), (36, 36))
        self.assertEqual(len(SessionAck(SESSION).to_bytes()), 36)

    def test_a_counted_session_header_is_understood(self) -> None:
        """A peer may count it in PacketSize; what is read differs in that alone."""
        header = session_header(received=3, sent=1)
        counted = UserMessage.from_bytes(user_packet(b"body", header=header, header_is_counted=True))
        uncounted = UserMessage.from_bytes(user_packet(b"body", header=header))
        self.assertEqual(counted.session, SESSION)
        self.assertEqual(counted.completed(), uncounted)
        self.assertEqual(packet_of(counted), user_packet(b"body", header=header, header_is_counted=True))

    def test_an_internal_packet_is_no_message(self) -> None:
        """MQMQ-2.2.20-03: with IN set it is one of the packets of the session itself."""
        self.assertIs(classify(vector("mqqb-4.1.8-session-ack")), PacketKind.SESSION_ACK)
        self.assertIs(classify(vector("mqqb-4.1.7-user-message")), PacketKind.USER_MESSAGE)
        self.assertFalse(PLAIN.completed().base.is_internal)
        error = self.assertRaises(
            RemoteProtocolError, UserMessage.from_bytes, vector("mqqb-4.1.8-session-ack")
        )
        self.assertEqual((error.header, error.field, error.offset), ("BaseHeader", "Flags", 2))

    def test_acknowledgements_need_an_admin_queue(self) -> None:
        """A sender gives one if and only if it wants acknowledgements; on receipt anything goes."""
        wanting = attrs.evolve(PLAIN, properties=MessagePropertiesHeader(b"", flags=1))
        self.assertRaises(LocalProtocolError, wanting.to_bytes)
        self.assertEqual(UserMessage.from_bytes(packet_of(wanting.completed())), wanting.completed())
        user = attrs.evolve(
            PLAIN.user, admin_kind=QueueNameKind.PRIVATE, admin_queue=PrivateQueueFormatName(ALPHA, 1)
        )
        self.assertRaises(LocalProtocolError, attrs.evolve(PLAIN, user=user).to_bytes)
        both = attrs.evolve(wanting, user=user)
        self.assertEqual(UserMessage.from_bytes(both.to_bytes()), both.completed())

    def test_an_address_goes_with_every_name_but_direct_ones(self) -> None:
        """QueueManagerAddress is the queue manager of the destination, and null for a direct name."""
        direct = attrs.evolve(PLAIN, user=attrs.evolve(PLAIN.user, queue_manager_address=BETA))
        self.assertRaises(LocalProtocolError, direct.to_bytes)
        for kind, name in (
            (QueueNameKind.PRIVATE_ON_DESTINATION, PrivateQueueFormatNameId(5)),
            (QueueNameKind.PUBLIC, PublicQueueFormatName(GAMMA)),
        ):
            user = UserHeader(ALPHA, destination_kind=kind, destination_queue=name)
            self.assertRaises(LocalProtocolError, attrs.evolve(PLAIN, user=user).to_bytes)
            user = attrs.evolve(user, queue_manager_address=BETA)
            self.assertEqual(attrs.evolve(PLAIN, user=user).to_bytes()[32:48], BETA.bytes_le)

    def test_headers_that_contradict_each_other_are_our_mistake(self) -> None:
        """Tracing without a DebugHeader, a transaction in an express message, a flag without its header."""
        for message in (
            attrs.evolve(PLAIN, base=BaseHeader(is_traced=True)),
            attrs.evolve(PLAIN, transaction=TRANSACTION),
            attrs.evolve(PLAIN, base=BaseHeader(is_internal=True)),
            attrs.evolve(PLAIN, properties=MessagePropertiesHeader(bytes(0x00400000))),
        ):
            self.assertRaises(LocalProtocolError, message.to_bytes)
        whole = PLAIN.completed()
        for message in (
            attrs.evolve(whole, session=SESSION),
            attrs.evolve(whole, security=SecurityHeader(1, SID)),
            attrs.evolve(whole, base=attrs.evolve(whole.base, packet_size=whole.base.packet_size + 4)),
            attrs.evolve(whole, base=BaseHeader(36, is_internal=True)),
        ):
            self.assertRaises(LocalProtocolError, packet_of, message)

    def test_a_message_agrees_with_the_plain_encoder(self) -> None:
        """Another encoder, written from the layouts alone, makes the same bytes."""
        for body, label in ((b"", ""), (b"b", "l"), (b"body", "label"), (bytes(1001), "x" * 249)):
            message = attrs.evolve(
                PLAIN,
                user=attrs.evolve(PLAIN.user, message_id=9, sent_time=77),
                properties=MessagePropertiesHeader(body, label),
            )
            expected = user_packet(body, label=label, message_id=9, sent_time=77)
            self.assertEqual(message.to_bytes(), expected)

    @given(user_messages())
    def test_every_message_round_trips(self, message: UserMessage) -> None:
        """Every message round-trips, with any headers."""
        data = packet_of(message)
        self.assertEqual(UserMessage.from_bytes(data), message)
        self.assertEqual(len(data), message.base.packet_size + 16 * (message.session is not None))

    @given(user_messages(), st.data())
    def test_no_part_of_a_message_is_one(self, message: UserMessage, data: st.DataObject) -> None:
        """A message truncated anywhere, or with trailing bytes, is malformed."""
        packet = packet_of(message)
        size = data.draw(st.integers(0, len(packet) - 1))
        self.assertRaises(RemoteProtocolError, UserMessage.from_bytes, packet[:size])
        rubbish = data.draw(st.binary(min_size=1, max_size=20))
        self.assertRaises(RemoteProtocolError, UserMessage.from_bytes, packet + rubbish)

    def test_no_part_of_a_full_message_is_one(self) -> None:
        """Byte by byte."""
        packet = FULL.to_bytes()
        for size in range(len(packet)):
            self.assertRaises(RemoteProtocolError, UserMessage.from_bytes, packet[:size])

    @given(spoilt_packets() | st.binary(max_size=200))
    def test_any_bytes_are_a_message_or_malformed(self, data: bytes) -> None:
        """No peer can cause any other error."""
        try:
            UserMessage.from_bytes(data)
        except RemoteProtocolError as error:
            self.assertLessEqual(error.offset, len(data))
