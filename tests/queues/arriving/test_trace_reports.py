"""[MS-MQQB] 3.1.5.8.9 and 3.1.7.1.7: the text of the reports of traced messages."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.decoding.message_json import message_json
from msmq.moment import Moment
from msmq.queues.arriving.message import Delivery, Message
from msmq.queues.arriving.packet_builder import build_packet
from msmq.queues.arriving.reports import Hop, TraceReport, destination_of, read_report, report
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.names.format_name import PrivateFormatName, parse_format_name
from msmq.structures.packet.security_header import SenderIdType
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.wire.guid import NULL_GUID
from tests.builders import ALPHA, BETA, GAMMA

G = "0C0FFEE0-1234-4567-89AB-CDEF01234567"
NOW = Moment(0.0, 1_700_000_000.75)
"""2023-11-14, a Tuesday, 22:13:20 UTC."""

LABEL = "A1FA:000008EE:00 received by A1FA0000-0000-4000-8000-000000000001 at 10:13:20 PM Tue,Nov 14 23"
RECEIVED = (
    "<MESSAGE ID>000008EE</MESSAGE ID>\r\n"
    "<TARGET QUEUE>PUBLIC=0C0FFEE0-1234-4567-89AB-CDEF01234567</TARGET QUEUE>\r\n"
)
SENT = RECEIVED + "<NEXT HOP>10.0.0.5</NEXT HOP>\r\n<HOP COUNT>00 </HOP COUNT>\r\n"


def traced(
    destination: str = f"PUBLIC={G}",
    *,
    trace: UUID | None = BETA,
    message_class: int = 0,
    hops: int = 0,
    ordinal: int = 2286,
    source: UUID = ALPHA,
) -> UserMessageView:
    """A message whose reports go to a public queue."""
    message = Message(trace=trace, message_class=message_class)
    packet = bytearray(
        build_packet(
            message,
            parse_format_name(destination),
            source=source,
            destination_queue_manager=BETA,
            message_id=ordinal,
            sent_time=0,
        )
    )
    packet[60] |= hops
    return UserMessageView(bytes(packet))


def reported(view: UserMessageView, now: Moment = NOW, next_hop: str | None = None) -> TraceReport:
    found = report(view, now, queue_manager=BETA, next_hop=next_hop)
    assert found is not None
    return found


def sent(made: TraceReport) -> UserMessageView:
    """A report as its queue has it."""
    packet = build_packet(
        made.message,
        made.destination,
        source=BETA,
        destination_queue_manager=BETA,
        message_id=1,
        sent_time=0,
    )
    return UserMessageView(packet)


class TextTests(SynchronousTestCase):
    """Golden values, written by hand from the grammars."""

    def test_received(self) -> None:
        """A message that arrived: class, mode, label and body.

        MQQB-3.1.5.8.9-02, MQQB-3.1.5.8.9-03, MQQB-3.1.5.8.9-04.
        """
        made = reported(traced())
        self.assertEqual(str(made.destination), f"PUBLIC={str(BETA).upper()}")
        view = sent(made)
        self.assertEqual((view.message_class, message_json(view)["class_name"]), (1, "MQMSG_CLASS_REPORT"))
        self.assertEqual((view.is_recoverable, view.is_traced, view.acknowledge), (False, False, 0))
        self.assertEqual(view.label, LABEL)
        self.assertIn((LABEL + "\0").encode("utf-16-le"), view.packet)
        self.assertEqual(bytes(view.body), RECEIVED.encode("utf-16-le"))

    def test_sent(self) -> None:
        """A message that was sent: the same label, and two lines more, the last with its blank.

        MQQB-3.1.7.1.7-02, MQQB-3.1.7.1.7-03, MQQB-3.1.7.1.7-04.
        """
        made = reported(traced(), next_hop="10.0.0.5")
        self.assertEqual(str(made.destination), f"PUBLIC={str(BETA).upper()}")
        view = sent(made)
        self.assertEqual((view.message_class, view.is_recoverable, view.flags >> 10 & 7), (1, False, 5))
        self.assertEqual(view.label, LABEL)
        self.assertEqual(bytes(view.body), SENT.encode("utf-16-le"))

    def test_each_field(self) -> None:
        """Hops in hexadecimal digits, a direct and a private target, an address of IPv6 without its zone."""
        view = traced("DIRECT=TCP:127.0.0.3\\private$\\orders", hops=0x1D, ordinal=0xDEADBEEF)
        made = reported(view, next_hop="fe80::1%eth0")
        self.assertTrue(made.message.label.startswith("A1FA:DEADBEEF:1D received by A1FA0000-"))
        text = made.message.body.decode("utf-16-le")
        self.assertEqual(
            text,
            "<MESSAGE ID>DEADBEEF</MESSAGE ID>\r\n"
            "<TARGET QUEUE>DIRECT=TCP:127.0.0.3\\private$\\orders</TARGET QUEUE>\r\n"
            "<NEXT HOP>fe80::1</NEXT HOP>\r\n"
            "<HOP COUNT>1D </HOP COUNT>\r\n",
        )
        name = f"PRIVATE={str(BETA).upper()}\\0000001a"
        private = reported(traced(name)).message.body.decode("utf-16-le")
        self.assertIn(f"<TARGET QUEUE>{name.upper()}</TARGET QUEUE>", private.upper())

    def test_times_of_day(self) -> None:
        """Each half of a day begins with 12."""
        for seconds, text in (
            (0, "12:00:00 AM Thu,Jan 01 70"),
            (12 * 3600 + 62, "12:01:02 PM Thu,Jan 01 70"),
            (13 * 3600 - 1, "12:59:59 PM Thu,Jan 01 70"),
            (951_782_400 + 11 * 3600, "11:00:00 AM Tue,Feb 29 00"),
            (951_782_400 + 13 * 3600, "01:00:00 PM Tue,Feb 29 00"),
        ):
            self.assertTrue(reported(traced(), Moment(0.0, seconds)).message.label.endswith(f" at {text}"))

    def test_messages_that_are_not_reported(self) -> None:
        """A message that is not traced, one that names no queue for reports, and a report (reading 74)."""
        for view in (traced(trace=None), traced(trace=NULL_GUID), traced(message_class=1)):
            self.assertIsNone(report(view, NOW, queue_manager=BETA))

    def test_never_asks(self) -> None:
        """A report causes no acknowledgement, no journal copy and no other report."""
        message = reported(traced()).message
        self.assertEqual(
            message,
            Message(
                label=LABEL,
                body=RECEIVED.encode("utf-16-le"),
                message_class=1,
                delivery=Delivery.EXPRESS,
                sender_identifier_type=SenderIdType.NONE,
            ),
        )


class DestinationTests(SynchronousTestCase):
    """L{destination_of}: the name of the destination queue of a packet."""

    def test_names(self) -> None:
        """A null queue manager is this one; a direct name that is invalid is shown as it is written."""
        honest, name = "OS:beta\\private$\\orders", "OS:beta\\private$;orders"
        self.assertEqual(
            destination_of(traced(f"DIRECT={honest}"), GAMMA), parse_format_name(f"DIRECT={honest}")
        )
        packet = traced(f"DIRECT={honest}").packet
        written = packet.replace(honest.encode("utf-16-le"), name.encode("utf-16-le"))
        self.assertEqual(destination_of(UserMessageView(written), GAMMA), f"DIRECT={name}")
        for queue_manager, expected in ((NULL_GUID, GAMMA), (BETA, BETA)):
            private = PrivateFormatName(queue_manager, 17)
            packet = build_packet(
                Message(),
                private,
                source=ALPHA,
                destination_queue_manager=queue_manager,
                message_id=1,
                sent_time=0,
            )
            self.assertEqual(destination_of(UserMessageView(packet), GAMMA), PrivateFormatName(expected, 17))


class ReadingTests(SynchronousTestCase):
    """Reports are parsed again for the explanation of a message."""

    @given(
        st.uuids(),
        st.integers(0, 0xFFFFFFFF),
        st.integers(0, 0x1D),
        st.none() | st.ip_addresses().map(str),
    )
    def test_fields_of_a_report(self, source: UUID, ordinal: int, hops: int, next_hop: str | None) -> None:
        """Everything but the time."""
        view = traced(source=source, ordinal=ordinal, hops=hops)
        hop = read_report(sent(reported(view, next_hop=next_hop)))
        address = None if next_hop is None else next_hop.partition("%")[0]
        self.assertEqual(hop, Hop(MessageIdentifier(source, ordinal), hops, f"PUBLIC={G}", address))

    def test_something_else(self) -> None:
        """A message of another class, or with other texts, is not a report of a hop."""
        made = reported(traced())
        self.assertIsNone(read_report(traced()))
        for label, body in (
            ("", made.message.body),
            (LABEL, b""),
            (LABEL, b"\0"),
            ("X" + LABEL, made.message.body),
        ):
            other = TraceReport(made.destination, Message(label=label, body=body, message_class=1))
            self.assertIsNone(read_report(sent(other)))
