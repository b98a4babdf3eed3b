"""ITls: TLS connections from certificate files and pinned certificates."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import attrs
from twisted.internet.interfaces import (
    IOpenSSLClientConnectionCreator,
    IOpenSSLServerConnectionCreator,
)
from zope.interface import Attribute, Interface

from msmq.errors import MsmqError


class TlsError(MsmqError):
    """A certificate or key cannot be used; names the file and the reason, without its contents."""


@attrs.frozen
class TlsIdentity:
    """The TLS identity of one end: a certificate and its private key.

    @ivar certificate: a PEM file; intermediate CA certificates may follow.
    @ivar private_key: a PEM file without a passphrase; it may be the same one.
    """

    certificate: Path
    private_key: Path


@attrs.frozen(kw_only=True)
class EndpointCertificate:
    """The certificate that a listening endpoint of a server presents now.

    @ivar endpoint: its key of the configuration: C{listen.web}.
    @ivar not_after: when it expires, seconds since 1970-01-01 UTC.
    @ivar remaining: seconds until then by the clock of the server; negative for an expired one.
    """

    endpoint: str
    not_after: float = attrs.field(metadata={"time": True})
    remaining: float


class ITls(Interface):
    """Creates TLS connections with pinned certificates.

    A pin is the SHA-256 fingerprint of a certificate, 64 hexadecimal digits in lower case.
    Its issuer and its name are not checked then; its validity period is.
    """

    def server(identity: TlsIdentity, pins: frozenset[str]) -> IOpenSSLServerConnectionCreator:
        """The TLS options of a listening endpoint.

        @param pins: the certificates of accepted clients; empty to request no client certificate.
        @raise TlsError: a file cannot be used.
        """

    def client(identity: TlsIdentity | None, pins: frozenset[str]) -> IOpenSSLClientConnectionCreator:
        """The TLS options of a connecting endpoint.

        @param identity: presented to a server that requests one; C{None} for none.
        @param pins: the certificates that the server may have, at least one.
        @raise TlsError: a file cannot be used.
        """


class IReloadableTls(Interface):
    """Provided by a TLS endpoint whose certificate can be replaced while it listens.

    C{not_after} is when the certificate expires that new connections get, seconds since 1970-01-01 UTC;
    C{None} if it is not known.
    """

    not_after: float | None = Attribute("When the certificate in use expires.")

    def read_again() -> Callable[[], None]:
        """Read the files again, and change nothing yet.

        @return: applies the files to later connections; open ones stay.
        @raise Exception: a file cannot be used; its text says why.
        """
