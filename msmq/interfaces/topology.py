"""Builds the topology for routing from the objects of any directory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

from msmq.membership.attributes import DirectoryObject
from msmq.membership.objects import ConnectedNetworkObject, QueueManagerObject, RoutingLinkObject, SiteObject
from msmq.routing.topology_builder import TopologyBuilder


def add_objects(
    builder: TopologyBuilder, objects: Iterable[DirectoryObject], addresses: Mapping[UUID, str] | None = None
) -> None:
    """Pass these objects to a builder; those that routing does not use are skipped.

    @param addresses: the addresses of queue managers, as far as they are known.
    """
    known = addresses or {}
    for each in objects:
        match each:
            case SiteObject():
                builder.add_site(
                    each.identifier, each.name, is_foreign=each.foreign_site, where=each.full_path
                )
            case RoutingLinkObject():
                builder.add_link(
                    each.site1_identifier,
                    each.site2_identifier,
                    each.actual_cost,
                    each.site_gate_identifier_list,
                    where=each.full_path,
                )
            case QueueManagerObject():
                builder.add_queue_manager(
                    each.identifier,
                    each.computer_name,
                    sites=each.site_identifier_list,
                    routing_server=each.routing_server,
                    in_routing_servers=each.in_routing_server_identifier_list,
                    out_routing_servers=each.out_routing_server_identifier_list,
                    connected_networks=each.connected_network_identifier_list,
                    qualified_computer_name=each.qualified_computer_name,
                    address=known.get(each.identifier, ""),
                    where=each.full_path,
                )
            case ConnectedNetworkObject():
                builder.add_connected_network(each.identifier, each.name)
