"""A head office and a branch, between them a gate in the north and a backup in the south.

ALPHA and the gate BETA are in Head, ZETA and the gate EPSILON in Branch.
GAMMA is the gate of North, and DELTA
that of South.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar
from uuid import UUID

from msmq.directory.memory import MemoryDirectory
from msmq.membership.objects import QueueManagerObject, RoutingLinkObject
from msmq.queues.arriving.message import Acknowledge, Delivery, Message
from msmq.structures.names.format_name import parse_format_name
from msmq.structures.packet.message_class import MessageClass
from tests.nodes.routes.test_routing import IDENTIFIERS, EnterpriseTestCase

HEAD, NORTH, SOUTH, BRANCH = (UUID(int=number) for number in (0xB0, 0xC0, 0xD0, 0xE0))
COUNT = 40
JOURNAL = ".\\system$;journal"
DEADXACT = ".\\system$;deadxact"
BACK = 65
"""Seconds after which a peer that is back has been dialled again, at the latest."""


class BranchEnterprise(EnterpriseTestCase):
    """The members; costs are up to each test."""

    sites: ClassVar[Mapping[str, UUID]] = {
        "ALPHA": HEAD,
        "BETA": HEAD,
        "GAMMA": NORTH,
        "DELTA": SOUTH,
        "EPSILON": BRANCH,
        "ZETA": BRANCH,
    }
    gates: ClassVar[Mapping[UUID, str]] = {HEAD: "BETA", NORTH: "GAMMA", SOUTH: "DELTA", BRANCH: "EPSILON"}


class BranchTestCase(BranchEnterprise):
    """Messages from ALPHA to ZETA, for which the cheapest path leads through North."""

    def setUp(self) -> None:
        super().setUp()
        self.plain = self.private_name(self.zeta, self.queue(self.zeta))
        self.ordered = self.private_name(self.zeta, self.queue(self.zeta, "ordered", transactional=True))
        self.answers = self.queue(self.alpha, "answers")

    def wait(self, seconds: int) -> None:
        for _ in range(seconds):
            self.clock.advance(1)

    def waiting(self, name: str) -> int:
        """Messages of every outgoing queue."""
        return sum(queue.messages for queue in self.nodes[name].service.inspection.outgoing())

    def held(self, path: str) -> list[int]:
        if not self.alpha.service.inspection.queue(path).messages:
            return []
        found = self.run_to_end(self.alpha.service.reserve(path, count=1000, timeout=0, peek=True))
        return [message.view.message_class for message in found.messages]

    def send_ordered(self, **properties: Any) -> None:
        for number in range(COUNT):
            message = Message(
                body=b"%d" % number, transactional=True, journal=True, dead_letter=True, **properties
            )
            self.run_to_end(self.alpha.service.send(self.ordered, [message]))

    @property
    def admin_queue(self) -> Any:
        return parse_format_name(self.private_name(self.alpha, self.answers))


class UnusableBackupTests(BranchTestCase):
    """South is farther from Branch than Head is: its cheapest path leads back through Head."""

    links: Sequence[tuple[UUID, UUID, int]] = (
        (BRANCH, NORTH, 1),
        (NORTH, HEAD, 1),
        (BRANCH, SOUTH, 5),
        (SOUTH, HEAD, 1),
    )

    def test_waits_where_it_is(self) -> None:
        """While North is down messages wait in Head; when it is back they arrive, each once."""
        self.kill("GAMMA")
        expected = [delivery.name.encode() for delivery in Delivery]
        for delivery in Delivery:
            self.send(
                self.alpha,
                self.plain,
                delivery.name.encode(),
                delivery=delivery,
                acknowledge=Acknowledge.POSITIVE_ARRIVAL | Acknowledge.NEGATIVE_ARRIVAL,
                admin_queue=self.admin_queue,
            )
        self.wait(300)
        self.assertEqual(self.waiting("BETA"), len(Delivery))
        self.assertEqual(self.passed("DELTA"), 0)
        self.revive("GAMMA")
        self.wait(BACK)
        views = self.take(self.zeta, ".\\private$\\orders")
        self.assertEqual([bytes(view.body) for view in views], expected)
        self.assertEqual({view.hop_count for view in views}, {3})
        self.assertEqual(
            {view.message_class for view in self.take(self.alpha, self.answers)},
            {MessageClass.ACK_REACH_QUEUE},
        )

    def test_acknowledgements_wait_too(self) -> None:
        """From Branch to Head the backup may be used, since South is nearer to Head than Branch is.

        The OrderAcks, FinalAcks and answers of the receiver in Head wait there, and none is lost: the sender
        learns when North is back that all of its messages were received.
        """
        path = self.queue(self.alpha, "ordered", transactional=True)
        self.ordered = self.private_name(self.alpha, path)
        self.answers = self.queue(self.zeta, "answers")
        self.alpha, self.zeta = self.zeta, self.alpha
        self.kill("GAMMA")
        self.send_ordered(
            acknowledge=Acknowledge.POSITIVE_RECEIVE | Acknowledge.NEGATIVE_RECEIVE,
            admin_queue=self.admin_queue,
            time_to_reach_queue=3600,
        )
        self.wait(20)
        self.assertEqual(self.passed("DELTA"), COUNT)
        self.assertEqual(len(self.bodies(self.zeta, path)), COUNT)
        self.wait(300)
        self.assertGreater(self.waiting("BETA"), COUNT)
        self.assertEqual(self.held(JOURNAL), [])
        self.revive("GAMMA")
        self.wait(2 * BACK)
        self.assertEqual(self.held(JOURNAL), [MessageClass.NORMAL] * COUNT)
        self.assertEqual(self.held(DEADXACT), [])
        classes = [view.message_class for view in self.take(self.alpha, self.answers)]
        self.assertEqual(classes, [MessageClass.ACK_RECEIVE] * COUNT)
        self.assertEqual([self.waiting(name) for name in IDENTIFIERS], [0] * 6)


class NeglectedEnterpriseTests(BranchTestCase):
    """A directory with mistakes, on which the members were started all the same.

    The gates of Head and Branch name each other as in-routing servers, as do those of North and South; Branch
    is linked to itself, and to South by queue managers that are no gates.
    """

    links: Sequence[tuple[UUID, UUID, int]] = (
        (NORTH, HEAD, 1),
        (BRANCH, BRANCH, 1),
        (SOUTH, HEAD, 1),
    )

    def enterprise(self) -> MemoryDirectory:
        directory = super().enterprise()
        for one, two in (("BETA", "EPSILON"), ("GAMMA", "DELTA")):
            for name, server in ((one, two), (two, one)):
                directory.write(
                    QueueManagerObject(
                        identifier=IDENTIFIERS[name],
                        in_routing_server_identifier_list=(IDENTIFIERS[server],),
                    ),
                    ("in_routing_server_identifier_list",),
                )
        directory.add(
            RoutingLinkObject(
                identifier=UUID(int=0xFF),
                site1_identifier=BRANCH,
                site2_identifier=SOUTH,
                actual_cost=1,
                site_gate_identifier_list=(IDENTIFIERS["ALPHA"], IDENTIFIERS["ZETA"]),
            )
        )
        return directory

    def test_messages_wait(self) -> None:
        """They wait at a queue manager that finds no path, or arrive; none circles, and none is lost."""
        self.send(self.alpha, self.plain, b"to Branch", delivery=Delivery.RECOVERABLE)
        gates = {
            name: self.queue(self.nodes[name], "gates") for name in ("BETA", "GAMMA", "DELTA", "EPSILON")
        }
        for name, path in gates.items():
            target = self.private_name(self.nodes[name], path)
            self.send(self.alpha, target, name.encode(), delivery=Delivery.RECOVERABLE)
        self.wait(300)
        passed = sum(self.passed(name) for name in gates)
        arrived = sum(len(self.take(self.nodes[name], path)) for name, path in gates.items())
        arrived += len(self.take(self.zeta, ".\\private$\\orders"))
        self.assertEqual(arrived + sum(self.waiting(name) for name in IDENTIFIERS), 5)
        self.assertLess(passed, 5 * len(gates))
        self.wait(300)
        self.assertEqual(sum(self.passed(name) for name in gates), passed)


class UsableBackupTests(BranchTestCase):
    """South is nearer than Head and Branch are to each other."""

    links: Sequence[tuple[UUID, UUID, int]] = (
        (BRANCH, NORTH, 10),
        (NORTH, HEAD, 10),
        (BRANCH, SOUTH, 15),
        (SOUTH, HEAD, 15),
    )

    def test_around(self) -> None:
        """With North down messages and their acknowledgements travel by South, at once."""
        self.kill("GAMMA")
        self.send_ordered(
            acknowledge=Acknowledge.POSITIVE_ARRIVAL | Acknowledge.NEGATIVE_ARRIVAL,
            admin_queue=self.admin_queue,
        )
        self.wait(20)
        views = self.take(self.zeta, ".\\private$\\ordered")
        self.assertEqual([bytes(view.body) for view in views], [b"%d" % number for number in range(COUNT)])
        self.assertEqual({view.hop_count for view in views}, {3})
        self.wait(BACK)
        self.assertEqual(self.held(JOURNAL), [MessageClass.NORMAL] * COUNT)
        self.assertEqual(len(self.take(self.alpha, self.answers)), COUNT)
        self.assertGreater(self.passed("DELTA"), COUNT)

    def test_both_are_down(self) -> None:
        """Whichever is back first is taken, without the other."""
        for first in ("GAMMA", "DELTA"):
            self.kill("GAMMA")
            self.kill("DELTA")
            self.send(self.alpha, self.plain, b"late", delivery=Delivery.RECOVERABLE)
            self.wait(200)
            self.assertEqual(self.waiting("BETA"), 1)
            self.revive(first)
            self.wait(BACK)
            self.assertEqual(self.bodies(self.zeta, ".\\private$\\orders"), [b"late"])
            self.revive("DELTA" if first == "GAMMA" else "GAMMA")
            self.wait(BACK)
