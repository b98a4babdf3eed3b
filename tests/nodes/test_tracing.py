"""[MS-MQQB] 1.3.6: reports of traced messages, as the queue that they go to gets them."""

from __future__ import annotations

import struct
from typing import Any
from uuid import UUID, uuid4

from msmq.decoding.message_json import body_json, message_json
from msmq.decoding.values import text_or_base64
from msmq.directory.memory import MemoryDirectory
from msmq.manager.securing.security_descriptors import AccessPolicy
from msmq.membership.objects import EnterpriseObject
from msmq.queues.arriving.message import Delivery, Message
from msmq.storage.memory import MemoryMessageStore
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.names.format_name import PublicFormatName
from msmq.structures.packet.user_message_view import UserMessageView
from msmq.testing.access_control import MemoryAccessControl
from msmq.testing.contracts.signing import SID
from msmq.wire.guid import format_guid
from tests.builders import ALPHA, BETA, GAMMA
from tests.nodes.scripted import ScriptedTestCase, transactional
from tests.nodes.support import Node

REPORTS = ".\\reports"
QUEUE = UUID("c0ffee00-0000-4000-8000-000000000009")
"""Both queue managers have a public queue of this name, each in a directory of its own."""

TO_BETA = "DIRECT=TCP:127.0.0.3\\private$\\orders"
EXPRESS: dict[str, Any] = {"is_transactional": False, "is_recoverable": False}
RECOVERABLE: dict[str, Any] = {"is_transactional": False}
AT = "12:00:00 AM Thu,Jan 01 26"


def trace(packet: bytes, debug: bytes = struct.pack("<HH", 1, 0) + QUEUE.bytes_le) -> bytes:
    """A packet with TR, DH and a DebugHeader."""
    flags, size = struct.unpack_from("<H4xI", packet, 2)
    return (
        packet[:2]
        + struct.pack("<H", flags | 0x0120)
        + packet[4:8]
        + struct.pack("<I", size + len(debug))
        + packet[12:]
        + debug
    )


class TracingTestCase(ScriptedTestCase):
    """Reports are switched on, and there is a queue for them on either side."""

    options: dict[str, Any] = {"report_messages": True}  # noqa: RUF012
    reports: dict[str, Any] = {}  # noqa: RUF012

    def node(self, name: str, identifier: UUID, **kwargs: Any) -> Node:
        directory = MemoryDirectory(self.clock, make_identifier=lambda: self.identifier or uuid4())
        directory.add(EnterpriseObject(identifier=UUID(int=0xE1), name="estate"))
        kwargs.setdefault("store", MemoryMessageStore(durable=True))
        kwargs.setdefault("directory", directory)
        kwargs["options"] = self.options
        return super().node(name, identifier, **kwargs)

    def setUp(self) -> None:
        self.identifier: UUID | None = None
        super().setUp()
        self.path = self.queue(self.beta)
        self.make_queues()

    def make_queues(self) -> None:
        for node in (self.alpha, self.beta):
            self.make_queue(node, **self.reports)

    def make_queue(self, node: Node, **properties: Any) -> None:
        """The queue for reports."""
        self.identifier = QUEUE
        self.run_to_end(node.service.create_queue(REPORTS, **properties))
        self.identifier = None

    def send_traced(self, *bodies: bytes, **kwargs: Any) -> list[MessageIdentifier]:
        """Send to BETA, and wait until everything has settled."""
        messages = [Message(body=body, trace=QUEUE, **kwargs) for body in bodies]
        identifiers = self.run_to_end(self.alpha.service.send(TO_BETA, messages))
        self.clock.advance(5)
        return identifiers

    def reported(self, node: Node) -> list[UserMessageView]:
        """The reports that a queue manager has."""
        self.clock.advance(1)
        return self.take(node, REPORTS)

    def texts(self, node: Node) -> list[str]:
        return [bytes(view.body).decode("utf-16-le") for view in self.reported(node)]

    def counts(self, node: Node) -> tuple[int, int]:
        counts = node.service.inspection.status().reports
        return counts.sent, counts.discarded


class HopTests(TracingTestCase):
    """One hop, from ALPHA to BETA."""

    def test_one_hop(self) -> None:
        """One report when it is sent, one when it arrives; labels and bodies verbatim.

        MQQB-1.3.6-01, MQQB-3.1.5.8.9-01, MQQB-3.1.7.1.7-01.
        """
        self.clock.set_wall(1_767_225_600.9)
        [identifier] = self.send_traced(b"traced")
        number = f"{identifier.ordinal:08X}"
        [sent], [arrived] = self.reported(self.alpha), self.reported(self.beta)
        label = f"A1FA:{number}:00 received by A1FA0000-0000-4000-8000-000000000001 at {AT}"
        first = (
            f"<MESSAGE ID>{number}</MESSAGE ID>\r\n"
            "<TARGET QUEUE>DIRECT=TCP:127.0.0.3\\private$\\orders</TARGET QUEUE>\r\n"
        )
        self.assertEqual(sent.label, label)
        self.assertEqual(
            bytes(sent.body).decode("utf-16-le"),
            f"{first}<NEXT HOP>127.0.0.3</NEXT HOP>\r\n<HOP COUNT>00 </HOP COUNT>\r\n",
        )
        self.assertEqual(arrived.label, label)
        self.assertEqual(bytes(arrived.body).decode("utf-16-le"), first)
        for view, reporter in ((sent, ALPHA), (arrived, BETA)):
            self.assertEqual((view.message_class, view.is_recoverable, view.is_traced), (1, False, False))
            self.assertEqual(view.source_queue_manager, reporter.bytes_le)
            self.assertEqual(view.destination_format_name(), PublicFormatName(QUEUE))
        self.assertEqual(self.bodies(self.beta, self.path), [b"traced"])
        self.assertEqual((self.counts(self.alpha), self.counts(self.beta)), ((1, 0), (1, 0)))

    def test_in_json(self) -> None:
        """A report is text in JSON, with what it says by its parts; what is not a report stays as it was."""
        [identifier] = self.send_traced(b"traced")
        [sent], [arrived] = self.reported(self.alpha), self.reported(self.beta)
        for view, event, next_hop in ((sent, "sent", "127.0.0.3"), (arrived, "arrived", None)):
            shown = message_json(view)
            self.assertEqual(
                shown["report"],
                {
                    "message": str(identifier),
                    "event": event,
                    "hops": 0,
                    "target_queue": TO_BETA,
                    "next_hop": next_hop,
                },
            )
            text = str(shown["body"])
            self.assertTrue(text.startswith("<MESSAGE ID>"), text)
            self.assertNotIn("\0", text)
            self.assertNotIn("body_base64", shown)
        for message_class, label, body in (
            (0, sent.label, sent.body),
            (1, "x", sent.body),
            (1, sent.label, b"x"),
        ):
            self.assertEqual(body_json(message_class, label, body), text_or_base64("body", body))

    def test_each_kind(self) -> None:
        """Express, recoverable and transactional messages alike, many of them, each once."""
        self.queue(self.beta, "payments", transactional=True)
        self.send_traced(*[b""] * 100)
        self.send_traced(*[b""] * 100, delivery=Delivery.RECOVERABLE)
        payments = TO_BETA.replace("orders", "payments")
        self.send(self.alpha, payments, *[b""] * 100, trace=QUEUE, transactional=True)
        self.clock.advance(5)
        for node in (self.alpha, self.beta):
            views = self.reported(node)
            self.assertEqual(len({view.label for view in views}), 300)
            self.assertEqual(len(views), 300)

    def test_not_traced(self) -> None:
        """A message that does not ask for reports has none, and a local one neither leaves nor arrives."""
        self.send(self.alpha, TO_BETA, b"plain")
        self.queue(self.alpha, "here")
        self.send(self.alpha, ".\\private$\\here", b"local", trace=QUEUE)
        self.assertEqual((self.reported(self.alpha), self.reported(self.beta)), ([], []))

    def test_refused(self) -> None:
        """A message that is not taken was sent, and has not arrived."""
        self.run_to_end(self.beta.service.set_queue(self.path, {"quota": 0}))
        self.send_traced(b"too much")
        self.assertEqual([len(self.reported(node)) for node in (self.alpha, self.beta)], [1, 0])

    def test_sent_twice(self) -> None:
        """Each sending has its report; it arrives once."""
        self.listen(is_prompt=False)
        message = Message(body=b"1", trace=QUEUE)
        to_gamma = TO_BETA.replace("127.0.0.3", "127.0.0.4")
        self.run_to_end(self.alpha.service.send(to_gamma, [message]))
        self.clock.advance(1)
        self.peers[0].hang_up()
        self.clock.advance(30)
        self.assertEqual([peer.bodies for peer in self.peers], [[b"1"], [b"1"]])
        views = self.reported(self.alpha)
        self.assertEqual(len(views), 2)
        self.assertEqual(len({bytes(view.body) for view in views}), 1)
        self.assertIn("<NEXT HOP>127.0.0.4</NEXT HOP>", bytes(views[0].body).decode("utf-16-le"))

    def test_explain(self) -> None:
        """The explanation of a message has the reports that are stored here."""
        [identifier] = self.send_traced(b"1", label="not this one")
        self.send_traced(b"2")
        self.assertEqual(self.bodies(self.beta, self.path), [b"1", b"2"])
        for node, next_hop in ((self.alpha, "127.0.0.3"), (self.beta, None)):
            [found] = self.run_to_end(node.service.inspection.explain(identifier)).reports
            self.assertEqual((found.queue, found.hop.next_hop), (REPORTS, next_hop))
            self.assertEqual((found.hop.identifier, found.hop.hop_count), (identifier, 0))
            self.assertEqual(found.hop.target_queue, TO_BETA)


class PeerTests(TracingTestCase):
    """Traced messages of a peer."""

    def test_arrivals(self) -> None:
        """Each kind of message, with its hops; a duplicate does not arrive."""
        peer = self.dial()
        packet = bytearray(transactional(b"r", (0, 0x77, 0), **RECOVERABLE))
        packet[60] |= 3
        peer.send(trace(bytes(packet)))
        self.clock.advance(1)
        peer.send(trace(bytes(packet)))
        peer.send(trace(transactional(b"e", (0, 0, 0), message_id=0x78, **EXPRESS)))
        views = self.reported(self.beta)
        source = format_guid(GAMMA)
        self.assertEqual(
            [view.label.partition(" at ")[0] for view in views],
            [f"6A33:00000077:03 received by {source}", f"6A33:00000078:00 received by {source}"],
        )
        self.assertEqual(self.bodies(self.beta, self.path), [b"r", b"e"])

    def test_each_positive_class(self) -> None:
        """Report, AckReachQueue, OrderAck and AckReceive, each when it is due.

        MQDMPR-3.1.1.12-09, MQMQ-2.2.18.1.6-02.
        """
        payments = self.queue(self.beta, "payments", transactional=True)
        self.listen(is_prompt=True)
        peer = self.dial()
        packet = transactional(
            b"1",
            (7, 1, 0),
            destination="TCP:127.0.0.3\\private$\\payments",
            acknowledge=3,
            admin="TCP:127.0.0.4\\private$\\admin",
        )
        peer.send(trace(packet))
        self.clock.advance(1)
        self.assertEqual([view.message_class for view in self.reported(self.beta)], [0x0001])
        self.assertEqual([message.message_class for message in self.peers[0].messages], [0x0002])
        self.assertEqual([ack for each in (peer, *self.peers) for ack in each.order_acks], [(7, 1, 0)])
        self.run_to_end(self.beta.service.receive(payments, timeout=0))
        self.clock.advance(1)
        self.assertEqual([message.message_class for message in self.peers[0].messages], [0x0002, 0x4000])

    def test_no_queue(self) -> None:
        """QT 0: a traced message that names no queue draws no report (MQQB-3.1.5.8.9-01)."""
        peer = self.dial()
        peer.send(trace(transactional(b"1", (0, 1, 0), **EXPRESS), bytes(4)))
        self.assertEqual(self.reported(self.beta), [])
        self.assertEqual(self.bodies(self.beta, self.path), [b"1"])
        self.assertEqual(self.counts(self.beta), (0, 0))

    def test_a_traced_report(self) -> None:
        """A report causes no reports, with any flags (reading 74)."""
        packet = bytearray(trace(transactional(b"1", (0, 1, 0), **EXPRESS)))
        start = 64 + (2 + 2 * len("TCP:127.0.0.3\\private$\\orders\0") + 3 & ~3)
        packet[start + 2] = 1
        self.dial().send(bytes(packet))
        self.assertEqual(self.reported(self.beta), [])
        [view] = self.take(self.beta, self.path)
        self.assertEqual((view.message_class, view.is_traced), (1, True))


class ClosedQueueTests(TracingTestCase):
    """The queues for reports are closed to the senders of traced messages."""

    options = {  # noqa: RUF012
        "report_messages": True,
        "access": AccessPolicy(MemoryAccessControl(), SID),
    }
    reports = {"security": "D:(A;;GA;;;S-1-5-21-1-2-3-1001)"}  # noqa: RUF012

    def test_peers(self) -> None:
        """The message of a peer arrives, and puts nothing into a queue into which the peer may not write."""
        self.dial().send(trace(transactional(b"1", (0, 1, 0), **EXPRESS)))
        self.assertEqual(self.reported(self.beta), [])
        self.assertEqual(self.bodies(self.beta, self.path), [b"1"])
        self.assertEqual(self.counts(self.beta), (0, 1))
        self.run_to_end(self.beta.service.access.allow(REPORTS, "anonymous", ["send"]))
        self.dial().send(trace(transactional(b"2", (0, 1, 0), message_id=0x78, **EXPRESS)))
        self.assertEqual(len(self.reported(self.beta)), 1)

    def test_own_applications(self) -> None:
        """Messages of ALPHA's applications are reported there, whichever accounts may write to the queue."""
        self.send_traced(b"1")
        self.assertEqual((len(self.reported(self.alpha)), self.reported(self.beta)), (1, []))


class AuthenticatedQueueTests(TracingTestCase):
    """The queues for reports accept only authenticated messages."""

    reports = {"authenticate": True}  # noqa: RUF012

    def test_peers(self) -> None:
        """The message of a peer that is not authenticated puts nothing there; an own one is reported."""
        self.send_traced(b"1")
        self.assertEqual((len(self.reported(self.alpha)), self.reported(self.beta)), (1, []))
        self.assertEqual(self.bodies(self.beta, self.path), [b"1"])
        self.assertEqual((self.counts(self.alpha), self.counts(self.beta)), ((1, 0), (0, 1)))


class NoQueueTests(TracingTestCase):
    """Reports whose queue cannot be had."""

    def make_queues(self) -> None:
        """Create no queues."""

    def test_discarded(self) -> None:
        """The message is delivered, and the reports are counted.

        MQQB-3.1.5.8.9-05.
        """
        self.send_traced(b"1")
        self.assertEqual(self.bodies(self.beta, self.path), [b"1"])
        self.assertEqual((self.counts(self.alpha), self.counts(self.beta)), ((0, 1), (0, 1)))

    def test_without_a_directory(self) -> None:
        """There are no public queues in a workgroup (MQQB-3.1.5.8.9-05)."""
        self.beta = self.restart(self.beta, directory=None)
        self.send_traced(b"1")
        self.assertEqual(self.bodies(self.beta, self.path), [b"1"])
        self.assertEqual(self.counts(self.beta), (0, 1))

    def test_a_queue_for_transactions(self) -> None:
        """No report is transactional, so such a queue takes none."""
        self.make_queue(self.beta, transactional=True)
        self.send_traced(b"1")
        self.assertEqual(self.reported(self.beta), [])
        self.assertEqual(self.counts(self.beta), (0, 1))


class FullQueueTests(TracingTestCase):
    """The queue for reports takes nothing."""

    reports = {"quota": 0}  # noqa: RUF012

    def test_discarded(self) -> None:
        """The message is delivered all the same."""
        self.send_traced(b"1")
        self.assertEqual(self.bodies(self.beta, self.path), [b"1"])
        self.assertEqual((self.counts(self.alpha), self.counts(self.beta)), ((0, 1), (0, 1)))


class DefaultTests(TracingTestCase):
    """Reports are not switched on."""

    options = {}  # noqa: RUF012

    def test_reports_are_off_by_default(self) -> None:
        """A traced message is one like any.

        MQQB-3.1.5.8.9-06, MQMQ-2.2.20.8-04.
        """
        self.send_traced(b"1")
        self.assertEqual((self.reported(self.alpha), self.reported(self.beta)), ([], []))
        self.assertEqual((self.counts(self.alpha), self.counts(self.beta)), ((0, 0), (0, 0)))
        [view] = self.take(self.beta, self.path)
        self.assertTrue(view.is_traced)
