"""Settings of the connection to a broker."""

from __future__ import annotations

import attrs


@attrs.frozen
class BrokerAddress:
    """One node of a broker, by its host, a name or an address, and port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@attrs.frozen(kw_only=True)
class BrokerSettings:
    """The settings of a connection.

    @ivar addresses: tried in order, again and again.
    @ivar is_tls: C{amqps}.
    @ivar ca_file: PEM of the authorities that are trusted; C{None} trusts those of the system.
    @ivar certificate_file: PEM of a client's certificate and its key; C{None} for none.
    @ivar heartbeat: seconds between heartbeats.
    @ivar connect_time: seconds until an attempt to connect is given up.
    @ivar retry: seconds until the second attempt, doubled up to C{retry_maximum}.
    """

    addresses: tuple[BrokerAddress, ...]
    virtual_host: str = "/"
    user: str = "guest"
    password: str = attrs.field(default="guest", repr=False)
    is_tls: bool = False
    ca_file: str | None = None
    certificate_file: str | None = None
    heartbeat: int = 60
    connect_time: float = 30.0
    retry: float = 1.0
    retry_maximum: float = 60.0
