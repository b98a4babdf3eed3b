"""Endpoint descriptions of the C{[listen]} table: parsing, and replacing the address.

A stream endpoint is a Twisted server endpoint description; Twisted listens on it.
C{tls:PORT} is our own form (L{msmq.net.tls}), since Twisted's C{ssl:} requests no client certificate.
What is added here is what Twisted does not provide: the address and port to which it will be bound.
C{udp:PORT[:interface=IP]} is our own form, since Twisted describes no datagram endpoints.
Every function raises L{ValueError} with the fault, in words that finish "the value ...".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

import attrs
from twisted.internet.endpoints import serverFromString
from twisted.internet.interfaces import (
    IReactorSSL,
    IReactorTime,
    IStreamServerEndpoint,
    IStreamServerEndpointStringParser,
)
from twisted.plugin import getPlugins

from msmq.interfaces.security.tls import ITls
from msmq.net import tls
from msmq.quoting import quoted
from msmq.wire.fingerprints import read_pins

OFF = "off"
"""The value in place of a description that disables the endpoint."""

WILDCARDS = frozenset({"", "0.0.0.0", "::"})
"""Interfaces that mean every address of the machine."""

UNIX_PATH_LIMIT = 107
"""Bytes that a unix socket's path may have on Linux, the closing zero byte not counted."""

BACKLOG = 1024
"""Backlog of pending connections; a burst beyond it delays the last ones by seconds."""

MOST_BACKLOG = 0x7FFFFFFF
"""The largest backlog that the system takes; it applies a limit of its own, far below."""

_READABLE = ("tcp", "tcp6")
_REMOTE_CONTROL = ("ssl", "tls", *_READABLE)
_BUILT_IN_SERVERS = frozenset({"tcp", "ssl", "tls", "unix"})
_ARGUMENTS = {
    "tcp": ("port", "interface", "backlog"),
    "tcp6": ("port", "backlog", "interface"),
    "ssl": (
        "port",
        "privateKey",
        "certKey",
        "sslmethod",
        "interface",
        "backlog",
        "extraCertChain",
        "dhParameters",
    ),
    "tls": tls.SERVER_ARGUMENTS,
}


_described: Callable[[IReactorTime, str], IStreamServerEndpoint] = serverFromString


def server_endpoint(
    reactor: IReactorTime, description: str, encryption: ITls | None = None
) -> IStreamServerEndpoint:
    """Create the endpoint of a stream description.

    A TCP endpoint that names no backlog gets L{BACKLOG}, since Twisted's own is 50.
    It raises what its kind of endpoint raises.

    @param encryption: makes the TLS of C{tls:}.
    """
    positional, named = split_description(description)
    kind = positional[0] if positional else ""
    if kind not in ("tcp", "tcp6", "tls"):
        ssl = _ssl_endpoint(reactor, positional, named) if kind == "ssl" else None
        return _described(reactor, description) if ssl is None else ssl
    arguments = {"backlog": str(BACKLOG), **_bind(kind, positional[1:], named)}
    port = arguments.pop("port", None)
    if kind != "tls":
        return _described(reactor, join_description([kind] if port is None else [kind, port], arguments))
    if encryption is None:
        raise ValueError("is a tls endpoint, but TLS is not configured")
    identity = tls.check_server(arguments)
    pins = read_pins(arguments["pins"]) if "pins" in arguments else frozenset()
    plain = {key: value for key, value in arguments.items() if key in ("interface", "backlog")}
    tcp = _described(reactor, join_description(["tcp", str(_port(port))], plain))
    return tls.TlsServerEndpoint(reactor, encryption, identity, pins, tcp)


def _ssl_endpoint(
    reactor: IReactorTime, positional: tuple[str, ...], named: Mapping[str, str]
) -> IStreamServerEndpoint | None:
    """C{ssl:} with files that can be read again; C{None} with C{sslmethod}, which only Twisted reads."""
    arguments = _bind("ssl", positional[1:], named)
    if "sslmethod" in arguments:
        tls.check_key_files({"privateKey": "server.pem", **arguments})
        return None
    return tls.SslServerEndpoint(
        IReactorSSL(reactor),
        _port(arguments.get("port")),
        lambda: tls.read_ssl_files(arguments),
        int(arguments.get("backlog", BACKLOG)),
        arguments.get("interface", ""),
    )


def named_arguments(description: str) -> tuple[str, dict[str, str]]:
    """The kind of a description, and its arguments by name; empty for a kind of Twisted alone."""
    positional, named = split_description(description)
    kind = positional[0] if positional else ""
    return kind, _bind(kind, positional[1:], named) if kind in _ARGUMENTS else {}


def quote(text: str) -> str:
    """Escape the special characters of an endpoint description."""
    return text.replace("\\", "\\\\").replace(":", "\\:").replace("=", "\\=")


def split_description(text: str) -> tuple[tuple[str, ...], dict[str, str]]:
    """Split an endpoint description into its positional and named arguments, unescaped."""
    positional: list[str] = []
    named: dict[str, str] = {}
    name: str | None = None
    current = ""
    characters = iter(text)

    def finish() -> None:
        if name is None:
            positional.append(current)
        elif name in named:
            raise ValueError(f"gives {name} twice")
        else:
            named[name] = current

    for character in characters:
        if character == "\\":
            escaped = next(characters, None)
            if escaped is None:
                raise ValueError("ends with a backslash that escapes nothing")
            current += escaped
        elif character == ":":
            finish()
            name, current = None, ""
        elif character == "=" and name is None:
            name, current = current, ""
        else:
            current += character
    finish()
    return tuple(positional), named


def join_description(positional: Iterable[str], named: Mapping[str, str]) -> str:
    """Write an endpoint description, the reverse of L{split_description}."""
    parts = [quote(argument) for argument in positional]
    parts += [f"{quote(name)}={quote(value)}" for name, value in named.items()]
    return ":".join(parts)


@attrs.frozen
class StreamEndpoint:
    """The port and interface of a server endpoint description.

    @ivar description: the text for L{twisted.internet.endpoints.serverFromString}.
    @ivar port: the TCP port, or C{None} for an endpoint that has none.
    @ivar interface: the IP address that it is bound to, a member of L{WILDCARDS} for all of them,
        or C{None} for an endpoint without one, or of a kind for which it is unknown.
    """

    description: str
    port: int | None
    interface: str | None

    @property
    def bind_address(self) -> str | None:
        """The one address that it is bound to; C{None} if that is every one or unknown."""
        return None if self.interface is None or self.interface in WILDCARDS else self.interface

    @property
    def is_loopback(self) -> bool:
        """Whether only processes of this machine reach it."""
        return self.bind_address is not None and ip_address(self.bind_address).is_loopback

    def __str__(self) -> str:
        if self.port is None:
            return self.description
        return f"TCP {socket_text(self.interface or '', self.port)}"


def parse_stream_endpoint(text: str) -> StreamEndpoint:
    """Read a Twisted server endpoint description, opening nothing.

    @raise ValueError: the description is invalid on any machine.
    """
    positional, named = split_description(text)
    kind = positional[0] if positional else ""
    if kind not in _BUILT_IN_SERVERS and kind not in _plugin_servers():
        known = ", ".join(sorted(_BUILT_IN_SERVERS | _plugin_servers()))
        raise ValueError(f"begins with {quoted(kind)}, which is not one of the endpoint kinds {known}")
    if kind == "unix":
        _check_backlog(named.get("backlog", "".join(positional[3:4]) or "0"))
    if kind not in _ARGUMENTS:
        return StreamEndpoint(text, None, _interface(named["interface"]) if "interface" in named else None)
    arguments = _bind(kind, positional[1:], named)
    if kind == "tls":
        tls.check_server(arguments)
    return StreamEndpoint(
        text,
        _port(arguments.get("port")),
        _interface(arguments.get("interface", "::" if kind == "tcp6" else "")),
    )


def replace_interface(text: str, address: str) -> str:
    """Put an IP address into a stream or datagram endpoint description, keeping all else.

    @raise ValueError: this kind of endpoint has no address.
    """
    positional, named = split_description(text)
    kind = positional[0] if positional else ""
    if kind in _ARGUMENTS:
        arguments = {**_bind(kind, positional[1:], named), "interface": address}
        port = arguments.pop("port", None)
        return join_description([kind] if port is None else [kind, port], arguments)
    if kind == "udp" or "interface" in named:
        return join_description(positional, {**named, "interface": address})
    raise ValueError(f"is a {kind or 'nameless'} endpoint, which cannot be given the address {address}")


@attrs.frozen
class DatagramEndpoint:
    """C{udp:PORT[:interface=IP]}.

    @ivar port: 1 to 65535, or 0 for one that the system chooses.
    @ivar interface: an IP address; empty means every IPv4 address.
    """

    port: int
    interface: str = ""

    def __str__(self) -> str:
        return f"UDP {socket_text(self.interface, self.port)}"


def parse_datagram_endpoint(text: str) -> DatagramEndpoint:
    """Read C{udp:PORT[:interface=IP]}.

    @raise ValueError: the text has another form.
    """
    positional, named = split_description(text)
    if len(positional) != 2 or positional[0] != "udp" or set(named) - {"interface"}:
        raise ValueError(f"must be udp:PORT or udp:PORT:interface=IP, not {quoted(text)}")
    return DatagramEndpoint(_port(positional[1]), _interface(named.get("interface", "")))


def parse_control_endpoint(text: str) -> Path:
    """Read C{unix:PATH}, the form of the control socket; its mode is always 0600.

    @raise ValueError: the text has another form, or the path is too long for a socket.
    """
    positional, named = split_description(text)
    if len(positional) != 2 or positional[0] != "unix" or not positional[1] or named:
        raise ValueError(f"must be unix:PATH, not {quoted(text)}")
    size = len(positional[1].encode())
    if size > UNIX_PATH_LIMIT:
        raise ValueError(
            f"names the socket {positional[1]}, whose path has {size} bytes; a unix socket's may have "
            f"{UNIX_PATH_LIMIT}"
        )
    return Path(positional[1])


def parse_remote_control_endpoint(text: str) -> StreamEndpoint:
    """Read the description of an endpoint on which callers of the control API present a token.

    @raise ValueError: Twisted could not listen on it, or the token would be sent in clear.
    """
    kind = "".join(split_description(text)[0][:1])
    if kind not in _REMOTE_CONTROL:
        raise ValueError(
            f"must be one of {', '.join(f'{kind}:' for kind in _REMOTE_CONTROL)}, not {quoted(text)}"
        )
    endpoint = parse_stream_endpoint(text)
    if kind in _READABLE and not endpoint.is_loopback:
        raise ValueError(
            "would send the token unencrypted: a tcp endpoint needs interface=127.0.0.1; use ssl: for callers"
            " on other computers"
        )
    return endpoint


def substitute_data(text: str, data: Path) -> str:
    """Replace C{{data}} by the data directory, escaped for a description."""
    return text.replace("{data}", quote(str(data)))


def socket_text(interface: str, port: int) -> str:
    """An address and a port as text; C{*} is every address."""
    host = "*" if interface == "" else f"[{interface}]" if ":" in interface else interface
    return f"{host}:{port}"


def _bind(kind: str, positional: tuple[str, ...], named: Mapping[str, str]) -> dict[str, str]:
    """Give the positional arguments of an endpoint their names."""
    names = _ARGUMENTS[kind]
    if len(positional) > len(names):
        raise ValueError(f"has {len(positional)} arguments, and a {kind} endpoint takes {len(names)}")
    bound = dict(zip(names, positional, strict=False))
    for name, value in named.items():
        if name in bound:
            raise ValueError(f"gives {name} twice")
        if name not in names:
            raise ValueError(f"gives {quoted(name)}, and a {kind} endpoint takes {', '.join(names)}")
        bound[name] = value
    _check_backlog(bound.get("backlog", "0"))
    return bound


def _check_backlog(text: str) -> None:
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and int(text) <= MOST_BACKLOG):
        raise ValueError(f"gives the backlog {quoted(text)}, which is not a number from 0 to {MOST_BACKLOG}")


def _port(text: str | None) -> int:
    if text is None:
        raise ValueError("names no port")
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and int(text) <= 65535):
        raise ValueError(f"names the port {quoted(text)}, which is not a number from 0 to 65535")
    return int(text)


def _interface(text: str) -> str:
    if text in WILDCARDS:
        return text
    try:
        parsed: IPv4Address | IPv6Address = ip_address(text)
    except ValueError:
        raise ValueError(f"names the interface {quoted(text)}, which is not an IP address") from None
    return str(parsed)


def _plugin_servers() -> frozenset[str]:
    return frozenset(plugin.prefix for plugin in getPlugins(IStreamServerEndpointStringParser))
