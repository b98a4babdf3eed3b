"""Own names and addresses of this host, and the C{[hosts]} table of redirects.

Names compare without case; addresses compare by value, however they are written.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address

import attrs
from twisted.internet.interfaces import IStreamClientEndpointStringParserWithReactor
from twisted.plugin import getPlugins

from msmq.net import tls
from msmq.net.endpoints import WILDCARDS, socket_text, split_description
from msmq.net.tls import TlsClient
from msmq.quoting import quoted

_BUILT_IN_CLIENTS = frozenset({"tcp", "ssl", "unix"})


def parse_address(text: str) -> IPv4Address | IPv6Address | None:
    """Read an IP address, an IPv6 one with or without brackets and scope; C{None} if it is a name."""
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    try:
        address = ip_address(bare)
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def host_key(text: str) -> str:
    """The normalized form of a name or an address."""
    address = parse_address(text)
    return text.rstrip(".").casefold() if address is None else str(address)


@attrs.frozen
class HostEntry:
    """The value of a C{[hosts]} entry: an IP address with an optional port, or another kind of endpoint.

    @ivar address: the IP address, or C{None} if there is a C{description}.
    @ivar port: the TCP port, or C{None} for the usual one.
    @ivar description: a Twisted client endpoint description, or one of TLS with pins, or C{None}.
    @ivar tls: the parsed TLS description, or C{None}.
    """

    address: str | None
    port: int | None = None
    description: str | None = None
    tls: TlsClient | None = None

    def __str__(self) -> str:
        if self.address is None:
            return str(self.description)
        return self.address if self.port is None else socket_text(self.address, self.port)


def parse_host_entry(text: str) -> HostEntry:
    """Read C{IP}, C{IP:PORT}, C{[IPv6]:PORT} or a Twisted client endpoint description.

    @raise ValueError: the text has another form; the error finishes "the value ...".
    """
    address = parse_address(text)
    if address is not None:
        return HostEntry(str(address))
    host, colon, port = text.rpartition(":")
    address = parse_address(host)
    if colon and address is not None and (isinstance(address, IPv4Address) or host.startswith("[")):
        if not (port.isascii() and port.isdigit() and len(port) <= 5 and 1 <= int(port) <= 65535):
            raise ValueError(f"names the port {quoted(port)}, which is not a number from 1 to 65535")
        return HostEntry(str(address), int(port))
    return _described(text)


def _described(text: str) -> HostEntry:
    positional, named = split_description(text)
    kind = positional[0].lower() if positional else ""
    known = _BUILT_IN_CLIENTS | {
        plugin.prefix for plugin in getPlugins(IStreamClientEndpointStringParserWithReactor)
    }
    if kind not in known or len(positional) + len(named) < 2:
        raise ValueError(
            f"must be IP, IP:PORT, [IPv6]:PORT or a client endpoint ({', '.join(sorted(known))}), "
            f"not {quoted(text)}"
        )
    if kind == tls.KIND and "pins" in named:
        return HostEntry(None, None, text, tls.TlsClient.of(positional[1:], named))
    if kind in {"tcp", "ssl"}:
        port = named.get("port") or (positional[-1] if len(positional) > 1 else "")
        if not (port.isascii() and port.isdigit() and len(port) <= 5 and 1 <= int(port) <= 65535):
            raise ValueError(f"names the port {quoted(port)}, which is not a number from 1 to 65535")
        if len(positional) - 1 + ("host" in named) + ("port" in named) != 2:
            raise ValueError(f"must name one host and one port, as {kind}:HOST:PORT")
    return HostEntry(None, None, text)


@attrs.frozen
class HostTable:
    """The C{[hosts]} table, looked up before the name service."""

    entries: Mapping[str, HostEntry]

    @classmethod
    def of(cls, hosts: Mapping[str, str]) -> HostTable:
        """Read the table.

        @param hosts: computer names or addresses, and for each where to connect.
        @raise ValueError: a value that L{parse_host_entry} refuses.
        """
        return cls({host_key(name): parse_host_entry(value) for name, value in hosts.items()})

    def find(self, name: str) -> HostEntry | None:
        """The entry of a computer name or address, in any spelling."""
        return self.entries.get(host_key(name))


def is_address_of_this_machine(text: str) -> bool:
    """Whether an interface of this machine has the address.

    Tested by binding a socket that sends nothing.
    A broadcast or multicast address can be bound too, but belongs to no one machine; neither can be
    connected to without looking it up, which distinguishes them.
    """
    address = parse_address(text)
    if address is None or address.is_unspecified or address.is_multicast:
        return False
    family = socket.AF_INET if isinstance(address, IPv4Address) else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            target = socket.getaddrinfo(
                str(address), 9, family, socket.SOCK_DGRAM, flags=socket.AI_NUMERICHOST
            )[0][4]
            probe.bind((target[0], 0, *target[2:]))
            probe.connect(target)
    except OSError:
        return False
    return True


def _host_keys(names: Iterable[str]) -> frozenset[str]:
    return frozenset(host_key(name) for name in names)


def _texts(interfaces: Iterable[str]) -> tuple[str, ...]:
    return tuple(interfaces)


@attrs.frozen
class OwnNames:
    """Decides whether a direct format name means this queue manager.

    @ivar names: the computer names that are ours: C{name} and C{dns_name}.
    @ivar interfaces: what the session endpoints are bound to: IP addresses, or members of
        L{WILDCARDS} for every address of the machine.
    @ivar is_local: whether an interface of this machine has an address.
    """

    names: frozenset[str] = attrs.field(converter=_host_keys)
    interfaces: tuple[str, ...] = attrs.field(converter=_texts)
    is_local: Callable[[str], bool] = is_address_of_this_machine

    def is_own_name(self, name: str) -> bool:
        """Whether C{DIRECT=OS:name} is us: C{name}, C{dns_name}, C{localhost} or C{.}."""
        return name == "." or host_key(name) in self.names | {"localhost"}

    def is_own_address(self, text: str) -> bool:
        """Whether C{DIRECT=TCP:address} is us: a session endpoint is bound to that address."""
        address = parse_address(text)
        if address is None or address.is_unspecified:
            return False
        return any(self._covers(interface, address) for interface in self.interfaces)

    def _covers(self, interface: str, address: IPv4Address | IPv6Address) -> bool:
        if interface not in WILDCARDS:
            return _without_scope(parse_address(interface)) == _without_scope(address)
        if interface != "::" and isinstance(address, IPv6Address):
            return False
        return self.is_local(str(address))


def _without_scope(address: IPv4Address | IPv6Address | None) -> IPv4Address | IPv6Address | None:
    if isinstance(address, IPv6Address) and address.scope_id is not None:
        return IPv6Address(int(address))
    return address
