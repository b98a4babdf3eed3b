"""Verification of a directory server's certificate, with the reason for a refusal."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from service_identity import VerificationError
from service_identity.hazmat import (
    DNS_ID,
    DNSPattern,
    IPAddress_ID,
    IPAddressPattern,
    verify_service_identity,
)
from service_identity.pyopenssl import extract_patterns
from twisted.internet.interfaces import IOpenSSLClientConnectionCreator
from twisted.internet.ssl import Certificate, optionsForClientTLS, trustRootFromCertificates
from twisted.logger import Logger
from zope.interface import implementer

from msmq.errors import MsmqError

MOST_NAMES: Final = 5
"""How many names of a certificate an error shows."""

_BEGIN: Final = b"-----BEGIN CERTIFICATE-----"
_END: Final = b"-----END CERTIFICATE-----"

_VERIFIED_PEER: Final = 0x01 | 0x02
"""SSL_VERIFY_PEER and SSL_VERIFY_FAIL_IF_NO_PEER_CERT."""

_NOT_YET_VALID: Final = 9
_EXPIRED: Final = 10
_SELF_SIGNED: Final = 18
_UNKNOWN_ISSUERS: Final = frozenset({2, 19, 20, 21, 27})
"""X509_V_ERR_CERT_NOT_YET_VALID and others, of openssl-verification-options(1)."""


class LdapConfigurationError(MsmqError):
    """A file that the configuration names cannot be used."""


def read_certificates(path: Path | None) -> list[Certificate]:
    """The certificates of a file in PEM; none without a file.

    @raise LdapConfigurationError: it cannot be read, or has no certificate, or a damaged one.
    """
    if path is None:
        return []
    try:
        texts = path.read_bytes().split(_BEGIN)[1:]
        found = [Certificate.loadPEM(_BEGIN + text.partition(_END)[0] + _END + b"\n") for text in texts]
    except OSError as error:
        raise LdapConfigurationError(f"ca_file {path}: {error.strerror}") from error
    except Exception as error:
        raise LdapConfigurationError(f"ca_file {path} holds a damaged certificate") from error
    if not found:
        raise LdapConfigurationError(f"ca_file {path} holds no certificate")
    return found


@implementer(IOpenSSLClientConnectionCreator)
class VerifiedServer:
    """TLS to one server, whose certificate has to be valid, trusted, and for the name of the server.

    @param host: the name or the address by which the server is configured.
    @param authorities: the trusted certificates; by default those of the system.
    @ivar fault: why the certificate was refused; empty before that.
    """

    log: Final = Logger()

    def __init__(self, host: str, authorities: Sequence[Certificate]) -> None:
        self._host = host
        self._trusts_system = not authorities
        trusted = trustRootFromCertificates(authorities) if authorities else None
        self._options: Any = optionsForClientTLS(host, trusted)
        self.fault = ""

    def clientConnectionForTLS(self, tlsProtocol: Any) -> Any:
        """See L{IOpenSSLClientConnectionCreator}."""
        connection = self._options.clientConnectionForTLS(tlsProtocol)
        # Replaces Twisted's own callback, which verifies only the name and keeps no reason.
        connection.set_verify(_VERIFIED_PEER, self._is_accepted)
        return connection

    def _is_accepted(self, _: Any, certificate: Any, error: int, depth: int, is_valid: int) -> bool:
        """OpenSSL's callback for each certificate, from the authority's to the server's own, at depth 0."""
        try:
            if not is_valid:
                self.fault = self.fault or self._invalid(certificate.to_cryptography(), error, depth)
                return False
            if depth == 0:
                self._check_name(extract_patterns(certificate))
            return not self.fault
        except Exception:
            # An exception would only be printed by the callback's caller.
            self.log.failure("the certificate of {host} could not be verified", host=self._host)
            self.fault = self.fault or f"the certificate of {self._host} could not be verified"
            return False

    def _check_name(self, patterns: Sequence[Any]) -> None:
        try:
            verify_service_identity(patterns, [_identity(self._host)], [])
        except VerificationError:
            names = ", ".join(_names(patterns)) or "no host"
            self.fault = (
                f"the certificate of {self._host} is for {names}; name the server in backend as its"
                " certificate does, or issue a certificate with this name"
            )

    def _invalid(self, found: Any, error: int, depth: int) -> str:
        subject = f"the certificate of {self._host}"
        if depth:
            subject = f"the authority's certificate {found.subject.rfc4514_string()}, for {subject},"
        if error == _EXPIRED:
            return f"{subject} expired on {found.not_valid_after_utc:%Y-%m-%d %H:%M:%S} UTC; renew it"
        if error == _NOT_YET_VALID:
            return (
                f"{subject} is not valid before {found.not_valid_before_utc:%Y-%m-%d %H:%M:%S} UTC; check the"
                " clock of this computer"
            )
        if error == _SELF_SIGNED and not depth:
            return f"{subject} is self-signed and not trusted; name it in ca_file to trust it"
        if error in _UNKNOWN_ISSUERS or error == _SELF_SIGNED:
            store = "the system" if self._trusts_system else "ca_file"
            return (
                f"the certificate of {self._host} is issued by {found.issuer.rfc4514_string()}, which"
                f" {store} does not trust; name the authority's certificate in ca_file"
            )
        return f"{subject} is refused by OpenSSL with error {error} (see openssl-verification-options(1))"


def _identity(host: str) -> Any:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return DNS_ID(host)
    return IPAddress_ID(host)


def _names(patterns: Sequence[Any]) -> list[str]:
    """The hosts and addresses that a certificate is for."""
    shown = [
        each.pattern.decode("ascii", "replace") if isinstance(each, DNSPattern) else str(each.pattern)
        for each in patterns
        if isinstance(each, DNSPattern | IPAddressPattern)
    ]
    more = len(shown) - MOST_NAMES
    return [*shown[:MOST_NAMES], f"{more} more"] if more > 0 else shown
