"""Features of several documents together, over an estate of six members."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any
from uuid import UUID

import attrs
from zope.interface import implementer

from msmq.interfaces.clock import IClock
from msmq.moment import Moment
from msmq.queues.arriving.message import Acknowledge, Delivery, Message
from msmq.structures.names.format_name import PublicFormatName, parse_format_name
from msmq.structures.packet.message_class import MessageClass
from msmq.testing.clock import ManualClock
from tests.estates.support import TRANSACTIONAL_DEAD_LETTERS, EstateTestCase
from tests.nodes.routes.test_routing import IDENTIFIERS
from tests.nodes.support import ADDRESSES, Node

ANSWERS = ".\\private$\\answers"
HOUR = 3600.0
FULL = Acknowledge.POSITIVE_ARRIVAL | Acknowledge.POSITIVE_RECEIVE


class RequestAndResponseTests(EstateTestCase):
    """A request over three gates, and its response, by every kind of name."""

    def test_every_kind_of_name(self) -> None:
        """A response to the response queue of its request arrives with the correlation of its request."""
        self.run_to_end(self.zeta.service.create_queue("ZETA\\requests"))
        self.queue(self.zeta, "requests")
        self.run_to_end(self.alpha.service.create_queue("ALPHA\\answers"))
        self.queue(self.alpha, "answers")
        requests = self.names(self.zeta, "requests")
        answers = self.names(self.alpha, "answers")
        for kind, (request, path) in requests.items():
            for other, (answer, found) in answers.items():
                with self.subTest(request=kind, answer=other):
                    message = Message(
                        body=kind.encode(),
                        delivery=Delivery.RECOVERABLE,
                        response_queue=parse_format_name(answer),
                    )
                    [identifier] = self.run_to_end(self.alpha.service.send(request, [message]))
                    self.wait(5)
                    [view] = self.take(self.zeta, path)
                    response = Message(body=other.encode(), correlation_id=view.identifier.to_bytes())
                    self.run_to_end(self.zeta.service.send(str(view.response_format_name()), [response]))
                    self.wait(5)
                    [received] = self.take(self.alpha, found)
                    self.assertEqual(bytes(received.body), other.encode())
                    self.assertEqual(received.correlation_id, identifier.to_bytes())

    def names(self, node: Node, queue: str) -> dict[str, tuple[str, str]]:
        """Each kind of format name, and the path of the queue that it leads to."""
        name = next(each for each, member in self.nodes.items() if member is node)
        private, public = f".\\private$\\{queue}", f"{name}\\{queue}"
        return {
            "private": (self.private_name(node, private), private),
            "public": (self.private_name(node, public), public),
            "TCP": (f"DIRECT=TCP:{node.address}\\private$\\{queue}", private),
            "OS": (f"DIRECT=OS:{name}\\private$\\{queue}", private),
            "qualified OS": (f"DIRECT=OS:{name.lower()}.example.com\\private$\\{queue}", private),
            "OS, public": (f"DIRECT=OS:{name}\\{queue}", public),
        }


class AdministrationQueueTests(EstateTestCase):
    """The administration queue is on a third machine."""

    def test_on_a_third_machine(self) -> None:
        """The acknowledgements of arrival and receipt reach the third machine and name the message."""
        path = self.queue(self.zeta)
        admin = self.queue(self.nodes["GAMMA"], "acknowledgements")
        [identifier] = self.run_to_end(
            self.alpha.service.send(
                self.private_name(self.zeta, path),
                [
                    Message(
                        body=b"x",
                        delivery=Delivery.RECOVERABLE,
                        acknowledge=FULL,
                        admin_queue=self.format_name(self.nodes["GAMMA"], admin),
                    )
                ],
            )
        )
        self.wait(5)
        self.take(self.zeta, path)
        self.wait(10)
        views = self.take(self.nodes["GAMMA"], admin)
        self.assertEqual(
            [view.message_class for view in views],
            [MessageClass.ACK_REACH_QUEUE, MessageClass.ACK_RECEIVE],
        )
        self.assertEqual({view.correlation_id for view in views}, {identifier.to_bytes()})


class SeveralDestinationsTests(EstateTestCase):
    """One message for three destinations, one of which is down."""

    def test_one_is_away(self) -> None:
        """Two have their copy at once, the third when it is back; each acknowledges its own."""
        members = [self.nodes[name] for name in ("BETA", "GAMMA", "ZETA")]
        paths = [self.queue(member, "copies") for member in members]
        admin = self.queue(self.alpha, "answers")
        pairs = zip(members, paths, strict=True)
        names = ",".join(self.private_name(member, path) for member, path in pairs)
        self.crash("ZETA")
        message = Message(
            body=b"copy",
            delivery=Delivery.RECOVERABLE,
            acknowledge=Acknowledge.POSITIVE_ARRIVAL,
            admin_queue=self.format_name(self.alpha, admin),
        )
        self.run_to_end(self.alpha.service.send(names, [message]))
        self.wait(30)
        self.assertEqual(len(self.take(self.alpha, admin)), 2)
        zeta = self.restart("ZETA")
        self.wait(180)
        self.assertEqual(len(self.take(self.alpha, admin)), 1)
        for member in (self.nodes["BETA"], self.nodes["GAMMA"], zeta):
            self.assertEqual(self.bodies(member, ".\\private$\\copies"), [b"copy"])


class TracingTests(EstateTestCase):
    """A traced message over gates."""

    options: Mapping[str, Any] = {"report_messages": True}

    def test_each_hop_reports(self) -> None:
        """Each member reports the sending and the arrival of the message to a queue in another site."""
        self.run_to_end(self.nodes["GAMMA"].service.create_queue("GAMMA\\reports"))
        reports = parse_format_name(self.private_name(self.nodes["GAMMA"], "GAMMA\\reports"))
        assert isinstance(reports, PublicFormatName)
        path = self.queue(self.zeta)
        message = Message(body=b"traced", trace=UUID(str(reports.queue)))
        self.run_to_end(self.alpha.service.send(self.private_name(self.zeta, path), [message]))
        self.wait(20)
        self.assertEqual(self.bodies(self.zeta, path), [b"traced"])
        views = self.take(self.nodes["GAMMA"], "GAMMA\\reports")
        reporters = Counter(UUID(bytes_le=bytes(view.source_queue_manager)) for view in views)
        expected = {"ALPHA": 1, "BETA": 2, "DELTA": 2, "EPSILON": 2, "ZETA": 1}
        self.assertEqual(reporters, {IDENTIFIERS[name]: count for name, count in expected.items()})


@implementer(IClock)
@attrs.frozen
class SkewedClock:
    """The clock of a machine whose time of day is wrong."""

    clock: ManualClock
    skew: float

    def now(self) -> Moment:
        """See L{IClock.now}."""
        now = self.clock.now()
        return Moment(now.monotonic, now.wall + self.skew)


class ClocksTests(EstateTestCase):
    """Members whose clocks are an hour apart."""

    skew = 0.0

    def clock_of(self, name: str) -> Any:
        return SkewedClock(self.clock, self.skew if name == "ZETA" else 0.0)

    def exchange(self, skew: float, **times: Any) -> tuple[list[bytes], list[int]]:
        """Send a message to ZETA, whose clock is ahead by these seconds; return arrivals and dead letters."""
        self.skew = skew
        self.crash("ZETA")
        zeta = self.restart("ZETA")
        path = f".\\private$\\skewed{abs(int(skew))}{skew > 0:d}"
        self.queue(zeta, path.rpartition("\\")[2], transactional=True)
        self.commit(self.alpha, self.private_name(zeta, path), b"x", dead_letter=True, journal=True, **times)
        self.wait(90)
        dead_letters = [
            int(view.message_class) for view in self.system(self.alpha, TRANSACTIONAL_DEAD_LETTERS)
        ]
        return self.take_in_transaction(zeta, path), dead_letters

    def test_without_limits(self) -> None:
        """A message without limits of its own is received whichever clock is wrong."""
        for skew in (HOUR, -HOUR):
            self.assertEqual(self.exchange(skew), ([b"x"], []))

    def test_receiver_behind(self) -> None:
        """A receiver whose clock is behind accepts a message with a short limit: SentTime ahead is fresh."""
        self.assertEqual(self.exchange(-HOUR, time_to_reach_queue=60), ([b"x"], []))

    def test_receiver_ahead(self) -> None:
        """A receiver whose clock is ahead by more than the limit refuses the message as expired."""
        arrived, dead_letters = self.exchange(HOUR, time_to_reach_queue=60)
        self.assertEqual(arrived, [])
        self.assertEqual(dead_letters, [MessageClass.NACK_REACH_QUEUE_TIMEOUT])


class HeldMessagesTests(EstateTestCase):
    """Ten thousand messages are held by a paused queue, and then released."""

    def test_paused_and_resumed(self) -> None:
        """No message is sent while the queue is paused, also after failures; all arrive in order once it is
        resumed.
        """
        path = self.queue(self.zeta, transactional=True)
        name = self.private_name(self.zeta, path)
        self.commit(self.alpha, name, b"first")
        self.wait(30)
        self.alpha.service.pause_outgoing(name)
        bodies = [b"%d" % number for number in range(10_000)]
        for start in range(0, len(bodies), 1000):
            messages = [Message(body=body, transactional=True) for body in bodies[start : start + 1000]]
            self.run_to_end(self.alpha.service.send(name, messages))
        self.isolate("ALPHA")
        self.wait(5)
        self.rejoin("ALPHA")
        self.wait(60)
        self.assertEqual(self.zeta.service.inspection.queue(path).messages, 1)
        self.alpha.service.resume_outgoing(name)
        self.wait(60)
        self.assertEqual(self.all_bodies(self.zeta, path), [b"first", *bodies])


class DeletedQueueTests(EstateTestCase):
    """A queue is deleted while many messages for it are in transit."""

    def test_every_message_has_a_fate(self) -> None:
        """Each message was received, or is a dead letter of its sender: none is missing."""
        path = self.queue(self.zeta, transactional=True)
        name = self.private_name(self.zeta, path)
        bodies = [b"%d" % number for number in range(5000)]
        for start in range(0, len(bodies), 500):
            messages = [
                Message(body=body, transactional=True, dead_letter=True)
                for body in bodies[start : start + 500]
            ]
            self.run_to_end(self.alpha.service.send(name, messages))
        for _ in range(300):
            self.clock.advance(0.01)
            if self.zeta.service.inspection.queue(path).messages > 1000:
                break
        received = self.bodies_of_first(path, 200)
        deleted = self.zeta.service.inspection.queue(path).messages
        self.assertGreater(deleted, 0)
        deletion = self.deferred(self.zeta.service.delete_queue(path))
        self.wait(200)
        self.successResultOf(deletion)
        dead_letters: list[bytes] = []
        for more in iter(lambda: self.system_bodies(self.alpha, TRANSACTIONAL_DEAD_LETTERS), []):
            dead_letters += more
        self.assertEqual(self.waiting(self.alpha), 0)
        self.assertEqual(received, bodies[:200])
        self.assertEqual(sorted(dead_letters, key=int), bodies[200:])

    def bodies_of_first(self, path: str, count: int) -> list[bytes]:
        """Receive this number of messages permanently."""
        found: list[bytes] = []
        while len(found) < count:
            reservation = self.run_to_end(
                self.zeta.service.reserve(path, count=count - len(found), timeout=0)
            )
            self.run_to_end(reservation.confirm())
            found += [bytes(message.view.body) for message in reservation.messages]
        return found


class KilledGateTests(EstateTestCase):
    """A gate is killed again and again while two thousand transactional messages pass."""

    def test_exactly_once_in_order(self) -> None:
        """Each arrives once, in order, and no queue manager keeps a copy waiting."""
        path = self.queue(self.zeta, transactional=True)
        name = self.private_name(self.zeta, path)
        bodies = [b"%d" % number for number in range(2000)]
        for start in range(0, len(bodies), 200):
            messages = [Message(body=body, transactional=True) for body in bodies[start : start + 200]]
            self.run_to_end(self.alpha.service.send(name, messages))
            self.clock.advance(0.02)
            self.crash("DELTA")
            self.clock.advance(0.5)
            self.restart("DELTA")
        self.wait(300)
        self.assertEqual(self.all_bodies(self.zeta, path), bodies)
        for member in ADDRESSES:
            self.assertEqual(self.waiting(self.nodes[member]), 0, member)


class FrozenReceiverTests(EstateTestCase):
    """A receiver that takes packets and answers nothing, as a stopped process does."""

    def test_frozen_and_thawed(self) -> None:
        """Messages wait while it is frozen, also after failures; each arrives once when it continues."""
        path = self.queue(self.zeta, transactional=True)
        name = self.private_name(self.zeta, path)
        self.commit(self.alpha, name, b"1")
        self.wait(5)
        # Packets are lost in both directions without any connection breaking, as when a process is stopped.
        for other in ADDRESSES:
            if other != "ZETA":
                self.network.partition(ADDRESSES["ZETA"], ADDRESSES[other])
        self.commit(self.alpha, name, b"2")
        self.wait(200)
        self.rejoin("ZETA")
        self.wait(200)
        self.assertEqual(self.take_in_transaction(self.zeta, path), [b"1", b"2"])
