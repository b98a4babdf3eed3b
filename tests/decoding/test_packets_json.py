"""The worked examples of the documents as C{msmq decode} prints them, and packets beside them."""

import json
from base64 import b64decode
from typing import Any
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.decoding.captures import decode
from msmq.decoding.packets_json import packet_record
from msmq.decoding.values import plain_text
from msmq.errors import RemoteProtocolError
from msmq.session.packets.connection_parameters import ConnectionParameters
from msmq.session.packets.establish_connection import EstablishConnection
from msmq.session.packets.final_ack import FinalAck
from msmq.session.packets.order_ack import OrderAck
from msmq.session.packets.order_queue import AckEnvelope
from msmq.structures.base_header import BaseHeader
from msmq.structures.debug_header import DebugHeader
from msmq.structures.identifiers import TxSequenceID
from msmq.structures.message_properties_header import MessagePropertiesHeader
from msmq.structures.multi_queue_format_header import MQFDirectQueueFormatName, MultiQueueFormatHeader
from msmq.structures.queue_names import (
    DirectQueueFormatName,
    PrivateQueueFormatName,
    PrivateQueueFormatNameId,
    PublicQueueFormatName,
    QueueNameKind,
)
from msmq.structures.security_header import ProviderInfo, SecurityHeader, SenderIdType
from msmq.structures.session_header import SessionHeader
from msmq.structures.soap_header import SoapHeader
from msmq.structures.transaction_header import TransactionHeader
from msmq.structures.user_header import UserHeader
from msmq.structures.user_message import UserMessage
from msmq.wire.writer import Writer
from tests.vectors import vector

ALPHA = UUID("557358D1-9150-9595-4997-B6E611EA26C6")
BETA = UUID("43CD8907-394C-8F11-4445-9078909EA0FC")
INTERNAL = {"VersionNumber": 16, "IN": 1, "DH": 0, "TR": 0, "Signature": 0x524F494C}


def only_record(data: bytes) -> dict[str, Any]:
    """The one line that the input gives, as a script reads it."""
    [record] = decode(data)
    loaded: dict[str, Any] = json.loads(json.dumps(record))
    return loaded


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
            provider_info=ProviderInfo(1, "other"),
        ),
        debug=DebugHeader(BETA),
        soap=SoapHeader("<h/>", "<b/>"),
        multi_queue_format=MultiQueueFormatHeader.of(
            [MQFDirectQueueFormatName("OS:beta\\private$\\q"), PublicQueueFormatName(BETA)], signature=b"s"
        ),
        session=SessionHeader(1, 2, 3, 4, 5, 6),
    )


class WorkedExampleTests(SynchronousTestCase):
    """[MS-MQQB] 4.1 and [MS-MQSD] 4, field by field."""

    def test_frames_1_and_2_are_pings(self) -> None:
        """MQQB-2.2.7-01: flags, cookie and GUID are those of the hex."""
        self.assertEqual(
            only_record(vector("mqqb-4.1.1-ping-request")),
            {
                "offset": 0,
                "packet": "Ping",
                "size": 24,
                "PingPacket": {
                    "Flags": 0x7D01,
                    "RC": 1,
                    "RF": 0,
                    "Signature": 0x5548,
                    "Cookie": 4,
                    "QMGuid": "{557358D1-9150-9595-4997-B6E611EA26C6}",
                },
            },
        )
        response = only_record(vector("mqqb-4.1.2-ping-response"))["PingPacket"]
        self.assertEqual(response["Flags"], 0xB295)
        self.assertEqual(response["QMGuid"], "{43CD8907-394C-8F11-4445-9078909EA0FC}")

    def test_frame_3_is_an_establish_connection(self) -> None:
        """Every field of the three headers is what the hex says."""
        record = only_record(vector("mqqb-4.1.3-establish-connection-request"))
        self.assertEqual(
            record,
            {
                "offset": 0,
                "packet": "EstablishConnection",
                "size": 572,
                "BaseHeader": {
                    "Reserved": 0xC0,
                    "Flags": 0x000B,
                    "PR": 3,
                    "SH": 0,
                    "PacketSize": 572,
                    "TimeToReachQueue": 0xFFFFFFFF,
                    **INTERNAL,
                },
                "InternalHeader": {"Reserved": 0, "Flags": 2, "PT": 2, "CS": 0},
                "EstablishConnectionHeader": {
                    "ClientGuid": "{557358D1-9150-9595-4997-B6E611EA26C6}",
                    "ServerGuid": "{43CD8907-394C-8F11-4445-9078909EA0FC}",
                    "TimeStamp": 501140046,
                    "OperatingSystem": 0x0310,
                    "RE": 16,
                    "SE": 1,
                    "OS": 1,
                    "QS": 0,
                    "Reserved": 0,
                    "Padding": "512 bytes 0x5A",
                },
            },
        )

    def test_frame_4_is_its_answer(self) -> None:
        """The bytes come from another session, and are given as they are."""
        record = only_record(vector("mqqb-4.1.4-establish-connection-response"))
        header = record["EstablishConnectionHeader"]
        self.assertEqual(record["BaseHeader"]["Reserved"], 0x5A)
        self.assertEqual(header["ClientGuid"], "{1F742305-BE5E-4177-BC77-C4DD7719E474}")
        self.assertEqual(header["ServerGuid"], "{3C3A6AEB-F567-4143-87D3-85CF4D68CEB4}")
        self.assertEqual(header["TimeStamp"], 501140046)

    def test_frames_5_and_6_are_connection_parameters(self) -> None:
        """Both windows are 64, as in the hex."""
        for name in ("5-connection-parameters-request", "6-connection-parameters-response"):
            record = only_record(vector(f"mqqb-4.1.{name}"))
            self.assertEqual(record["packet"], "ConnectionParameters")
            self.assertEqual(record["InternalHeader"], {"Reserved": 0, "Flags": 3, "PT": 3, "CS": 0})
            self.assertEqual(
                record["ConnectionParametersHeader"],
                {"RecoverableAckTimeout": 1496, "AckTimeout": 120000, "Reserved": 0, "WindowSize": 64},
            )

    def test_frame_7_is_a_user_message(self) -> None:
        """MQQB-3.1.5.1.3-03: a SID is found although AI is 0, and 0x0F without an AdminQueue is no fault."""
        record = only_record(vector("mqqb-4.1.7-user-message"))
        body = record["MessagePropertiesHeader"].pop("MessageBody_base64")
        self.assertEqual(b64decode(body), ("a" * 1000).encode("utf-16-le"))
        self.assertEqual(
            record,
            {
                "offset": 0,
                "packet": "UserMessage",
                "size": 2224,
                "BaseHeader": {
                    **INTERNAL,
                    "Reserved": 0,
                    "Flags": 3,
                    "PR": 3,
                    "IN": 0,
                    "SH": 0,
                    "PacketSize": 2224,
                    "TimeToReachQueue": 345600,
                },
                "UserHeader": {
                    "SourceQueueManager": "{557358D1-9150-9595-4997-B6E611EA26C6}",
                    "QueueManagerAddress": "{00000000-0000-0000-0000-000000000000}",
                    "TimeToBeReceived": 0xFFFFFFFF,
                    "SentTime": 0x524F494C,
                    "MessageID": 2286,
                    "Flags": 0x00281C00,
                    "RC": 0,
                    "DM": 0,
                    "JN": 0,
                    "JP": 0,
                    "DQ": 7,
                    "AQ": 0,
                    "RQ": 0,
                    "SH": 1,
                    "TH": 0,
                    "MP": 1,
                    "CQ": 0,
                    "MQ": 0,
                    "AH": 0,
                    "HH": 0,
                    "DestinationQueue": {
                        "structure": "DirectQueueFormatName",
                        "Count": 26,
                        "DirectFormatName": "OS:a04bm02\\q",
                        "FormatName": "DIRECT=OS:a04bm02\\q",
                    },
                },
                "SecurityHeader": {
                    "Flags": 1,
                    "ST": 1,
                    "AU": 0,
                    "EB": 0,
                    "DE": 0,
                    "AI": 0,
                    "AS": 0,
                    "SenderIdSize": 28,
                    "EncryptionKeySize": 0,
                    "SignatureSize": 0,
                    "SenderCertSize": 0,
                    "ProviderInfoSize": 0,
                    "SecurityData": {"SecurityID": "S-1-5-21-3181267629-1039849782-3663111779-1000"},
                },
                "MessagePropertiesHeader": {
                    "Flags": 0x0F,
                    "PA": 1,
                    "PR": 1,
                    "NA": 1,
                    "NR": 1,
                    "LabelLength": 15,
                    "MessageClass": 0,
                    "class_name": "MQMSG_CLASS_NORMAL",
                    "CorrelationID": "{00000000-0000-0000-0000-000000000000}\\0",
                    "BodyType": 8,
                    "ApplicationTag": 0,
                    "MessageSize": 2000,
                    "AllocationBodySize": 2000,
                    "PrivacyLevel": 0,
                    "HashAlgorithm": 0x8004,
                    "EncryptionAlgorithm": 0x6801,
                    "ExtensionSize": 0,
                    "Label": "mqsender label",
                },
            },
        )

    def test_frame_7_comes_back(self) -> None:
        """Its values are written as the same 2224 bytes."""
        data = vector("mqqb-4.1.7-user-message")
        writer = Writer()
        UserMessage.from_bytes(data).write(writer)
        self.assertEqual(writer.getvalue(), data)

    def test_frame_7_as_printed_is_cut_short(self) -> None:
        """The document prints 1650 bytes of it, which is no packet."""
        record = only_record(vector("mqqb-4.1.7-user-message-as-printed"))
        self.assertEqual(
            (record["offset"], record["header"], record["field"]), (0, "BaseHeader", "PacketSize")
        )
        self.assertIn("1650", record["rule"])

    def test_frame_8_is_a_session_ack(self) -> None:
        """One message is acknowledged."""
        record = only_record(vector("mqqb-4.1.8-session-ack"))
        self.assertEqual(
            record,
            {
                "offset": 0,
                "packet": "SessionAck",
                "size": 36,
                "BaseHeader": {
                    "Reserved": 0xCD,
                    "Flags": 0x001B,
                    "PR": 3,
                    "SH": 1,
                    "PacketSize": 36,
                    "TimeToReachQueue": 0xFFFFFFFF,
                    **INTERNAL,
                },
                "InternalHeader": {"Reserved": 0, "Flags": 1, "PT": 1, "CS": 0},
                "SessionHeader": {
                    "AckSequenceNumber": 1,
                    "RecoverableMsgAckSeqNumber": 0,
                    "RecoverableMsgAckFlags": 0,
                    "UserMsgSequenceNumber": 0,
                    "RecoverableMsgSeqNumber": 0,
                    "WindowSize": 64,
                    "Reserved": 0,
                },
            },
        )

    def test_the_topology_request(self) -> None:
        """Enterprise, request and site are those of the hex."""
        self.assertEqual(
            only_record(vector("mqsd-4-topology-client-request")),
            {
                "offset": 0,
                "packet": "TopologyClientRequest",
                "size": 52,
                "TopologyPacketHeader": {"Version": 0, "Type": 1, "Reserved": 0},
                "TopologyClientRequest": {
                    "EnterpriseID": "{E6EABA61-D1C6-11DB-BAAC-0003FF4E2D22}",
                    "RequestID": "{F291A103-E33C-AB4F-A930-BE3A33E432DD}",
                    "SiteID": "{DCC51BF6-D4AD-4543-8739-71568E8F9128}",
                },
            },
        )

    def test_the_topology_replies(self) -> None:
        """One has neither site nor servers, the other has both."""
        fixed = {
            "CorrelationID": "{F291A103-E33C-AB4F-A930-BE3A33E432DD}",
            "ConnectedNetworkCount": 1,
            "ConnectedNetworkMask": 0,
            "ConnectedNetworkArray": ["{E6EABA62-D1C6-11DB-BAAC-0003FF4E2D22}"],
        }
        same = only_record(vector("mqsd-4-topology-server-reply-same-site"))
        self.assertEqual(same["TopologyServerReply"], fixed | {"DirectoryServiceServerSize": 0})
        other = only_record(vector("mqsd-4-topology-server-reply-other-site"))
        self.assertEqual(other["packet"], "TopologyServerReply")
        self.assertEqual(
            other["TopologyServerReply"],
            fixed
            | {
                "DirectoryServiceServerSize": 18,
                "RespondingSiteID": "{E6EABA60-D1C6-11DB-BAAC-0003FF4E2D22}",
                "DirectoryServiceServerArray": [{"name": "nt4pec", "IP": 1, "IPX": 0}],
            },
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
                "ProviderInfo": {"ProviderType": 1, "ProviderName": "other"},
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
        """What has no meaning is given as it came."""
        data = bytearray(ConnectionParameters(1000, 20000).to_bytes())
        data[1], data[3], data[16], data[19], data[28] = 1, 2, 3, 4, 5
        record: Any = packet_record(bytes(data), 0)
        self.assertEqual(record["BaseHeader"]["Reserved"], 1)
        self.assertEqual(record["BaseHeader"]["Flags"], 0x020B)
        self.assertEqual(record["InternalHeader"], {"Reserved": 3, "Flags": 0x0403, "PT": 3, "CS": 0})
        self.assertEqual(record["ConnectionParametersHeader"]["Reserved"], 5)

    def test_padding_that_is_not_all_alike_is_shown_whole(self) -> None:
        """What an initiator left in it can be looked at."""
        packet = EstablishConnection(ALPHA, BETA, 1, padding=b"old memory" + bytes(502))
        header: Any = packet_record(packet.to_bytes(), 0)["EstablishConnectionHeader"]
        self.assertTrue(header["Padding_base64"].startswith("b2xkIG1lbW9yeQAA"))

    def test_a_name_that_is_none_is_shown_as_it_came(self) -> None:
        """Nothing is lost of a direct name that names no queue."""
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

    @given(st.data())
    def test_damage_is_a_packet_or_malformed(self, data: st.DataObject) -> None:
        """MQQB-3.1.5.1.3-04: whatever bytes are changed, a line of JSON comes out or the one error."""
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
