"""Routing between sites: forwarding, and the acknowledgements that come back.

Three sites, each with a gate and another member: ALPHA and the gate BETA, GAMMA and the gate DELTA, ZETA
and the gate EPSILON.
The cheapest route from the first to the third leads through the second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar
from uuid import UUID

from msmq.directory.memory import MemoryDirectory
from msmq.membership.objects import (
    EnterpriseObject,
    QueueManagerObject,
    RoutingLinkObject,
    SiteObject,
)
from msmq.queues.arriving.message import Acknowledge, Delivery, Message
from msmq.queues.outgoing import transit_name
from msmq.storage.memory import MemoryMessageStore
from msmq.structures.names.format_name import parse_format_name
from msmq.structures.packet.message_class import MessageClass
from msmq.structures.packet.user_header import MAXIMUM_HOP_COUNT
from msmq.structures.packet.user_message_patches import patch_hop_count
from msmq.structures.status import MQError, Status
from tests.nodes.support import ADDRESSES, Node, NodesTestCase

BERLIN, PARIS, ROME = (UUID(int=number) for number in (0xB0, 0xC0, 0xD0))
IDENTIFIERS = {name: UUID(int=0xA000 + number) for number, name in enumerate(ADDRESSES)}
SITES = {"ALPHA": BERLIN, "BETA": BERLIN, "GAMMA": PARIS, "DELTA": PARIS, "EPSILON": ROME, "ZETA": ROME}
GATES = {BERLIN: "BETA", PARIS: "DELTA", ROME: "EPSILON"}
LINKS = ((BERLIN, PARIS, 1), (PARIS, ROME, 1), (BERLIN, ROME, 5))
ORDERS = ".\\private$\\orders"


class EnterpriseTestCase(NodesTestCase):
    """Six queue managers in three sites, in one directory.

    @cvar sites: the site of each.
    @cvar gates: the gate of each site.
    @ivar links: two sites, and the cost between them.
    """

    sites: ClassVar[Mapping[str, UUID]] = SITES
    gates: ClassVar[Mapping[UUID, str]] = GATES
    links: Sequence[tuple[UUID, UUID, int]] = LINKS
    directory_type: ClassVar[type[MemoryDirectory]] = MemoryDirectory

    options: Mapping[str, Any] = {}
    """Of the queue managers that are started from now on."""

    def setUp(self) -> None:
        self.directory: MemoryDirectory | None = None
        self.disks: dict[str, MemoryMessageStore] = {}
        super().setUp()
        self.alpha.deaf()
        self.beta.deaf()
        self.successResultOf(self.alpha.service.stopService())
        self.successResultOf(self.beta.service.stopService())
        self.directory = self.enterprise()
        self.nodes = {name: self.member(name) for name in ADDRESSES}
        for node in self.nodes.values():
            node.start()
        self.clock.advance(0)
        self.alpha, self.beta = self.nodes["ALPHA"], self.nodes["BETA"]
        self.zeta = self.nodes["ZETA"]

    def member(self, name: str) -> Node:
        return Node(
            self.network,
            self.clock,
            name,
            IDENTIFIERS[name],
            self.settings,
            self.disks.setdefault(name, MemoryMessageStore(durable=True)),
            directory=self.directory,
            options=self.options,
        )

    def enterprise(self) -> MemoryDirectory:
        directory = self.directory_type(self.clock)
        directory.add(EnterpriseObject(identifier=UUID(int=0xE1), name="estate"))
        for number, (site, gate) in enumerate(self.gates.items()):
            directory.add(SiteObject(identifier=site, name=f"site {number} of {gate}"))
        for name, identifier in IDENTIFIERS.items():
            directory.add(
                QueueManagerObject(
                    identifier=identifier,
                    computer_name=name,
                    qualified_computer_name=f"{name.lower()}.example.com",
                    site_identifier_list=(self.sites[name],),
                    routing_server=name in self.gates.values(),
                )
            )
        for number, (one, two, cost) in enumerate(self.links):
            directory.add(
                RoutingLinkObject(
                    identifier=UUID(int=0xF0 + number),
                    site1_identifier=one,
                    site2_identifier=two,
                    actual_cost=cost,
                    site_gate_identifier_list=(
                        IDENTIFIERS[self.gates[one]],
                        IDENTIFIERS[self.gates[two]],
                    ),
                )
            )
        return directory

    def restart(self, name: str) -> Node:
        """End one of them, and start it again on what its store has."""
        self.nodes[name].deaf()
        self.successResultOf(self.nodes[name].service.stopService())
        node = self.nodes[name] = self.member(name)
        node.start()
        return node

    def private_name(self, node: Node, path: str) -> str:
        """The format name of a private queue, by which others reach it from afar."""
        name: str = node.service.inspection.queue(path).format_name
        return name

    def passed(self, name: str) -> int:
        """How many user messages a queue manager has sent on."""
        sent: int = self.nodes[name].service.inspection.status().packets.sent.user_message
        return sent

    def revive(self, name: str) -> None:
        """It starts again with what its disk has."""
        node = self.nodes[name] = self.member(name)
        node.start()

    def kill(self, name: str) -> None:
        """One ends, with its sessions."""
        node = self.nodes[name]
        node.deaf()
        self.successResultOf(node.service.stopService())


class ForwardingTests(EnterpriseTestCase):
    """Messages from ALPHA to ZETA, by the gates."""

    def test_private_queue(self) -> None:
        """MQQB-3.1.7.5-01 MQQB-3.1.7.4-04 MQQB-3.1.5.2.1-03 MQQB-3.1.5.8.5-02: from gate to gate.

        MQQB-3.1.5.8.2-11: each that hands a message on counts a hop.
        Those between have a queue of the same number, and the messages do not enter it.
        """
        path = self.queue(self.zeta)
        name = self.private_name(self.zeta, path)
        between = [self.nodes[each] for each in ("BETA", "DELTA", "EPSILON")]
        for node in between:
            own = self.private_name(node, self.queue(node))
            self.assertEqual(own.rpartition("\\")[2], name.rpartition("\\")[2])
        self.send(self.alpha, name, b"one", b"two")
        self.clock.advance(5)
        views = self.take(self.zeta, path)
        self.assertEqual([bytes(view.body) for view in views], [b"one", b"two"])
        self.assertEqual([view.hop_count for view in views], [3, 3])
        self.assertEqual([self.passed(name) for name in ("BETA", "DELTA", "EPSILON", "GAMMA")], [2, 2, 2, 0])

    def test_within_a_site(self) -> None:
        """A member of the same site is reached directly."""
        path = self.queue(self.nodes["EPSILON"])
        self.send(self.zeta, self.private_name(self.nodes["EPSILON"], path), b"near")
        self.clock.advance(5)
        [view] = self.take(self.nodes["EPSILON"], path)
        self.assertEqual((bytes(view.body), view.hop_count), (b"near", 0))

    def test_public_queue(self) -> None:
        """MQQB-3.1.7.4-02 MQQB-3.1.7.4-03: the directory has its queue manager, by format name and by
        path.
        """
        self.run_to_end(self.zeta.service.create_queue("ZETA\\orders"))
        assert self.directory is not None
        name: str = self.zeta.service.inspection.queue("ZETA\\orders").format_name
        self.assertTrue(name.startswith("PUBLIC="))
        self.send(self.alpha, name, b"by name")
        self.send(self.alpha, "zeta\\ORDERS", b"by path")
        self.clock.advance(5)
        views = self.take(self.zeta, "ZETA\\orders")
        self.assertEqual([bytes(view.body) for view in views], [b"by name", b"by path"])
        self.assertEqual(views[0].queue_manager_address, IDENTIFIERS["ZETA"].bytes_le)

    def test_unknown_public_queue(self) -> None:
        """The send fails, also by a path while the directory is unreachable."""
        assert self.directory is not None
        unknown = f"PUBLIC={UUID(int=0x77)}"
        for name, is_connected, status in (
            (unknown, True, Status.MQ_ERROR_UNSUPPORTED_FORMATNAME_OPERATION),
            ("ZETA\\nothing", True, Status.MQ_ERROR_QUEUE_NOT_FOUND),
            ("ZETA\\nothing", False, Status.MQ_ERROR_NO_DS),
        ):
            self.directory.is_connected = is_connected
            failure = self.failureResultOf(
                self.deferred(self.alpha.service.send(name, [Message(body=b"x")])), MQError
            )
            self.assertEqual(failure.value.status, status)

    def test_transactional(self) -> None:
        """Exactly once and in order from end to end; the acknowledgements are routed back."""
        path = self.queue(self.zeta, transactional=True)
        name = self.private_name(self.zeta, path)
        expected = [b"%d" % number for number in range(40)]
        for body in expected:
            message = Message(body=body, transactional=True, journal=True, dead_letter=True)
            self.run_to_end(self.alpha.service.send(name, [message]))
        self.clock.advance(5)
        self.assertEqual(self.bodies(self.zeta, path), expected)
        for _ in range(30):
            self.clock.advance(1)
        # The OrderAcks have let them go, and with the FinalAcks they are journaled.
        self.assertEqual([queue.messages for queue in self.alpha.service.inspection.outgoing()], [0])
        journaled = self.run_to_end(
            self.alpha.service.reserve(".\\system$;journal", count=100, timeout=0, peek=True)
        )
        self.assertEqual([bytes(each.view.body) for each in journaled.messages], expected)
        for name in ("BETA", "DELTA", "EPSILON"):
            waiting = [queue.messages for queue in self.nodes[name].service.inspection.outgoing()]
            self.assertEqual(sum(waiting), 0, name)

    def test_administration_acknowledgements(self) -> None:
        """They go back by the sites, to a private queue and to a public one."""
        path = self.queue(self.zeta)
        self.run_to_end(self.alpha.service.create_queue("ALPHA\\answers"))
        answers = self.queue(self.alpha, "answers")
        for admin in (
            self.private_name(self.alpha, answers),
            self.alpha.service.inspection.queue("ALPHA\\answers").format_name,
        ):
            self.send(
                self.alpha,
                self.private_name(self.zeta, path),
                b"x",
                acknowledge=Acknowledge.POSITIVE_ARRIVAL,
                admin_queue=parse_format_name(admin),
            )
            self.clock.advance(5)
        for queue in (answers, "ALPHA\\answers"):
            [view] = self.take(self.alpha, queue)
            self.assertEqual(view.message_class, MessageClass.ACK_REACH_QUEUE)

    def test_gates_acknowledge_nothing(self) -> None:
        """MQQB-3.1.1.1.1.4-02: what passes through waits to go on, and has not reached its queue."""
        self.kill("ZETA")
        answers = self.queue(self.alpha, "answers")
        self.send(
            self.alpha,
            f"PRIVATE={IDENTIFIERS['ZETA']}\\00000001",
            b"x",
            delivery=Delivery.RECOVERABLE,
            acknowledge=Acknowledge.POSITIVE_ARRIVAL | Acknowledge.POSITIVE_RECEIVE,
            admin_queue=parse_format_name(self.private_name(self.alpha, answers)),
        )
        self.clock.advance(30)
        self.assertEqual(self.take(self.alpha, answers), [])
        [waiting] = [queue for queue in self.nodes["EPSILON"].service.inspection.outgoing() if queue.messages]
        self.assertEqual((waiting.messages, waiting.transit), (1, True))

    def test_not_a_routing_server(self) -> None:
        """A former routing server forwards nothing, though others still use it; the event log says so."""
        assert self.directory is not None
        path = self.queue(self.zeta)
        self.kill("BETA")
        self.directory.write(
            QueueManagerObject(identifier=IDENTIFIERS["BETA"], routing_server=False), ("routing_server",)
        )
        beta = self.nodes["BETA"] = self.member("BETA")
        beta.start()
        self.send(self.alpha, self.private_name(self.zeta, path), b"x")
        for _ in range(10):
            self.clock.advance(1)
        self.assertEqual(self.take(self.zeta, path), [])
        self.assertEqual(beta.service.inspection.status().refused, {"NOT_FOR_US": 1})

    def test_number_of_transit(self) -> None:
        """The identifier of a transit queue is not a destination for applications."""
        failure = self.failureResultOf(
            self.deferred(
                self.alpha.service.send(str(transit_name(IDENTIFIERS["ZETA"])), [Message(body=b"x")])
            ),
            MQError,
        )
        self.assertEqual(failure.value.status, Status.MQ_ERROR_QUEUE_NOT_FOUND)


class HopCountTests(EnterpriseTestCase):
    """Messages that have travelled far."""

    def arrive(self, hops: int, **properties: Any) -> None:
        """Deliver a message for ZETA with this number of hops to its gate."""
        builder_path = self.queue(self.zeta, transactional=bool(properties.get("transactional")))
        name = self.private_name(self.zeta, builder_path)
        self.run_to_end(self.alpha.service.send(name, [Message(body=b"far", **properties)]))
        [queue] = [each for each in self.alpha.model.outgoing_queues() if each.positions]
        for position in queue.positions.values():
            assert position.view is not None
            position.view = type(position.view)(patch_hop_count(position.view.packet, hops))
        self.clock.advance(10)

    def setUp(self) -> None:
        super().setUp()
        self.kill("BETA")
        self.answers = self.queue(self.alpha, "answers")

    def go_on(self) -> None:
        self.revive("BETA")
        for _ in range(90):
            self.clock.advance(1)

    def test_last_hop_that_is_allowed(self) -> None:
        """MQQB-3.1.5.8.2-11: 29 hops are not too many."""
        self.arrive(MAXIMUM_HOP_COUNT - 3)
        self.go_on()
        [view] = self.take(self.zeta, ORDERS)
        self.assertEqual(view.hop_count, MAXIMUM_HOP_COUNT)

    def test_one_hop_too_many(self) -> None:
        """MQQB-3.1.5.8.2-12: it is not forwarded, and its sender is notified."""
        self.arrive(
            MAXIMUM_HOP_COUNT - 1,
            acknowledge=Acknowledge.NEGATIVE_ARRIVAL,
            admin_queue=parse_format_name(self.private_name(self.alpha, self.answers)),
        )
        self.go_on()
        self.assertEqual(self.take(self.zeta, ORDERS), [])
        [view] = self.take(self.alpha, self.answers)
        self.assertEqual(view.message_class, MessageClass.NACK_HOP_COUNT_EXCEEDED)

    def test_transactional_message(self) -> None:
        """MQQB-3.1.5.8.2-12: its sender gets a FinalAck, and keeps it as a dead letter."""
        self.arrive(MAXIMUM_HOP_COUNT - 1, transactional=True, dead_letter=True)
        self.go_on()
        self.assertEqual(self.take(self.zeta, ORDERS), [])
        dead_letters = self.run_to_end(
            self.alpha.service.reserve(".\\system$;deadxact", count=10, timeout=0, peek=True)
        )
        self.assertEqual(
            [each.view.message_class for each in dead_letters.messages],
            [MessageClass.NACK_HOP_COUNT_EXCEEDED],
        )


class ManagingTests(EnterpriseTestCase):
    """Routing as operators see it."""

    def test_route(self) -> None:
        """The route, with its reasons, by names."""
        answer = self.run_to_end(self.alpha.service.inspection.route("ALPHA", "zeta.example.com")).route
        self.assertEqual([hop.name for hop in answer.hops], ["BETA", "DELTA", "EPSILON", "ZETA"])
        self.assertEqual(answer.cost, 2)

    def test_topology(self) -> None:
        """The enterprise."""
        answer = self.run_to_end(self.alpha.service.inspection.topology())
        self.assertEqual(len(answer.sites), 3)
        self.assertEqual(len(answer.queue_managers), 6)

    def test_without_a_directory(self) -> None:
        """No route is known."""
        self.kill("ALPHA")
        alone = Node(self.network, self.clock, "ALPHA", UUID(int=9), self.settings)
        alone.start()
        for asked in (alone.service.inspection.route("A", "B"), alone.service.inspection.topology()):
            failure = self.failureResultOf(self.deferred(asked), MQError)
            self.assertEqual(failure.value.status, Status.MQ_ERROR_NO_DS)
