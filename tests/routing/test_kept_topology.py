"""The stored copy of the topology has all that routing uses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from twisted.internet.defer import Deferred, execute, succeed
from twisted.trial.unittest import SynchronousTestCase

from msmq.interfaces.topology import add_objects
from msmq.manager.membership.kept_topology import KeptTopology
from msmq.membership.attributes import DirectoryObject
from msmq.membership.objects import ConnectedNetworkObject, QueueManagerObject, RoutingLinkObject, SiteObject
from msmq.persistence.changes import Change, PutState
from msmq.routing.topology_builder import Enterprise, TopologyBuilder

SITE, OTHER, GATE, MEMBER, NETWORK = (UUID(int=number) for number in range(1, 6))
OBJECTS: tuple[DirectoryObject, ...] = (
    SiteObject(identifier=SITE, name="Berlin", full_path="CN=Berlin"),
    SiteObject(identifier=OTHER, name="Paris", foreign_site=True, full_path="CN=Paris"),
    RoutingLinkObject(
        identifier=UUID(int=9),
        site1_identifier=SITE,
        site2_identifier=OTHER,
        actual_cost=7,
        site_gate_identifier_list=(GATE,),
        full_path="CN=link",
    ),
    QueueManagerObject(
        identifier=GATE,
        computer_name="GATE",
        site_identifier_list=(SITE,),
        routing_server=True,
        connected_network_identifier_list=(NETWORK,),
        full_path="CN=GATE",
    ),
    QueueManagerObject(
        identifier=MEMBER,
        computer_name="MEMBER",
        qualified_computer_name="member.example.com",
        site_identifier_list=(SITE,),
        in_routing_server_identifier_list=(GATE,),
        out_routing_server_identifier_list=(GATE,),
        full_path="CN=MEMBER",
    ),
    ConnectedNetworkObject(identifier=NETWORK, name="wide"),
)


def built(objects: Sequence[DirectoryObject]) -> Enterprise:
    """The enterprise of these objects."""
    builder = TopologyBuilder()
    add_objects(builder, objects)
    return builder.build()


class KeptTopologyTests(SynchronousTestCase):
    """A topology that is stored, and loaded by the next start."""

    def test_same_topology(self) -> None:
        """It is the one that was read, with the positions of its objects."""
        state: dict[str, bytes] = {}

        def store(changes: Sequence[Change], what: str) -> Deferred[bool]:
            state.update({each.name: each.value for each in changes if isinstance(each, PutState)})
            return succeed(True)

        self.successResultOf(Deferred.fromCoroutine(KeptTopology(store, execute).keep(OBJECTS, 5.0)))
        following = KeptTopology(store, execute)
        following.restore(state)
        found: Any = self.successResultOf(Deferred.fromCoroutine(following.load()))
        before, after = built(OBJECTS), built(found.objects)
        self.assertEqual(before.faults, ())
        self.assertEqual(after, before)
        for kind in ("sites", "links", "queue_managers"):
            positions = [
                [each.where for each in getattr(enterprise.topology, kind)] for enterprise in (before, after)
            ]
            self.assertEqual(positions[0], positions[1])
            self.assertNotIn("", positions[0])
