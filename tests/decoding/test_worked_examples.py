"""The worked examples of the documents as C{msmq decode} prints them."""

import json
from base64 import b64decode
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from msmq.decoding.captures import decode
from msmq.structures.packet.user_message import UserMessage
from msmq.wire.writer import Writer
from tests.vectors import vector

INTERNAL = {"VersionNumber": 16, "IN": 1, "DH": 0, "TR": 0, "Signature": 0x524F494C}


def only_record(data: bytes) -> dict[str, Any]:
    """The one line that the input gives, as a script reads it."""
    [record] = decode(data)
    loaded: dict[str, Any] = json.loads(json.dumps(record))
    return loaded


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
        """MQQB-3.1.5.1.3-03: a SID is found although AI is 0, and 0x0F is allowed without an AdminQueue."""
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
        """The document prints 1650 bytes of it, which is not a packet."""
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
