"""Settings of the connection to a broker of AMQP 1.0."""

from __future__ import annotations

import attrs

from msmq.bridge_service.broker_settings import BrokerSettings


@attrs.frozen(kw_only=True)
class Amqp10Settings(BrokerSettings):
    """The settings of a connection.

    @ivar hostname: the hostname of the open frame, by which some brokers choose a virtual host; empty for the
        host of the address.
    @ivar container: the name of the bridge to the broker.
    @ivar stall_time: seconds without any progress after which the broker counts as blocked.
    @ivar releases: how often a message may be released or modified by the broker before it is a dead letter.
    """

    hostname: str = ""
    container: str = "msmq-bridge"
    stall_time: float = 5.0
    releases: int = 8

    def destination(self, exchange: str, routing_key: str) -> str:
        """See L{BrokerSettings}; without an address, the routing key is that of a reply."""
        if not exchange:
            return f"address {routing_key}"
        return f"address {exchange}, subject {routing_key}" if routing_key else f"address {exchange}"

    def source(self, name: str) -> str:
        """See L{BrokerSettings}."""
        return f"address {name}"

    @property
    def mechanism(self) -> str:
        """The mechanism of SASL."""
        if self.user:
            return "PLAIN"
        return "EXTERNAL" if self.certificate_file is not None else "ANONYMOUS"
