"""Settings of the connection to a broker that all families of brokers have."""

from __future__ import annotations

from abc import ABC, abstractmethod

import attrs


@attrs.frozen
class BrokerAddress:
    """One node of a broker, by its host, a name or an address, and port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@attrs.frozen(kw_only=True)
class BrokerSettings(ABC):
    """The settings of a connection; each family of brokers has its own class.

    @ivar addresses: tried in order, again and again.
    @ivar is_tls: whether the connection is encrypted.
    @ivar ca_file: PEM of the authorities that are trusted; C{None} trusts those of the system.
    @ivar certificate_file: PEM of a client's certificate and its key; C{None} for none.
    @ivar heartbeat: seconds between heartbeats.
    @ivar connect_time: seconds until an attempt to connect is given up.
    @ivar retry: seconds until the second attempt, doubled up to C{retry_maximum}.
    """

    addresses: tuple[BrokerAddress, ...]
    user: str = ""
    password: str = attrs.field(default="", repr=False)
    is_tls: bool = False
    ca_file: str | None = None
    certificate_file: str | None = None
    heartbeat: int = 60
    connect_time: float = 30.0
    retry: float = 1.0
    retry_maximum: float = 60.0

    @abstractmethod
    def destination(self, exchange: str, routing_key: str) -> str:
        """A destination, for people."""

    @abstractmethod
    def source(self, name: str) -> str:
        """A source, for people."""
