"""Express messages between two queue managers, through the binary protocol."""

from __future__ import annotations

import hashlib
from typing import cast

from twisted.internet.testing import StringTransport
from twisted.logger import ILogObserver, LogEvent, formatEvent, globalLogPublisher

from msmq.settings import SessionSettings
from msmq.structures.names.format_name import PrivateFormatName
from msmq.testing.streams import Conditions
from tests.builders import ALPHA, BETA, establish, parameters, user_packet
from tests.nodes.support import ADDRESSES, NodesTestCase

TO_BETA = "DIRECT=TCP:127.0.0.3\\private$\\orders"
TO_ALPHA = "DIRECT=OS:alpha\\private$\\orders"


class ExpressTests(NodesTestCase):
    """Express messages as the applications of both sides see them."""

    def test_a_message_arrives(self) -> None:
        """Sent here, received there, with everything that its sender gave it (MQMQ-2.2.19.2-08)."""
        path = self.queue(self.beta)
        self.send(self.alpha, TO_BETA, b"hello", label="greeting", application_tag=7)
        self.clock.advance(1)
        [message] = self.take(self.beta, path)
        self.assertEqual(
            (bytes(message.body), message.label, message.application_tag), (b"hello", "greeting", 7)
        )
        self.assertEqual(message.source_queue_manager, ALPHA.bytes_le)
        self.assertEqual(message.sent_time, 1_700_000_000)

    def test_both_directions_and_names(self) -> None:
        """TCP and OS names reach the same queue manager, each from the other side."""
        here, there = self.queue(self.alpha), self.queue(self.beta)
        self.send(self.alpha, TO_BETA, b"to beta")
        self.send(self.beta, TO_ALPHA, b"to alpha")
        self.clock.advance(1)
        self.assertEqual(self.bodies(self.alpha, here), [b"to alpha"])
        self.assertEqual(self.bodies(self.beta, there), [b"to beta"])

    def test_many_messages_arrive_once_and_in_order(self) -> None:
        """More than the window, in one go, over a slow line in odd chunks."""
        path = self.queue(self.beta)
        bodies = [b"%06d" % number for number in range(1000)]
        self.send(self.alpha, TO_BETA, *bodies)
        self.clock.advance(30)
        self.assertEqual(self.bodies(self.beta, path), bodies)
        [outgoing] = self.alpha.service.inspection.outgoing()
        self.assertEqual((outgoing.messages, outgoing.bytes), (0, 0))

    def test_priority_comes_first_and_arrival_second(self) -> None:
        """Receivers get the highest priority first, the oldest of it first."""
        path = self.queue(self.beta)
        for priority in (0, 7, 3, 7, 0, 3):
            self.send(self.alpha, TO_BETA, b"p%d" % priority, priority=priority, label=str(priority))
        self.clock.advance(1)
        found = [message.label for message in self.take(self.beta, path)]
        self.assertEqual(found, ["7", "7", "3", "3", "0", "0"])

    def test_large_bodies_are_intact(self) -> None:
        """Up to the very limit of 4 MiB with its headers."""
        path = self.queue(self.beta)
        sizes = [0, 1, 1023, 65536, 3_000_000, 0x00400000 - 200]
        bodies = [hashlib.sha256(b"%d" % size).digest() * (size // 32 + 1) for size in sizes]
        bodies = [body[:size] for body, size in zip(bodies, sizes, strict=True)]
        self.send(self.alpha, TO_BETA, *bodies)
        self.clock.advance(30)
        self.assertEqual(self.bodies(self.beta, path), bodies)

    def test_messages_wait_for_an_absent_peer(self) -> None:
        """Every five seconds it is tried again; nothing is lost meanwhile.

        MQQB-3.1.2.3-02, MQQB-3.1.6.1-04.
        """
        path = self.queue(self.beta)
        self.beta.deaf()
        self.send(self.alpha, TO_BETA, b"1", b"2", b"3")
        self.clock.advance(4)
        [outgoing] = self.alpha.service.inspection.outgoing()
        self.assertEqual((outgoing.messages, outgoing.state), (3, "WAITING"))
        self.assertEqual(outgoing.history[-1].status.document_name, "SocketConnectFailure")
        self.beta.listen()
        self.clock.advance(2)
        self.assertEqual(self.bodies(self.beta, path), [b"1", b"2", b"3"])

    def test_an_unknown_host_needs_validation(self) -> None:
        """No address: the queue waits in NEED VALIDATION, the history says why, and it is tried again.

        MQQB-3.1.5.2.1-02.
        """
        self.send(self.alpha, "DIRECT=OS:nowhere\\private$\\q", b"1")
        self.clock.advance(1)
        [outgoing] = self.alpha.service.inspection.outgoing()
        self.assertEqual(outgoing.state, "NEED VALIDATION")
        self.assertEqual(outgoing.history[-1].status.document_name, "DnsFailure")
        ADDRESSES["NOWHERE"] = ADDRESSES["BETA"]
        self.addCleanup(ADDRESSES.pop, "NOWHERE")
        self.clock.advance(3.9)
        self.assertEqual(self.network.links, [])
        self.clock.advance(0.2)
        self.assertEqual(len(self.network.links), 1)

    def test_a_cut_connection_loses_and_doubles_nothing_that_was_acknowledged(self) -> None:
        """After a cut what was not acknowledged is sent again (MQQB-3.1.2.4-03)."""
        path = self.queue(self.beta)
        self.send(self.alpha, TO_BETA, b"before")
        self.clock.advance(30)
        self.network.cut("127.0.0.2", "127.0.0.3")
        self.send(self.alpha, TO_BETA, b"after")
        self.clock.advance(30)
        self.assertEqual(self.bodies(self.beta, path), [b"before", b"after"])

    def test_a_session_carries_replies_to_the_initiators_identifier(self) -> None:
        """A private name of the initiator uses the session that it opened (MQQB-2.1.1-08)."""
        self.queue(self.beta)
        reply = self.queue(self.alpha, "replies")
        number = int(self.alpha.service.inspection.queue(reply).format_name.rpartition("\\")[2], 16)
        self.send(self.beta, str(PrivateFormatName(ALPHA, number)), b"early")
        [outgoing] = self.beta.service.inspection.outgoing()
        self.assertEqual(outgoing.state, "NEED VALIDATION")
        self.send(self.alpha, TO_BETA, b"request")
        self.clock.advance(1)
        self.assertEqual(self.bodies(self.alpha, reply), [b"early"])
        self.send(self.beta, str(PrivateFormatName(ALPHA, number)), b"late")
        self.clock.advance(1)
        self.assertEqual(self.bodies(self.alpha, reply), [b"late"])
        self.assertEqual(len(self.network.links), 1)

    def test_one_session_serves_all_queues_of_a_host(self) -> None:
        """Two outgoing queues to one address share a connection, priority across both."""
        first, second = self.queue(self.beta, "one"), self.queue(self.beta, "two")
        self.send(self.alpha, "DIRECT=TCP:127.0.0.3\\private$\\one", b"1")
        self.send(self.alpha, "DIRECT=TCP:127.0.0.3\\private$\\two", b"2")
        self.clock.advance(1)
        self.assertEqual(len(self.network.links), 1)
        states = [outgoing.state for outgoing in self.alpha.service.inspection.outgoing()]
        self.assertEqual(states, ["CONNECTED", "CONNECTED"])
        self.assertEqual(self.bodies(self.beta, first), [b"1"])
        self.assertEqual(self.bodies(self.beta, second), [b"2"])

    def test_an_idle_session_closes_and_a_new_message_opens_another(self) -> None:
        """After five idle minutes the next message dials again."""
        path = self.queue(self.beta)
        self.send(self.alpha, TO_BETA, b"1")
        self.clock.advance(700)
        self.assertEqual(self.alpha.service.inspection.sessions(), [])
        self.assertEqual(self.alpha.service.inspection.outgoing()[0].state, "DISCONNECTED")
        self.send(self.alpha, TO_BETA, b"2")
        self.clock.advance(1)
        self.assertEqual(self.bodies(self.beta, path), [b"1", b"2"])

    def test_a_message_for_no_queue_leaves_a_trace(self) -> None:
        """It is acknowledged, not delivered, and counted with its reason."""
        self.send(self.alpha, "DIRECT=TCP:127.0.0.3\\private$\\nowhere", b"lost?")
        self.clock.advance(60)
        self.assertEqual(self.beta.service.inspection.status().refused, {"NACK_BAD_DST_Q": 1})
        self.assertEqual(self.alpha.service.inspection.outgoing()[0].messages, 0)

    def test_the_trace_of_a_message_is_one_short_line(self) -> None:
        """A destination of thousands of characters, some of them unprintable, cannot flood the log."""
        events: list[LogEvent] = []
        observer = cast("ILogObserver", events.append)
        globalLogPublisher.addObserver(observer)
        self.addCleanup(globalLogPublisher.removeObserver, observer)
        hostile = user_packet(destination="OS:beta\\private$\\" + "\x1b\n" * 5000)
        session = self.beta.factory.build(is_initiator=False)
        session.makeConnection(StringTransport())
        session.dataReceived(establish(ALPHA) + parameters() + hostile)
        [line] = [text for event in events if "not accepted" in (text := formatEvent(event))]
        self.assertLess(len(line), 500)
        self.assertTrue(line.isprintable())

    def test_sessions_describe_themselves(self) -> None:
        """Both sides tell of the same session."""
        self.queue(self.beta)
        self.send(self.alpha, TO_BETA, b"1", b"2")
        self.clock.advance(1)
        [ours], [theirs] = self.alpha.service.inspection.sessions(), self.beta.service.inspection.sessions()
        self.assertEqual((ours.direction, theirs.direction), ("outgoing", "incoming"))
        self.assertEqual((ours.state, theirs.state), ("OPEN", "OPEN"))
        self.assertEqual((ours.statistics.sent, theirs.statistics.received), (2, 2))
        self.assertEqual(ours.remote_identifier, BETA)
        self.assertEqual(theirs.remote_address, "127.0.0.2")

    def test_times_of_a_session(self) -> None:
        """When it opened stays; when anything came or went last goes on with each packet."""
        path = self.queue(self.beta)
        began = self.clock.now().wall
        self.send(self.alpha, TO_BETA, b"1")
        self.clock.advance(3)
        [first] = self.beta.service.inspection.sessions()
        self.assertEqual((first.opened, first.last_heard), (began, began))
        self.assertFalse(first.encrypted)
        sent = self.clock.now().wall
        self.send(self.alpha, TO_BETA, b"2")
        self.clock.advance(3)
        [second] = self.beta.service.inspection.sessions()
        self.assertEqual((second.opened, second.last_heard), (began, sent))
        [ours] = self.alpha.service.inspection.sessions()
        self.assertEqual((ours.opened, ours.last_sent), (began, sent))
        self.assertEqual(self.bodies(self.beta, path), [b"1", b"2"])

    def test_packet_counts_agree(self) -> None:
        """Both sides count the same packets, by kind."""
        self.queue(self.beta)
        self.send(self.alpha, TO_BETA, *[b"%d" % number for number in range(100)])
        self.clock.advance(60)
        ours, theirs = (
            self.alpha.service.inspection.status().packets,
            self.beta.service.inspection.status().packets,
        )
        self.assertEqual(ours.sent, theirs.received)
        self.assertEqual(ours.received, theirs.sent)
        self.assertEqual(ours.sent.user_message, 100)
        self.assertEqual(ours.bytes_sent, theirs.bytes_received)
        self.assertGreater(ours.bytes_sent, 100 * 100)
        self.assertGreater(ours.received.session_ack, 1)

    def test_stopping_ends_the_sessions(self) -> None:
        """A stopped queue manager closes its connections and leaves no timer behind."""
        self.queue(self.beta)
        self.send(self.alpha, TO_BETA, b"1")
        self.clock.advance(1)
        self.successResultOf(self.alpha.service.stopService())
        self.clock.advance(1)
        self.assertEqual(self.alpha.service.inspection.sessions(), [])
        self.assertEqual(self.beta.service.inspection.sessions(), [])

    def test_connection_history_shows_the_handshake(self) -> None:
        """Three entries for a session that opened, with the time and the address of the attempt.

        MQQB-3.1.5.2.3-04, MQQB-3.1.5.3.2-06, MQQB-3.1.5.4.2-03, MQDMPR-3.1.1.3-02,
        MQDMPR-3.1.1.3-06.
        """
        self.queue(self.beta)
        now = self.clock.now().unix_seconds
        self.send(self.alpha, TO_BETA, b"1")
        self.clock.advance(1)
        [outgoing] = self.alpha.service.inspection.outgoing()
        statuses = [entry.status.document_name for entry in outgoing.history]
        self.assertEqual(statuses, ["InProcess", "EstablishPacketReceived", "Established"])
        for entry in outgoing.history:
            self.assertEqual((entry.time, entry.error, entry.addresses), (now, 0, ("127.0.0.3",)))
        self.assertEqual(outgoing.state, "CONNECTED")
        self.assertEqual(outgoing.next_hops, ["127.0.0.3"])


class SlowLineTests(NodesTestCase):
    """The same over a line with delay that cuts the stream anywhere."""

    conditions = Conditions(delay=0.05, largest_chunk=700)

    def test_everything_arrives_in_order(self) -> None:
        """Chunks and delays do not matter."""
        path = self.queue(self.beta)
        bodies = [b"%d" % number * 50 for number in range(300)]
        self.send(self.alpha, TO_BETA, *bodies)
        self.clock.advance(60)
        self.assertEqual(self.bodies(self.beta, path), bodies)


class SmallWindowTests(NodesTestCase):
    """A window of one message."""

    settings = SessionSettings(window_size=1)

    def test_one_at_a_time_still_arrives(self) -> None:
        """No acknowledgement waits for its timer."""
        path = self.queue(self.beta)
        bodies = [b"%d" % number for number in range(200)]
        self.send(self.alpha, TO_BETA, *bodies)
        self.clock.advance(5)
        self.assertEqual(self.bodies(self.beta, path), bodies)


class ShortCleanupTests(NodesTestCase):
    """Both close sessions that are idle for a second, and acknowledge express messages after ten."""

    settings = SessionSettings(session_cleanup=1)

    def test_a_message_is_sent_once(self) -> None:
        """A session stays open until the message is acknowledged, and closes then."""
        path = self.queue(self.beta)
        self.send(self.alpha, TO_BETA, b"once")
        self.clock.advance(9)
        [_] = self.alpha.service.inspection.sessions()
        self.clock.advance(60)
        self.assertEqual(self.alpha.service.inspection.sessions(), [])
        self.assertEqual(self.alpha.factory.counts.sent.user_message, 1)
        self.assertEqual(self.bodies(self.beta, path), [b"once"])
