"""Sets of IP addresses and networks, parsed from configuration text."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

import attrs

from msmq.quoting import quoted

cached_address: Final = lru_cache(4096)(ip_address)
"""C{ip_address}, with the last addresses in memory: a simulated network parses the same ones all the time."""

_EVERYBODY: Final = IPv4Address("255.255.255.255")

_MAPPED: Final = 96
"""Bits before the IPv4 address in one that is written as IPv6."""

_MAPPED_PREFIX: Final = "::ffff:"

_TRANSLATED: Final = IPv6Network("64:ff9b::/96")
"""The well-known prefix of NAT64 addresses (RFC 6052)."""


@lru_cache(4096)
def read_address(text: str) -> IPv4Address | IPv6Address | None:
    """The address of a peer, without the scope of an IPv6 one; C{None} if the text is not an address.

    An IPv4 address that is written as an IPv6 one is the IPv4 address.
    """
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def unmapped(text: str) -> str:
    """The address of a peer as it is written: that of IPv4, if a socket for both families has it as IPv6.

    @param text: an address, or any other text, which is returned unchanged.
    """
    if not text.lower().startswith(_MAPPED_PREFIX):
        return text
    address = read_address(text)
    return text if address is None else str(address)


@lru_cache(4096)
def counted_host(text: str) -> str:
    """The host to which an address counts where a limit applies per host; every such limit uses it.

    The owner of one IPv6 address has the 2**64 addresses of its network too, so these are one host, written
    as a network.  An IPv4 address counts as itself, also in its mapped or translated IPv6 form.

    @param text: the address of a peer; a text that is not an address is returned unchanged.
    """
    address = read_address(text)
    if address is None:
        return text
    if isinstance(address, IPv4Address) or address.is_loopback:
        return str(address)
    if address in _TRANSLATED:
        return str(IPv4Address(int(address) & 0xFFFFFFFF))
    return str(IPv6Network((int(address) >> 64 << 64, 64)))


@lru_cache(4096)
def connected_host(text: str) -> str:
    """The L{counted_host} of the peer of a connection; all that come over sockets of this machine are one.

    Such a peer chooses the path of its socket, so each of its connections could look like another host.

    @param text: the address of the peer as a session shows it.
    @return: empty for a socket of this machine, and for a text without an address.
    """
    return "" if read_address(text) is None else counted_host(text)


@lru_cache(4096)
def is_loopback(text: str) -> bool:
    """Whether a peer with this address is on this machine."""
    address = read_address(text)
    return address is not None and address.is_loopback


def can_be_answered(host: str, port: int) -> bool:
    """Whether a datagram's source can be one host: a reply never goes to a multicast or broadcast address."""
    address = read_address(host)
    if address is None or address.is_multicast or address.is_unspecified:
        return False
    return port != 0 and address != _EVERYBODY


def parse_network(text: str) -> IPv4Network | IPv6Network:
    """Parse an address, or a network such as C{192.0.2.0/24}.

    One of IPv4 that is written as IPv6 is that of IPv4, as the addresses of peers are (L{read_address}).

    @raise ValueError: it is neither, or has bits set beyond its mask; the text continues "the value ...".
    """
    try:
        return _as_ipv4(ip_network(text))
    except ValueError:
        pass
    try:
        wider = ip_network(text, strict=False)
    except ValueError:
        raise ValueError(f"must be an IP address or a network as 192.0.2.0/24, not {quoted(text)}") from None
    raise ValueError(
        f"names the network {quoted(text)}, which would be {wider} without the bits beyond its mask"
    )


def _as_ipv4(network: IPv4Network | IPv6Network) -> IPv4Network | IPv6Network:
    if isinstance(network, IPv4Network) or network.prefixlen < _MAPPED:
        return network
    address = network.network_address.ipv4_mapped
    return network if address is None else IPv4Network((int(address), network.prefixlen - _MAPPED))


@attrs.frozen
class AddressSet:
    """Addresses and networks.

    @ivar networks: an address is a network of one host.
    """

    networks: tuple[IPv4Network | IPv6Network, ...] = ()

    @classmethod
    def of(cls, texts: Iterable[str]) -> AddressSet:
        """Parse addresses and networks.

        @raise ValueError: one is neither an address nor a network.
        """
        return cls(tuple(map(parse_network, texts)))

    def __bool__(self) -> bool:
        return bool(self.networks)

    def __contains__(self, text: str) -> bool:
        """Whether an address is in the set; false for a text that is not an address."""
        address = read_address(text)
        return address is not None and any(address in network for network in self.networks)
