"""The families of brokers, by the schemes of their addresses."""

from __future__ import annotations

from typing import Final

from twisted.internet.interfaces import IReactorTime

from msmq.bridge_service.addresses import scheme_of
from msmq.bridge_service.amqp10.family import Amqp10Family
from msmq.bridge_service.broker_settings import BrokerSettings
from msmq.bridge_service.brokers import IBridgedBroker
from msmq.bridge_service.family import BrokerFamily
from msmq.bridge_service.kafka.family import KafkaFamily
from msmq.bridge_service.rabbitmq.family import RabbitFamily

FAMILIES: Final[tuple[BrokerFamily, ...]] = (RabbitFamily(), Amqp10Family(), KafkaFamily())
"""Every family; each is a package in this directory."""

FORMS: Final = ", ".join(f"{scheme}://..." for family in FAMILIES for scheme in family.schemes)
"""The schemes of all addresses, for people."""


def family_of(text: str) -> BrokerFamily | None:
    """The family of an address; C{None} for that of a queue."""
    scheme = scheme_of(text)
    for family in FAMILIES:
        if scheme in family.schemes:
            return family
    return None


def open_broker(settings: BrokerSettings, reactor: IReactorTime) -> IBridgedBroker:
    """The broker of a route, by the class of its settings."""
    family = next(each for each in FAMILIES if type(settings) is each.settings)
    return family.broker(settings, reactor)
