"""Endpoints of connections to brokers, with TLS or without it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from twisted.internet.endpoints import HostnameEndpoint, wrapClientTLS
from twisted.internet.ssl import (
    Certificate,
    PrivateCertificate,
    optionsForClientTLS,
    trustRootFromCertificates,
)

from msmq.bridge_service.broker_settings import BrokerAddress, BrokerSettings
from msmq.wire.pem import needs_passphrase

_PEM_END: Final = b"-----END CERTIFICATE-----"
_LARGEST_FILE: Final = 0x400000
"""Limit on the bytes of a file of certificates; all public authorities have a quarter of a MiB."""


def client_endpoint(settings: BrokerSettings, address: BrokerAddress, reactor: Any) -> Any:
    """The endpoint of a node.

    @raise ValueError: a file of the settings cannot be read, or has no certificate; the text names it.
    """
    host = address.host.encode("ascii" if address.host.isascii() else "idna")
    endpoint: Any = HostnameEndpoint(reactor, host, address.port, settings.connect_time)
    return wrapClientTLS(_tls(settings, address.host), endpoint) if settings.is_tls else endpoint


def _tls(settings: BrokerSettings, host: str) -> Any:
    """The TLS of a client; the name or address of the broker has to be in its certificate."""
    trusted = client = None
    if settings.ca_file is not None:
        trusted = trustRootFromCertificates(_authorities(settings.ca_file))
    if settings.certificate_file is not None:
        client = _client_certificate(settings.certificate_file)
    return optionsForClientTLS(host, trusted, client)


def certificate_problems(settings: BrokerSettings) -> Iterator[tuple[str, str]]:
    """What is wrong with the files of the settings: each key, and the problem, which names the file."""
    for key, path, read in (
        ("ca_file", settings.ca_file, _authorities),
        ("certificate_file", settings.certificate_file, _client_certificate),
    ):
        if path is not None:
            try:
                read(path)
            except ValueError as error:
                yield key, str(error)


def _authorities(path: str) -> list[Certificate]:
    """The certificates in a file.

    @raise ValueError: it cannot be read, has none, or one of them is damaged.
    """
    found: list[Certificate] = []
    for part in _content(path).split(_PEM_END)[:-1]:
        try:
            found.append(Certificate.loadPEM(part + _PEM_END))
        except Exception as error:
            # OpenSSL raises different errors for each fault of a certificate.
            raise ValueError(f"{path}: certificate {len(found) + 1} is damaged or not PEM") from error
    if not found:
        # An empty list would trust no broker at all, and the reason would not be seen.
        raise ValueError(f"{path}: has no certificate in PEM")
    return found


def _client_certificate(path: str) -> Any:
    """The certificate and the key in a file.

    @raise ValueError: it cannot be read, or has not both.
    """
    content = _content(path)
    if needs_passphrase(content):
        raise ValueError(f"{path}: its private key has a password; remove it from the file")
    try:
        return PrivateCertificate.loadPEM(content)
    except Exception as error:
        raise ValueError(
            f"{path}: has no certificate with its private key, without a password, in PEM"
        ) from error


def _content(path: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            content = file.read(_LARGEST_FILE + 1)
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error
    if len(content) > _LARGEST_FILE:
        raise ValueError(f"{path}: has more than {_LARGEST_FILE} bytes")
    return content
