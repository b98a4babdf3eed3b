"""Maps orders of a line of text, CUSTOMER;ITEM;QUANTITY, to JSON, and back."""

from __future__ import annotations

import json

import attrs
from zope.interface import implementer

from msmq.interfaces import (
    AmqpMessage,
    IInwardMapping,
    IOutwardMapping,
    MappingError,
    MessageForQueue,
    QueuedMessage,
)


@implementer(IOutwardMapping, IInwardMapping)
class OrderMapping:
    """A route names it with C{mapping = "order_mapping:OrderMapping"}."""

    def to_broker(self, message: QueuedMessage, mapped: AmqpMessage) -> AmqpMessage:
        """The customer is part of the routing key."""
        parts = message.body.decode("utf-8").strip().split(";")
        if len(parts) != 3:
            raise MappingError("the order is not CUSTOMER;ITEM;QUANTITY")
        customer, item, quantity = parts
        body = json.dumps({"customer": customer, "item": item, "quantity": int(quantity)}).encode()
        properties = attrs.evolve(mapped.properties, content_type="application/json")
        return attrs.evolve(mapped, routing_key=f"orders.{customer}", properties=properties, body=body)

    def to_queue(self, message: AmqpMessage, mapped: MessageForQueue) -> MessageForQueue:
        """The label is the item."""
        order = json.loads(message.body)
        body = f"{order['customer']};{order['item']};{order['quantity']}".encode()
        return attrs.evolve(mapped, properties={**mapped.properties, "label": order["item"]}, body=body)
