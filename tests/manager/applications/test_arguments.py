"""Wrong arguments of an application: each is refused where it comes in, by its name."""

from __future__ import annotations

import math
from collections.abc import Callable, Coroutine
from typing import Any

from msmq.errors import LocalProtocolError
from msmq.queues.arriving.message import Message
from msmq.queues.reading.descriptor import QueueAccessType
from tests.manager.support import ManagerTestCase


class ArgumentTests(ManagerTestCase):
    def check(self, words: str, call: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Fail unless a call is refused in these words."""
        error = self.failureResultOf(self.deferred(call()), LocalProtocolError).value
        self.assertIn(words, str(error))

    def test_calls_of_the_queue_manager(self) -> None:
        """Messages, names, limits of a read, and transactions."""
        manager: Any = self.service
        queue = self.orders
        for words, call in (
            ("the name of a queue is an int", lambda: manager.send(5, [])),
            ("messages is a str; it has to be a list of Message", lambda: manager.send(queue, "text")),
            ("messages is a Message", lambda: manager.send(queue, Message())),
            ("messages has a bytes", lambda: manager.send(queue, [b"body"])),
            ("keys is an int", lambda: manager.send(queue, [Message()], keys=5)),
            ("keys has an int", lambda: manager.send(queue, [Message()], keys=[5])),
            ("transaction is an int", lambda: manager.send(queue, [Message()], transaction=5)),
            ("the path of a queue is a NoneType", lambda: manager.create_queue(None)),
            ("the name of a queue is a NoneType", lambda: manager.reserve(None)),
            ("the name of a queue is an int", lambda: manager.receive(5)),
            ("the name of a queue is an int", lambda: manager.peek(5)),
            ("the name of a queue is an int", lambda: manager.format_name(5)),
            ("the name of a queue is an int", lambda: manager.purge_queue(5)),
            ("count is a str", lambda: manager.reserve(queue, count="1")),
            ("size is a str", lambda: manager.reserve(queue, size="1")),
            ("after is a NoneType", lambda: manager.reserve(queue, after=None, peek=True)),
            ("timeout is a str", lambda: manager.reserve(queue, timeout="1")),
            ("timeout is nan", lambda: manager.receive(queue, timeout=math.nan)),
            ("transaction is an int", lambda: manager.reserve(queue, transaction=5)),
            ("message is an int; it has to be a MessageIdentifier", lambda: manager.move(5, queue)),
        ):
            self.check(words, call)

    def test_calls_of_an_open_queue(self) -> None:
        """The same of a queue that is open."""
        manager: Any = self.service
        self.assertIn(
            "access is a str",
            str(self.assertRaises(LocalProtocolError, manager.open_queue, self.orders, "r")),
        )
        error = self.assertRaises(LocalProtocolError, manager.open_queue, self.orders, share_mode=5)
        self.assertIn("share_mode is an int", str(error))
        reader = manager.open_queue(self.orders)
        sender = manager.open_queue(self.orders, QueueAccessType.SEND)
        self.addCleanup(reader.close)
        self.addCleanup(sender.close)
        for words, call in (
            ("messages is a str", lambda: sender.send("text")),
            ("count is a str", lambda: reader.reserve(count="1")),
            ("timeout is a str", lambda: reader.peek(timeout="1")),
            ("transaction is an int", lambda: reader.receive(transaction=5)),
        ):
            self.check(words, call)
