"""A shop that sends orders to a warehouse: what the tests beside it test."""

from __future__ import annotations

from msmq import Delivery, Message, MessageIdentifier, connect
from msmq.interfaces import IQueueManager

QUEUE = r"private$\orders"


class Shop:
    """Sends orders through a queue manager that the application embeds."""

    def __init__(self, queue_manager: IQueueManager, warehouse: str) -> None:
        self._queue_manager = queue_manager
        self._destination = f"DIRECT=OS:{warehouse}\\{QUEUE}"

    async def order(self, article: str) -> MessageIdentifier:
        """Order an article; the order waits until the warehouse can be reached."""
        [identifier] = await self._queue_manager.send(self._destination, [message(article)])
        return identifier


async def order_at_once(host: str, article: str) -> None:
    """Order an article from this host, without a queue manager, and wait until it is there."""
    async with connect(host) as peer:
        await peer.send(QUEUE, message(article), timeout=60)


def message(article: str) -> Message:
    """An order."""
    return Message(body=article.encode(), label="order", delivery=Delivery.RECOVERABLE)
