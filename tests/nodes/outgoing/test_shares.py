"""Limits on resources that one host can use by its messages: streams, and outgoing queues to dial."""

from __future__ import annotations

from typing import Any, cast
from uuid import UUID

from twisted.logger import ILogObserver, LogEvent, formatEvent, globalLogPublisher

from msmq.settings import SessionSettings
from msmq.structures.identifiers import MessageIdentifier
from msmq.structures.names.format_name import PublicFormatName
from msmq.transfer.decisions import peer_queue_decision
from tests.builders import BETA, GAMMA
from tests.nodes.arrivals.receiver import EXPRESS, ReceiverTestCase
from tests.nodes.scripted import Peer, transactional

UNKNOWN_PEER = UUID("57a40000-0000-4000-8000-000000000009")


class SharesTestCase(ReceiverTestCase):
    """GAMMA on 127.0.0.4, and another peer on 127.0.0.9."""

    def setUp(self) -> None:
        super().setUp()
        self.other = self.dial(host=self.network.host("127.0.0.9"), identifier=UNKNOWN_PEER)
        self.reported: list[str] = []

        def observe(event: LogEvent) -> None:
            self.reported.append(formatEvent(event))

        observer = cast(ILogObserver, observe)
        globalLogPublisher.addObserver(observer)
        self.addCleanup(globalLogPublisher.removeObserver, observer)

    def say_by(self, peer: Peer, *packets: bytes) -> None:
        peer.send(*packets)
        self.clock.advance(0.2)


class StreamTests(SharesTestCase):
    """BETA remembers four streams."""

    settings = SessionSettings(incoming_streams=4)

    def begin(self, peer: Peer, *numbers: int) -> None:
        number = int(self.beta.service.inspection.queue(self.path).format_name.rpartition("\\")[2], 16)
        kind: dict[str, Any] = {"queue_manager": BETA, "number": number}
        self.say_by(
            peer,
            *(transactional(b"%d" % each, (7, 1, 0), source=UUID(int=each), **kind) for each in numbers),
        )

    def test_one_more_waits_where_it_is(self) -> None:
        """Its session ends, it is not acknowledged, and the event gives the reason; another host is not
        limited.
        """
        self.begin(self.peer, 1, 2, 3)
        self.clock.advance(5)
        self.assertFalse(self.peer.is_lost)
        self.begin(self.peer, 4)
        self.assertTrue(self.peer.is_lost)
        self.assertEqual(self.named(self.peer), 3)
        self.assertEqual(self.beta.service.inspection.status().refused, {"NO_ROOM": 1})
        explained = self.run_to_end(self.beta.service.inspection.explain(MessageIdentifier(UUID(int=4), 1)))
        [reason] = [each.reason for each in explained.events if each.event == "refused"]
        self.assertIn("its host has 3 streams", reason)
        self.begin(self.other, 4)
        self.assertEqual(sorted(self.bodies(self.beta, self.path)), [b"1", b"2", b"3", b"4"])


class AnswerTests(SharesTestCase):
    """BETA has eight outgoing queues at most."""

    def setUp(self) -> None:
        super().setUp()
        self.patch(peer_queue_decision, "MOST_OUTGOING_QUEUES", 8)

    def ask(self, peer: Peer, name: str, source: UUID = GAMMA) -> None:
        """A message that asks for acknowledgements to a host that cannot be reached."""
        plain = "TCP:127.0.0.3\\private$\\plain"
        admin = f"OS:{name}\\private$\\admin"
        self.say_by(
            peer,
            transactional(
                b"", (0, 9, 0), destination=plain, source=source, acknowledge=1, admin=admin, **EXPRESS
            ),
        )

    def asked(self, peer: Peer, prefix: str, source: UUID = GAMMA) -> int:
        """How many queues one host can have made."""
        before = len(self.beta.service.inspection.outgoing())
        for number in range(12):
            self.ask(peer, f"{prefix}{number}", source)
        return len(self.beta.service.inspection.outgoing()) - before

    def test_one_host_leaves_room_for_others(self) -> None:
        """The log names acknowledgements that are dropped, and the messages arrive all the same."""
        self.assertEqual(self.asked(self.peer, "a"), 5)
        self.assertEqual(self.asked(self.other, "b", UNKNOWN_PEER), 2)
        self.assertEqual(self.beta.service.inspection.queue(self.plain).messages, 24)
        self.assertTrue(
            any("5 of them with pending messages on behalf of 127.0.0.4" in each for each in self.reported)
        )

    def test_in_the_name_of_another(self) -> None:
        """Forged source identifiers do not count against another host's limit."""
        far = self.dial(host=self.network.host("10.0.0.9"), identifier=GAMMA)
        self.ask(self.peer, "a0")
        peers = self.beta.service._work.outgoing.peers
        self.ask(far, "b0")
        self.assertEqual(peers.came_from(GAMMA.bytes_le), "127.0.0.4")
        self.ask(self.dial(host=self.network.host("127.0.0.9")), "b1")
        self.assertEqual(peers.came_from(GAMMA.bytes_le), "127.0.0.9")

    def test_what_has_a_queue_goes_on(self) -> None:
        """There is an end to queues, not to what is in them."""
        self.asked(self.peer, "a")
        self.clock.advance(1)
        self.ask(self.peer, "a0")
        [first] = [
            queue for queue in self.beta.service.inspection.outgoing() if "a0" in queue.format_name.lower()
        ]
        self.assertEqual(first.messages, 2)

    def test_direct_names_have_an_end_before(self) -> None:
        """Each may be an address that a peer wants flooded; other hosts have limits of their own."""
        self.patch(peer_queue_decision, "MOST_OUTGOING_QUEUES", 100)
        self.patch(peer_queue_decision, "MOST_DIALLED_FOR_A_HOST", 3)
        self.assertEqual(self.asked(self.peer, "a"), 3)
        self.assertEqual(self.asked(self.other, "b", UNKNOWN_PEER), 3)

    def test_those_in_which_nothing_waits_do_not_count(self) -> None:
        """They are replaced; once their host is reachable its queue is empty."""
        self.patch(peer_queue_decision, "MOST_DIALLED_FOR_A_HOST", 3)
        plain = "TCP:127.0.0.3\\private$\\plain"
        self.listen(is_prompt=True)
        for number in range(12):
            admin = f"TCP:127.0.0.4\\private$\\admin{number}"
            packet = transactional(b"", (0, 9, 0), destination=plain, acknowledge=1, admin=admin, **EXPRESS)
            self.say_by(self.peer, packet)
        self.clock.advance(5)
        heard = sum(len(peer.heard) for peer in self.peers)
        self.assertEqual(heard, 12)
        self.assertLessEqual(len(self.beta.service.inspection.outgoing()), 8)
        # Nothing is kept of a queue that was forgotten, at its next hop for example.
        served = {queue for hop in self.beta.service._work.transfer.messages.hops for queue in hop.queues}
        self.assertEqual(served - set(self.beta.model.outgoing_queues()), set())

    def test_stored_names_are_limited(self) -> None:
        """Names for which no queue is created are removed after some time."""
        room = self.beta.service._work.outgoing.peer_queues
        for number in range(100):
            self.assertTrue(room.make(PublicFormatName(UUID(int=number)), GAMMA.bytes_le))
        self.assertLessEqual(len(room._hosts), 16)
