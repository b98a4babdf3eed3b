"""Endpoints of connections to brokers, with TLS or without it."""

from __future__ import annotations

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

_PEM_END: Final = b"-----END CERTIFICATE-----"


def client_endpoint(settings: BrokerSettings, address: BrokerAddress, reactor: Any) -> Any:
    """The endpoint of a node.

    @raise Exception: a file of the settings cannot be read, or is not PEM; OpenSSL's errors are among these.
    """
    host = address.host.encode("ascii" if address.host.isascii() else "idna")
    endpoint: Any = HostnameEndpoint(reactor, host, address.port, settings.connect_time)
    return wrapClientTLS(_tls(settings, address.host), endpoint) if settings.is_tls else endpoint


def _tls(settings: BrokerSettings, host: str) -> Any:
    """The TLS of a client; the name or address of the broker has to be in its certificate."""
    trusted = client = None
    if settings.ca_file is not None:
        content = Path(settings.ca_file).read_bytes()
        trusted = trustRootFromCertificates(
            [Certificate.loadPEM(part + _PEM_END) for part in content.split(_PEM_END)[:-1]]
        )
    if settings.certificate_file is not None:
        client = PrivateCertificate.loadPEM(Path(settings.certificate_file).read_bytes())
    return optionsForClientTLS(host, trusted, client)
