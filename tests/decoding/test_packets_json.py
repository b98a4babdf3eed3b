"""Packets of a session as JSON objects, header by header."""

import json
from typing import Any

import attrs
from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.decoding.packets_json import packet_record
from msmq.decoding.values import plain_text
from msmq.errors import RemoteProtocolError
from msmq.structures.identifiers import TxSequenceID
from msmq.structures.internal.connection_parameters import ConnectionParameters
from msmq.structures.internal.establish_connection import EstablishConnection
from msmq.structures.internal.final_ack import FinalAck
from msmq.structures.internal.order_ack import OrderAck
from msmq.structures.internal.order_queue import AckEnvelope
from msmq.structures.names.queue_names import (
    DirectQueueFormatName,
    PrivateQueueFormatName,
    PrivateQueueFormatNameId,
    PublicQueueFormatName,
    QueueNameKind,
)
from msmq.structures.packet.base_header import BaseHeader
from msmq.structures.packet.debug_header import DebugHeader
from msmq.structures.packet.message_properties_header import MessagePropertiesHeader
from msmq.structures.packet.multi_queue_format_header import MQFDirectQueueFormatName, MultiQueueFormatHeader
from msmq.structures.packet.security_header import ProviderInfo, SecurityHeader, SenderIdType
from msmq.structures.packet.session_header import SessionHeader
from msmq.structures.packet.soap_header import SoapHeader
from msmq.structures.packet.transaction_header import TransactionHeader
from msmq.structures.packet.user_header import UserHeader
from msmq.structures.packet.user_message import UserMessage
from tests.vectors import ACCEPTOR as BETA
from tests.vectors import INITIATOR as ALPHA


def whole_message() -> UserMessage:
    """A message with every header that there is."""
    return UserMessage(
        base=BaseHeader(120, priority=0, is_traced=True, has_debug_header=True, time_to_reach_queue=60),
        user=UserHeader(
            source_queue_manager=ALPHA,
            queue_manager_address=BETA,
            message_id=77,
            sent_time=1_000_000_000,
            time_to_be_received=120,
            hop_count=2,
            is_recoverable=True,
            dead_letter=True,
            journal=True,
            destination_kind=QueueNameKind.PRIVATE_ON_DESTINATION,
            destination_queue=PrivateQueueFormatNameId(10),
            admin_kind=QueueNameKind.PRIVATE,
            admin_queue=PrivateQueueFormatName(ALPHA, 11),
            response_kind=QueueNameKind.PUBLIC,
            response_queue=PublicQueueFormatName(BETA),
            connector_type=BETA,
        ),
        properties=MessagePropertiesHeader(
            message_body=b"hello\n",
            label="greeting",
            extension_data=b"\1\2",
            flags=0x0F,
            message_class=0x0123,
        ),
        transaction=TransactionHeader(
            TxSequenceID(5, 6),
            7,
            4,
            is_final_ack_wanted=True,
            is_last=True,
            transaction_id=9,
            connector_qm_guid=ALPHA,
        ),
        security=SecurityHeader(
            sender_id_type=SenderIdType.QUEUE_MANAGER,
            security_id=ALPHA.bytes_le,
            signature=b"signed",
            provider_info=ProviderInfo(1, "other", b"\0\0"),
        ),
        debug=DebugHeader(BETA),
        soap=SoapHeader("<h/>", "<b/>"),
        multi_queue_format=MultiQueueFormatHeader.of(
            [MQFDirectQueueFormatName("OS:beta\\private$\\q"), PublicQueueFormatName(BETA)], signature=b"s"
        ),
        session=SessionHeader(1, 2, 3, 4, 5, 6),
    )


class PacketRecordTests(SynchronousTestCase):
    def test_every_header_is_an_object(self) -> None:
        """MQQB-2.2-13: a message with all nine headers has them in the order of the document."""
        record = packet_record(whole_message().to_bytes(), 5)
        self.assertEqual(
            list(record),
            [
                "offset",
                "packet",
                "size",
                "BaseHeader",
                "UserHeader",
                "TransactionHeader",
                "SecurityHeader",
                "MessagePropertiesHeader",
                "DebugHeader",
                "SoapHeader",
                "MultiQueueFormatHeader",
                "SessionHeader",
            ],
        )
        self.assertEqual(record["offset"], 5)

    def test_names_are_given_as_structures_and_as_format_names(self) -> None:
        """A private number is completed with the queue manager that it belongs to."""
        user: Any = packet_record(whole_message().to_bytes(), 0)["UserHeader"]
        self.assertEqual(
            user["DestinationQueue"],
            {
                "structure": "PrivateQueueFormatNameId",
                "PrivateQueueIdentifier": 10,
                "FormatName": "PRIVATE=43CD8907-394C-8F11-4445-9078909EA0FC\\0000000A",
            },
        )
        self.assertEqual(
            user["AdminQueue"],
            {
                "structure": "PrivateQueueFormatName",
                "SourceQueueManager": "{557358D1-9150-9595-4997-B6E611EA26C6}",
                "PrivateQueueIdentifier": 11,
                "FormatName": "PRIVATE=557358D1-9150-9595-4997-B6E611EA26C6\\0000000B",
            },
        )
        self.assertEqual(
            user["ResponseQueue"],
            {
                "structure": "PublicQueueFormatName",
                "PublicQueueIdentifier": "{43CD8907-394C-8F11-4445-9078909EA0FC}",
                "FormatName": "PUBLIC=43CD8907-394C-8F11-4445-9078909EA0FC",
            },
        )
        self.assertEqual(user["ConnectorType"], "{43CD8907-394C-8F11-4445-9078909EA0FC}")

    def test_flags_are_taken_apart(self) -> None:
        """Each bit field of the document has a key."""
        user: Any = packet_record(whole_message().to_bytes(), 0)["UserHeader"]
        fields = {key: user[key] for key in "RC DM JN JP DQ AQ RQ SH TH MP CQ MQ AH HH".split()}
        expected = dict(RC=2, DM=1, JN=1, JP=1, DQ=3, AQ=6, RQ=5, SH=1, TH=1, MP=1, CQ=1, MQ=1, AH=0, HH=1)
        self.assertEqual(fields, expected)

    def test_the_optional_headers(self) -> None:
        """Their fields have the documents' names."""
        record: Any = packet_record(whole_message().to_bytes(), 0)
        self.assertEqual(
            record["TransactionHeader"],
            {
                "Flags": 0x9B,
                "CG": 1,
                "FA": 1,
                "FM": 0,
                "LM": 1,
                "ID": 9,
                "TxSequenceID": {"Ordinal": 5, "TimeStamp": 6},
                "TxSequenceNumber": 7,
                "PreviousTxSequenceNumber": 4,
                "ConnectorQMGuid": "{557358D1-9150-9595-4997-B6E611EA26C6}",
            },
        )
        self.assertEqual(
            record["SecurityHeader"]["SecurityData"],
            {
                "SecurityID": "{557358D1-9150-9595-4997-B6E611EA26C6}",
                "Signature_base64": "c2lnbmVk",
                "ProviderInfo": {"ProviderType": 1, "ProviderName": "other", "Surplus_base64": "AAA="},
            },
        )
        self.assertEqual(
            record["DebugHeader"],
            {"Flags": 1, "QT": 1, "Reserved": 0, "QueueIdentifier": "{43CD8907-394C-8F11-4445-9078909EA0FC}"},
        )
        self.assertEqual(
            record["SoapHeader"],
            {
                "HeaderSectionID": 0x0320,
                "Reserved": 0,
                "HeaderDataLength": 5,
                "Header": "<h/>",
                "BodySectionID": 0x0384,
                "Reserved1": 0,
                "BodyDataLength": 5,
                "Body": "<b/>",
            },
        )
        lists = record["MultiQueueFormatHeader"]
        self.assertEqual(
            lists["Destination"]["FormatNameList"],
            [
                {"FormatType": 3, "FormatName": "DIRECT=OS:beta\\private$\\q"},
                {"FormatType": 1, "FormatName": "PUBLIC=43CD8907-394C-8F11-4445-9078909EA0FC"},
            ],
        )
        self.assertEqual(lists["Response"]["ElementCount"], 0)
        self.assertEqual(
            lists["Signature"], {"ID": 0x015E, "Reserved": 0, "Size": 1, "Signature_base64": "cw=="}
        )
        self.assertEqual(record["SessionHeader"]["WindowSize"], 6)

    def test_a_body_of_text_is_text(self) -> None:
        """Other bytes are base64 under another key."""
        properties: Any = packet_record(whole_message().to_bytes(), 0)["MessagePropertiesHeader"]
        self.assertEqual(properties["MessageBody"], "hello\n")
        self.assertEqual(properties["ExtensionData_base64"], "AQI=")

    def test_a_counted_session_header_is_seen(self) -> None:
        """A peer that counts the SessionHeader in PacketSize is understood."""
        data = bytearray(whole_message().to_bytes())
        data[8:12] = len(data).to_bytes(4, "little")
        record: Any = packet_record(bytes(data), 0)
        self.assertEqual(record["SessionHeader"]["AckSequenceNumber"], 1)

    def test_acknowledgements_show_their_bodies(self) -> None:
        """An OrderAck and a FinalAck have an object for the body of their document."""
        envelope = AckEnvelope(ALPHA, "TCP:10.0.0.5")
        order: Any = packet_record(OrderAck(envelope, TxSequenceID(5, 6), 7).to_bytes(), 0)
        sequence = {"Ordinal": 5, "TimeStamp": 6}
        self.assertEqual(order["packet"], "OrderAck")
        self.assertEqual(
            order["OrderAckBody"],
            {"TxSequenceID": sequence, "TxSequenceNumber": 7, "TxPreviousSequenceNumber": 6},
        )
        final: Any = packet_record(
            FinalAck(envelope, 0x4000, TxSequenceID(5, 6), 7, 3, BETA, 9).to_bytes(), 0
        )
        self.assertEqual(final["packet"], "FinalAck")
        self.assertEqual(
            final["FinalAckBody"],
            {
                "TxSequenceID": sequence,
                "TxSequenceNumber": 7,
                "TxPreviousSequenceNumber": 3,
                "SourceGUID": "{43CD8907-394C-8F11-4445-9078909EA0FC}",
                "MessageID": 9,
            },
        )

    def test_reserved_fields_and_unused_flags_are_shown(self) -> None:
        """Reserved fields are shown with their values."""
        data = bytearray(ConnectionParameters(1000, 20000).to_bytes())
        data[1], data[3], data[16], data[19], data[28] = 1, 2, 3, 4, 5
        record: Any = packet_record(bytes(data), 0)
        self.assertEqual(record["BaseHeader"]["Reserved"], 1)
        self.assertEqual(record["BaseHeader"]["Flags"], 0x020B)
        self.assertEqual(record["InternalHeader"], {"Reserved": 3, "Flags": 0x0403, "PT": 3, "CS": 0})
        self.assertEqual(record["ConnectionParametersHeader"]["Reserved"], 5)

    def test_padding_that_is_not_all_alike_is_shown_whole(self) -> None:
        """Padding with different bytes is shown completely."""
        packet = EstablishConnection(ALPHA, BETA, 1, padding=b"old memory" + bytes(502))
        header: Any = packet_record(packet.to_bytes(), 0)["EstablishConnectionHeader"]
        self.assertTrue(header["Padding_base64"].startswith("b2xkIG1lbW9yeQAA"))

    def test_an_invalid_name_is_shown_unchanged(self) -> None:
        """An invalid direct name is shown unchanged."""
        message = UserMessage(
            base=BaseHeader(120),
            user=UserHeader(
                source_queue_manager=ALPHA,
                destination_kind=QueueNameKind.DIRECT,
                destination_queue=DirectQueueFormatName("nonsense"),
            ),
            properties=MessagePropertiesHeader(),
        )
        user: Any = packet_record(message.to_bytes(), 0)["UserHeader"]
        self.assertEqual(user["DestinationQueue"]["FormatName"], "DIRECT=nonsense")

    def test_an_invalid_sender_is_base64(self) -> None:
        """Bytes that are not what ST says are shown as bytes; a SID is shown as one."""
        sid = bytes.fromhex("010200000000000520000000") + b"\x20\x02\0\0"
        for kind, data, expected in (
            (SenderIdType.SID, sid, {"SecurityID": "S-1-5-32-544"}),
            (SenderIdType.SID, b"abc", {"SecurityID_base64": "YWJj"}),
            (SenderIdType.QUEUE_MANAGER, b"abc", {"SecurityID_base64": "YWJj"}),
            (7, b"abc", {"SecurityID_base64": "YWJj"}),
        ):
            security = SecurityHeader(sender_id_type=kind, security_id=data, encryption_key=b"key")
            message = attrs.evolve(whole_message(), security=security)
            header: Any = packet_record(message.to_bytes(), 0)["SecurityHeader"]
            self.assertEqual(header["SecurityData"], expected | {"EncryptionKey_base64": "a2V5"})

    def test_an_invalid_listed_name_is_shown_unchanged(self) -> None:
        """An invalid direct name in a list is shown unchanged."""
        lists = MultiQueueFormatHeader.of([MQFDirectQueueFormatName("nonsense")])
        message = attrs.evolve(whole_message(), multi_queue_format=lists, debug=DebugHeader())
        record: Any = packet_record(message.to_bytes(), 0)
        elements = record["MultiQueueFormatHeader"]["Destination"]["FormatNameList"]
        self.assertEqual(elements, [{"FormatType": 3, "FormatName": "nonsense"}])
        self.assertEqual(record["DebugHeader"], {"Flags": 0, "QT": 0, "Reserved": 0})

    @given(st.data())
    def test_damage_is_a_packet_or_malformed(self, data: st.DataObject) -> None:
        """After changes of any bytes, the result is a line of JSON or the one error."""
        packet = bytearray(whole_message().to_bytes())
        for _ in range(data.draw(st.integers(1, 3))):
            packet[data.draw(st.integers(0, len(packet) - 1))] = data.draw(st.integers(0, 255))
        try:
            json.dumps(packet_record(bytes(packet), 0))
        except RemoteProtocolError:
            pass


class PlainTextTests(SynchronousTestCase):
    def test_text_is_utf_8_without_control_characters(self) -> None:
        """Tab, CR and LF are allowed, and no bytes are empty text."""
        for text in ("", "hello", "tab\tcr\rlf\n", "Grüße ✓ 😀"):
            self.assertEqual(plain_text(text.encode()), text)
        for data in (b"\0", b"a\x1b", b"\x7f", b"\xc2\x85", b"\xff", "é".encode("latin-1"), b"\xed\xa0\x80"):
            self.assertIsNone(plain_text(data))
