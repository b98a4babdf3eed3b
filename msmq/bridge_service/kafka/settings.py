"""Settings of the connection to Kafka."""

from __future__ import annotations

import re
from typing import Final

import attrs

from msmq.bridge_service.broker_settings import BrokerSettings

TOPIC_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
"""Names that a topic may have."""


@attrs.frozen(kw_only=True)
class KafkaSettings(BrokerSettings):
    """The settings of a connection; C{addresses} are those of which the cluster is asked for all others.

    @ivar client_name: unique among all bridges: the transactional identifier of an outward route, and by
        default the consumer group of an inward one.
    @ivar group: the consumer group.
    @ivar state_topic: the topic with the record of what an outward route has committed.
    @ivar mechanism: of SASL, if there is a user.
    @ivar session_time: seconds after which the group gives the partitions of a consumer that is gone to
        another one.
    @ivar transaction_time: seconds after which the cluster ends a transaction of a bridge that is gone.
    """

    client_name: str
    group: str
    state_topic: str
    mechanism: str = "PLAIN"
    transaction_time: float = 60.0
    session_time: float = 45.0

    def destination(self, exchange: str, routing_key: str) -> str:
        """See L{BrokerSettings}; without a topic, the routing key is that of a reply."""
        if not exchange:
            return f"topic {routing_key}"
        return f"topic {exchange}, key {routing_key}" if routing_key else f"topic {exchange}"

    def source(self, name: str) -> str:
        """See L{BrokerSettings}."""
        return f"topic {name}"

    @property
    def bootstrap(self) -> str:
        """The nodes as librdkafka reads them."""
        return ",".join(str(address) for address in self.addresses)
