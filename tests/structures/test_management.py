"""[MS-MQMQ] 2.3.12 and 2.3.1.23: the texts and numbers with which queues are managed."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.structures.management import (
    PROPID_MGMT_QUEUE_NEXTHOPS,
    ConnectionStatus,
    ManagementQueueType,
    ManagementTransactional,
    NextHop,
    format_multicast_address,
    format_next_hop,
    next_hops_property,
    parse_multicast_address,
    parse_next_hop,
)
from msmq.structures.names.format_name import MulticastFormatName, parse_format_name
from msmq.structures.prop_variant import PropVariant
from msmq.structures.status import MQError, Status
from tests.strategies_names import multicast_format_names
from tests.vectors import INITIATOR as GUID


class QueueTypeTests(SynchronousTestCase):
    """L{ManagementQueueType}."""

    def test_each_kind_of_queue_has_its_text(self) -> None:
        """MQMQ-2.3.12.3-01: PUBLIC, PRIVATE, MACHINE, CONNECTOR and MULTICAST."""
        for text, expected in (
            (f"PUBLIC={GUID}", "PUBLIC"),
            ("DIRECT=OS:srv\\q", "PUBLIC"),
            (f"PRIVATE={GUID}\\1;JOURNAL", "PRIVATE"),
            ("DIRECT=TCP:10.0.0.5\\private$\\q", "PRIVATE"),
            (f"MACHINE={GUID};DEADXACT", "MACHINE"),
            ("DIRECT=OS:srv\\system$;JOURNAL", "MACHINE"),
            (f"CONNECTOR={GUID};XACTONLY", "CONNECTOR"),
            ("MULTICAST=234.1.1.1:8001", "MULTICAST"),
        ):
            self.assertEqual(ManagementQueueType.of(parse_format_name(text)).value, expected)
        self.assertEqual(len(ManagementQueueType), 5)

    def test_a_distribution_list_is_no_queue(self) -> None:
        """It stands for several."""
        error = self.assertRaises(MQError, ManagementQueueType.of, parse_format_name(f"DL={GUID}"))
        self.assertEqual(error.status, Status.MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION)


class TransactionalTests(SynchronousTestCase):
    """L{ManagementTransactional}."""

    def test_is_yes_no_or_unknown(self) -> None:
        """MQMQ-2.3.12.5-01: both kinds of local queue, and an unknown remote one."""
        self.assertEqual(ManagementTransactional.of(True).value, "YES")
        self.assertEqual(ManagementTransactional.of(False).value, "NO")
        self.assertEqual(ManagementTransactional.of(None).value, "UNKNOWN")


class NextHopTests(SynchronousTestCase):
    """Next hops as text."""

    @given(st.ip_addresses() | st.uuids())
    def test_any_hop_is_read_back_from_its_text(self, hop: NextHop) -> None:
        """In capitals too."""
        self.assertEqual(parse_next_hop(format_next_hop(hop)), hop)
        self.assertEqual(parse_next_hop(format_next_hop(hop).upper()), hop)

    @given(
        st.text()
        | st.sampled_from(("IP=", "ipv6=", "FOREIGN=")).flatmap(lambda kind: st.text().map(kind.__add__))
    )
    def test_any_text_is_a_hop_or_illegal(self, text: str) -> None:
        """No text can cause any other error."""
        try:
            parse_next_hop(text)
        except MQError as error:
            self.assertEqual(error.status, Status.MQ_ERROR_ILLEGAL_PROPERTY_VALUE)

    def test_the_property_is_a_vector_of_texts(self) -> None:
        """MQMQ-2.3.12.12-01: number 12, of type 0x101F: one address, or the candidates while connecting."""
        self.assertEqual(PROPID_MGMT_QUEUE_NEXTHOPS, 12)
        value = PropVariant.from_bytes(next_hops_property(["10.0.0.5", "10.0.0.6"]).to_bytes())
        self.assertEqual((value.vt, value.value), (0x101F, ("IP=10.0.0.5", "IP=10.0.0.6")))

    def test_there_are_three_forms(self) -> None:
        """MQMQ-2.3.12.12-02: IP=, IPv6= and FOREIGN=."""
        self.assertEqual(format_next_hop("10.0.0.1"), "IP=10.0.0.1")
        self.assertEqual(parse_next_hop("IP=10.0.0.1"), IPv4Address("10.0.0.1"))
        self.assertEqual(format_next_hop("2001:db8::7"), "IPv6=2001:db8::7")
        self.assertEqual(parse_next_hop("IPv6=2001:db8::7"), IPv6Address("2001:db8::7"))
        foreign = "FOREIGN=557358D1-9150-9595-4997-B6E611EA26C6"
        self.assertEqual(format_next_hop(GUID), foreign)
        self.assertEqual(parse_next_hop(foreign), GUID)

    def test_other_texts_are_illegal(self) -> None:
        """The error shows the text."""
        for text in (
            "10.0.0.1",
            "IP=2001:db8::7",
            "IPv6=10.0.0.1",
            "FOREIGN={" + str(GUID) + "}",
            "HOST=a",
            "",
        ):
            error = self.assertRaises(MQError, parse_next_hop, text)
            self.assertEqual(error.status, Status.MQ_ERROR_ILLEGAL_PROPERTY_VALUE)
            self.assertIn(repr(text), error.detail)
        self.assertRaises(MQError, format_next_hop, "srv")


class ConnectionStatusTests(SynchronousTestCase):
    """L{ConnectionStatus}."""

    def test_the_first_ten_codes(self) -> None:
        """MQMQ-2.3.12.25-01: what goes well is below 0x80000000, what failed above."""
        for number, name in (
            (0x00000000, "IN_PROCESS"),
            (0x00000001, "ESTABLISH_PACKET_RECEIVED"),
            (0x00000002, "ESTABLISHED"),
            (0x80000000, "UNKNOWN_FAILURE"),
            (0x80000001, "PING_FAILURE"),
            (0x80000002, "SOCKET_CREATE_FAILURE"),
            (0x80000003, "SOCKET_BIND_FAILURE"),
            (0x80000004, "SOCKET_CONNECT_FAILURE"),
            (0x80000005, "TCP_NOT_ENABLED"),
            (0x80000006, "SOCKET_SEND_FAILURE"),
        ):
            self.assertEqual(ConnectionStatus[name], number)
            self.assertEqual(ConnectionStatus(number).is_failure, number >= 0x80000000)

    def test_the_other_codes(self) -> None:
        """MQMQ-2.3.12.25-02: and there are no more."""
        for number, name in (
            (0x80000007, "CONNECTION_NOT_READY"),
            (0x80000008, "DNS_FAILURE"),
            (0x80000009, "CERTIFICATE_VALIDATION_FAILURE"),
            (0x8000000A, "CONNECTION_LIMIT_REACHED"),
            (0x8000000B, "CONNECTION_REFUSED"),
            (0x8000000C, "ROUTING_DATA_NOT_AVAILABLE"),
            (0x8000000D, "LOW_RESOURCE"),
        ):
            self.assertEqual(ConnectionStatus[name], number)
        self.assertEqual(len(ConnectionStatus), 17)

    def test_names(self) -> None:
        """[MS-MQDMPR] 3.1.1.3: each result of an attempt to connect has a name, by which it is found."""
        expected = {
            "InProcess": 0,
            "EstablishPacketReceived": 1,
            "Established": 2,
            "UnknownFailure": 0x80000000,
            "PingFailure": 0x80000001,
            "SocketCreateFailure": 0x80000002,
            "SocketBindFailure": 0x80000003,
            "SocketConnectFailure": 0x80000004,
            "TcpNotEnabled": 0x80000005,
            "SocketSendFailure": 0x80000006,
            "ConnectionNotReady": 0x80000007,
            "DnsFailure": 0x80000008,
            "CertificateValidationFailure": 0x80000009,
            "ConnectionLimitReached": 0x8000000A,
            "ConnectionRefused": 0x8000000B,
            "RoutingDataNotAvailable": 0x8000000C,
            "LowResource": 0x8000000D,
        }
        self.assertEqual({status.document_name: int(status) for status in ConnectionStatus}, expected)
        self.assertEqual({name: int(ConnectionStatus.named(name)) for name in expected}, expected)


class MulticastAddressTests(SynchronousTestCase):
    """The multicast address of a queue."""

    @given(multicast_format_names())
    def test_any_address_is_read_back_from_its_text(self, name: MulticastFormatName) -> None:
        """The text is that of the format name without its prefix."""
        self.assertEqual(parse_multicast_address(format_multicast_address(name)), name)

    def test_is_an_address_of_class_d_and_any_port(self) -> None:
        """MQMQ-2.3.1.23-01: 224.0.0.0 to 239.255.255.255."""
        self.assertEqual(parse_multicast_address("234.1.1.1:8001"), MulticastFormatName("234.1.1.1", 8001))
        for text in ("224.0.0.0:0", "239.255.255.255:65535"):
            self.assertEqual(format_multicast_address(parse_multicast_address(text)), text)
        for text in ("223.255.255.255:1", "240.0.0.0:1", "234.1.1.1", "234.1.1.1:65536", ""):
            error = self.assertRaises(MQError, parse_multicast_address, text)
            self.assertEqual(error.status, Status.MQ_ERROR_ILLEGAL_PROPERTY_VALUE)
