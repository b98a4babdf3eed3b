"""A broker that books orders in a database: each once, whatever fails in between."""

from __future__ import annotations

import sqlite3
from typing import Any

from msmq import Broker, Message, MQError, Outcome, ReceivedMessage, accept, reject

DIGITS = 9
"""Of the largest order; more than 18 would not fit into the table."""


class Orders(Broker):
    """Books transactional messages of the queue C{orders}; the body is the number of boxes."""

    def __init__(self, book: str = "orders.db", **options: Any) -> None:
        super().__init__(queues={"orders": {"transactional": True}}, **options)
        self._book = sqlite3.connect(book)
        self._book.execute("create table if not exists orders (message text primary key, boxes int)")

    async def message_received(self, message: ReceivedMessage) -> Outcome:
        """Book an order, and confirm it to the response queue."""
        if not message.body.isdigit() or len(message.body) > DIGITS:
            return reject(reason="the body is not a number of boxes")
        with self._book:
            order = (str(message.identifier), int(message.body))
            self._book.execute("insert or ignore into orders values (?, ?)", order)
        try:
            if (answers := message.view.response_format_name()) is not None:
                await self.manager.send(str(answers), [Message(body=b"booked", label=message.label)])
        except MQError as error:
            # The sender chose a queue that cannot be used; orders of others must not wait for that.
            print(f"{message.identifier} is booked and not confirmed: {error}")
        return accept()
