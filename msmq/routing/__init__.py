"""Routing between sites: topology, routing table, next hops. [MS-MQBR].

Pure, as every core: functions of a L{msmq.routing.topology.Topology}, which is built from directory objects,
and L{msmq.routing.topology_refresh.RoutingCore}, which schedules its refresh.
"""
