"""Settings of the connection to RabbitMQ."""

from __future__ import annotations

import attrs

from msmq.bridge_service.broker_settings import BrokerSettings


@attrs.frozen(kw_only=True)
class RabbitSettings(BrokerSettings):
    """The settings of a connection over AMQP 0-9-1."""

    virtual_host: str = "/"
    user: str = "guest"
    password: str = attrs.field(default="guest", repr=False)

    def destination(self, exchange: str, routing_key: str) -> str:
        """See L{BrokerSettings}."""
        return f"exchange {exchange or '(default)'}, routing key {routing_key}"

    def source(self, name: str) -> str:
        """See L{BrokerSettings}."""
        return f"queue {name}"
