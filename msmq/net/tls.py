"""TLS endpoints between queue managers with pinned certificates.

A server listens on C{tls:PORT:certificate=FILE:privateKey=FILE}, and with C{pins=} accepts only clients with
these certificates.
A client connects to C{tls:HOST:PORT:pins=FINGERPRINT}; C{certificate=} and C{privateKey=} are its client
certificate.
Without C{pins=} such a client description is Twisted's own, which trusts the CA certificates of the system.

Parsers raise L{ValueError} with the fault, in words that finish "the value ...".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import (
    HostnameEndpoint,
    SSL4ServerEndpoint,
    TCP4ClientEndpoint,
    TCP6ClientEndpoint,
)
from twisted.internet.interfaces import (
    IAddress,
    IListeningPort,
    IOpenSSLContextFactory,
    IOpenSSLServerConnectionCreator,
    IProtocol,
    IProtocolFactory,
    IReactorSSL,
    IReactorTime,
    IStreamClientEndpoint,
    IStreamServerEndpoint,
)
from twisted.internet.protocol import Protocol
from twisted.internet.ssl import Certificate, CertificateOptions, DiffieHellmanParameters, PrivateCertificate
from twisted.protocols.tls import TLSMemoryBIOFactory, TLSMemoryBIOProtocol
from twisted.python.filepath import FilePath
from zope.interface import implementer

from msmq.interfaces.security.tls import IReloadableTls, ITls, TlsIdentity
from msmq.quoting import quoted
from msmq.wire.fingerprints import read_pins
from msmq.wire.pem import needs_passphrase

KIND = "tls"
SERVER_ARGUMENTS = ("port", "certificate", "privateKey", "pins", "interface", "backlog")
CLIENT_ARGUMENTS = ("host", "port", "pins", "certificate", "privateKey", "bindAddress")


def read_identity(arguments: Mapping[str, str]) -> TlsIdentity | None:
    """The certificate files of a description; C{None} without any.

    @raise ValueError: it names only one of them.
    """
    certificate, key = arguments.get("certificate"), arguments.get("privateKey")
    if not certificate and not key:
        return None
    if not certificate or not key:
        missing = "privateKey" if certificate else "certificate"
        raise ValueError(f"names no {missing}")
    return TlsIdentity(Path(certificate), Path(key))


def check_server(arguments: Mapping[str, str]) -> TlsIdentity:
    """Check that a server description has a certificate, and valid pins.

    @raise ValueError: something is missing or malformed.
    """
    identity = read_identity(arguments)
    if identity is None:
        raise ValueError("names no certificate")
    if "pins" in arguments:
        read_pins(arguments["pins"])
    return identity


@attrs.frozen
class TlsClient:
    """A client description with pins.

    @ivar host: a computer name or an IP address.
    @ivar pins: the accepted certificates of the server.
    @ivar identity: the client certificate; C{None} without one.
    @ivar bind_address: the source address; C{None} if the description has none.
    """

    host: str
    port: int
    pins: frozenset[str]
    identity: TlsIdentity | None = None
    bind_address: str | None = None

    @classmethod
    def of(cls, positional: tuple[str, ...], named: Mapping[str, str]) -> TlsClient:
        """Read the arguments of a description, without its kind.

        @raise ValueError: something is missing or malformed.
        """
        if len(positional) > 2:
            raise ValueError(f"must name one host and one port, as {KIND}:HOST:PORT")
        arguments = {**dict(zip(CLIENT_ARGUMENTS, positional, strict=False)), **named}
        unknown = set(named) - set(CLIENT_ARGUMENTS) or set(named) & set(CLIENT_ARGUMENTS[: len(positional)])
        if unknown:
            raise ValueError(
                f"gives {quoted(min(unknown))}, and a {KIND} endpoint with pins takes once each "
                f"{', '.join(CLIENT_ARGUMENTS)}"
            )
        port = arguments.get("port", "")
        if not (port.isascii() and port.isdigit() and len(port) <= 5 and 1 <= int(port) <= 65535):
            raise ValueError(f"names the port {quoted(port)}, which is not a number from 1 to 65535")
        if not arguments.get("host"):
            raise ValueError("names no host")
        return cls(
            arguments["host"],
            int(port),
            read_pins(arguments.get("pins", "")),
            read_identity(arguments),
            arguments.get("bindAddress"),
        )


class _Refusing(Protocol):
    """A connection that is refused."""

    def connectionMade(self) -> None:
        abort = getattr(self.transport, "abortConnection", None)
        if abort is not None:
            abort()


@implementer(IProtocolFactory)
class NeverNone:
    """A factory that never returns C{None}, for callers that cannot refuse a connection, as Twisted's C{ssl:}
    endpoint.

    Such a connection ends at once.
    """

    noisy = False

    def __init__(self, factory: IProtocolFactory) -> None:
        self._factory = factory

    def buildProtocol(self, addr: IAddress) -> IProtocol:
        return self._factory.buildProtocol(addr) or _Refusing()

    def doStart(self) -> None:
        self._factory.doStart()

    def doStop(self) -> None:
        self._factory.doStop()


class _Encrypting(TLSMemoryBIOFactory):
    """As Twisted's class, but a refused connection never begins TLS."""

    def buildProtocol(self, addr: IAddress | None) -> TLSMemoryBIOProtocol | None:  # type: ignore[override]
        protocol = self.wrappedFactory.buildProtocol(addr)
        return None if protocol is None else self.protocol(self, protocol)


@implementer(IOpenSSLServerConnectionCreator)
@attrs.define(eq=False)
class _CurrentCreator:
    """Creates each connection with the current certificate."""

    current: IOpenSSLServerConnectionCreator

    def serverConnectionForTLS(self, tlsProtocol: TLSMemoryBIOProtocol) -> Any:
        return self.current.serverConnectionForTLS(tlsProtocol)


def _not_after(certificate: Any) -> float | None:
    """When a certificate of OpenSSL expires; C{None} if that cannot be read."""
    try:
        return datetime.strptime(certificate.get_notAfter().decode("ascii"), "%Y%m%d%H%M%S%z").timestamp()
    except (AttributeError, ValueError):
        return None


def _not_after_of(path: Path) -> float | None:
    """When the certificate in a file expires, the first one of a chain."""
    try:
        return _not_after(Certificate.loadPEM(path.read_bytes()).original)
    except Exception:
        # The provider of TLS has read the file itself, and decides alone whether it can be used.
        return None


@implementer(IStreamServerEndpoint, IReloadableTls)
@attrs.define(eq=False)
class TlsServerEndpoint:
    """Server endpoint for TLS over another endpoint for TCP."""

    reactor: IReactorTime
    tls: ITls
    identity: TlsIdentity
    pins: frozenset[str]
    tcp: IStreamServerEndpoint
    not_after: float | None = attrs.field(default=None, init=False)
    _creator: _CurrentCreator | None = attrs.field(default=None, init=False)

    def listen(self, protocolFactory: IProtocolFactory) -> Deferred[IListeningPort]:
        """Read the files, and listen.

        @raise TlsError: they cannot be used.
        """
        creator = self._creator = _CurrentCreator(self.tls.server(self.identity, self.pins))
        self.not_after = _not_after_of(self.identity.certificate)
        return self.tcp.listen(_Encrypting(creator, False, protocolFactory, self.reactor))

    def read_again(self) -> Callable[[], None]:
        """See L{IReloadableTls.read_again}."""
        read = self.tls.server(self.identity, self.pins)
        not_after = _not_after_of(self.identity.certificate)

        def use() -> None:
            if self._creator is not None:
                self._creator.current = read
                self.not_after = not_after

        return use


@implementer(IOpenSSLContextFactory)
class SslFiles:
    """The certificate of an C{ssl:} endpoint: each connection gets the one that is current when it begins.

    @param read: reads the files.
    """

    def __init__(self, read: Callable[[], CertificateOptions]) -> None:
        self._read = read
        self._current = read()

    @property
    def not_after(self) -> float | None:
        """See L{IReloadableTls}."""
        return _not_after(self._current.certificate)

    def getContext(self) -> Any:
        """The context with which OpenSSL creates a connection."""
        return self._current.getContext()

    def read_again(self) -> Callable[[], None]:
        """See L{IReloadableTls.read_again}."""
        read = self._read()
        # OpenSSL compares key and certificate only here.
        read.getContext()

        def use() -> None:
            self._current = read

        return use


@implementer(IStreamServerEndpoint, IReloadableTls)
class SslServerEndpoint:
    """Twisted's endpoint C{ssl:} with files that can be read again."""

    def __init__(
        self,
        reactor: IReactorSSL,
        port: int,
        read: Callable[[], CertificateOptions],
        backlog: int,
        interface: str,
    ) -> None:
        self._files = SslFiles(read)
        self._listening = SSL4ServerEndpoint(reactor, port, self._files, backlog, interface)

    @property
    def not_after(self) -> float | None:
        """See L{IReloadableTls}."""
        return self._files.not_after

    def listen(self, protocolFactory: IProtocolFactory) -> Deferred[IListeningPort]:
        """Listen with the files as they were read when the endpoint was created."""
        listening: Deferred[IListeningPort] = self._listening.listen(protocolFactory)
        return listening

    def read_again(self) -> Callable[[], None]:
        """See L{IReloadableTls.read_again}."""
        return self._files.read_again()


def read_ssl_files(arguments: Mapping[str, str]) -> CertificateOptions:
    """Read the files that the arguments C{privateKey}, C{certKey}, C{extraCertChain} and C{dhParameters} of
    C{ssl:} name.

    @raise OSError: a file cannot be read.
    @raise ValueError: the key has a passphrase.
    @raise Exception: as OpenSSL raises it, if the contents of a file are invalid.
    """
    key = Path(arguments.get("privateKey", "server.pem"))
    certificate = Path(arguments.get("certKey", key))
    pair = certificate.read_bytes() + b"\n" + key.read_bytes()
    _check_key(key, pair)
    own = PrivateCertificate.loadPEM(pair)
    chain = None
    if "extraCertChain" in arguments:
        found = _CERTIFICATE.findall(Path(arguments["extraCertChain"]).read_bytes())
        chain = [Certificate.loadPEM(each).original for each in found]
    parameters = None
    if "dhParameters" in arguments:
        parameters = DiffieHellmanParameters.fromFile(FilePath(arguments["dhParameters"]))
    return CertificateOptions(
        privateKey=own.privateKey.original,
        certificate=own.original,
        extraCertChain=chain,
        dhParameters=parameters,
    )


def check_key_files(arguments: Mapping[str, str]) -> None:
    """Check the files of a description whose keys Twisted itself loads.

    @raise OSError: a file cannot be read.
    @raise ValueError: a key has a passphrase.
    """
    for name in ("certificate", "certKey", "privateKey"):
        if name in arguments:
            path = Path(arguments[name])
            _check_key(path, path.read_bytes())


def _check_key(path: Path, content: bytes) -> None:
    if needs_passphrase(content):
        raise ValueError(f"the private key {path} has a passphrase; remove it from the file")


_CERTIFICATE = re.compile(b"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\r?\n?", re.DOTALL)


@implementer(IStreamClientEndpoint)
@attrs.frozen(eq=False)
class TlsClientEndpoint:
    """Client endpoint for TLS over another endpoint for TCP."""

    reactor: IReactorTime
    tls: ITls
    client: TlsClient
    tcp: IStreamClientEndpoint

    def connect(self, protocolFactory: IProtocolFactory) -> Deferred[IProtocol]:
        """Read the files again, and connect; the certificate is verified after the handshake.

        @raise TlsError: they cannot be used.
        """
        creator = self.tls.client(self.client.identity, self.client.pins)
        connected = self.tcp.connect(_Encrypting(creator, True, protocolFactory, self.reactor))
        return connected.addCallback(_within)


def _within(encrypting: IProtocol) -> IProtocol:
    return cast(TLSMemoryBIOProtocol, encrypting).wrappedProtocol


def tcp_client(
    reactor: IReactorTime, host: str, port: int, version: int | None, timeout: float, bind: str | None
) -> IStreamClientEndpoint:
    """Connects to an address, or to a name.

    @param version: of the IP address that C{host} is; C{None} for a name.
    @param bind: the address from which the connection leaves; C{None} lets the system choose.
    """
    leaves_from = None if bind is None else (bind, 0)
    if version is None:
        return HostnameEndpoint(reactor, host, port, timeout=timeout, bindAddress=leaves_from)
    endpoint = TCP4ClientEndpoint if version == 4 else TCP6ClientEndpoint
    return endpoint(reactor, host, port, timeout=timeout, bindAddress=leaves_from)
