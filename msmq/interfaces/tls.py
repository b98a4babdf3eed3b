"""ITls: TLS connections from certificate files and pinned certificates."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import attrs
from twisted.internet.interfaces import (
    IOpenSSLClientConnectionCreator,
    IOpenSSLServerConnectionCreator,
)
from zope.interface import Interface

from msmq.errors import MsmqError


class TlsError(MsmqError):
    """A certificate or a key cannot be used; says which file and why, and nothing of what is in it."""


@attrs.frozen
class TlsIdentity:
    """The TLS identity of one end: a certificate and its private key.

    @ivar certificate: a PEM file; intermediate CA certificates may follow.
    @ivar private_key: a PEM file without a passphrase; it may be the same one.
    """

    certificate: Path
    private_key: Path


class ITls(Interface):
    """Makes connections that only the certificates known beforehand pass.

    A pin is the SHA-256 fingerprint of a certificate, 64 hexadecimal digits in lower case.
    Its issuer and its name are not checked then; its validity period is.
    """

    def server(identity: TlsIdentity, pins: frozenset[str]) -> IOpenSSLServerConnectionCreator:
        """What an endpoint that listens needs.

        @param pins: the certificates of accepted clients; empty to request no client certificate.
        @raise TlsError: a file cannot be used.
        """

    def client(identity: TlsIdentity | None, pins: frozenset[str]) -> IOpenSSLClientConnectionCreator:
        """What an endpoint that connects needs.

        @param identity: presented to a server that requests one; C{None} for none.
        @param pins: the certificates that the server may have, at least one.
        @raise TlsError: a file cannot be used.
        """


class IReloadableTls(Interface):
    """What an endpoint that listens for TLS provides too, so that a certificate can be replaced meanwhile."""

    def read_again() -> Callable[[], None]:
        """Read the files again, and change nothing yet.

        @return: has connections that begin from now on use what was read; those that are open stay.
        @raise Exception: a file cannot be used; its text says why.
        """
