"""[MS-MQMQ] 2.2.19 and 2.2.20.6: what headers cannot say, on the wire and when they are written."""

from __future__ import annotations

from struct import pack
from typing import Any

import attrs
from twisted.trial.unittest import SynchronousTestCase

from msmq.errors import LocalProtocolError, RemoteProtocolError
from msmq.structures.internal.connection_parameters import ConnectionParameters
from msmq.structures.names.queue_names import PublicQueueFormatName, QueueNameKind
from msmq.structures.packet.base_header import BaseHeader
from msmq.structures.packet.message_properties_header import MessagePropertiesHeader
from msmq.structures.packet.security_header import ProviderInfo, SecurityHeader
from msmq.structures.packet.user_header import UserHeader
from msmq.structures.packet.user_message import UserMessage
from msmq.wire.reader import Reader
from msmq.wire.writer import Writer
from tests.builders import ALPHA, GAMMA, user_packet
from tests.structures.three_ways import Structure, written

USER = UserHeader(source_queue_manager=ALPHA)
START = 16


class ProblemCase(SynchronousTestCase):
    """Asserts on errors."""

    def assert_unsent(self, header: Structure, problem: str) -> None:
        """A header cannot be written for this reason."""
        self.assertEqual(str(self.assertRaises(LocalProtocolError, written, header)), problem)

    def assert_sent(self, header: Structure) -> None:
        """A header is written, and read back."""
        self.assertEqual(type(header).read(Reader(written(header))), header)


class UserHeaderTests(ProblemCase):
    """L{UserHeader}."""

    def test_flags(self) -> None:
        """Each is named with its value, whichever sender it has."""
        for flags, problem in (
            (0x00000000, "MP is not set"),
            (0x00200040, "DM 2 is not a delivery mode"),
            (0x00200060, "DM 3 is not a delivery mode"),
            (0x0020001E, "RC 0x1e is more than 0x1d"),
            (0x0020001F, "RC 0x1f is more than 0x1d"),
            (0x00200400, "DQ 1 names no destination queue"),
            (0x00200800, "DQ 2 names no destination queue"),
            (0x00201000, "DQ 4 names no destination queue"),
            (0x00201800, "DQ 6 names no destination queue"),
            (0x00202000, "AQ 1 names no admin queue"),
            (0x00208000, "AQ 4 names no admin queue"),
            (0x00300000, "TH in an express message"),
        ):
            data = bytes(44) + pack("<I", flags) + bytes(60)
            error = self.assertRaises(RemoteProtocolError, UserHeader.read, Reader(data, base=START))
            self.assertEqual(str(error), f"[MS-MQMQ] 2.2.19.2 UserHeader.Flags at offset 60: {problem}")

    def test_what_cannot_be_sent(self) -> None:
        """Hops beyond the limit, kinds that are none, and names that are not of their kind."""
        public = PublicQueueFormatName(GAMMA)
        shown = "PublicQueueFormatName(queue=UUID('6a33a000-0000-4000-8000-000000000003'))"
        cases: tuple[tuple[dict[str, Any], str], ...] = (
            ({"hop_count": 0x1E}, "Flags.RC: 30 is not within 0 to 29"),
            ({"hop_count": 0x20}, "Flags.RC: 32 is not within 0 to 29"),
            ({"hop_count": -1}, "Flags.RC: -1 is not within 0 to 29"),
            (
                {"destination_kind": QueueNameKind.PRIVATE},
                "UserHeader.Flags: DQ 6 names no destination queue",
            ),
            (
                {"admin_kind": QueueNameKind.PRIVATE_ON_ADMIN_QUEUE_HOST},
                "UserHeader.Flags: AQ 4 names no admin queue",
            ),
            ({"has_transaction_header": True}, "UserHeader.Flags: TH in an express message"),
            (
                {"destination_kind": QueueNameKind.DIRECT, "destination_queue": public},
                f"DestinationQueue: {shown} is not a name of kind DIRECT",
            ),
            ({"admin_queue": public}, f"AdminQueue: {shown} is not a name of kind NONE"),
            (
                {"response_kind": QueueNameKind.PUBLIC},
                "ResponseQueue: None is not a name of kind PUBLIC",
            ),
        )
        for values, problem in cases:
            self.assert_unsent(attrs.evolve(USER, **values), problem)
        self.assert_sent(attrs.evolve(USER, hop_count=29))
        self.assert_sent(
            attrs.evolve(USER, response_kind=QueueNameKind.PUBLIC, response_queue=public, hop_count=0)
        )


class BaseHeaderTests(ProblemCase):
    """L{BaseHeader} and the end of a packet."""

    def test_what_cannot_be_sent(self) -> None:
        """Each problem is named; the values next to it are sent."""
        internal = BaseHeader(32, is_internal=True)
        for header, problem in (
            (BaseHeader(120, priority=8), "Flags.PR: 8 is not within 0 to 7"),
            (BaseHeader(120, priority=-1), "Flags.PR: -1 is not within 0 to 7"),
            (BaseHeader(119), "BaseHeader: 119 is less than 120"),
            (BaseHeader(0x400001), "BaseHeader: 4194305 is more than 4194304"),
            (BaseHeader(33, is_internal=True), "BaseHeader: 33 is not the size of an internal packet"),
            (BaseHeader(120, is_traced=True), "BaseHeader: TR without DH"),
            (attrs.evolve(internal, has_debug_header=True), "BaseHeader: DH in an internal packet"),
            (
                attrs.evolve(internal, time_to_reach_queue=0xFFFFFFFE),
                "BaseHeader: an internal packet has no TimeToReachQueue",
            ),
        ):
            self.assert_unsent(header, problem)
        for header in (
            BaseHeader(120, priority=0),
            BaseHeader(0x400000, priority=7, has_debug_header=True, is_traced=True, time_to_reach_queue=0),
            internal,
        ):
            self.assert_sent(header)

    def test_a_message_is_not_internal(self) -> None:
        """A UserMessage with IN cannot be written."""
        message = attrs.evolve(
            UserMessage.from_bytes(user_packet(b"body")), base=BaseHeader(32, is_internal=True)
        )
        error = self.assertRaises(LocalProtocolError, message.write, Writer())
        self.assertEqual(str(error), "BaseHeader.Flags: IN in a UserMessage")

    def test_bytes_behind_a_packet(self) -> None:
        """The error counts them."""
        data = ConnectionParameters(1000, 20000).to_bytes()
        error = self.assertRaises(RemoteProtocolError, ConnectionParameters.from_bytes, data + bytes(3))
        self.assertEqual(
            str(error),
            "[MS-MQMQ] 2.2.19.1 BaseHeader.PacketSize at offset 8: 3 bytes follow the 32 that it declares",
        )


class MessagePropertiesHeaderTests(ProblemCase):
    """L{MessagePropertiesHeader}."""

    def test_what_cannot_be_sent(self) -> None:
        """A label has up to 249 units, a CorrelationID 20 bytes, and a body no more than its allocation."""
        for header, problem in (
            (MessagePropertiesHeader(label="x" * 250), "Label: 250 units are more than 249"),
            (MessagePropertiesHeader(label="\U0001f600" * 125), "Label: 250 units are more than 249"),
            (MessagePropertiesHeader(flags=0x10), "Flags: 0x10 has reserved bits"),
            (MessagePropertiesHeader(correlation_id=bytes(19)), "CorrelationID: 19 bytes are not 20"),
            (MessagePropertiesHeader(correlation_id=bytes(21)), "CorrelationID: 21 bytes are not 20"),
            (
                MessagePropertiesHeader(message_body=b"12", allocation_body_size=1),
                "AllocationBodySize: less than the size of the body",
            ),
        ):
            self.assert_unsent(header, problem)
        for header in (
            MessagePropertiesHeader(label="x" * 249),
            MessagePropertiesHeader(label="\U0001f600" * 124 + "x", flags=0x0F),
            MessagePropertiesHeader(message_body=b"12", allocation_body_size=2),
            MessagePropertiesHeader(message_body=b"12", allocation_body_size=3),
        ):
            self.assert_sent(header)


class SecurityHeaderTests(ProblemCase):
    """L{SecurityHeader} and L{ProviderInfo}."""

    def test_what_cannot_be_sent(self) -> None:
        """Each problem is named; the values next to it are sent."""
        provider = ProviderInfo(1, "p")
        for header, problem in (
            (SecurityHeader(16, b"id"), "Flags.ST: 16 does not fit 4 bits"),
            (SecurityHeader(-1, b"id"), "Flags.ST: -1 does not fit 4 bits"),
            (SecurityHeader(0, b"id"), "SecurityID: not allowed with this Flags.ST"),
            (
                SecurityHeader(provider_info=provider, is_default_provider=True),
                "ProviderInfo: not allowed with Flags.DE",
            ),
            (SecurityHeader(sender_cert=bytes(65536)), "SenderCert: 65536 bytes are more than 65535"),
            (SecurityHeader(1, is_body_encrypted=True), "SecurityData: is empty"),
        ):
            self.assert_unsent(header, problem)
        for header in (
            SecurityHeader(15, b"id"),
            SecurityHeader(0, signature=b"sign"),
            SecurityHeader(provider_info=provider),
            SecurityHeader(sender_cert=bytes(65535), is_default_provider=True),
        ):
            self.assert_sent(header)

    def test_names_of_providers(self) -> None:
        """A name ends with the first unit of 0, not with zeros of two neighbours, nor of one half."""
        for name in ("", "p", "\u0100p", "p\u0100", "p\u0100p", "\u0100\u0100"):
            for surplus in (b"", b"\0", b"\1", b"\0\0", b"\1\0\0\0"):
                self.assert_sent(SecurityHeader(provider_info=ProviderInfo(1, name, surplus)))
        for text in (b"", b"\0", b"p\0", b"p\0\0", b"\0p\0\1", b"p\0\0\1\0"):
            data = pack("<HHHHII", 0, 0, 0, 0, 0, 4 + len(text)) + pack("<I", 1) + text
            error = self.assertRaises(
                RemoteProtocolError, SecurityHeader.read, Reader(data + bytes(8), base=START)
            )
            self.assertEqual(
                str(error),
                f"[MS-MQMQ] 2.2.20.6 SecurityHeader.ProviderName at offset {START + 20 + len(text)}:"
                f" {len(text)} bytes are not NUL-terminated UTF-16 text",
            )

    def test_sizes(self) -> None:
        """The error has the field and its offset."""
        for values, field, offset, rule in (
            ((0x80, 0, 0, 0, 0, 0), "SenderIdSize", 18, "all five sizes are 0"),
            ((0xFFF0, 4, 0, 0, 0, 0), "SenderIdSize", 18, "4 although ST is 0"),
            ((0, 0, 0, 0, 65536, 0), "SenderCertSize", 24, "65536 is more than 65535"),
            ((0, 0, 0, 0, 0, 9), "ProviderInfoSize", 32, "declares 9 bytes where 8 remain"),
        ):
            data = pack("<HHHHII", *values) + bytes(8)
            error = self.assertRaises(RemoteProtocolError, SecurityHeader.read, Reader(data, base=START))
            self.assertEqual(
                str(error), f"[MS-MQMQ] 2.2.20.6 SecurityHeader.{field} at offset {offset}: {rule}"
            )
