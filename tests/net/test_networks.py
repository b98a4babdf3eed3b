"""The networks of a host, from its interfaces."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from typing import ClassVar

import attrs
import psutil
from twisted.trial.unittest import SynchronousTestCase

from msmq.net.directory_search import find_directory_servers
from msmq.net.networks import attached_networks, networks_of
from msmq.structures.status import MQError, Status
from msmq.testing.clock import ManualClock
from msmq.testing.network import MemoryHost, Network


@attrs.frozen
class Address:
    """An address of an interface, as the system reports it."""

    address: str
    netmask: str | None = "255.255.255.0"
    broadcast: str | None = None
    ptp: str | None = None
    family: int = socket.AF_INET


class NetworksTests(SynchronousTestCase):
    """Which networks a host is attached to."""

    INTERFACES: ClassVar[Mapping[str, Sequence[Address]]] = {
        "lo": [Address("127.0.0.1", "255.0.0.0")],
        "eth0": [
            Address("192.168.7.5", broadcast="192.168.7.255"),
            Address("fe80::1%eth0", None, family=socket.AF_INET6),
        ],
        "eth1": [Address("10.1.2.3", "255.255.0.0")],
        "ppp0": [Address("172.16.0.2", "255.255.255.255", ptp="172.16.0.1")],
        "eth1:again": [Address("10.1.2.3", "255.255.0.0")],
    }

    def found(self, interface: str = "") -> Sequence[tuple[str, bool, str]]:
        return [
            (each.network.address, each.network.is_dial_up, each.broadcast)
            for each in networks_of(self.INTERFACES, interface)
        ]

    def test_all_networks(self) -> None:
        """MQSD-3.1.4.1-04 MQSD-3.1.4.1-05 MQSD-3.1.4.1-08, reading 11: each once, and not the loopback."""
        self.assertEqual(
            self.found(),
            [
                ("192.168.7.5", False, "192.168.7.255"),
                ("10.1.2.3", False, "10.1.255.255"),
                ("172.16.0.2", True, "172.16.0.1"),
            ],
        )

    def test_network_of_a_configured_address(self) -> None:
        """A configured address means the network of that only; on the loopback any address will do."""
        self.assertEqual(self.found("10.1.2.3"), [("10.1.2.3", False, "10.1.255.255")])
        self.assertEqual(self.found("127.9.8.7"), [("127.9.8.7", False, "127.255.255.255")])
        self.assertEqual(self.found("203.0.113.1"), [])

    def test_network_of_an_ipv6_address(self) -> None:
        """There are no broadcasts in IPv6, so an address of it has no network."""
        for address in ("::1", "2001:db8::1", "::"):
            self.assertEqual(self.found(address), [], address)

    def test_a_system_that_lists_none(self) -> None:
        """What psutil reports of that is an error of the system, as callers expect it; a search for servers
        says so.
        """

        def refused() -> None:
            raise psutil.AccessDenied(1)

        self.patch(psutil, "net_if_addrs", refused)
        self.assertRaises(OSError, attached_networks)
        host = MemoryHost(Network(ManualClock().reactor), "10.0.0.1")
        looking = find_directory_servers(reactor=host)
        error = self.failureResultOf(looking, MQError).value
        self.assertEqual(error.status, Status.MQ_ERROR_REMOTE_MACHINE_NOT_AVAILABLE)
        self.assertIn("the system does not list them", str(error))

    def test_networks_without_broadcasts(self) -> None:
        """The broadcast address of a link, or of a network of one or two hosts, is that of a host."""
        for address, is_any in (
            (Address("192.168.7.5"), True),
            (Address("192.168.7.5", "255.255.255.252"), True),
            (Address("192.168.7.5", "255.255.255.254"), False),
            (Address("192.168.7.5", "255.255.255.255"), False),
            (Address("192.168.7.5", "255.255.255.255", broadcast="192.168.7.5"), False),
            (Address("192.168.7.5", "255.255.255.255", broadcast="192.168.7.255"), True),
            (Address("192.168.7.5", None), False),
            (Address("192.168.7.5", "255.255.255.0", ptp="192.168.7.6"), False),
        ):
            for interface in ("", "192.168.7.5"):
                [found] = networks_of({"eth0": [address]}, interface)
                self.assertEqual(found.has_broadcasts, is_any, address)
