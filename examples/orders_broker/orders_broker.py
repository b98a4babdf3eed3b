"""A broker that books orders in a database: each once, whatever fails in between."""

from __future__ import annotations

import sqlite3
from typing import Any

from msmq import Broker, Message, Outcome, ReceivedMessage, accept, reject


class Orders(Broker):
    """Books transactional messages of the queue C{orders}; the body is the number of boxes."""

    def __init__(self, book: str = "orders.db", **options: Any) -> None:
        super().__init__(queues={"orders": {"transactional": True}}, **options)
        self._book = sqlite3.connect(book)
        self._book.execute("create table if not exists orders (message text primary key, boxes int)")

    async def message_received(self, message: ReceivedMessage) -> Outcome:
        """Book an order, and confirm it to the response queue."""
        if not message.body.isdigit():
            return reject(reason="the body is not a number of boxes")
        with self._book:
            order = (str(message.identifier), int(message.body))
            self._book.execute("insert or ignore into orders values (?, ?)", order)
        if (answers := message.view.response_format_name()) is not None:
            await self.manager.send(str(answers), [Message(body=b"booked", label=message.label)])
        return accept()
