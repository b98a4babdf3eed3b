"""[MS-MQBR] routing between sites: topology, routing table, next hops.

Pure, as every core: functions of a L{msmq.routing.topology.Topology}, which is made of what a directory
holds; and L{msmq.routing.topology_refresh.RoutingCore}, which says when that is read anew.
"""
