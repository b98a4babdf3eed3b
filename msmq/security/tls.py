"""TLS 1.3 contexts that authenticate peers by pinned certificates, by OpenSSL."""

from __future__ import annotations

from collections.abc import Callable

from OpenSSL import SSL, crypto
from twisted.internet.interfaces import (
    IOpenSSLClientConnectionCreator,
    IOpenSSLServerConnectionCreator,
)
from twisted.protocols.tls import TLSMemoryBIOProtocol
from zope.interface import implementer

from msmq.interfaces.security.tls import ITls, TlsError, TlsIdentity

_NOT_YET_VALID = 9
_HAS_EXPIRED = 10

Refused = Callable[[str, str], object]
"""Called with the address of a refused peer, its certificate, and the reason."""


def fingerprint(certificate: crypto.X509) -> str:
    """The SHA-256 fingerprint of a certificate, 64 hexadecimal digits in lower case."""
    return certificate.digest("sha256").decode("ascii").replace(":", "").lower()


def _ignore_refusal(address: str, why: str) -> None:
    """Ignore a refusal."""


@implementer(IOpenSSLClientConnectionCreator, IOpenSSLServerConnectionCreator)
class _Connections:
    """Creator of connections of one side with the same context."""

    def __init__(self, context: SSL.Context) -> None:
        self._context = context

    def _connection(self, tls: TLSMemoryBIOProtocol) -> SSL.Connection:
        connection = SSL.Connection(self._context, None)
        # The verify callback identifies the connection by this.
        connection.set_app_data(tls)
        return connection

    def clientConnectionForTLS(self, tlsProtocol: TLSMemoryBIOProtocol) -> SSL.Connection:
        return self._connection(tlsProtocol)

    def serverConnectionForTLS(self, tlsProtocol: TLSMemoryBIOProtocol) -> SSL.Connection:
        return self._connection(tlsProtocol)


@implementer(ITls)
class PinnedTls:
    """TLS 1.3 with pinned certificates: each end knows the certificate of the other in advance.

    Session resumption is disabled, since a resumed session has no certificate exchange.

    @param refused: called with the address of each server or client whose certificate was refused, and the
        reason.  The callback has to limit log lines: unauthenticated peers can connect at any rate.
    """

    def __init__(self, refused: Refused = _ignore_refusal) -> None:
        self._refused = refused

    def server(self, identity: TlsIdentity, pins: frozenset[str]) -> _Connections:
        """See L{ITls.server}."""
        context = self._context(identity)
        if pins:
            context.set_verify(SSL.VERIFY_PEER | SSL.VERIFY_FAIL_IF_NO_PEER_CERT, self._verification(pins))
        return _Connections(context)

    def client(self, identity: TlsIdentity | None, pins: frozenset[str]) -> _Connections:
        """See L{ITls.client}."""
        context = self._context(identity)
        # Without pins every certificate is refused.
        context.set_verify(SSL.VERIFY_PEER, self._verification(pins))
        return _Connections(context)

    def _context(self, identity: TlsIdentity | None) -> SSL.Context:
        context = SSL.Context(SSL.TLS_METHOD)
        context.set_min_proto_version(SSL.TLS1_3_VERSION)
        context.set_session_cache_mode(SSL.SESS_CACHE_OFF)
        context.set_options(SSL.OP_NO_TICKET)
        # A chain is not trusted; without this OpenSSL would verify each of its signatures first.
        context.set_verify_depth(0)
        # OpenSSL would prompt for the passphrase of a key at the terminal.
        context.set_passwd_cb(lambda *_: b"")
        if identity is not None:
            _use(identity, context)
        return context

    def _verification(self, pins: frozenset[str]) -> Callable[..., bool]:
        def verify(
            connection: SSL.Connection, certificate: crypto.X509, problem: int, depth: int, _: int
        ) -> bool:
            if depth:
                # The issuer does not matter: the certificate itself is pinned, or is not.
                return True
            found = fingerprint(certificate)
            if found not in pins:
                return self._refuse(connection, found, "is not one of those pinned")
            if problem == _HAS_EXPIRED:
                return self._refuse(connection, found, "has expired")
            if problem == _NOT_YET_VALID:
                return self._refuse(connection, found, "is not valid yet")
            return True

        return verify

    def _refuse(self, connection: SSL.Connection, found: str, why: str) -> bool:
        peer = connection.get_app_data().getPeer()
        address = str(getattr(peer, "host", peer))
        self._refused(address, f"the certificate of {address}, {found}, {why}")
        return False


def _use(identity: TlsIdentity, context: SSL.Context) -> None:
    for path, load, what in (
        (identity.certificate, context.use_certificate_chain_file, "certificate"),
        # OpenSSL refuses a key that does not match the certificate.
        (
            identity.private_key,
            context.use_privatekey_file,
            f"private key of {identity.certificate} without a passphrase",
        ),
    ):
        try:
            path.open("rb").close()
            load(str(path))
        except OSError as error:
            raise TlsError(f"{path}: {error.strerror}") from error
        except SSL.Error as error:
            raise TlsError(f"{path}: there is no {what} in it") from error
