"""The networks of this host, from its interfaces."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from ipaddress import IPv4Interface
from typing import Any, Protocol

import attrs
import psutil

from msmq.discovery.client import BroadcastNetwork
from msmq.wire.addresses import AddressSet


class InterfaceAddress(Protocol):
    """One address of an interface, as C{psutil} reports it."""

    family: int
    address: str
    netmask: str | None
    broadcast: str | None
    ptp: str | None


@attrs.frozen
class AttachedNetwork:
    """One network, and its broadcast address.

    @ivar network: with this host's address on it.
    @ivar broadcast: its broadcast address; of a point-to-point link, the other end.
    @ivar has_broadcasts: whether that is an address at which hosts of the network receive broadcasts; that of
        a link, or of a network of one or two addresses, is an address of one host.
    """

    network: BroadcastNetwork
    broadcast: str
    has_broadcasts: bool = True


def attached_networks(interface: str = "") -> list[AttachedNetwork]:
    """The IPv4 networks of this host, each once, in the order of its interfaces.

    @param interface: the source address of requests: only its network is returned, and none for an IPv6
        address. Without one, all networks but the loopback.
    @raise OSError: the system does not list its interfaces.
    """
    try:
        stats, found = psutil.net_if_stats(), psutil.net_if_addrs()
    except psutil.Error as error:
        # It is no OSError, although the system has refused something.
        raise OSError(str(error)) from error
    up = {name: addresses for name, addresses in found.items() if name not in stats or stats[name].isup}
    return networks_of(up, interface)


def networks_of(interfaces: Mapping[str, Sequence[Any]], interface: str = "") -> list[AttachedNetwork]:
    """The same of these interfaces, each with its L{InterfaceAddress}es."""
    found: dict[str, AttachedNetwork] = {}
    for addresses in interfaces.values():
        for each in addresses:
            attached = _attached(each, interface)
            if attached is not None:
                found.setdefault(attached.network.address, attached)
    return list(found.values())


def _attached(each: InterfaceAddress, wanted: str) -> AttachedNetwork | None:
    if each.family != socket.AF_INET:
        return None
    if each.ptp:
        if wanted and each.address != wanted:
            return None
        # Point-to-point links come and go.
        dial_up = BroadcastNetwork(each.address, is_dial_up=True)
        return AttachedNetwork(dial_up, each.ptp, has_broadcasts=False)
    subnet = IPv4Interface(f"{each.address}/{each.netmask or 32}").network
    broadcast = each.broadcast or str(subnet.broadcast_address)
    has_broadcasts = broadcast != each.address and (bool(each.broadcast) or subnet.num_addresses > 2)
    if wanted:
        # Every address of the loopback network is this host's, though the interface names one only.
        is_wanted = each.address == wanted or (subnet.is_loopback and wanted in AddressSet((subnet,)))
        address = wanted if is_wanted else ""
    else:
        address = "" if subnet.is_loopback else each.address
    return AttachedNetwork(BroadcastNetwork(address), broadcast, has_broadcasts) if address else None
