r"""Locations of a control API (unix socket, TCP, TLS), and connections to them without a reactor.

A location is a unix socket (C{unix:PATH}, or the path alone), C{tcp:HOST:PORT} on this computer, or
C{ssl:HOST:PORT} anywhere.  The last two require a token: C{tokenFile=FILE}, or a token file from the caller.
The server of C{ssl:} is authenticated by C{caFile=FILE}, trusted CA certificates, or by
C{pins=FINGERPRINT,...}, its own certificate; by default the system's CA certificates are used. A colon in a
value is escaped: C{\:}.
"""

from __future__ import annotations

import hmac
import http.client
import ipaddress
import os
import re
import socket
import ssl
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import ClassVar, Final, Protocol

import attrs

from msmq.control.authentication.tokens import TokenError, read_own_token
from msmq.quoting import quoted
from msmq.wire.fingerprints import read_pins

CONNECT_TIMEOUT: Final = 15.0
"""Seconds after which an unresponsive computer counts as unreachable."""

_PART: Final = re.compile(r"(?:[^:\\]|\\.)*", re.DOTALL)
_TLS_ARGUMENTS: Final = ("tokenFile", "caFile", "pins")
_ARGUMENTS: Final = {"tcp": ("tokenFile",), "ssl": _TLS_ARGUMENTS, "tls": _TLS_ARGUMENTS}
_SILENCE: Final = ((socket.TCP_KEEPIDLE, 30), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 3))


class LocationError(ValueError):
    """A location is invalid; the text has the location and the reason."""


class Location(Protocol):
    """The location of a control API; C{str} gives its printable form."""

    def connection(self) -> http.client.HTTPConnection:
        """Create a connection to it, not connected yet."""

    def headers(self) -> Mapping[str, str]:
        """The headers that authenticate a request.

        @raise TokenError: the token file cannot be read.
        """


class UnixConnection(http.client.HTTPConnection):
    """An HTTP connection over a unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=CONNECT_TIMEOUT)
        self._path = path

    def connect(self) -> None:
        """Connect the socket."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # A server that hangs accepts nothing; with a time limit a full backlog is an error at once.
            self.sock.settimeout(self.timeout)
            self.sock.connect(os.fspath(self._path))
        except OSError:
            self.sock.close()
            raise
        self.sock.settimeout(None)


class PlainConnection(http.client.HTTPConnection):
    """An HTTP connection over TCP, which may be idle as long as keepalive probes are answered."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__(host, port, timeout=CONNECT_TIMEOUT)

    def connect(self) -> None:
        """Connect the socket."""
        super().connect()
        _enable_keepalive(self.sock)


class TlsConnection(http.client.HTTPSConnection):
    """An HTTP connection over TLS, which authenticates the server before it sends a request."""

    def __init__(self, host: str, port: int, context: ssl.SSLContext, pins: frozenset[str]) -> None:
        super().__init__(host, port, timeout=CONNECT_TIMEOUT, context=context)
        self._pins = pins

    def connect(self) -> None:
        """Connect the socket, and verify the certificate of the server.

        @raise ssl.SSLError: the server is not authenticated, or does not speak TLS.
        """
        super().connect()
        if self._pins:
            certificate = self.sock.getpeercert(binary_form=True) or b""
            found = sha256(certificate).hexdigest()
            if not any(hmac.compare_digest(found, pin) for pin in self._pins):
                self.sock.close()
                reason = f"its certificate has the fingerprint {found}, which is not pinned"
                raise ssl.SSLError(int(ssl.SSL_ERROR_SSL), reason)
        _enable_keepalive(self.sock)


def _enable_keepalive(sock: socket.socket) -> None:
    """Wait for a response as long as TCP keepalive finds the other computer alive."""
    sock.settimeout(None)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _SILENCE:
        sock.setsockopt(socket.IPPROTO_TCP, option, value)


@attrs.frozen
class UnixLocation:
    """A unix socket, whose file permissions control access."""

    path: Path

    def __str__(self) -> str:
        return os.fspath(self.path)

    def connection(self) -> http.client.HTTPConnection:
        """See L{Location.connection}."""
        return UnixConnection(self.path)

    def headers(self) -> Mapping[str, str]:
        """Nothing."""
        return {}


@attrs.frozen
class RemoteLocation:
    """A TCP port that requires a token.

    @ivar ca_file: PEM file of the CA certificates that verify the server's certificate.
    @ivar pins: SHA-256 fingerprints of the accepted server certificates; with them and without C{ca_file} no
        CA is needed.
    """

    host: str
    port: int
    token_file: Path
    is_tls: bool = True
    ca_file: Path | None = None
    pins: frozenset[str] = frozenset()

    _KINDS: ClassVar[Mapping[bool, str]] = {True: "ssl", False: "tcp"}

    def __attrs_post_init__(self) -> None:
        if not self.is_tls and not _is_this_computer(self.host):
            raise LocationError(f"{self} would send the token unencrypted; use ssl:")

    def __str__(self) -> str:
        host = self.host.replace(":", "\\:")
        return f"{self._KINDS[self.is_tls]}:{host}:{self.port}"

    def connection(self) -> http.client.HTTPConnection:
        """See L{Location.connection}.

        @raise OSError: the certificates in C{ca_file} cannot be read.
        """
        if not self.is_tls:
            return PlainConnection(self.host, self.port)
        return TlsConnection(self.host, self.port, self._context(), self.pins)

    def headers(self) -> Mapping[str, str]:
        """The token."""
        return {"Authorization": read_own_token(self.token_file).authorization}

    def _context(self) -> ssl.SSLContext:
        if self.ca_file is None and self.pins:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            # A pinned fingerprint identifies the server; name and CA need no check.
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        else:
            try:
                context = ssl.create_default_context(cafile=self.ca_file)
            except OSError as error:
                reason = "it holds no certificates" if isinstance(error, ssl.SSLError) else error.strerror
                raise OSError(error.errno, f"caFile {self.ca_file}: {reason}") from error
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        return context


def location_problems(location: Location) -> Iterator[str]:
    """What is wrong with the files that a connection needs, each with the name of the file.

    Connects to nothing.
    """
    for read in (location.headers, location.connection):
        try:
            read()
        except (OSError, TokenError) as error:
            yield error.args[-1]


def parse_location(text: str, *, token_file: str | Path | None = None) -> Location:
    """Parse the location of a control API.

    @param token_file: the token file of a location that requires a token and names no file.
    @raise LocationError: the text is not a valid location.
    """
    kind, _, rest = text.partition(":")
    if kind not in _ARGUMENTS or not rest:
        path = text.removeprefix("unix:")
        if not path:
            raise LocationError(f"{quoted(text)} has no path of a control socket")
        return UnixLocation(Path(path))
    positional, named = _split(text, rest)
    unknown = sorted(set(named) - set(_ARGUMENTS[kind]))
    if len(positional) != 2 or not positional[0] or unknown:
        takes = ", ".join(f"{name}=" for name in _ARGUMENTS[kind])
        raise LocationError(f"{quoted(text)} is not {kind}:HOST:PORT, optionally followed by {takes}")
    host, port = positional
    if not (port.isascii() and port.isdecimal() and len(port) <= 5 and 0 < int(port) < 0x10000):
        raise LocationError(
            f"{quoted(text)} names the port {quoted(port)}, which is not a number from 1 to 65535"
        )
    if not (chosen := named.get("tokenFile") or token_file):
        raise LocationError(f"{quoted(text)} requires a token; set the token file")
    ca_file = named.get("caFile")
    return RemoteLocation(
        host.strip("[]"),
        int(port),
        Path(chosen),
        is_tls=kind != "tcp",
        ca_file=Path(ca_file) if ca_file else None,
        pins=_pins(named["pins"]) if "pins" in named else frozenset(),
    )


def with_absolute_files(text: str) -> str:
    """The same location with absolute paths, for a program that runs in another directory.

    @param text: what L{parse_location} accepts.
    """
    kind, _, rest = text.partition(":")
    if kind not in _ARGUMENTS or not rest:
        return f"unix:{os.path.abspath(text.removeprefix('unix:'))}"
    positional, named = _split(text, rest)
    for name in ("caFile", "tokenFile"):
        if named.get(name):
            named[name] = os.path.abspath(named[name])
    arguments = [_escaped(part) for part in positional]
    arguments += [f"{name}={_escaped(value)}" for name, value in named.items()]
    return ":".join([kind, *arguments])


def _split(text: str, rest: str) -> tuple[list[str], dict[str, str]]:
    positional: list[str] = []
    named: dict[str, str] = {}
    parts = []
    while True:
        match = _PART.match(rest)
        assert match is not None
        parts.append(match[0])
        rest = rest[match.end() :]
        if not rest:
            break
        if not rest.startswith(":"):
            raise LocationError(f"{quoted(text)} ends with a backslash that escapes nothing")
        rest = rest[1:]
    for part in parts:
        name, equals, value = part.partition("=")
        if not equals:
            positional.append(_unescaped(part))
        elif name in named:
            raise LocationError(f"{quoted(text)} gives {name} twice")
        else:
            named[name] = _unescaped(value)
    return positional, named


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace(":", "\\:")


def _pins(text: str) -> frozenset[str]:
    try:
        return read_pins(text)
    except ValueError as error:
        raise LocationError(str(error)) from None


def _is_this_computer(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
